"""Who gets how many slots. Law: pure; claims in, whole numbers of slots out, and how far each is from its share.

Shares are weighted max-min fair: none gets more than it can use, and what that leaves is divided by weight among the
others. A higher priority comes first. Shares are fractions and slots are not: the claims take turns with the slots left
over. The one whose debt (slot-seconds above its share, divided by its weight) is lowest comes next, so that over time
each has its share. A claim whose trials need several slots each gets a multiple of those, or none, and takes its turn
even if others must then have less than the whole part of their shares.

The same functions divide the machine's slots among engines, and an engine's slots among its experiments.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import groupby

#: Seconds that a claim of weight 1 is ahead in a slot left over before it is the other's turn.
TURN_S = 1.0
#: The most seconds of debt or credit that count, for any weight: what was missed long ago is not made up all at once.
MOST_DEBT_S = 60.0
#: Of so many turns is the mean taken where trials need several slots: shares are then right to about a hundredth.
TURNS = 100
#: Shares that differ by less are equal: they are sums of floats.
_EQUAL = 1e-9


@dataclass(frozen=True, slots=True)
class Claim:
    """One that uses slots, or would.

    held: slots that it has. most: slots that it could use now, those included. debt: slot-seconds above its share, for
    each unit of its weight. since: sorts claims that are equal otherwise. unit: it can only use multiples of this.
    is_loose: beyond the first unit it can use single slots; it gets those that no other claim has a use for.
    """

    name: str
    held: int
    most: int
    weight: float = 1.0
    priority: int = 0
    debt: float = 0.0
    since: str = ""
    unit: int = 1
    is_loose: bool = False


def shares(slots: int, claims: Iterable[Claim]) -> dict[str, float]:
    """Each claim's share of ``slots``: weighted max-min fair, the highest priority first."""
    found: dict[str, float] = {}
    left = float(slots)
    for group in _by_priority(claims):
        part = _filled(left, group, {one.name: one.most for one in group})
        found |= part
        left = max(0.0, left - sum(part.values()))
    return found


def reachable(slots: int, claims: Iterable[Claim]) -> dict[str, float]:
    """Each claim's share of ``slots`` over time, as far as whole trials can have it.

    Trials of four slots cannot use the three that others leave of eight: to have more than half of the slots, their
    search needs all of them for a while. So this is the mean of many turns of :func:`allot`, in each of which the claim
    that has had least for its weight comes first. Where all trials take one slot these are the :func:`shares`.
    """
    known = list(claims)
    if all(one.unit == 1 for one in known):
        return shares(slots, known)
    terms = tuple((min(one.most, slots) // one.unit, one.unit, one.weight, one.priority) for one in known)
    return dict(zip((one.name for one in known), _mean(slots, terms), strict=True))


@lru_cache(maxsize=4096)
def _mean(slots: int, terms: tuple[tuple[int, int, float, int], ...]) -> list[float]:
    had = [0.0] * len(terms)
    for _ in range(TURNS):
        claims = [
            Claim(str(place), 0, most * unit, weight, priority, had[place] / weight, f"{place:09}", unit)
            for place, (most, unit, weight, priority) in enumerate(terms)
        ]
        found = allot(slots, claims)
        had = [before + found[str(place)] for place, before in enumerate(had)]
    return [one / TURNS for one in had]


def allot(slots: int, claims: Iterable[Claim]) -> dict[str, int]:
    """How many of ``slots`` each claim should have now.

    Each gets the whole part of its share or one unit more; less only if it is the turn of a claim of several slots. No
    slot is left over that a claim could use.
    """
    found: dict[str, int] = {}
    left = slots
    for group in _by_priority(claims):
        part = _whole(left, group)
        left -= sum(part.values())
        for one in sorted([one for one in group if one.is_loose], key=lambda one: _turn(one, part)):
            if part[one.name]:
                more = min(left, one.most - part[one.name])
                part[one.name] += more
                left -= more
        found |= part
    return found


def _whole(slots: int, group: Sequence[Claim]) -> dict[str, int]:
    """Whole numbers of ``slots`` for claims of one priority."""
    most = {one.name: _multiple(min(one.most, slots), one) for one in group}
    fair = _filled(float(slots), group, most)
    whole = {one.name: _multiple(int(fair[one.name] + _EQUAL), one) for one in group}
    turns = sorted(group, key=lambda one: _turn(one, whole))
    if all(one.unit == 1 for one in group):
        # Those with a fraction of a slot come before those who have all that they are owed.
        turns.sort(key=lambda one: fair[one.name] - whole[one.name] <= _EQUAL)
    over = slots - sum(whole.values())
    for place, one in enumerate(turns):
        if whole[one.name] + one.unit <= most[one.name]:
            if over < one.unit and one.unit > 1 and fair[one.name] - whole[one.name] > _EQUAL:
                over += _taken(one.unit - over, turns[place + 1 :], whole)
            if over >= one.unit:
                whole[one.name] += one.unit
                over -= one.unit
    for one in turns:  # what several slots of one trial leave over
        while over >= one.unit and whole[one.name] + one.unit <= most[one.name]:
            whole[one.name] += one.unit
            over -= one.unit
    return whole


def _taken(count: int, later: Sequence[Claim], whole: dict[str, int]) -> int:
    """Take at least ``count`` slots from claims whose turn is later, the last one first; none if they have too few."""
    if sum(whole[one.name] for one in later) < count:
        return 0
    taken = 0
    for one in reversed(later):
        while taken < count and whole[one.name]:
            whole[one.name] -= one.unit
            taken += one.unit
    return taken


def _multiple(count: int, one: Claim) -> int:
    return count - count % one.unit


def aged(slots: int, claims: Sequence[Claim], seconds: float) -> dict[str, float]:
    """Each claim's debt after ``seconds`` of having what it holds. Where all have what they can use, debts are zero.

    What the claims that could use more lack together counts for none of them: slots are empty while they change hands,
    which would put all at the limit after some minutes, where they are equal, and a claim that has just come behind
    them. The debt of a claim that has all it can use stays as it is.
    """
    if sum(one.most for one in claims) <= slots:
        return {one.name: 0.0 for one in claims}
    fair = reachable(slots, claims)
    short = {one.name for one in claims if 0 < fair[one.name] < one.most - _EQUAL}
    lost = sum(one.held - fair[one.name] for one in claims if one.name in short)
    each = lost / (sum(one.weight for one in claims if one.name in short) or 1.0)
    debts = {}
    for one in claims:
        more = (one.held - fair[one.name]) / one.weight - (each if one.name in short else 0.0)
        debts[one.name] = min(max(one.debt + more * seconds, -MOST_DEBT_S), MOST_DEBT_S)
    return debts


def in_turn(claims: Iterable[Claim], goals: Mapping[str, int]) -> list[str]:
    """The names of these claims, in the order in which they get slots that become free.

    Those with fewer slots than they should have come first, and among them the higher priority, then the lower debt.
    Otherwise a claim whose trials are short pays for those with long ones: its slots become free most often, and one
    that waits for a slot of a claim with too many would take them.
    """
    waiting = sorted(claims, key=lambda one: (one.held >= goals[one.name], -one.priority, one.debt, one.since))
    return [one.name for one in waiting]


def _turn(one: Claim, whole: Mapping[str, int]) -> tuple[float, str, str]:
    """The sort key for slots left over. Who has one keeps it for a turn."""
    keeps = TURN_S / one.weight if one.held > whole[one.name] else 0.0
    return one.debt - keeps, one.since, one.name


def _by_priority(claims: Iterable[Claim]) -> Iterable[list[Claim]]:
    ranked = sorted(claims, key=lambda one: -one.priority)
    return (list(group) for _, group in groupby(ranked, key=lambda one: one.priority))


def _filled(slots: float, claims: Sequence[Claim], most: Mapping[str, int]) -> dict[str, float]:
    """``slots`` divided by weight; who can use less (``most``, by name) than that leaves the rest to the others."""
    found: dict[str, float] = {}
    open_ones = claims
    while open_ones:
        unit = slots / sum([one.weight for one in open_ones])
        full = [one for one in open_ones if most[one.name] <= one.weight * unit + _EQUAL]
        if not full:
            return found | {one.name: one.weight * unit for one in open_ones}
        found |= {one.name: float(most[one.name]) for one in full}
        slots = max(0.0, slots - sum([most[one.name] for one in full]))
        open_ones = [one for one in open_ones if one.name not in found]
    return found
