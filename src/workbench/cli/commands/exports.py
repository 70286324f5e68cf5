"""`export`: an experiment for another store or another program. Law: if the output can be read back, it is checked, and
the check is reported.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from workbench.cli.found import store_of
from workbench.cli.values import among
from workbench.cli.verbs import OK, Parser
from workbench.cli.words import clean, say, say_json
from workbench.errors import BadOption

MODELS = ("safetensors", "torch.export", "onnx")


def arguments(parser: Parser) -> None:
    """The options of ``workbench export``."""
    parser.add_argument(
        "ref", metavar="REF", help="digits (its newest version), digits@2, or an id; with --model a trial of it"
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
    parser.add_argument("--json", action="store_true", help="print JSON")


def export(options: Any) -> int:
    """Write one file, event files or a model."""
    if options.target and options.to:
        raise BadOption(
            f"workbench export: {options.target} and --to {options.to} were given, expected only one of them."
        )
    target = options.target or options.to
    if options.model:
        told, lines = _model(options, target)
    elif options.input or options.object:
        raise BadOption("workbench export: --input and --object need --model, which was not given.")
    elif target is None:
        raise BadOption("workbench export: expected a file, such as digits.zip, digits.csv or digits.parquet.")
    else:
        told, lines = _written(options, target)
    if options.json:
        say_json(told)
    else:
        say(*map(clean, lines))
    return OK


def _model(options: Any, target: str | None) -> tuple[dict[str, Any], list[str]]:
    from workbench.share.model import sentence, write_model

    path = None if target is None else Path(target)
    told = write_model(store_of(options), options.ref, options.model, path, inputs=options.input, name=options.object)
    return told, [f"{sentence(told)}.", f"Written: {told['file']}"]


def _written(options: Any, target: str) -> tuple[dict[str, Any], list[str]]:
    from workbench.share import export as write
    from workbench.share.container import NAMES, write_container
    from workbench.share.tables import write_table
    from workbench.store.lists.mirrors import KINDS

    store, path = store_of(options), Path(target)
    if target.partition(":")[0] in KINDS or options.tensorboard:
        from workbench.share.mirror import write as mirror

        told = mirror(store, options.ref, f"tensorboard:{target}" if options.tensorboard else target)
        checked = f", {told['read_back']} read back" if "read_back" in told else ""
        return told, [f"{told['trials']} trials, {told['points']} points{checked}", f"Written: {told['to']}"]
    if path.name in NAMES:
        told = write_container(store, options.ref, path)
        gone = [f"Not restored: {name}: {why}." for name, why in told["not_restored"].items()]
        words = f"Python {told['python']}, {told['distributions']} distributions"
        return told, [words, *gone, f"Written: {path}, and beside it the files that it copies"]
    if path.suffix in (".csv", ".parquet"):
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
