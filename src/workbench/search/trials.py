"""Trials as the search core keeps them, and as others see them. Law: only the machine changes one."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from workbench.facts import Run
from workbench.records import Configuration, TrialState

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
    #: A person has paused it.
    held: bool = False
    #: A person has stopped it, and may resume it.
    asked: bool = False


class Trial:
    """A trial's bookkeeping, changed by the machine alone."""

    __slots__ = (
        "ahead",
        "alone",
        "asked",
        "dismissed",
        "held",
        "leaving",
        "length",
        "levels",
        "number",
        "reason",
        "run",
        "rungs",
        "state",
        "step",
        "unranked",
        "until",
        "value",
        "values",
        "why",
        "whys",
    )

    def __init__(self, number: int, levels: tuple[int, ...]) -> None:
        self.number = number
        self.levels = levels
        self.state: TrialState = "waiting"
        self.reason = ""
        #: The last level told, and the value there.
        self.step = 0
        self.value: float | None = None
        #: The unfinished order, while the trial holds a slot.
        self.run: Run | None = None
        #: The step to which its interrupted leg was sent; 0 if no leg was interrupted.
        self.until = 0
        #: Its last level when its leg started: training code that reaches it did not end by itself.
        self.length = levels[-1]
        #: It was stopped with all the others, and continues with them if the search is extended.
        self.dismissed = False
        #: A person has paused it: it does not run until a person resumes it.
        self.held = False
        #: A person has stopped it: the rule has withdrawn it.
        self.asked = False
        #: A person has resumed it after that: it trains to its last step, and is not compared any more.
        self.alone = False
        #: Its state once its leg, which was told to leave, has ended, and why.
        self.leaving: Literal["stopped", "paused"] | None = None
        self.why = ""
        #: The rungs at which it has a value, in order, and the values. Median stopping has a hundred for each trial.
        self.rungs = array("q")
        self.values = array("d")
        #: Rungs at which its value is not compared.
        self.unranked: set[int] = set()
        #: Why it was promoted from each rung.
        self.whys: dict[int, str] = {}
        #: The last step of its current or last leg; 0 if it has reached a rung and no leg follows.
        self.ahead = 0

    def view(self, configuration: Configuration, bracket: int, *, is_going: bool) -> TrialView:
        """The trial as others see it. is_going: a person has not stopped all trials."""
        asked = self.asked and self.state == "stopped" and is_going
        known = (self.state, self.reason, self.step, self.value, self.held, asked)
        return TrialView(self.number, configuration, bracket, *known)


class Views(Mapping[int, TrialView]):
    """Trials by number, each as a view made on access."""

    def __init__(self, trials: Mapping[int, Trial], view: Callable[[Trial], TrialView]) -> None:
        self._trials = trials
        self._view = view

    def __getitem__(self, number: int) -> TrialView:
        return self._view(self._trials[number])

    def __iter__(self) -> Iterator[int]:
        return iter(self._trials)

    def __len__(self) -> int:
        return len(self._trials)
