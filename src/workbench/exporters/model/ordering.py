"""A trained model for other programs: safetensors, torch.export or ONNX. Law: a process of the training environment's
Python writes it, since torch is there, and it is kept only if it gives the model's own output.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from workbench.errors import BadInput, BadOption, NotFound
from workbench.records import ENDED
from workbench.records.names import trial_label
from workbench.status.unranked import why_none_is_best
from workbench.store import Store
from workbench.store.files.atomic import telling
from workbench.store.lists.catalog import resolve
from workbench.store.owner.trust import check_trusted
from workbench.store.series import Series
from workbench.trial.export.apart import carried_out

#: The file suffix of each format.
SUFFIXES = {"safetensors": ".safetensors", "torch.export": ".pt2", "onnx": ".onnx"}


def write_model(
    store: Store,
    ref: str,
    form: str,
    target: Path | None = None,
    *,
    inputs: Sequence[str] = (),
    name: str | None = None,
) -> dict[str, Any]:
    """Write the model of the trial ``ref`` (of an experiment its best; ``digits@2/t0007:27`` at step 27) to ``target``.

    form: ``safetensors`` (the weights), ``torch.export`` or ``onnx``. inputs: what the model takes, such as
    ``float32[8,64]``, one for each argument; by default the training loop is run until its first call of the model,
    whose input is taken. name: the model's name in the training code, if it has several.

    Returns ``difference``: the largest absolute difference between the model's own output and the written one's, and
    the ``batch`` for which it holds. Raises Untrusted, BadOption, NotFound, and TrialFailed if the outputs differ.
    """
    if form not in SUFFIXES:
        raise BadOption(f"--model {form}: expected {', '.join(SUFFIXES)}.")
    reference = resolve(store.check(), ref)
    spec = store.read_spec(reference.experiment)
    check_trusted(store, spec.id)
    path = store.experiment(spec.id).series
    if not path.exists():
        raise NotFound(f"{reference.label} has not started: it has no model yet.")
    with Series.read(path) as series:
        best = series.meta().get("best")
        number = reference.trial if reference.trial is not None else None if best is None else int(best["trial"])
        if number is None:
            is_ended = series.meta().get("state") in ENDED
            raise NotFound(why_none_is_best(spec, reference.label, series.trials(), is_ended=is_ended))
        configuration = series.trial(number).get("configuration") or {}
    target = target or Path(f"{spec.name}-{spec.version}-{trial_label(number)}{SUFFIXES[form]}")
    if target.exists():
        raise BadInput(f"{target} exists. Name another file, or remove it first.")
    order = {
        "store": str(store.root),
        "experiment": spec.id,
        "trial": number,
        "step": reference.step,
        "configuration": configuration,
        "format": form,
        "target": str(target.absolute()),
        "input": list(inputs) or None,
        "object": name,
    }
    with telling(target):
        target.absolute().parent.mkdir(parents=True, exist_ok=True)
    told = carried_out("workbench.exporters.model.exporting", order, spec.training, "its model could be written")
    return {"experiment": spec.id, "trial": f"{reference.label}/{trial_label(number)}", **told}


def sentence(told: dict[str, Any]) -> str:
    """What was written and how it was checked, in words."""
    what = f"{told['model']} of {told['trial']} at step {told['step']}, {told['parameters']:,} parameters"
    if told["difference"] is None:
        return f"{what}: every tensor came back as written; the output was not compared, for no input was seen"
    held = "" if "batch" not in told else f", for batches of {'any' if told['batch'] == 'any' else 'this'} size"
    seen = f"{', '.join(told['input'])} ({'as --input says' if told['input_from'] == '--input' else 'as it trained'})"
    return f"{what}: differs from its own output by at most {told['difference']:.3g} on {seen}{held}"
