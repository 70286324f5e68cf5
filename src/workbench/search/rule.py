"""What every scheduler is to the machine. Law: keys are lower-is-better; what is decided comes back as data."""

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
    """What a comparison means for ``trial``: it stops, or (``stop`` false) it waits, for ``reason``."""

    trial: int
    stop: bool
    reason: str


class Words:
    """The goal metric in a person's words: its name, and its own sign."""

    def __init__(self, goal: Goal) -> None:
        self.metric = goal.metric
        self._sign = -1.0 if goal.mode == "max" else 1.0

    def key(self, value: float | None) -> float:
        """The value as rules compare it: lower is better, and what is no finite number ranks last."""
        return self._sign * value if value is not None and math.isfinite(value) else math.inf

    def number(self, key: float) -> str:
        """The value behind a key, short."""
        # Adding zero makes -0 read 0.
        return "diverged" if math.isinf(key) else f"{self._sign * key + 0.0:.6g}"

    def ranked(self, key: float, rank: int, of: int) -> str:
        """Which rank the value behind a key has among so many."""
        return f"{self.number(key)}{',' if math.isinf(key) else ' is'} rank {rank} of {of}"

    def cut(self, key: float) -> str:
        """What the value behind the key of the last that goes on says."""
        return "; only finite values do" if math.isinf(key) else f"; the cut is {self.number(key)}"

    def plain(self, key: float) -> float:
        """The value behind a key, as reported."""
        return self._sign * key + 0.0

    def value(self, key: float) -> str:
        """The metric's name and the value behind a key."""
        return f"{self.metric} {self.number(key)}"


class Rule(Protocol):
    """A scheduler: it fills places and compares. Trials are numbered from 0, and their brackets are fixed ahead.

    What is told of a trial that was withdrawn, or that a verdict has stopped, changes nothing.
    """

    #: How many trials there are at most.
    trials: int

    def levels(self, trial: int) -> tuple[int, ...]:
        """The steps at which the trial's value is wanted at once."""
        ...

    def bracket(self, trial: int) -> int:
        """The number of the trial's bracket."""
        ...

    def order(self, trial: int) -> tuple[int, int, int]:
        """A sort key, different for every trial: who comes first gets a slot first."""
        ...

    def ask(self, slots: int) -> Place | None:
        """The next place to fill, when ``slots`` are shared by all; None where nothing can run now."""
        ...

    def tell(self, trial: int, step: int, key: float) -> list[Verdict]:
        """The trial's value at one of its levels."""
        ...

    def end(self, trial: int, key: float) -> list[Verdict]:
        """The training code came to its own end before the last level, with this value."""
        ...

    def withdraw(self, trial: int) -> list[Verdict]:
        """The trial failed or was stopped by a person: it is never promoted, and nobody takes its place."""
        ...

    def extend(self, ladders: tuple[Ladder, ...]) -> list[Verdict]:
        """The ladders have grown: more trials, or higher rungs.

        What comes back is what this means for trials that were told: one that does not *stop* waits again.
        """
        ...

    def place(self, trial: int) -> int:
        """Which of the brackets of :attr:`marks` the trial is compared in."""
        ...

    @property
    def marks(self) -> list[list[tuple[int, float | None]]]:
        """For each bracket and rung: how many of those told there may go on, and the key of the last of them.

        The key is None where all of them may, or none. A bracket that never compares has no rungs here.
        """
        ...

    def unranks(self, trial: int) -> bool:
        """Whether the value that the trial was told with last is compared no more once it is withdrawn."""
        ...

    @property
    def done(self) -> bool:
        """Whether no place is left to fill and none waits for its value."""
        ...
