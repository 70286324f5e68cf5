"""The interface of every scheduler. Law: keys are lower-is-better; decisions are returned as data."""

from __future__ import annotations

import math
from typing import NamedTuple, Protocol

from workbench.records import Goal
from workbench.search.rungs import Ladder

__all__ = ["Place", "Rule", "Verdict", "Words"]


# Both stay on this floor and are made at every report: a tuple costs a third of a frozen dataclass.


class Place(NamedTuple):
    """A place that waits for the value of ``trial`` at step ``until``."""

    trial: int
    start: int
    until: int
    reason: str


class Verdict(NamedTuple):
    """The result of a comparison for ``trial``: it stops, or (``stop`` false) waits, because of ``reason``."""

    trial: int
    stop: bool
    reason: str


class Words:
    """Words about the goal metric: its name, and values with their own sign."""

    def __init__(self, goal: Goal) -> None:
        self.metric = goal.metric
        self._sign = -1.0 if goal.mode == "max" else 1.0

    def key(self, value: float | None) -> float:
        """The value as rules compare it: lower is better, and values that are not finite rank last."""
        return self._sign * value if value is not None and math.isfinite(value) else math.inf

    def number(self, key: float) -> str:
        """The value of a key, as a short text."""
        if math.isinf(key):
            return "diverged"
        value = self._sign * key + 0.0  # adding zero makes -0 read 0
        short = f"{value:.6g}"
        return short if "." in short or value == int(value) else repr(value)  # 0.999999999 is not "1"

    def ranked(self, key: float, rank: int, of: int) -> str:
        """A text for the rank of a key's value, such as ``rank 2 of 27``."""
        return f"{self.number(key)}{',' if math.isinf(key) else ' is'} rank {rank} of {of}"

    def cut(self, key: float) -> str:
        """A text for the cut: the value of the last trial that is promoted."""
        return "; only finite values do" if math.isinf(key) else f"; the cut is {self.number(key)}"

    def plain(self, key: float) -> float:
        """The value of a key, as reported."""
        return self._sign * key + 0.0

    def value(self, key: float) -> str:
        """The metric's name and the value of a key."""
        return f"{self.metric} {self.number(key)}"


class Rule(Protocol):
    """A scheduler: it fills places and compares. Trials are numbered from 0, and their brackets are fixed ahead.

    Values of a trial that was withdrawn or that a verdict has stopped change nothing.
    """

    #: The maximum number of trials.
    trials: int

    def levels(self, trial: int) -> tuple[int, ...]:
        """The steps at which the trial's value is needed at once."""
        ...

    def bracket(self, trial: int) -> int:
        """The number of the trial's bracket."""
        ...

    def order(self, trial: int) -> tuple[int, int, int]:
        """A sort key, different for every trial: the lowest gets a slot first."""
        ...

    def ask(self, slots: int) -> Place | None:
        """The next place to fill if all brackets share ``slots``; None if nothing can run now."""
        ...

    def tell(self, trial: int, step: int, key: float) -> list[Verdict]:
        """The trial's value at one of its levels."""
        ...

    def end(self, trial: int, key: float) -> list[Verdict]:
        """The training code ended by itself before the last level, with this value."""
        ...

    def withdraw(self, trial: int) -> list[Verdict]:
        """The trial failed or was stopped by the user: it is never promoted, and no trial takes its place."""
        ...

    def extend(self, ladders: tuple[Ladder, ...]) -> list[Verdict]:
        """The ladders have grown: more trials, or higher rungs.

        Returns what this means for trials that already have a value: one that does not *stop* waits again.
        """
        ...

    def place(self, trial: int) -> int:
        """The index of the trial's bracket in :attr:`marks`."""
        ...

    @property
    def marks(self) -> list[list[tuple[int, float | None]]]:
        """For each bracket and rung: how many of the trials with a value there may be promoted, and the key of the
        last.

        The key is None if all of them may, or none. A bracket that never compares has no rungs here.
        """
        ...

    def unranks(self, trial: int) -> bool:
        """Whether a withdrawn trial's last value is no longer compared."""
        ...

    @property
    def done(self) -> bool:
        """Whether all places are filled and have their values."""
        ...
