"""What trials reported at each level of their search. Law: the search reads the journal (:mod:`ladder`); values are
compared within one level, since a trial that trained longer is better for that reason alone.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from workbench.records import Json
from workbench.store.layout import Store
from workbench.store.lists.glance import Glance
from workbench.store.lists.ladder import ladder

__all__ = ["Level", "levels", "values_at"]


@dataclass(frozen=True, slots=True)
class Level:
    """A step at which the search compares trials, and the finite values of the goal there, by trial."""

    step: int
    values: Mapping[int, float]


def levels(store: Store, experiment: str) -> list[Level]:
    """The levels of an experiment's search, lowest first, over all of its brackets.

    Raises NotFound, StoreError, and Unreadable for an invalid journal.
    """
    told = ladder(store, experiment)["ladder"]
    found: dict[int, dict[int, float]] = {rung["step"]: {} for bracket in told["brackets"] for rung in bracket["rungs"]}
    for trial in sorted(told["trials"], key=lambda one: one["trial"]):
        for entry in trial["entries"]:
            if entry["step"] in found and _is_compared(entry):
                found[entry["step"]][trial["trial"]] = float(entry["value"])
    return [Level(step, found[step]) for step in sorted(found)]


def _is_compared(entry: Mapping[str, Json]) -> bool:
    return bool(entry["ranks"]) and isinstance(entry["value"], int | float) and math.isfinite(entry["value"])


def values_at(store: Store, experiment: str, metric: str, level: Level) -> dict[int, float]:
    """Another metric of the trials of a level: its value at that step or the last one before, if it is finite."""
    path = store.experiment(experiment).series
    if not path.exists():
        return {}
    with Glance(path) as glance:
        found = {trial: glance.at(metric, trial, level.step) for trial in level.values}
    return {trial: value for trial, value in found.items() if value is not None and math.isfinite(value)}
