"""What was measured of each trial: all its metrics, its durations, its checkpoints' size, its slot. Law: it reads the
series; what was not measured is None, never zero.

The panel's table and pictures and ``exp.trials`` show what is computed here.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from workbench.errors import NotFound
from workbench.records import Goal
from workbench.store.keeping import usage
from workbench.store.layout import ExperimentPaths
from workbench.store.lists import system
from workbench.store.lists.glance import Glance
from workbench.store.series import Series

Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Measure:
    """One metric of one trial. low, high: among its finite values.

    at_best: at the step of the goal's best value, or the last one before. The last and this may be nan or infinite.
    """

    last: float
    low: float | None
    high: float | None
    at_best: float | None


@dataclass(frozen=True, slots=True)
class Measured:
    """One trial. best: the best value of the goal that it reported, at ``best_step``, the first such step.

    Seconds: ``duration`` from its first start to its end, or until now; ``slot_time`` of its legs in slots, which
    ``setup_time`` is a part of. bytes: of its checkpoints. slot: of its newest leg. system: what its processes used, by
    names such as ``cpu``; of memory the peak, else the mean.
    """

    trial: int
    metrics: Mapping[str, Measure]
    best: float | None
    best_step: int | None
    duration: float | None
    slot_time: float | None
    setup_time: float | None
    bytes: int
    slot: str | None
    system: Mapping[str, float]


def measures(paths: ExperimentPaths, goal: Goal, after: int = 0) -> tuple[int, list[Measured]]:
    """The trials with points or legs after the number ``after``, and the number to ask with next.

    Nothing if the experiment has not started. Raises StoreError if its series is damaged.
    """
    try:
        with Series.read(paths.series) as series, Glance(paths.series) as glance:
            # In this order nothing is missed: what is written meanwhile is read here, or has a number above the cursor.
            newest = glance.newest()
            cursor, changed = series.legs_after(after)
            trials = sorted(glance.touched(after) | {leg["trial"] for leg in changed})
            legs = _by_trial(changed if after == 0 else [leg for trial in trials for leg in series.legs(trial)])
            names, sizes, used = series.names(), usage.trial_checkpoint_bytes(paths), system.summaries(glance)
            found = [
                _measured(glance, goal, trial, names, legs.get(trial, []), sizes.get(trial, 0), used.get(trial, {}))
                for trial in trials
            ]
    except NotFound:
        return after, []
    return max(cursor, newest), found


def _by_trial(legs: Iterable[Row]) -> dict[int, list[Row]]:
    found: dict[int, list[Row]] = {}
    for leg in sorted(legs, key=lambda leg: (leg["trial"], leg["attempt"])):
        found.setdefault(leg["trial"], []).append(leg)
    return found


def _measured(
    glance: Glance,
    goal: Goal,
    trial: int,
    names: Sequence[str],
    legs: list[Row],
    size: int,
    used: Mapping[str, float],
) -> Measured:
    step, best = glance.best(goal, trial) or (None, None)
    metrics = {}
    for name in names:
        summed = glance.summed(name, trial)
        if summed is not None:
            metrics[name] = Measure(*summed, None if step is None else glance.at(name, trial, step))
    duration, slot_time, setup_time = _durations(legs, time.time())
    slot = str(legs[-1].get("slot") or legs[-1].get("worker") or "") if legs else ""
    return Measured(trial, metrics, best, step, duration, slot_time, setup_time, size, slot or None, used)


def _durations(legs: Iterable[Row], now: float) -> tuple[float | None, float | None, float | None]:
    """Seconds from the first start to the end, in slots, and of set-ups."""
    spans = []
    for leg in legs:
        left = now if leg.get("outcome") is None else leg.get("left")
        if leg.get("began") is not None and left is not None:
            spans.append((float(leg["began"]), float(left), leg))
    if not spans:
        return None, None, None
    setups = [seconds for *_, leg in spans if (seconds := (leg.get("detail") or {}).get("setup_s")) is not None]
    duration = max(left for _, left, _ in spans) - min(began for began, *_ in spans)
    return max(duration, 0.0), sum(max(left - began, 0.0) for began, left, _ in spans), sum(setups) if setups else None
