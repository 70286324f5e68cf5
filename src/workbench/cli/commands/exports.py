"""`export`: an experiment for another store or another program. Law: if the output can be read back, it is checked, and
the check is reported.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from workbench import exporter
from workbench.cli.codes import OK
from workbench.cli.found import store_of
from workbench.cli.options import Parser
from workbench.cli.values import among
from workbench.cli.words import clean, say, say_json
from workbench.errors import BadOption

MODELS = ("safetensors", "torch.export", "onnx")


def arguments(parser: Parser) -> None:
    """The options of ``workbench export``."""
    parser.add_argument(
        "ref", metavar="REF", help="digits (its newest version), digits@2, or an id; for a table or --model a trial too"
    )
    parser.add_argument(
        "target", metavar="FILE", nargs="?", help="digits.zip for another store; digits.csv or .parquet: its points"
    )
    parser.add_argument("--to", metavar="FILE|WHERE",
                        help="the same as FILE; or a run for each trial in another program: mlflow:http://host:5000, "
                        "mlflow:FOLDER, tensorboard:FOLDER, wandb:PROJECT; or FOLDER/Containerfile: a container that "
                        "trains it again")  # fmt: skip
    parser.add_argument("--tensorboard", action="store_true", help="FILE is a folder for TensorBoard's event files")
    parser.add_argument("--model", type=among(MODELS), metavar="FORMAT",
                        help="the trial's model (of an experiment the best): safetensors, torch.export or onnx; it is "
                        "held against the model's own output")  # fmt: skip
    parser.add_argument("--input", action="append", default=[], metavar="TYPE[SHAPE]",
                        help="--model: what the model takes, such as 'float32[8,64]', once for each argument (as the "
                        "training loop calls it)")  # fmt: skip
    parser.add_argument("--object", metavar="NAME", help="--model: the model's name, where there are several")
    parser.add_argument(
        "--no-checkpoints", action="store_true", help="zip: only results; nothing can be loaded from it"
    )
    parser.add_argument("--data", action="store_true", help="zip: also the files that its trials read, as far as "
                        "they are kept (else only their digests)")  # fmt: skip
    parser.add_argument("--mask", action="store_true", help="zip: mask the secrets that are found, as publish does")
    parser.add_argument("--force", action="store_true", help="a table: overwrite FILE where it exists")
    parser.add_argument("--json", action="store_true", help="print JSON")


def export(options: Any) -> int:
    """Write one file, event files or a model."""
    from workbench.experiment.exported import check

    if options.target and options.to:
        raise BadOption(
            f"workbench export: {options.target} and --to {options.to} were given, expected only one of them."
        )
    target = options.target or options.to
    only = {"--no-checkpoints": options.no_checkpoints, "--data": options.data, "--mask": options.mask}
    if options.model:
        if given := [option for option, is_given in only.items() if is_given]:
            raise BadOption(f"workbench export: {given[0]} is for a .zip; --model was given. Leave one of them out.")
        order = exporter.Order(options.ref, target, options.model, tuple(options.input), options.object)
        told, lines = _exported(options, "model", order)
    elif options.input or options.object:
        raise BadOption("workbench export: --input and --object need --model, which was not given.")
    elif target is None:
        raise BadOption("workbench export: expected a file, such as digits.zip, digits.csv or digits.parquet.")
    else:
        target = f"tensorboard:{target}" if options.tensorboard else target
        check(target, only)
        told, lines = _written(options, target)
    if options.json:
        say_json(told)
    else:
        say(*map(clean, lines))
    return OK


def _exported(options: Any, name: exporter.Name, order: exporter.Order) -> tuple[dict[str, Any], list[str]]:
    found = exporter.found(name)
    told = found.write(store_of(options), order)
    return told, found.lines(told)


def _written(options: Any, target: str) -> tuple[dict[str, Any], list[str]]:
    from workbench.experiment.exported import TABLES
    from workbench.share import export as write
    from workbench.share.tables import write_table

    if (name := exporter.of_target(target)) is not None:
        return _exported(options, name, exporter.Order(options.ref, target))
    store, path = store_of(options), Path(target)
    if path.suffix in TABLES:
        if path.exists() and not options.force:
            raise BadOption(f"{path} already exists. Name another file, or add --force.")
        told = write_table(store, options.ref, path)
    else:
        what = {"checkpoints": not options.no_checkpoints, "data": options.data, "mask": options.mask}
        told = write(store, options.ref, path, **what)
        return told, [*_carried(told, options.mask), f"Written: {path}, readable by you alone"]
    counts = ", ".join(f"{value} {key}" for key, value in told.items() if key in ("rows", "files", "trials"))
    return told, [counts, f"Written: {path}"]


def _carried(told: dict[str, Any], is_masked: bool) -> list[str]:
    """The contents of an exported file, and the secrets in it."""
    lines = [f"{told['files']} files: " + ", ".join(f"{count} {sort}" for sort, count in told["carries"].items())]
    if told["said"] and not is_masked:
        lines.append("The file holds what looks like secrets; --mask leaves them out:")
    return [*lines, *told["said"]]
