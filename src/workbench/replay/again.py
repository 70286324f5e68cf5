"""A recorded trial as an experiment of its own: with the same seeds (a replay), or with others (repeats).

Law: code, captured values, configuration and seeds are the recorded ones. What differs (a changed file, another
environment) is listed in ``notes`` and recorded in the new snapshot, so that a comparison finds it.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from workbench.compare.repeats import first_of
from workbench.compare.section import counted
from workbench.compare.sides import seen_of
from workbench.errors import BadOption, NotFound
from workbench.records import ENDED, Json, Scheduler, Searcher, Spec
from workbench.records.names import trial_label
from workbench.records.plain import plain
from workbench.records.sizes import Sizes, trained
from workbench.replay.before import seeds_before
from workbench.replay.data import as_they_were, past
from workbench.replay.place import Place, place
from workbench.snapshot import read_snapshot
from workbench.snapshot.folder import retake
from workbench.snapshot.loading import blobs_of
from workbench.snapshot.surroundings import launched
from workbench.space import Space
from workbench.status.unranked import why_none_is_best
from workbench.store import Store, new_id
from workbench.store.files.atomic import make_folder
from workbench.store.layout import CopiedCode
from workbench.store.lists.catalog import Reference, resolve
from workbench.store.lists.numbering import next_version, write_numbered
from workbench.store.owner.trust import check_trusted
from workbench.store.series import Series

#: The folder of a snapshot's copied code, in this store or in the one from which it was moved.
#: The most repeats of one trial.
_MOST = 1000


@dataclass(frozen=True, slots=True)
class Prepared:
    """An experiment that is written and not started. notes: what differs from the recorded trial, in words.

    reuses: experiments that have trained, or will train, a part of what was requested.
    """

    spec: Spec
    notes: tuple[str, ...]
    reuses: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Recorded:
    """What is known of a trial that will be trained again. steps: how many steps it was trained."""

    store: Store
    reference: Reference
    spec: Spec
    configuration: dict[str, Any]
    steps: int
    snapshot: Mapping[str, Json]
    #: The files that it read.
    seen: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    #: On how many slots its steps were trained, where the search gave a range.
    sizes: Sizes = ()

    @property
    def trial(self) -> int:
        """Its number."""
        return self.reference.trial or 0


def recorded(store: Store, ref: str | Reference) -> Recorded:
    """The trial that ``ref`` names; of an experiment its best. Raises NotFound if it cannot be trained again."""
    reference = resolve(store, ref) if isinstance(ref, str) else ref
    spec = store.read_spec(reference.experiment)
    check_trusted(store, spec.id)
    path = store.experiment(spec.id).series
    if not path.exists():
        raise NotFound(f"{reference} has not started: there is nothing to train again.")
    with Series.read(path) as series:
        if reference.trial is None:
            best: dict[str, Any] | None = series.meta().get("best")
            if best is None:
                is_ended = series.meta().get("state") in ENDED
                raise NotFound(why_none_is_best(spec, str(reference), series.trials(), is_ended=is_ended))
            reference = dataclasses.replace(reference, trial=int(best["trial"]))
        assert reference.trial is not None
        row = series.trial(reference.trial)
        points = series.points([reference.trial])
        legs = series.legs(reference.trial)
    seen = seen_of(legs) or {}
    steps = max((step for _, _, step, index, _, _ in points if index == 0), default=0)
    if reference.step is not None:
        steps = min(steps, reference.step)
    if steps < 1:
        raise NotFound(f"{reference} has reported nothing: there is nothing to compare a replay with.")
    snapshot: Mapping[str, Json] = read_snapshot(store, spec.snapshot) if spec.snapshot is not None else {}
    _check_blobs(store, spec)
    sizes = trained(legs) if spec.is_elastic else ()
    return Recorded(store, reference, spec, dict(row.get("configuration") or {}), steps, snapshot, seen, sizes)


def _check_blobs(store: Store, spec: Spec) -> None:
    captures = [capture for capture in (spec.program.capture, *(c for c, _ in spec.program.overlays)) if capture]
    missing = [sha for capture in captures for sha in blobs_of(store, capture) if not store.has_blob(sha)]
    if missing:
        raise NotFound(
            f"{len(missing)} captured values of {spec.label} are gone (the first is blob {missing[0][:12]}): they were "
            "cleaned up, or the store was copied without them. It cannot be trained again."
        )


def replay(
    store: Store,
    ref: str | Reference,
    *,
    env: str = "same",
    tolerance: float | None = None,
    around: Mapping[str, str] | None = os.environ,
) -> Prepared:
    """Write the experiment that trains the trial ``ref`` again from step 0, with its own seeds.

    tolerance: relative difference up to which a result counts as *within tolerance*. around: as in :func:`place`.
    Raises NotFound, BadOption, VersionsDiffer.
    """
    if tolerance is not None and not 0 <= tolerance < 1:
        raise BadOption(f"--tolerance {tolerance:g}: expected a relative difference, 0 ≤ x < 1, such as 1e-4.")
    origin = recorded(store, ref)
    replays = {"experiment": origin.spec.id, "trial": origin.trial, "label": str(origin.reference), "env": env}
    if tolerance is not None:
        replays["tolerance"] = tolerance
    seeds = [origin.spec.seeds_of(origin.trial)]
    return written(origin, "replay", seeds, place(store, origin.spec, origin.snapshot, env, around), replays=replays)


def repeat(store: Store, ref: str | Reference, count: int, *, env: str = "same") -> Prepared:
    """Write the experiment that trains the trial ``ref`` with ``count`` other seeds. Raises as :func:`replay` does.

    Seeds that were trained before are not trained again; if all were, nothing is written. The repeats of a replay or of
    a repeat are those of the trial that it trains again.
    """
    count = plain(count)
    if isinstance(count, bool) or not isinstance(count, int) or not 1 <= count <= _MOST:
        raise BadOption(f"--seeds {count}: expected how many other seeds, 1 to {_MOST}. For example: --seeds 5.")
    origin = recorded(store, ref)
    first = first_of(store, origin.spec.id, origin.trial)
    if first != (origin.spec.id, origin.trial):
        origin = recorded(store, Reference(first[0], store.read_spec(first[0]).label, first[1]))
    seed, trial = origin.spec.seeds_of(origin.trial)
    repeats: dict[str, Json] = {"experiment": origin.spec.id, "trial": origin.trial, "label": str(origin.reference)}
    wanted = tuple((seed + step, trial) for step in range(1, count + 1))
    made = composed(origin, "repeat", wanted, place(store, origin.spec, origin.snapshot, env), repeats=repeats)
    known = seeds_before(store, made.spec)
    if not known:
        return dataclasses.replace(made, spec=write_numbered(store, made.spec))
    missing = tuple(seeds for seeds in wanted if seeds not in known)
    spec = made.spec if missing else store.read_spec(known[wanted[-1]])
    spec = dataclasses.replace(spec, repeats={**repeats, "seeds": [[*seeds] for seeds in wanted]})
    if missing:
        spec = write_numbered(store, dataclasses.replace(spec, seeds=missing, trials=len(missing)))
    note = f"{len(known)} of {counted(count, 'seed')} were trained before and are not trained again"
    return Prepared(spec, (*made.notes, note), tuple(dict.fromkeys(known.values())))


def written(origin: Recorded, kind: str, seeds: Sequence[tuple[int, int]], where: Place, **fields: Any) -> Prepared:
    """Write snapshot and spec of an experiment with one trial for each of ``seeds``, all of one configuration."""
    made = composed(origin, kind, seeds, where, **fields)
    return dataclasses.replace(made, spec=write_numbered(origin.store, made.spec))


def composed(origin: Recorded, kind: str, seeds: Sequence[tuple[int, int]], where: Place, **fields: Any) -> Prepared:
    """The same, but only the snapshot is written, not the spec."""
    store, spec = origin.store, origin.spec
    notes = [*([where.words] if where.how != "same" else []), *where.variables]
    then = past(store, origin.seen)
    named = (origin.snapshot.get("data") or {}).get("files") or ()
    files, changed = as_they_were(named, origin.seen, then, spec.training.cwd)
    notes += [*changed, *then.notes]
    training = where.training
    if spec.snapshot is not None:
        snapshot = retake(store, spec.snapshot, environment=where.environment, data=files)
        training = dataclasses.replace(training, path=_path(training.path, store, spec))
        fields["snapshot"] = snapshot.digest
    name = fields.pop("name", None) or _name(spec.name, kind)
    others: dict[str, Any] = {
        "space": Space(origin.configuration).to_json(),
        "scheduler": Scheduler(kind="all", first=origin.steps, last=origin.steps),
        "probe": False,
        "max_steps": spec.length if spec.length > origin.steps else None,
        "replays": None,
        "repeats": None,
        "mirror": (),
        "puts_back": None,
        "data_back": then.back,
        "seeds_each": 1,
    }
    if origin.sizes:
        others |= {"sizes": origin.sizes, "slots": max(slots for _, slots in origin.sizes), "slots_least": None}
    made = dataclasses.replace(
        spec,
        id=new_id(),
        name=name,
        version=next_version(store, name),
        created=datetime.now(UTC).isoformat(timespec="milliseconds"),
        searcher=Searcher(),
        training=training,
        trials=len(seeds),
        parallel=None,
        limit_s=None,
        content="",
        seeds=tuple(seeds),
        launched=launched.again(spec.launched),
        **{**others, **fields},
    )
    if not Path(training.cwd).is_dir():
        cwd = store.experiment(made.id).folder / "place"
        make_folder(cwd)
        notes.append(f"the notebook's folder {training.cwd} is gone; it trains in an empty one")
        made = dataclasses.replace(made, training=dataclasses.replace(training, cwd=str(cwd)))
    return Prepared(made, tuple(notes))


def _path(path: Sequence[str], store: Store, spec: Spec) -> tuple[str, ...]:
    """``path`` with the copied code of ``spec`` first, in place of other copied code, wherever the store is now."""
    code = []
    for entry in spec.training.path:
        place = _copy(entry)
        if place is not None:
            here = store.code(place.digest)
            code.append(str(here) if here.is_dir() else entry)
    return (*code, *(entry for entry in path if _copy(entry) is None))


def _copy(entry: str) -> CopiedCode | None:
    """A whole copy of code, as search paths have it."""
    place = CopiedCode.at(entry)
    return place if place is not None and not place.name else None


def _name(name: str, kind: str) -> str:
    return name if name.endswith(f"-{kind}") else f"{name[: 99 - len(kind)]}-{kind}"


def trial_of(spec: Spec) -> str:
    """The trial that ``spec`` trains again, as users name it."""
    origin: Mapping[str, Any] = spec.replays or spec.repeats or {}
    return str(origin.get("label") or f"{origin.get('experiment')}/{trial_label(int(origin.get('trial') or 0))}")
