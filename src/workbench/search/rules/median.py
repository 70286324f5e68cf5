"""Median stopping. Law: a trial is compared with the others' running averages, never with its own.

Vizier's rule (Golovin et al., KDD 2017): stop a trial at step s when its best value so far is worse than the median of
the averages that the other trials had over their values up to s. A trial that has diverged (its value is nan or
infinite) is worse than any median of numbers, whatever its earlier values; such a value is left out of later averages.
"""

from __future__ import annotations

import math

from workbench.search.rule import Verdict, Words
from workbench.search.rules.fifo import Fifo
from workbench.search.rules.ranking import Ranking
from workbench.search.rungs import Ladder, median_levels

__all__ = ["FEWEST", "Median"]

#: How many other trials must have reached a level before any trial is stopped there.
FEWEST = 3


class Median(Fifo):
    """Run every trial in order, and stop it early if it lags. No trial is stopped before the first level."""

    def __init__(self, trials: int, levels: tuple[int, ...], words: Words) -> None:
        super().__init__(trials, levels)
        self._words = words
        self._averages = {step: Ranking() for step in levels}
        #: For each running trial: the number of its values, their sum, the best of them.
        self._history: dict[int, tuple[int, float, float]] = {}
        #: The same for trials that took all steps: they may continue if the search is extended.
        self._finished: dict[int, tuple[int, float, float]] = {}

    def tell(self, trial: int, step: int, key: float) -> list[Verdict]:
        count, total, best = self._history.get(trial, (0, 0.0, math.inf))
        if key < math.inf:
            count, total, best = count + 1, total + key, min(best, key)
        self._history[trial] = count, total, best
        held = best if key < math.inf else key
        others = self._averages[step]
        verdicts: list[Verdict] = []
        if step == self._levels[-1]:
            self._finished[trial] = self._history.pop(trial)
            super().tell(trial, step, key)
        elif len(others) >= FEWEST:
            middle = (len(others) + 1) // 2
            median = others.at(middle)[0]
            if len(others) % 2 == 0:
                median = (median + others.at(middle + 1)[0]) / 2
            if held > median:
                self.withdraw(trial)
                says = f"best {self._words.value(held)} is" if held < math.inf else f"{self._words.value(held)},"
                reason = (
                    f"step {step}: {says} worse than {self._words.number(median)}, the median of {len(others)} others' "
                    "averages up to there"
                )
                verdicts = [Verdict(trial, True, reason)]
        others.add((total / count if key < math.inf else key, trial))
        if not verdicts and step < self._levels[-1]:
            super().tell(trial, step, key)
        return verdicts

    def extend(self, ladders: tuple[Ladder, ...]) -> list[Verdict]:
        verdicts = super().extend(ladders)
        for step in self._levels:
            self._averages.setdefault(step, Ranking())
        self._history |= {trial: told for trial, told in self._finished.items() if trial in self._busy}
        self._finished = {}
        return verdicts

    def _longer(self, last: int) -> tuple[int, ...]:
        top = self._levels[-1]
        return (*self._levels, *(step for step in median_levels(1, last) if step > top))

    def withdraw(self, trial: int) -> list[Verdict]:
        self._history.pop(trial, None)
        return super().withdraw(trial)
