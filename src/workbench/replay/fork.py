"""A fork of a trial: it continues from a checkpoint with other hyperparameters or other code. Law: the parent is
unchanged.

Steps are counted on: a fork of step 27 starts with turn 28. Its set-up has its parent's seeds, so that it draws the
same (a split, what is frozen).
"""

from __future__ import annotations

import dataclasses
import difflib
from collections.abc import Mapping
from typing import Any

from workbench.errors import BadOption, NotFound
from workbench.records import Configuration, Json, Scheduler, Spec
from workbench.replay.again import Prepared, recorded, written
from workbench.replay.place import place
from workbench.space import Space
from workbench.store import Store
from workbench.store.keeping import remote
from workbench.store.keeping.checkpoints import Checkpoints
from workbench.store.lists.catalog import Reference, resolve
from workbench.store.owner.trust import check_trusted
from workbench.store.series import Series

__all__ = ["checked_steps", "fork", "length_of", "parent_of"]


def parent_of(store: Store, ref: str | Reference) -> tuple[Spec, dict[str, Any]]:
    """The spec of the experiment with the trial ``ref``, and a fork's fields about that trial's checkpoint.

    Without a step it is the newest checkpoint. Raises BadOption if no trial is named, NotFound if there is no such
    trial or checkpoint, StoreError if the checkpoint is damaged, Untrusted if it came from another user.
    """
    reference = resolve(store, ref) if isinstance(ref, str) else ref
    if reference.trial is None:
        raise BadOption(
            f"{ref} names an experiment; expected one of its trials, and where it continues. For example: "
            f"{reference}/t0000:27, or {reference}/t0000 for its newest checkpoint."
        )
    spec = store.read_spec(reference.experiment)
    check_trusted(store, spec.id)
    remote.at_hand(store, spec, reference.trial, reference.step)
    checkpoints = Checkpoints(store.experiment(spec.id).trial(reference.trial))
    newest = checkpoints.newest() if reference.step is None else checkpoints.at(reference.step)
    if newest is None:
        raise NotFound(
            f"{reference} has no checkpoint to continue from: it has not reached its first level, or they were deleted."
        )
    with Series.read(store.experiment(spec.id).series) as series:
        configuration = series.trial(reference.trial).get("configuration") or {}
    return spec, {
        "experiment": spec.id,
        "trial": reference.trial,
        "step": newest.step,
        "digest": newest.manifest.digest,
        "label": str(dataclasses.replace(reference, step=newest.step)),
        "configuration": {name: value for name, value in configuration.items() if value is not None},
        "seeds": list(spec.seeds_of(reference.trial)),
    }


def length_of(store: Store, spec: Spec) -> int:
    """Steps of a whole trial, including extensions."""
    with Series.read(store.experiment(spec.id).series) as series:
        return max(spec.length, int(series.meta().get("last") or 0))


def checked_steps(parent: Mapping[str, Json], steps: tuple[int, int] | None, length: int) -> tuple[int, int]:
    """First and last rung of a fork, both after the checkpoint. Without ``steps`` it ends at its parent's last step."""
    done = int(parent["step"])
    first, last = steps or (done + 1, length)
    if last <= done:
        raise BadOption(
            f"{parent['label']} has taken {done} steps already; expected a later last step. For example: "
            f"--steps {2 * done}."
        )
    return max(first, done + 1), last


def fork(
    store: Store, ref: str | Reference, changes: Configuration, *, name: str | None = None, last: int | None = None
) -> Prepared:
    """Write the experiment in which the trial ``ref`` continues with ``changes`` to its configuration.

    last: steps of the whole trial; None: as many as its parent. Raises BadOption for an unknown hyperparameter, and the
    errors of :func:`parent_of`.
    """
    spec, parent = parent_of(store, ref)
    configuration: Configuration = parent["configuration"]
    for key in changes:
        if key not in configuration:
            near = difflib.get_close_matches(key, configuration, n=1, cutoff=0.5)
            advice = f" Did you mean {near[0]}?" if near else f" It has {', '.join(configuration) or 'none'}."
            raise BadOption(f"{parent['label']} has no hyperparameter {key!r}.{advice} Other code is forked by a cell.")
    _, until = checked_steps(parent, None if last is None else (1, last), length_of(store, spec))
    # A fork is new training: where the search gave a range of slots, it has that range, and not the recorded sizes.
    origin = dataclasses.replace(recorded(store, Reference(spec.id, spec.label, parent["trial"])), sizes=())
    seed, number = parent["seeds"]
    named: dict[str, Any] = {"name": name} if name else {}
    return written(
        origin,
        "fork",
        [(seed, number)],
        place(store, origin.spec, origin.snapshot),
        **named,
        parent=parent,
        space=Space({**configuration, **changes}).to_json(),
        scheduler=Scheduler(kind="all", first=until, last=until),
        max_steps=None,
        probe=True,
    )
