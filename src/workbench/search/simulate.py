"""A search in virtual time. Law: an event heap and a virtual clock; what it decides is the search core's alone.

Try a scheduler on a curve, or on curves recorded before, in the time it takes to decide.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush

from workbench.records import (
    CapacityChanged,
    Configuration,
    Ended,
    Fact,
    Finish,
    Goal,
    Instruction,
    Json,
    Left,
    Reached,
    Run,
    Stop,
)
from workbench.search.machine import Search

__all__ = ["Curve", "Point", "Simulation", "simulate"]

#: The goal's value of a configuration after so many steps; or recorded values by trial, step 1 first.
Curve = Callable[[Configuration, int], float] | Mapping[int, Sequence[float]]


@dataclass(frozen=True, slots=True)
class Point:
    """One step trained: when it was done (virtual seconds), by which trial, which step, and the goal there."""

    time: float
    trial: int
    step: int
    value: float


@dataclass(frozen=True, slots=True)
class Simulation:
    """What a search did. time: virtual seconds until it finished. points: every step trained, in order of time."""

    goal: Goal
    time: float
    trials: int
    legs: int
    steps: int
    promotions: int
    best: tuple[int, float] | None
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
        names = ("time", "trials", "legs", "steps", "promotions", "best")
        return {"goal": dataclasses.asdict(self.goal), **{name: getattr(self, name) for name in names}}

    def __str__(self) -> str:
        best = "" if self.best is None else f"; best {self.goal.metric} {self.best[1]:.6g} by trial {self.best[0]}"
        return f"{self.trials} trials, {self.promotions} promotions, {self.steps} steps in {self.time:g} s{best}"


def simulate(
    search: Search, curve: Curve, slots: int = 1, step_time: float | Callable[[Configuration], float] = 1.0
) -> Simulation:
    """Run a fresh ``search`` to its end on ``slots`` slots.

    A trial whose recorded curve is shorter than the search wants comes to its own end there. step_time: virtual seconds
    of one step, or a function of the configuration.
    """
    if slots < 1:
        raise ValueError(f"{slots} slots given: a search on none never ends. Give 1 or more.")
    clock = 0.0
    events: list[tuple[float, int, Fact]] = []
    #: Number of the newest order for each trial; what an older one scheduled no longer happens.
    order: dict[int, int] = {}
    expected: dict[int, list[int]] = {}
    numbers = points_made = 0
    points: list[Point] = []
    instructions: list[Instruction] = []
    length = (lambda trial: math.inf) if callable(curve) else (lambda trial: len(curve[trial]))

    def value(trial: int, step: int) -> float:
        return curve(search.configuration(trial), step) if callable(curve) else curve[trial][step - 1]

    def begin(run: Run) -> None:
        nonlocal numbers
        pace = step_time(search.configuration(run.trial)) if callable(step_time) else step_time
        end = min(run.until, length(run.trial))
        levels = search.levels(run.trial)
        steps = [level for level in levels if run.start < level <= end]
        if end < run.until and int(end) not in steps:
            steps.append(int(end))
        expected[run.trial] = []
        for step in sorted(steps):
            numbers += 1
            over = step == levels[-1] or step == length(run.trial)
            fact = (Ended if over else Reached)(run.trial, step, value(run.trial, step) if step else math.nan)
            heappush(events, (clock + (step - run.start) * pace, numbers, fact))
            expected[run.trial].append(numbers)
        legs.append((run, clock, pace))
        order[run.trial] = len(legs) - 1
        reached[len(legs) - 1] = run.start

    legs: list[tuple[Run, float, float]] = []
    reached: dict[int, int] = {}
    cancelled: set[int] = set()
    facts: list[Fact] = [CapacityChanged(slots)]
    while True:
        given = search.handle(*facts)
        instructions += given
        facts = []
        for instruction in given:
            if isinstance(instruction, Run):
                begin(instruction)
            elif isinstance(instruction, Stop):
                # It happens at the turn in which the level was told.
                cancelled.update(expected[instruction.trial])
                facts.append(Left(instruction.trial))
        if given and isinstance(given[-1], Finish):
            break
        if facts:
            continue
        while events and events[0][1] in cancelled:
            heappop(events)
        if not events:
            raise RuntimeError("The search neither finished nor ordered anything: it waits for what will not come.")
        clock, _, fact = heappop(events)
        assert isinstance(fact, (Reached, Ended))
        reached[order[fact.trial]] = fact.step
        facts = [fact]
    for at, (run, began, pace) in enumerate(legs):
        points += [
            Point(began + (step - run.start) * pace, run.trial, step, value(run.trial, step))
            for step in range(run.start + 1, reached[at] + 1)
        ]
    points.sort(key=lambda point: (point.time, point.trial))
    points_made = len(points)
    return Simulation(
        goal=search.goal,
        time=clock,
        trials=len(search.trials),
        legs=len(legs),
        steps=points_made,
        promotions=sum(run.start > 0 for run, _, _ in legs),
        best=search.best,
        points=tuple(points),
        instructions=tuple(instructions),
    )
