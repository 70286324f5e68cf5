"""Which trial is the best. Law: pure; search, retention, notebook, command line and panel all ask here, so they name
the same one.

The best is, of the trials that reached the highest level so far, the one with the best value there. A trial whose
newest value is nan or infinite has *diverged*: it ranks after all others, by its last finite value at a level.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from heapq import nsmallest
from typing import Literal, NamedTuple

__all__ = ["Standing", "Standings", "has_diverged"]


def has_diverged(value: float | None) -> bool:
    """Whether the reported value is nan or infinite; False for None."""
    return value is not None and not math.isfinite(value)


class Standing(NamedTuple):
    """A trial's rank as a sort key: the lower, the better. Ties go to the older trial."""

    diverged: bool
    #: The highest level at which its value was finite, negated.
    below: int
    #: The value there, negated if more is better.
    key: float
    trial: int


class Standings:
    """The trials of one search by their values at levels. The same values in the same order give the same result."""

    def __init__(self, mode: Literal["max", "min"]) -> None:
        self._sign = -1.0 if mode == "max" else 1.0
        self._of: dict[int, Standing] = {}
        self._best: Standing | None = None
        #: Trials whose newest value is nan or infinite.
        self.diverged: set[int] = set()

    def tell(self, trial: int, level: int, value: float | None) -> None:
        """Record a trial's value at a level; None (nothing reported) changes nothing."""
        if value is None:
            return
        if math.isfinite(value):
            self.diverged.discard(trial)
            now = Standing(False, -level, self._sign * value, trial)
        else:
            self.diverged.add(trial)
            before = self._of.get(trial)
            if before is None:
                return
            now = before._replace(diverged=True)
        self._of[trial] = now
        if self._best is None or now < self._best:
            self._best = now
        elif self._best.trial == trial:
            self._best = min(self._of.values())

    def drop(self, trial: int) -> None:
        """Remove a failed trial from the comparison."""
        self.diverged.discard(trial)
        self._of.pop(trial, None)
        if self._best is not None and self._best.trial == trial:
            self._best = min(self._of.values(), default=None)

    @property
    def best(self) -> Standing | None:
        """The best trial; None if no trial had a finite value at a level."""
        return self._best

    def level(self, trial: int) -> int | None:
        """The highest level at which the trial's value was finite."""
        standing = self._of.get(trial)
        return None if standing is None else -standing.below

    def first(self, count: int, among: Collection[int] | None = None) -> list[int]:
        """The ``count`` best trials (of those given), the best first."""
        wanted = (one for one in self._of.values() if among is None or one.trial in among)
        return [one.trial for one in nsmallest(count, wanted)]

    def value(self, standing: Standing) -> float:
        """The value of a standing, as reported."""
        return self._sign * standing.key
