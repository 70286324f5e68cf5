"""Who gets how many slots. Law: pure; claims in, whole numbers of slots out, and how far each is from its share.

Shares are weighted max-min fair: none gets more than it can use, and what that leaves is divided by weight among the
others. A higher priority comes first. Shares are fractions and slots are not: the claims take turns with the slots left
over. The one whose debt (slot-seconds above its share, divided by its weight) is lowest comes next, so that over time
each has its share.

The same functions divide the machine's slots among engines, and an engine's slots among its experiments.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

#: Seconds that a claim of weight 1 is ahead in a slot left over before it is the other's turn.
TURN_S = 1.0
#: The most seconds of debt or credit that count: what was missed long ago is not made up all at once.
MOST_DEBT_S = 60.0
#: Shares that differ by less are equal: they are sums of floats.
_EQUAL = 1e-9


@dataclass(frozen=True, slots=True)
class Claim:
    """One that uses slots, or would.

    held: slots that it has. most: slots that it could use now, those included. debt: slot-seconds above its share, for
    each unit of its weight. since: sorts claims that are equal otherwise.
    """

    name: str
    held: int
    most: int
    weight: float = 1.0
    priority: int = 0
    debt: float = 0.0
    since: str = ""


def shares(slots: int, claims: Iterable[Claim]) -> dict[str, float]:
    """Each claim's share of ``slots``: weighted max-min fair, the highest priority first."""
    found: dict[str, float] = {}
    left = float(slots)
    for _, group in _by_priority(claims):
        part = _filled(left, group)
        found |= part
        left = max(0.0, left - sum(part.values()))
    return found


def allot(slots: int, claims: Iterable[Claim]) -> dict[str, int]:
    """How many of ``slots`` each claim should have now.

    Each gets the whole part of its share or one more. None is left over that a claim could use.
    """
    every = list(claims)
    found: dict[str, int] = {}
    left = slots
    for _, group in _by_priority(every):
        fair = _filled(float(left), group)
        whole = {one.name: int(fair[one.name] + _EQUAL) for one in group}
        over = min(left, sum(one.most for one in group)) - sum(whole.values())
        next_ones = sorted((one for one in group if whole[one.name] < one.most), key=lambda one: _turn(one, whole))
        # Those with a fraction of a slot come before those who have all that they are owed.
        next_ones.sort(key=lambda one: fair[one.name] - whole[one.name] <= _EQUAL)
        for one in next_ones[:over]:
            whole[one.name] += 1
        found |= whole
        left -= sum(whole.values())
    return found


def aged(slots: int, claims: Sequence[Claim], seconds: float) -> dict[str, float]:
    """Each claim's debt after ``seconds`` of having what it holds. Where all have what they can use, debts are zero."""
    if sum(one.most for one in claims) <= slots:
        return {one.name: 0.0 for one in claims}
    fair = shares(slots, claims)
    return {
        one.name: min(
            max(one.debt + (one.held - fair[one.name]) * seconds / one.weight, -MOST_DEBT_S / one.weight),
            MOST_DEBT_S / one.weight,
        )
        for one in claims
    }


def _turn(one: Claim, whole: Mapping[str, int]) -> tuple[float, str, str]:
    """The sort key for slots left over. Who has one keeps it for a turn."""
    keeps = TURN_S / one.weight if one.held > whole[one.name] else 0.0
    return one.debt - keeps, one.since, one.name


def _by_priority(claims: Iterable[Claim]) -> Iterable[tuple[int, list[Claim]]]:
    ranked = sorted(claims, key=lambda one: -one.priority)
    return ((priority, list(group)) for priority, group in groupby(ranked, key=lambda one: one.priority))


def _filled(slots: float, claims: Sequence[Claim]) -> dict[str, float]:
    """``slots`` divided by weight; who can use less than that leaves the rest to the others."""
    found: dict[str, float] = {}
    open_ones = list(claims)
    while open_ones:
        unit = slots / sum(one.weight for one in open_ones)
        full = [one for one in open_ones if one.most <= one.weight * unit + _EQUAL]
        if not full:
            return found | {one.name: one.weight * unit for one in open_ones}
        found |= {one.name: float(one.most) for one in full}
        slots = max(0.0, slots - sum(one.most for one in full))
        open_ones = [one for one in open_ones if one.name not in found]
    return found
