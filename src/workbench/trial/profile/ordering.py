"""Measure some steps of a recorded trial. Law: a process of the training environment's Python does it, outside of any
search, and nothing in the store changes.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from workbench.errors import BadOption, NotFound
from workbench.records import Spec
from workbench.records.names import trial_label
from workbench.store import Store
from workbench.store.files.atomic import telling
from workbench.store.lists.catalog import resolve
from workbench.store.owner.trust import check_trusted
from workbench.store.series import Series
from workbench.trial.export.apart import carried_out

#: How many steps are measured by default, after the first.
STEPS = 3


def profile(
    store: Store, ref: str, *, steps: int = STEPS, folder: Path | None = None, slots: int = 0
) -> dict[str, Any]:
    """Train the trial ``ref`` again from its beginning, measure ``steps`` steps after the first, and write a trace for
    Perfetto into ``folder`` (the current one).

    slots: those of this machine in which trials train; 0 if that is not known. A step of more than ten seconds is
    measured in part.

    Returns ``trial``, ``device``, ``seconds`` (the time measured), ``steps`` (``whole`` and optimizer ``updates``
    measured, steps ``before``), ``shares`` of the time by kind (None for code without torch), ``verdict`` (``limit``,
    ``words``, ``advice``), ``memory`` (bytes at most, of the ``process`` and of the ``gpu``), ``lines`` (``file``,
    ``number``, ``text``, ``share``) and ``trace`` (a file, or None).

    Raises BadOption for another reference than a trial's, NotFound, Untrusted, and TrialFailed if the training code
    fails.
    """
    reference = resolve(store.check(), ref)
    if reference.trial is None:
        raise BadOption(f"{ref!r} names an experiment; expected a trial of it. For example: {reference}/t0000.")
    if reference.step is not None:
        raise BadOption(f"{ref!r} names a step; a trial is profiled from its beginning. Leave out :{reference.step}.")
    spec = store.read_spec(reference.experiment)
    check_trusted(store, spec.id)
    if (spec.program.module or "").startswith("workbench."):
        raise BadOption(f"{ref!r} is an executed notebook; expected a trial of a %%train cell in it.")
    order = {
        "store": str(store.root),
        "experiment": spec.id,
        "trial": reference.trial,
        "configuration": _configuration(store, spec, reference.trial),
        "steps": steps,
        "slots": min(slots, spec.trials or slots),
    }
    label = trial_label(reference.trial)
    folder = (folder or Path.cwd()).absolute()
    with telling(folder):
        folder.mkdir(parents=True, exist_ok=True)
    order["trace"] = str(folder / f"{spec.name}-{spec.version}-{label}.trace.json.gz")
    told = carried_out("workbench.trial.profile.running", order, spec.training, "it was measured")
    return {"trial": f"{reference.label}/{label}", **told}


def _configuration(store: Store, spec: Spec, trial: int) -> dict[str, Any]:
    path = store.experiment(spec.id).series
    if not path.exists():
        raise NotFound(f"{spec.label} has not started: it has no trials yet.")
    with Series.read(path) as series:
        return dict(series.trial(trial).get("configuration") or {})
