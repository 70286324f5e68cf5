"""A world for the search core: it carries out instructions in a random order, with faults, and watches the law."""

from __future__ import annotations

import dataclasses
import hashlib
import random
from collections.abc import Callable, Mapping

from workbench.facts import (
    CapacityChanged,
    Ended,
    Extended,
    Fact,
    Failed,
    Finish,
    Instruction,
    Left,
    Lost,
    PauseAsked,
    Reached,
    Rest,
    ResumeAsked,
    RoomAsked,
    Run,
    Settle,
    Stop,
    StopAsked,
)
from workbench.records import LEGAL_TRIAL, Goal, Scheduler, Searcher
from workbench.search import Search
from workbench.space import Space, choice, uniform

SPACE = Space({"x": uniform(0, 1), "units": choice(32, 64, 128)})
GOAL = Goal("val_acc", "max")

#: One of each kind, small enough to be run hundreds of times.
SCHEDULERS = {
    "hyperband": Scheduler("hyperband", 1, 9, 3),
    "hyperband-table1": Scheduler("hyperband", 1, 9, 3, table="table1"),
    "hyperband-odd": Scheduler("hyperband", 2, 13, 2),
    "asha-promote": Scheduler("asha", 1, 9, 3),
    "asha-promote-conservative": Scheduler("asha", 1, 9, 3, brackets="conservative"),
    "asha-promote-standard": Scheduler("asha", 1, 8, 2, brackets="standard"),
    "asha-stop": Scheduler("asha", 1, 9, 3, mode="stop"),
    "asha-stop-conservative": Scheduler("asha", 1, 9, 3, mode="stop", brackets="conservative"),
    "median": Scheduler("median", 2, 9),
    "all": Scheduler("all", 1, 9),
}
#: The same, with two seeds and two folds of each configuration.
FOLDED = Space({"x": uniform(0, 1), "fold": choice(0, 1, repeat=True), "units": choice(32, 64, 128)})
GROUPED = {f"{name} x4": SCHEDULERS[name] for name in ("hyperband", "asha-promote", "asha-stop", "median", "all")}
SYNCHRONOUS = [name for name in SCHEDULERS if name.startswith("hyperband") or name == "all"]


def search(
    scheduler: Scheduler | str = "hyperband", *, goal: Goal = GOAL, seed: int = 0, trials: int | None = None
) -> Search:
    """A fresh search over a small space."""
    if scheduler in GROUPED:
        return Search(goal, FOLDED, GROUPED[scheduler], Searcher("random"), seed, trials, seeds=2)
    return Search(goal, SPACE, SCHEDULERS.get(scheduler, scheduler), Searcher("random"), seed, trials)


def noise(trial: int, step: int) -> float:
    """A value that only trial and step decide, of few digits, so that there are ties."""
    return int.from_bytes(hashlib.sha256(f"{trial}/{step}".encode()).digest()[:2], "big") % 50 / 50


@dataclasses.dataclass
class World:
    """Carries out what the search orders until it finishes.

    value: the goal's value, by trial and step. fails: whether a trial fails, by trial and level. breaks: whether the
    training code ends by itself, by trial and level. losses: the probability that a leg is lost before its next level.
    unsettled: the probability that a person pauses, resumes, changes the capacity, or makes a trial leave its slot.
    holds: the probability that a person pauses or resumes one trial, even before it has started.
    """

    search: Search
    slots: int = 3
    seed: int = 0
    value: Callable[[int, int], float] = noise
    fails: Callable[[int, int], bool] = lambda trial, step: False
    breaks: Callable[[int, int], bool] = lambda trial, step: False
    losses: float = 0.0
    unsettled: float = 0.0
    holds: float = 0.0
    stops: Mapping[int, int] = dataclasses.field(default_factory=dict)

    def __post_init__(self) -> None:
        self.rng = random.Random(self.seed)
        self.facts: list[Fact] = []
        self.instructions: list[Instruction] = []
        #: The last order that each trial was given.
        self.said: dict[int, Run | Stop] = {}
        self.state: dict[int, str] = {}
        #: Legs on the cluster: the order, the last step done, and what it becomes, once it was told to leave.
        self.legs: dict[int, tuple[Run, int, str]] = {}
        #: The last level that each leg was told when it began.
        self.length: dict[int, int] = {}
        self.promoted_from: dict[int, int] = {}
        self.paused = False
        self.capacity = 0
        #: Trials that a person has paused, and whether the search rests because of them.
        self.held: set[int] = set()
        self.resting = False

    def run(self) -> World:
        self.tell(CapacityChanged(self.slots))
        for _ in range(20_000):
            if self.search.done:
                break
            self.turn()
        assert self.search.done, "the search never finished"
        assert isinstance(self.instructions[-1], Finish)
        assert sum(isinstance(i, Finish) for i in self.instructions) == 1
        assert not self.legs
        assert all(state in ("completed", "stopped", "failed") for state in self.state.values())
        assert {n: v.state for n, v in self.search.trials.items()} == self.state
        return self

    def turn(self) -> None:
        if self.rng.random() < self.unsettled:
            room = RoomAsked(self.rng.choice([*self.legs, 0]), "for another")
            changed = CapacityChanged(self.rng.randint(1, 5))
            self.tell(self.rng.choice([PauseAsked("break"), CapacityChanged(0), changed, room]))
        if self.rng.random() < self.holds:
            number = self.rng.randrange(self.search.plan.trials)
            if number in self.held and self.rng.random() < 0.5:
                self.tell(ResumeAsked("go on", number))
            else:
                self.tell(PauseAsked("break", trial=number))
        if not self.legs:
            if self.search.done:
                return
            if self.paused:
                self.tell(ResumeAsked("go on"))
            elif self.capacity == 0:
                self.tell(CapacityChanged(self.slots))
            elif self.resting:
                assert self.held, "it rests, and no trial is paused"
                number = self.rng.choice(sorted(self.held))
                self.tell(ResumeAsked("go on", self.rng.choice([number, None])))
            else:
                raise AssertionError("deadlock: nothing runs, nothing is ordered, and the search has not finished")
            return
        number = self.rng.choice(list(self.legs))
        run, done, leaving = self.legs[number]
        level = next(step for step in self.search.levels(number) if step > done)
        if leaving and self.rng.random() < 0.7:
            self.end(number)
            self.tell(Left(number) if self.rng.random() < 0.8 else Lost(number, "its worker went away"))
        elif self.rng.random() < self.losses:
            self.end(number)
            self.tell(Lost(number, "its worker went away"))
        elif self.fails(number, level):
            self.end(number)
            self.tell(Failed(number, "ValueError"))
        elif self.breaks(number, level):
            self.end(number)
            self.tell(Ended(number, max(level - 1, 1), self.value(number, level)))
        elif level == self.length[number]:
            self.end(number)
            kind = self.rng.choice([Ended, Reached])
            self.tell(kind(number, level, self.value(number, level)))
        else:
            if level == run.until:
                self.end(number)
            else:
                self.legs[number] = (run, level, leaving)
            self.tell(Reached(number, level, self.value(number, level)))
        if len(self.facts) in self.stops and not self.search.done:
            self.tell(StopAsked(self.stops[len(self.facts)], "enough"))

    def end(self, number: int) -> None:
        del self.legs[number]

    def tell(self, fact: Fact) -> None:
        self.facts.append(fact)
        if isinstance(fact, Extended) and self.search.done:
            self.capacity, self.paused = 0, False
        if isinstance(fact, CapacityChanged):
            self.capacity = fact.slots
        elif isinstance(fact, (PauseAsked, ResumeAsked)) and fact.trial is None:
            self.paused = isinstance(fact, PauseAsked)
        if isinstance(fact, ResumeAsked):
            if fact.trial is None and self.resting:
                self.held.clear()
            self.held.discard(-1 if fact.trial is None else fact.trial)
            self.resting = False
        elif isinstance(fact, Lost) and self.state[fact.trial] == "running" and not self.is_pausing(fact.trial):
            self.move(fact.trial, "waiting")
        told = self.search.handle(fact)
        for instruction in told:
            self.instructions.append(instruction)
            if isinstance(instruction, (Run, Stop)):
                self.said[instruction.trial] = instruction
            self.carry_out(instruction)
        if isinstance(fact, PauseAsked) and fact.trial is not None and self.search.trials[fact.trial].held:
            self.held.add(fact.trial)
        self.held -= {number for number in self.held if self.state.get(number) in ("completed", "stopped", "failed")}
        self.check_held(fact, told)

    def check_held(self, fact: Fact, told: list[Instruction]) -> None:
        """All trials where a person may have paused some; otherwise those that the fact could change."""
        views = self.search.trials
        if self.held or self.search.done or isinstance(fact, (PauseAsked, ResumeAsked)):
            looked_at = set(views)
        else:
            looked_at = {one.trial for one in (fact, *told) if getattr(one, "trial", None) is not None} & set(views)
        assert {number for number in looked_at if views[number].held} == self.held

    def is_pausing(self, trial: int) -> bool:
        return isinstance(self.said[trial], Stop)

    def carry_out(self, instruction: Instruction) -> None:
        if isinstance(instruction, Run):
            assert instruction.trial not in self.legs, "two legs of one trial"
            assert len(self.legs) < self.capacity, "more legs than slots"
            assert not self.paused
            assert instruction.trial not in self.held, "a trial runs that a person has paused"
            self.resting = False
            assert 0 <= instruction.start < instruction.until
            assert instruction.reason
            self.legs[instruction.trial] = (instruction, instruction.start, "")
            self.length[instruction.trial] = self.search.levels(instruction.trial)[-1]
            self.move(instruction.trial, "running", came="paused" if instruction.start else "waiting")
        elif isinstance(instruction, Stop):
            run, done, leaving = self.legs[instruction.trial]
            assert leaving in (("", "paused") if instruction.then == "stopped" else ("",)), "told to leave twice"
            assert instruction.reason
            self.legs[instruction.trial] = (run, done, instruction.then)
            if instruction.then == "stopped":
                self.move(instruction.trial, "stopping")
        elif isinstance(instruction, Rest):
            assert not self.legs, "it rests while something trains"
            assert not self.resting
            self.resting = True
        elif isinstance(instruction, Settle):
            assert instruction.trial not in self.legs, "settled while it holds a slot"
            assert instruction.reason
            self.move(instruction.trial, instruction.state)

    def move(self, trial: int, to: str, came: str = "waiting") -> None:
        old = self.state.get(trial, "waiting")
        # A trial that goes on in the same breath was never seen paused.
        assert (old, to) in LEGAL_TRIAL or (old == "running" and (came, to) in LEGAL_TRIAL), f"{trial}: {old} -> {to}"
        self.state[trial] = to

    @property
    def outcome(self) -> dict[int, tuple[object, ...]]:
        """Every trial's end, and why: what decisions were made, whatever the order."""
        views = self.search.trials
        return {n: (v.configuration, v.bracket, v.state, v.step, v.value, v.reason) for n, v in sorted(views.items())}
