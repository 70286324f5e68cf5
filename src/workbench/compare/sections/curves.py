"""Reported values, and the first step at which they differ. Law: equal means equal bit for bit."""

from __future__ import annotations

import math
import struct

from workbench.compare.sides import Side

#: Values by (step, index) of one metric of one trial.
Curve = dict[tuple[int, int], float]


def goal_value(side: Side, number: int | None) -> float | None:
    """The goal's last value in a trial, or its value at the named step."""
    if number is None:
        return None
    if side.reference.step is not None and number == side.trial:
        return last(curve(side, number, side.spec.goal.metric))
    value = side.trials.get(number, {}).get("value")
    return None if value is None else float(value)


def curve(side: Side, number: int | None, metric: str) -> Curve:
    """All values of a metric of one trial, up to the named step."""
    if side.series is None or number is None:
        return {}
    found = side.series.curves([number], [metric]).get((number, metric), [])
    limit = side.reference.step
    return {(step, index): value for step, index, value in found if limit is None or step <= limit}


def curves(side: Side, metric: str) -> dict[int, Curve]:
    """All values of a metric by trial."""
    found: dict[int, Curve] = {}
    for trial, _, step, index, value, _ in side.series.points(None, [metric]) if side.series is not None else ():
        found.setdefault(trial, {})[step, index] = value
    return found


def last(values: Curve) -> float | None:
    """The last reported value, or the last logged one if the metric was only logged inside steps."""
    told = [(key, value) for key, value in values.items() if key[1] == 0] or [*values.items()]
    return max(told, default=((0, 0), None), key=lambda one: one[0])[1]


def parts_at(one: Curve, other: Curve) -> int | None:
    """The first step at which both have values and the values differ; None if there is none."""
    return min((key[0] for key in one.keys() & other.keys() if bits(one[key]) != bits(other[key])), default=None)


def bits(value: float) -> bytes:
    """The value's bits; all nans count as equal."""
    return b"nan" if math.isnan(value) else struct.pack("<d", value)
