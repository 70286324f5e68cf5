"""A search in virtual time. Law: an event heap and a virtual clock; only the search core decides.

Tries a scheduler on a curve function, or on recorded curves, in the time that the decisions take.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush

from workbench.facts import CapacityChanged, Ended, Fact, Instruction, Left, Reached, Run, Stop
from workbench.records import Configuration, Goal, Json
from workbench.search.machine import Search
from workbench.standing import Best

__all__ = ["Curve", "Point", "Simulation", "simulate"]

#: The goal's value of a configuration after so many steps; or recorded values by trial, step 1 first.
Curve = Callable[[Configuration, int], float] | Mapping[int, Sequence[float]]


@dataclass(frozen=True, slots=True)
class Point:
    """One trained step: when it ended (virtual seconds), its trial, its number, and the goal there."""

    time: float
    trial: int
    step: int
    value: float


@dataclass(frozen=True, slots=True)
class Simulation:
    """The result of a simulated search. time: virtual seconds until it finished. points: every step trained, in order
    of time."""

    goal: Goal
    time: float
    trials: int
    legs: int
    steps: int
    promotions: int
    best: Best | None
    points: tuple[Point, ...]
    instructions: tuple[Instruction, ...]

    def steps_to(self, target: float) -> int | None:
        """How many steps were trained, by all trials together, when the goal first reached ``target``."""
        for number, point in enumerate(self.points, 1):
            if point.value == target or self.goal.better(point.value, target):
                return number
        return None

    def time_to(self, target: float) -> float | None:
        """Virtual seconds until the goal first reached ``target``."""
        steps = self.steps_to(target)
        return None if steps is None else self.points[steps - 1].time

    def to_json(self) -> dict[str, Json]:
        """Its numbers as plain data, without points and instructions."""
        names = ("time", "trials", "legs", "steps", "promotions")
        found = {name: getattr(self, name) for name in names}
        return {"goal": dataclasses.asdict(self.goal), **found, "best": self.best and self.best.to_json()}

    def __str__(self) -> str:
        best = (
            "" if self.best is None else f"; best {self.goal.metric} {self.best.value:.6g} by trial {self.best.trial}"
        )
        return f"{self.trials} trials, {self.promotions} promotions, {self.steps} steps in {self.time:g} s{best}"


def simulate(
    search: Search, curve: Curve, slots: int = 1, step_time: float | Callable[[Configuration], float] = 1.0
) -> Simulation:
    """Run a fresh ``search`` to its end on ``slots`` slots.

    A trial ends by itself where its recorded curve ends. step_time: virtual seconds of one step, or a function of the
    configuration.
    """
    if slots < 1:
        raise ValueError(f"{slots} slots given: a search on none never ends. Give 1 or more.")
    return _Simulator(search, curve, step_time).run(slots)


class _Leg:
    """A leg on the virtual clock."""

    def __init__(self, run: Run, began: float, pace: float) -> None:
        self.run = run
        self.began = began
        self.pace = pace
        #: Its last step that was told to the search.
        self.done = run.start

    def time(self, step: int) -> float:
        """When the step is done."""
        return self.began + (step - self.run.start) * self.pace


class _Simulator:
    def __init__(self, search: Search, curve: Curve, step_time: float | Callable[[Configuration], float]) -> None:
        self._search = search
        self._curve = curve
        self._step_time = step_time
        self._clock = 0.0
        #: Future facts: time, a number that orders equal times, the fact, and its leg.
        self._events: list[tuple[float, int, Reached | Ended, _Leg]] = []
        self._numbers = itertools.count()
        self._legs: list[_Leg] = []
        #: The newest leg of each trial. Facts of older legs no longer happen.
        self._current: dict[int, _Leg] = {}

    def run(self, slots: int) -> Simulation:
        instructions: list[Instruction] = []
        facts: list[Fact] = [CapacityChanged(slots)]
        while not self._search.done:
            given = self._search.handle(*facts)
            instructions += given
            facts = [fact for instruction in given for fact in self._carry_out(instruction)]
            if not facts and not self._search.done:
                facts = [self._happen()]
        points = [
            Point(leg.time(step), leg.run.trial, step, self._value(leg.run.trial, step))
            for leg in self._legs
            for step in range(leg.run.start + 1, leg.done + 1)
        ]
        return Simulation(
            goal=self._search.goal,
            time=self._clock,
            trials=len(self._search.trials),
            legs=len(self._legs),
            steps=len(points),
            promotions=sum(leg.run.start > 0 for leg in self._legs),
            best=self._search.best,
            points=tuple(sorted(points, key=lambda point: (point.time, point.trial))),
            instructions=tuple(instructions),
        )

    def _carry_out(self, instruction: Instruction) -> list[Fact]:
        if isinstance(instruction, Run):
            self._begin(instruction)
        elif isinstance(instruction, Stop):
            # It leaves in the turn in which it told its level.
            del self._current[instruction.trial]
            return [Left(instruction.trial)]
        return []

    def _begin(self, run: Run) -> None:
        pace = self._step_time
        leg = _Leg(run, self._clock, pace(self._search.configuration(run.trial)) if callable(pace) else pace)
        self._legs.append(leg)
        self._current[run.trial] = leg
        levels = self._search.levels(run.trial)
        # A function has a value for every step; a recorded curve ends somewhere.
        length = levels[-1] if callable(self._curve) else min(len(self._curve[run.trial]), levels[-1])
        end = min(run.until, length)
        steps = {level for level in levels if run.start < level <= end} | ({end} if end == length else set())
        for step in sorted(steps):
            kind = Ended if step == length else Reached
            fact = kind(run.trial, step, self._value(run.trial, step) if step else None)
            heappush(self._events, (leg.time(step), next(self._numbers), fact, leg))

    def _happen(self) -> Fact:
        """Advance the clock to the next fact, and return that fact."""
        while True:
            self._clock, _, fact, leg = heappop(self._events)
            if self._current.get(fact.trial) is leg:
                leg.done = max(leg.done, fact.step)
                return fact

    def _value(self, trial: int, step: int) -> float:
        curve = self._curve
        return curve(self._search.configuration(trial), step) if callable(curve) else curve[trial][step - 1]
