"""The results of a trial's repeats. Law: a seed counts once, by its newest result, whichever command trained it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from workbench.compare.sections.curves import last
from workbench.errors import WorkbenchError
from workbench.records import Json
from workbench.store import Store
from workbench.store.series import Series

#: The experiment's seed and the trial's number, from which all seeds of a trial are derived.
Seeds = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Result:
    """The result of one seed: the goal's value, which may not be finite, and its step."""

    value: float
    step: int


def first_of(store: Store, experiment: str, trial: int) -> tuple[str, int]:
    """The original trial if this one trains another trial again; otherwise this one."""
    seen = {(experiment, trial)}
    while True:
        try:
            spec = store.read_spec_json(experiment)
        except WorkbenchError:
            return experiment, trial
        origin = spec.get("repeats") or spec.get("replays")
        if not isinstance(origin, Mapping):
            return experiment, trial
        before = str(origin.get("experiment")), int(origin.get("trial") or 0)
        if before in seen or not store.experiment(before[0]).spec.exists():
            return experiment, trial
        experiment, trial = before
        seen.add(before)


def repeats_of(
    store: Store, experiment: str, trial: int, *, seeds: Iterable[Seeds] | None = None, step: int | None = None
) -> dict[Seeds, Result]:
    """The results of a trial's configuration with other seeds than its own, by their seeds.

    seeds: only these. step: results as of this step. If results have different lengths, only the longest count.
    """
    first = first_of(store, experiment, trial)
    wanted = None if seeds is None else {*seeds}
    found: dict[Seeds, Result] = {}
    for one, spec in _repeating(store):
        if first_of(store, one, 0) == first:
            found |= _results(store, one, spec, step)
    found = {key: result for key, result in found.items() if wanted is None or key in wanted}
    longest = max((result.step for result in found.values()), default=0)
    return {key: found[key] for key in sorted(found) if found[key].step == longest}


def _repeating(store: Store) -> list[tuple[str, dict[str, Json]]]:
    """The experiments that repeat a trial, the oldest first."""
    found = []
    for one in store.experiment_ids():
        try:
            spec = store.read_spec_json(one)
        except WorkbenchError:
            continue  # damaged: doctor says so
        if isinstance(spec.get("repeats"), dict):
            found.append((one, spec))
    return sorted(found, key=lambda pair: (str(pair[1].get("created")), pair[0]))


def _results(store: Store, experiment: str, spec: Mapping[str, Any], step: int | None) -> dict[Seeds, Result]:
    path = store.experiment(experiment).series
    if not path.exists():
        return {}
    metric = str(spec["goal"]["metric"])
    seeds = [(int(seed), int(number)) for seed, number in spec.get("seeds") or ()]
    found = {}
    with Series.read(path) as series:
        for row in series.trials():
            if row["state"] != "completed" or row["value"] is None or row["number"] >= len(seeds):
                continue
            result = Result(float(row["value"]), int(row["step"]))
            if step is not None and step < result.step:
                points = series.curves([row["number"]], [metric]).get((row["number"], metric), [])
                value = last({(at, index): value for at, index, value in points if at <= step})
                if value is None:
                    continue
                result = Result(value, step)
            found[seeds[row["number"]]] = result
    return found
