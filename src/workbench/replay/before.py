"""Finds experiments that need not be trained again. Law: only if all that is recorded is the same, and the files that
they read still exist unchanged."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from workbench.compare.repeats import Seeds, first_of
from workbench.compare.sides import seen_of
from workbench.errors import WorkbenchError
from workbench.records import ENDED, Json, Spec
from workbench.replay.data import past
from workbench.store import Store
from workbench.store.series import Series

#: Fields that differ even if two experiments train the same.
_OWN = frozenset({"id", "version", "created"})


def trained_before(store: Store, wanted: Spec) -> str | None:
    """The newest experiment that has trained exactly what ``wanted`` would train now, for the same two trials; None
    without one.

    It is not known beforehand which files ``wanted`` will read, so those that the other one read must be unchanged.
    """
    for found in _alike(store, wanted, "puts_back", _OWN):
        if _kept(store, found) == {0}:
            return found.id
    return None


def seeds_before(store: Store, wanted: Spec) -> dict[Seeds, str]:
    """The seeds that ``wanted`` need not train, each with the experiment that has trained it or will."""
    known: dict[Seeds, str] = {}
    first = first_of(store, str(wanted.repeats["experiment"]), int(wanted.repeats["trial"]))
    for found in _alike(store, wanted, "repeats", _OWN | {"repeats", "seeds", "trials"}):
        if first_of(store, found.id, 0) == first:
            for number in _kept(store, found, under_way=True):
                known.setdefault(found.seeds[number], found.id)
    return {seeds: known[seeds] for seeds in wanted.seeds if seeds in known}


def _alike(store: Store, wanted: Spec, kind: str, own: Collection[str]) -> Iterator[Spec]:
    """The experiments that differ from ``wanted`` at most in the fields ``own``, the newest first."""
    content = _content(wanted, own)
    for experiment in reversed(store.experiment_ids()):
        try:
            if store.read_spec_json(experiment).get(kind) and experiment != wanted.id:
                found = store.read_spec(experiment)
                if _content(found, own) == content:
                    yield found
        except WorkbenchError:
            continue  # damaged, or of a later version


def _content(spec: Spec, own: Collection[str]) -> dict[str, Json]:
    return {key: value for key, value in spec.to_json().items() if key not in own}


def _kept(store: Store, spec: Spec, *, under_way: bool = False) -> set[int]:
    """The trials that completed, and would read the same data today.

    under_way: also those that an unfinished experiment still has to train.
    """
    path = store.experiment(spec.id).series
    numbers = {*range(len(spec.seeds))}
    if not path.exists():
        return numbers if under_way else set()
    with Series.read(path) as series:
        states = {row["number"]: row["state"] for row in series.trials()}
        seen = {number: seen_of(series.legs(number)) or {} for number in states}
        has_ended = series.meta().get("state") in ENDED

    def counts(number: int) -> bool:
        state = states.get(number)
        return state == "completed" or (under_way and not has_ended and state not in ENDED)

    def is_as_then(number: int) -> bool:
        read = {path: file for path, file in seen.get(number, {}).items() if path not in spec.data_back}
        return not past(store, read).notes

    return {number for number in numbers if counts(number) and is_as_then(number)}
