"""ASHA by promotion, written by hand for tools that bring no search. Law: a trial waits at a rung until it is promoted.

Li et al., "A system for massively parallel hyperparameter tuning", MLSys 2020, algorithm 2.
"""

from __future__ import annotations

from benchmarks.peers.work import ETA, LEVELS


class Asha:
    """Which leg a free worker trains next. A leg: the trial, its first step less one, and its last step."""

    def __init__(self, trials: int) -> None:
        self._trials, self._next = trials, 0
        #: Values by rung, and which trials have been promoted from it.
        self._told: list[list[tuple[float, int]]] = [[] for _ in LEVELS]
        self._promoted: list[set[int]] = [set() for _ in LEVELS]

    def leg(self) -> tuple[int, int, int] | None:
        """The next leg; None where none can begin before another value is told."""
        for rung in range(len(LEVELS) - 2, -1, -1):
            best = sorted(self._told[rung], reverse=True)[: len(self._told[rung]) // ETA]
            for _, trial in best:
                if trial not in self._promoted[rung]:
                    self._promoted[rung].add(trial)
                    return trial, LEVELS[rung], LEVELS[rung + 1]
        if self._next == self._trials:
            return None
        self._next += 1
        return self._next - 1, 0, LEVELS[0]

    def tell(self, trial: int, step: int, value: float) -> None:
        """A leg has ended with this value."""
        self._told[LEVELS.index(step)].append((value, trial))


class Every:
    """Every trial from its first step to its last, in one leg: where nothing is compared."""

    def __init__(self, trials: int) -> None:
        self._legs = [(trial, 0, LEVELS[-1]) for trial in reversed(range(trials))]

    def leg(self) -> tuple[int, int, int] | None:
        """The next trial."""
        return self._legs.pop() if self._legs else None

    def tell(self, trial: int, step: int, value: float) -> None:
        """Nothing is decided by it."""


def rule(measurement: str, trials: int) -> Asha | Every:
    """The search of a measurement."""
    return Every(trials) if measurement == "recovery" else Asha(trials)
