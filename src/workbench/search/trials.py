"""Trials as the search core keeps them, and as others see them. Law: only the machine changes one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from workbench.records import Configuration, Run, TrialState

__all__ = ["Trial", "TrialView", "Views"]


@dataclass(frozen=True, slots=True)
class TrialView:
    """A trial as the search core knows it. step, value: its last level, and the goal there, as reported."""

    number: int
    configuration: Configuration
    bracket: int
    state: TrialState
    reason: str
    step: int
    value: float | None


class Trial:
    """A trial's bookkeeping, changed by the machine alone."""

    __slots__ = (
        "dismissed",
        "leaving",
        "length",
        "levels",
        "number",
        "reason",
        "run",
        "state",
        "step",
        "until",
        "value",
        "why",
    )

    def __init__(self, number: int, levels: tuple[int, ...]) -> None:
        self.number = number
        self.levels = levels
        self.state: TrialState = "waiting"
        self.reason = ""
        #: The last level told, and the value there.
        self.step = 0
        self.value: float | None = None
        #: The order whose end has not been told, while it holds a slot.
        self.run: Run | None = None
        #: Where its interrupted leg was going; 0 when no leg of it was interrupted.
        self.until = 0
        #: Its last level when it was sent on its way: training code that comes to there did not end by itself.
        self.length = levels[-1]
        #: It was stopped with all the others, and goes on with them where the search is extended.
        self.dismissed = False
        #: What it becomes when its leg is gone, once that was told to leave, and why.
        self.leaving: Literal["stopped", "paused"] | None = None
        self.why = ""


class Views(Mapping[int, TrialView]):
    """Trials by number, each as a view made when it is asked for."""

    def __init__(self, trials: Mapping[int, Trial], view: Callable[[Trial], TrialView]) -> None:
        self._trials = trials
        self._view = view

    def __getitem__(self, number: int) -> TrialView:
        return self._view(self._trials[number])

    def __iter__(self) -> Iterator[int]:
        return iter(self._trials)

    def __len__(self) -> int:
        return len(self._trials)
