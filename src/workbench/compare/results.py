"""What came out on both sides, and the first step at which it parts. Law: equal means equal bit for bit."""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Iterable, Mapping
from typing import Any

from workbench.compare.noise import within_noise
from workbench.compare.sides import Side
from workbench.records import Json

#: More pairs than this are compared by the goal's metric only.
_MANY = 200

#: Values by (step, index) of one metric of one trial.
Curve = dict[tuple[int, int], float]


def results(a: Side, b: Side) -> dict[str, Json]:
    """Metrics with the first step at which they part; of experiments also their trials of equal configuration."""
    goal = b.spec.goal
    found: dict[str, Json] = {"goal": {"metric": goal.metric, "mode": goal.mode}, "metrics": [], "pairs": []}
    names = [*dict.fromkeys([goal.metric, *a.metrics, *b.metrics])]
    if a.trial is not None and b.trial is not None:
        found["metrics"] = _of_trials(a, b, names)
        left, right = (_goal_value(side, side.trial) for side in (a, b))
        found["within_noise"] = within_noise(a, b, left, right)
        return found
    pairs = paired(a, b)
    found["pairs"] = _pairs(a, b, pairs)
    found["metrics"] = _of_pairs(a, b, pairs, names, found["pairs"])
    found["within_noise"] = None
    return found


def _of_trials(a: Side, b: Side, names: Iterable[str]) -> list[dict[str, Json]]:
    found = []
    for name in names:
        one, other = curve(a, a.trial, name), curve(b, b.trial, name)
        if one or other:
            found.append({"name": name, "a": last(one), "b": last(other), "parts_at": parts_at(one, other)})
    return found


def paired(a: Side, b: Side) -> list[tuple[int, int]]:
    """Trials of equal configuration, each once, older first."""
    waiting: dict[str, list[int]] = {}
    for number, row in sorted(b.trials.items()):
        if b.trial is None or b.trial == number:
            waiting.setdefault(_key(row), []).append(number)
    found = []
    for number, row in sorted(a.trials.items()):
        twins = waiting.get(_key(row)) if a.trial is None or a.trial == number else None
        if twins:
            found.append((number, twins.pop(0)))
    return found


def _key(row: Mapping[str, Any]) -> str:
    return json.dumps(row.get("configuration") or {}, sort_keys=True, default=str)


def _pairs(a: Side, b: Side, pairs: list[tuple[int, int]]) -> list[dict[str, Json]]:
    metric = b.spec.goal.metric
    one, other = (_curves(side, metric) for side in (a, b))
    return [
        {
            "configuration": a.trials[left].get("configuration") or {},
            "a": left,
            "b": right,
            "value_a": _goal_value(a, left),
            "value_b": _goal_value(b, right),
            "parts_at": parts_at(one.get(left, {}), other.get(right, {})),
        }
        for left, right in pairs
    ]


def _of_pairs(
    a: Side, b: Side, pairs: list[tuple[int, int]], names: list[str], told: list[dict[str, Json]]
) -> list[dict[str, Json]]:
    found = []
    for name in names if len(pairs) <= _MANY else names[:1]:
        one, other = (_curves(side, name) for side in (a, b))
        steps = [parts_at(one.get(left, {}), other.get(right, {})) for left, right in pairs]
        known = [step for step in steps if step is not None]
        best = [_best(side, name, curves) for side, curves in ((a, one), (b, other))]
        found.append({"name": name, "a": best[0], "b": best[1], "parts_at": min(known, default=None)})
    return found


def _best(side: Side, name: str, curves: Mapping[int, Curve]) -> float | None:
    """The best of the goal's metric; of another one, its value in the best trial."""
    goal = side.spec.goal
    sign = -1.0 if goal.mode == "max" else 1.0
    values = [(sign * value, number) for number in side.trials if (value := _goal_value(side, number)) is not None]
    finite = [pair for pair in values if math.isfinite(pair[0])]
    if not finite:
        return None
    key, number = min(finite)
    return sign * key if name == goal.metric else last(curves.get(number, {}))


def _goal_value(side: Side, number: int | None) -> float | None:
    """The goal's last value; at the step that was named, where one was."""
    if number is None:
        return None
    if side.reference.step is not None and number == side.trial:
        return last(curve(side, number, side.spec.goal.metric))
    value = side.trials.get(number, {}).get("value")
    return None if value is None else float(value)


def curve(side: Side, number: int | None, metric: str) -> Curve:
    """All values of a metric of one trial; none behind the step that was named."""
    if side.series is None or number is None:
        return {}
    found = side.series.curves([number], [metric]).get((number, metric), [])
    limit = side.reference.step
    return {(step, index): value for step, index, value in found if limit is None or step <= limit}


def _curves(side: Side, metric: str) -> dict[int, Curve]:
    found: dict[int, Curve] = {}
    for trial, _, step, index, value, _ in side.series.points(None, [metric]) if side.series is not None else ():
        found.setdefault(trial, {})[step, index] = value
    return found


def last(values: Curve) -> float | None:
    """The last value that was reported; of what was only logged inside steps, the last of those."""
    told = [(key, value) for key, value in values.items() if key[1] == 0] or [*values.items()]
    return max(told, default=((0, 0), None), key=lambda one: one[0])[1]


def parts_at(one: Curve, other: Curve) -> int | None:
    """The first step at which both have values and those differ; None where they never do."""
    return min((key[0] for key in one.keys() & other.keys() if bits(one[key]) != bits(other[key])), default=None)


def bits(value: float) -> bytes:
    """The value's very bits; every nan counts as the same."""
    return b"nan" if math.isnan(value) else struct.pack("<d", value)
