"""The trial by which a side is compared, and how it was chosen. Law: an experiment has one best trial, the one that its
header names. Where each configuration was trained several times, it stands for its configuration: two of these are
compared by their means. The best of many is partly luck, and the text says so.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from workbench.compare.sections.curves import goal_value
from workbench.compare.sides import Side
from workbench.records import Json
from workbench.records.names import trial_label
from workbench.search.members import members_of
from workbench.standing import Best, Spread


@dataclass(frozen=True, slots=True)
class Chosen:
    """A trial and its goal's value.

    ``of``: the number of configurations of which it is the best; None if it is not the best one. ``spread``: the values
    of its configuration's trials, if it stands for these. ``are_repeated``: each configuration has several trials.
    """

    trial: int
    value: float
    of: int | None
    spread: Spread | None = None
    are_repeated: bool = False

    def to_json(self) -> dict[str, Json]:
        """Plain data."""
        told = {"trial": self.trial, "value": self.value if math.isfinite(self.value) else None, "of": self.of}
        return told if self.spread is None else {**told, "spread": self.spread._asdict()}


def best_of(side: Side) -> Chosen | None:
    """The best trial of a side's experiment, as its header names it; None before the first report."""
    values = {number: value for number in side.trials if (value := goal_value(side, number)) is not None}
    members = members_of(side.spec)
    of, are_repeated = max(1, len({members.group(number) for number in values})), members.count > 1
    told = side.series.meta().get("best") if side.series is not None else None
    if told and told.get("value") is not None and math.isfinite(told["value"]):
        best = Best.from_json(told)
        return Chosen(best.trial, best.value, of, best.spread, are_repeated)
    # Written by a version that named none: take the best last value; of two equal ones, the older trial.
    sign = -1.0 if side.spec.goal.mode == "max" else 1.0
    finite = [(sign * value, number) for number, value in values.items() if math.isfinite(value)]
    if not finite:
        return None
    value, number = min(finite)
    return Chosen(number, sign * value, of, None, are_repeated)


def chosen(side: Side) -> Chosen | None:
    """The trial that a side names, or else its best trial."""
    best = best_of(side)
    if side.trial is None:
        return best
    value = goal_value(side, side.trial)
    if value is None:
        return None
    if best is None or best.trial != side.trial:
        return Chosen(side.trial, value, None)
    return Chosen(side.trial, value, best.of, None, best.are_repeated)


def compared_by(one: Chosen | None, other: Chosen | None) -> tuple[float | None, float | None]:
    """The two numbers to compare: the means of their configurations if both have one, or else their own values."""
    if one is not None and other is not None and one.spread is not None and other.spread is not None:
        return one.spread.mean, other.spread.mean
    return None if one is None else one.value, None if other is None else other.value


def selection(a: Side, b: Side, one: Chosen | None, other: Chosen | None) -> str | None:
    """How the two were chosen, in words, if one of them is the best of several trials of another search."""
    again = any(side.spec.replays or side.spec.puts_back for side in (a, b))
    if one is None or other is None or again or a.spec.id == b.spec.id:
        return None
    told = [
        f"{named(side, found)} is {'of ' * found.are_repeated}the best of {found.of:,} "
        f"{'configurations' if found.are_repeated else 'trials'}"
        for side, found in ((a, one), (b, other))
        if found.of is not None and found.of > 1
    ]
    return f"{' and '.join(told)}: the best of several trials is ahead partly by luck" if told else None


def named(side: Side, found: Chosen) -> str:
    """``digits@2/t0007``."""
    return f"{side.label}/{trial_label(found.trial)}"
