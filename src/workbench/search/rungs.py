"""Rungs and brackets. Law: integers in, integers out; no clock, no chance, no trial.

Rungs are never counted by logarithms of floats: int(log(243) / log(3) + 1) is 5, and 243 has 6 rungs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

__all__ = ["Ladder", "asha_ladders", "halving", "hyperband_ladders", "levels", "longer", "median_levels", "share"]

#: A trial is compared at about this many levels at most, however long it is.
MOST_LEVELS = 100


@dataclass(frozen=True, slots=True)
class Ladder:
    """One bracket before anything runs: its levels, how many trials each rung has, and its first trial's number.

    number: rungs above the first one, as the Hyperband paper counts brackets. turn: 0 in the first round of Hyperband,
    1 in the second, …
    """

    number: int
    levels: tuple[int, ...]
    sizes: tuple[int, ...]
    first: int
    turn: int = 0

    @property
    def trials(self) -> range:
        """The numbers of its trials."""
        return range(self.first, self.first + self.sizes[0])


def levels(first: int, last: int, eta: int) -> tuple[int, ...]:
    """Steps at which trials are compared: ``first``, then ``eta`` times more each, and ``last`` itself on top.

    As many as fit between both: if ``last`` is not such a multiple, the top rung replaces the highest one below it, so
    that no two rungs are closer than a factor of ``eta``.
    """
    steps = [first]
    while steps[-1] * eta <= last:
        steps.append(steps[-1] * eta)
    steps[-1] = last
    return tuple(steps)


def longer(steps: tuple[int, ...], last: int, eta: int) -> tuple[int, ...]:
    """Levels of a trial that was planned to end at the last of ``steps``, and now continues to ``last``."""
    return (*steps, *(step for step in levels(steps[-1], last, eta) if step > steps[-1]))


def median_levels(first: int, last: int) -> tuple[int, ...]:
    """Every step from ``first`` on, or every second, third, … so that there are about a hundred at most."""
    stride = -(-last // MOST_LEVELS)
    return (*(step for step in range(stride, last, stride) if step >= first), last)


def halving(start: int, rungs: int, eta: int) -> tuple[int, ...]:
    """Trials in each rung if one in ``eta`` is promoted: rounded down, and always at least one."""
    sizes = [start]
    while len(sizes) < rungs:
        sizes.append(max(1, sizes[-1] // eta))
    return tuple(sizes)


def hyperband_sizes(rungs: int, eta: int, table: Literal["algorithm1", "table1"]) -> tuple[int, ...]:
    """Trials that each bracket starts with, the most aggressive first.

    The paper (Li et al., JMLR 18, 2018) contradicts itself: its Algorithm 1 rounds (s_max+1)/(s+1)·η^s up, its printed
    Table 1 rounds (s_max+1)/(s+1) down first.
    """
    if table == "algorithm1":
        return tuple(-(-rungs * eta**s // (s + 1)) for s in reversed(range(rungs)))
    return tuple(rungs // (s + 1) * eta**s for s in reversed(range(rungs)))


def hyperband_ladders(
    first: int, last: int, eta: int, table: Literal["algorithm1", "table1"], trials: int | None = None
) -> tuple[Ladder, ...]:
    """Hyperband's brackets. With ``trials`` given, as many rounds as needed for that many; the last round is cut
    short."""
    steps = levels(first, last, eta)
    starts = hyperband_sizes(len(steps), eta, table)
    wanted = sum(starts) if trials is None else trials
    ladders: list[Ladder] = []
    begun = 0
    while begun < wanted:
        at = len(ladders) % len(starts)
        start = min(starts[at], wanted - begun)
        own = steps[at:]
        ladders.append(
            Ladder(len(own) - 1, own, halving(start, len(own), eta), begun, turn=len(ladders) // len(starts))
        )
        begun += start
    return tuple(ladders)


def bracket_rungs(rungs: int, brackets: Literal["aggressive", "standard", "conservative"]) -> tuple[int, ...]:
    """How many rungs each bracket of adaptive ASHA has, the most aggressive first (as Determined chooses them)."""
    lowest = {"aggressive": rungs, "standard": (rungs - 1) // 2 + 1, "conservative": 1}[brackets]
    return tuple(range(rungs, lowest - 1, -1))


def share(trials: int, rungs: tuple[int, ...], eta: int) -> tuple[int, ...]:
    """Trials of each bracket, so that each gets about the same training budget: weights η^(r−1)/r for r rungs.

    The remainder after rounding goes to the most aggressive one, which is first; every bracket has at least one, so
    with fewer trials than brackets the least aggressive are left out. 100 trials over 4, 3 and 2 rungs with η = 4 are
    70, 22 and 8.
    """
    rungs = rungs[: max(trials, 1)]
    # All weights over one denominator, so that no float rounds a trial away.
    whole = 1
    for r in rungs:
        whole *= r
    weights = [eta ** (r - 1) * whole // r for r in rungs]
    counts = [max(1, trials * weight // sum(weights)) for weight in weights]
    counts[0] = trials - sum(counts[1:])
    if counts[0] < 1:
        return share(trials, rungs[:-1], eta)
    return tuple(counts)


def asha_ladders(
    first: int,
    last: int,
    eta: int,
    brackets: Literal["aggressive", "standard", "conservative"],
    trials: int | None = None,
) -> tuple[Ladder, ...]:
    """ASHA's brackets with the sizes that successive halving would give them; by default η^(rungs−1) trials."""
    steps = levels(first, last, eta)
    rungs = bracket_rungs(len(steps), brackets)
    ladders: list[Ladder] = []
    begun = 0
    for r, count in zip(rungs, share(eta ** (len(steps) - 1) if trials is None else trials, rungs, eta), strict=False):
        ladders.append(Ladder(r - 1, steps[-r:], halving(count, r, eta), begun))
        begun += count
    return tuple(ladders)
