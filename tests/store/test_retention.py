"""The rule, by examples and by properties over real searches."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workbench.errors import BadOption
from workbench.facts import (
    CapacityChanged,
    Ended,
    Failed,
    Left,
    Lost,
    PauseAsked,
    Reached,
    ResumeAsked,
    Run,
    Stop,
    StopAsked,
    to_line,
)
from workbench.records import ENDED, Goal, Keep, Scheduler
from workbench.search import Search
from workbench.space import Space, uniform
from workbench.store.keeping.retention import History, verdict

GOAL = Goal("acc")


def past(*lines, last=9):
    history = History(GOAL, last)
    for line in lines:
        history.take(line)
    return history


def run(trial, start, until):
    return to_line(Run(trial, start, until, ""))


def settled(trial, state):
    return {"kind": "Settle", "trial": trial, "state": state, "reason": ""}


def reached(trial, step, value):
    return {"kind": "Reached", "trial": trial, "step": step, "value": value}


def saved(trial, *steps):
    return [{"kind": "Saved", "trial": trial, "attempt": 1, "step": step} for step in steps]


def stays(history, rule, there, protected=()):
    told = verdict(history, rule, there, dict(protected))
    return {trial: {step: why for step, why in steps.items() if why is not None} for trial, steps in told.items()}


def test_a_trial_that_may_go_on_keeps_what_it_goes_on_from():
    history = past(run(0, 0, 1), *saved(0, 1, 3), reached(0, 3, 0.5), settled(0, "paused"))
    assert stays(history, Keep(latest=0, best=0), {0: [1, 3], 1: []}) == {
        0: {3: "its trial may continue from it"},
        1: {},
    }


def test_what_a_runner_has_just_written_is_not_the_newest_until_the_engine_was_told():
    history = past(run(0, 0, 9), *saved(0, 3))
    assert set(stays(history, Keep(latest=0, best=0), {0: [1, 3, 5]})[0]) == {3, 5}


def test_a_completed_trial_may_go_on_when_the_search_is_made_longer():
    done = [
        run(0, 0, 9),
        *saved(0, 3, 9),
        reached(0, 9, 0.5),
        settled(0, "completed"),
        run(1, 0, 9),
        reached(1, 9, 0.9),
        settled(1, "completed"),
    ]
    rule, there = Keep(latest=0, best=0), {0: [3, 9]}
    extended = {"kind": "Extended", "reason": "", "trials": 0, "last": 27, "seconds": None}
    assert stays(past(*done), rule, there) == {0: {}}
    assert stays(past(*done, extended), rule, there) == {0: {9: "its trial may continue from it"}}
    assert stays(past(*done, extended, {"kind": "Finish", "state": "completed"}), rule, there) == {0: {}}


def ended(trial, step, value):
    return {"kind": "Ended", "trial": trial, "step": step, "value": value}


MADE_LONGER = {"kind": "Extended", "reason": "", "trials": 0, "last": 27, "seconds": None}


def test_the_best_whose_code_ended_by_itself_is_kept_when_the_search_is_made_longer():
    history = past(
        run(0, 0, 9), *saved(0, 5), ended(0, 5, 0.95), settled(0, "completed"),
        run(1, 0, 9), *saved(1, 9), ended(1, 9, 0.9), settled(1, "completed"),
        MADE_LONGER,
        run(1, 9, 27), *saved(1, 27), ended(1, 27, 0.91), settled(1, "completed"), {"kind": "Finish"},
    )  # fmt: skip
    there = {0: [5], 1: [9, 27]}
    assert stays(history, Keep(latest=0, best=0), there) == {0: {5: "best 1 of the experiment"}, 1: {}}


def test_a_leg_that_ends_where_it_was_told_has_not_ended_by_itself_though_the_search_was_made_longer():
    history = past(run(0, 0, 9), run(1, 0, 9), MADE_LONGER, ended(0, 9, 0.95), ended(1, 9, 0.9))
    assert [history.standings.level(trial) for trial in (0, 1)] == [9, 9]
    history.take(run(1, 9, 27))
    history.take(ended(1, 27, 0.91))
    assert history.best(2) == [1, 0]


def test_a_trial_that_the_search_stopped_keeps_nothing_unless_asked():
    lines = [run(0, 0, 3), *saved(0, 1, 3), reached(0, 1, 0.9), reached(0, 3, 0.5), settled(0, "stopped")]
    better = [run(1, 0, 3), *saved(1, 3), reached(1, 3, 0.8), settled(1, "stopped")]
    history = past(*lines, *better)
    assert stays(history, Keep(), {0: [1, 3]}) == {0: {}}
    asked = stays(history, Keep(stopped=1), {0: [1, 3]})
    assert asked == {0: {3: "latest 1 of its trial", 1: "best 1 of its trial"}}


def test_the_best_that_trains_no_more_stays_while_better_ones_could_still_diverge():
    lines = [run(0, 0, 3), *saved(0, 3), reached(0, 3, 0.5), settled(0, "stopped")]
    better = [run(1, 0, 3), *saved(1, 3), reached(1, 3, 0.8), run(1, 3, 9)]
    history = past(*lines, *better)
    there = {0: [3], 1: [3]}
    heir = {
        0: {3: "best 1 of the experiment where promoted ones diverge"},
        1: {3: "its trial may continue from it"},
    }
    assert stays(history, Keep(latest=0, best=0), there) == heir
    history.take(reached(1, 9, "nan"))
    history.take(settled(1, "completed"))
    assert history.best(2) == [0, 1]
    assert stays(history, Keep(latest=0, best=0), there) == {0: {3: "best 1 of the experiment"}, 1: {}}
    history = past(*lines, *better, reached(1, 9, 0.7))
    assert stays(history, Keep(latest=0, best=0), there)[0] == {}


def test_a_trial_that_a_person_stopped_keeps_what_completed_ones_keep():
    lines = [run(0, 0, 3), *saved(0, 1, 3), reached(0, 1, 0.9), reached(0, 3, 0.5)]
    asked = {"kind": "StopAsked", "trial": None, "reason": ""}
    history = past(*lines, run(1, 0, 9), reached(1, 9, 0.1), asked, settled(0, "stopped"))
    assert set(stays(history, Keep(), {0: [1, 3]})[0]) == {1, 3}
    # One that the search had stopped before stays a loser.
    history = past(*lines, settled(0, "stopped"), run(1, 0, 9), reached(1, 9, 0.1), asked)
    assert stays(history, Keep(), {0: [1, 3]}) == {0: {}}


def test_the_best_of_the_experiment_keeps_what_it_is_ranked_by_even_where_it_was_stopped():
    history = past(
        run(0, 0, 3), *saved(0, 1, 3), reached(0, 1, 0.9), reached(0, 3, 0.5), settled(0, "stopped"),
        run(1, 0, 3), *saved(1, 1, 3), reached(1, 1, 0.1), reached(1, 3, 0.6), settled(1, "stopped"),
    )  # fmt: skip
    assert stays(history, Keep(), {0: [1, 3], 1: [1, 3]}) == {0: {}, 1: {3: "best 1 of the experiment"}}
    assert set(stays(history, Keep(experiment=2), {0: [1, 3], 1: [1, 3]})[0]) == {3}


def test_what_is_pinned_descended_from_or_compared_stays_whatever_the_rule():
    due = {"kind": "VerifyDue", "trial": 0, "start": 0, "until": 3, "resumed": 1}
    lines = [
        run(0, 0, 9),
        *saved(0, 1, 3, 9),
        reached(0, 9, 0.5),
        settled(0, "stopped"),
        run(1, 0, 9),
        reached(1, 9, 1.0),
    ]
    there = {0: [1, 3, 9]}
    assert set(stays(past(*lines, due), Keep(), there)[0]) == {1, 3}
    assert stays(past(*lines, due, {"kind": "Verified", "trial": 0}), Keep(), there) == {0: {}}
    assert stays(past(*lines), Keep(), there, {(0, 3): "it is pinned"}) == {0: {3: "it is pinned"}}
    assert set(stays(past(*lines), Keep(), there, {(0, None): "it is pinned"})[0]) == {1, 3, 9}
    assert set(stays(past(*lines), Keep(), there, {(None, None): "it is pinned"})[0]) == {1, 3, 9}


def test_values_that_are_no_numbers_are_nobodys_best():
    history = past(
        run(0, 0, 9), *saved(0, 1, 3), reached(0, 1, 0.2), reached(0, 3, float("nan")), settled(0, "completed")
    )
    assert stays(history, Keep(latest=0), {0: [1, 3]})[0] == {1: "best 1 of its trial"}


def test_a_checkpoint_between_levels_is_best_by_what_was_told_with_it():
    told = [{**line, "value": value} for line, value in zip(saved(0, 4, 9), (0.9, 0.5), strict=True)]
    history = past(run(0, 0, 9), *told, reached(0, 9, 0.5), settled(0, "completed"))
    assert set(stays(history, Keep(), {0: [4, 9]})[0]) == {4, 9}


@pytest.mark.parametrize(
    "text", ["", "best", "best=x", "worst=1", "best=-1", "experiment=0", "stopped=2", "best=1;latest=1"]
)
def test_a_rule_that_is_none_is_refused_with_an_example(text):
    with pytest.raises(BadOption, match="experiment=1,best=1,latest=1"):
        Keep.of(text)


def test_a_rule_is_written_as_it_is_said():
    assert Keep.of("best=2, latest=0") == Keep(best=2, latest=0)
    assert Keep.of("latest=3", Keep(best=7)) == Keep(best=7, latest=3)
    assert Keep.of(str(Keep(2, 3, 4, 1))) == Keep(2, 3, 4, 1)
    assert str(Keep.of("all")) == "all"


# ---------------------------------------------------------------------------------------------------------------------
# Whatever the order of events and of changed rules


class World:
    """A search whose legs end in any order, with a disk that only the rule empties."""

    def __init__(self, seed: int, scheduler: Scheduler, slots: int, seeds: int = 1) -> None:
        self.random = random.Random(seed)
        self.search = Search(GOAL, Space({"x": uniform(0, 1)}), scheduler, seed=seed, trials=12 // seeds, seeds=seeds)
        self.last = scheduler.last
        self.history = History(GOAL, scheduler.last, seeds)
        self.disk: dict[int, set[int]] = {}
        self.legs: dict[int, Run] = {}
        self.stopping: dict[int, Stop] = {}
        self.pins: dict[tuple[int | None, int | None], str] = {}
        self.rule = Keep()
        self.tell(CapacityChanged(slots))

    def tell(self, fact) -> None:
        self.history.take(to_line(fact))
        for instruction in self.search.handle(fact):
            self.history.take(to_line(instruction))
            if isinstance(instruction, Run):
                # A trial that continues finds the newest checkpoint that it may start from, as far as the engine knows.
                trial = instruction.trial
                known = self.history.trials[trial].known
                if instruction.start:
                    assert max(instruction.start, min(known, instruction.until)) in self.disk[trial], instruction
                self.legs[instruction.trial] = instruction
            elif isinstance(instruction, Stop):
                self.stopping[instruction.trial] = instruction

    def save(self, trial: int, step: int) -> None:
        self.disk.setdefault(trial, set()).add(step)
        self.history.take({"kind": "Saved", "trial": trial, "attempt": 1, "step": step})

    def turn(self) -> None:
        if not self.legs:
            self.tell(ResumeAsked(""))
            return
        trial = self.random.choice(sorted(self.legs))
        leg, stop = self.legs[trial], self.stopping.pop(trial, None)
        if stop is not None:
            if stop.then == "paused" and leg.until - leg.start > 1:
                self.save(trial, leg.start + 1)
            del self.legs[trial]
            self.tell(Left(trial))
            return
        what = self.random.random()
        if what < 0.1:
            if what < 0.05 and leg.until - leg.start > 1:
                self.save(trial, leg.start + 1)  # it was lost after a checkpoint of its own
            del self.legs[trial]
            self.tell(Lost(trial, ""))
        elif what < 0.15:
            del self.legs[trial]
            self.tell(Failed(trial, ""))
        else:
            value = self.random.choice([0.1, 0.2, 0.3, 0.4, 0.5, float("nan")])
            step = min(level for level in self.search.levels(trial) if level > self.step_of(trial, leg))
            self.save(trial, step)
            if step == leg.until:
                del self.legs[trial]
            self.tell(Ended(trial, step, value) if step == self.last else Reached(trial, step, value))

    def step_of(self, trial: int, leg: Run) -> int:
        return max(leg.start, self.search.trials[trial].step)

    def clean(self) -> None:
        told = verdict(self.history, self.rule, self.disk, self.pins)
        for trial, steps in told.items():
            gone = {step for step, why in steps.items() if why is None}
            view = self.search.trials[trial]
            if view.state not in ENDED and self.disk[trial]:
                assert max(self.disk[trial]) not in gone
            assert not gone & {step for key, step in self.pins if key == trial}
            self.disk[trial] -= gone
        best = self.search.best
        if best is not None:
            assert self.disk[best[0]], "the best trial can be loaded"

    def pin(self) -> None:
        there = [(trial, step) for trial, steps in self.disk.items() for step in steps]
        if there:
            self.pins[self.random.choice(there)] = "it is pinned"


RULES = st.builds(Keep, st.integers(1, 3), st.integers(0, 2), st.integers(0, 2), st.integers(0, 1))
SCHEDULERS = st.sampled_from(
    [
        Scheduler("hyperband", 1, 9, 3),
        Scheduler("asha", 1, 9, 3),
        Scheduler("asha", 1, 9, 3, mode="stop"),
        Scheduler("median", 1, 9),
        Scheduler("all", 1, 9),
    ]
)
EVENTS = st.lists(
    st.one_of(
        st.just("turn"), st.just("turn"), st.just("turn"), st.just("clean"), RULES, st.just("pin"),
        st.sampled_from(["pause", "resume", "stop one"]), st.integers(1, 6),
    ),
    max_size=120,
)  # fmt: skip


@given(st.integers(0, 1000), SCHEDULERS, st.integers(1, 5), RULES, EVENTS, st.sampled_from([1, 3]))
def test_whatever_happens_nothing_that_goes_on_misses_its_checkpoint(seed, scheduler, slots, rule, events, seeds):
    world = World(seed, scheduler, slots, seeds)
    world.rule = rule
    for event in events:
        if world.search.done:
            break
        if event == "turn":
            world.turn()
        elif event == "pin":
            world.pin()
        elif event == "pause":
            world.tell(PauseAsked(""))
        elif event == "resume":
            world.tell(ResumeAsked(""))
        elif event == "stop one":
            world.tell(StopAsked(world.random.randrange(12), ""))
        elif isinstance(event, Keep):
            world.rule = event
        elif isinstance(event, int):
            world.tell(CapacityChanged(event))
        world.clean()
        best = world.search.best
        assert world.history.best(1) == ([] if best is None else [best.trial])
    while not world.search.done:
        world.turn()
        world.clean()
    kept = sum(map(len, world.disk.values()))
    world.rule = replace(world.rule, experiment=1, best=0, latest=0)
    world.pins.clear()
    world.clean()
    assert sum(map(len, world.disk.values())) <= min(kept, 1)


@given(st.integers(0, 1000), SCHEDULERS, RULES)
def test_reading_the_journal_again_gives_the_same_verdict(seed, scheduler, rule):
    world = World(seed, scheduler, 3)
    lines = []
    take = world.history.take
    world.history.take = lambda line: (lines.append(line), take(line))[1]  # type: ignore[method-assign]
    first = {**to_line(CapacityChanged(3))}
    for _ in range(40):
        if not world.search.done:
            world.turn()
    again = World(seed, scheduler, 3).history
    again.take(first)
    for line in lines:
        again.take(line)
    there = {trial: sorted(steps) for trial, steps in world.disk.items()}
    assert verdict(again, rule, there, {}) == verdict(world.history, rule, there, {})
