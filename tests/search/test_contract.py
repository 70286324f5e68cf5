"""What every scheduler owes the machine, whatever order things happen in."""

from __future__ import annotations

import json
import math
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from search_world import FOLDED, GOAL, GROUPED, SCHEDULERS, SYNCHRONOUS, World, noise, search

from workbench.facts import CapacityChanged, Finish, Run, Settle, StopAsked, fact_from_line, to_line
from workbench.records import Goal
from workbench.search import plan

quick = settings(max_examples=25 if settings().derandomize else 400)
every = pytest.mark.parametrize("name", [*SCHEDULERS, *GROUPED])
alone = pytest.mark.parametrize("name", SCHEDULERS)
synchronous = pytest.mark.parametrize("name", [*SYNCHRONOUS, "hyperband x4", "all x4"])
seeds = st.integers(0, 10_000)
slots = st.sampled_from([1, 2, 3, 7, 64])


def fails(rate: float, salt: int):
    """Which (trial, level) fail: a function of both, so that the order of arrival plays no part."""
    return lambda trial, step: noise(trial * 31 + salt, step) < rate


@every
@quick
@given(seed=seeds, slots=slots, rate=st.sampled_from([0.0, 0.1, 0.3, 1.0]), losses=st.sampled_from([0.0, 0.3]))
def test_it_always_finishes(name, seed, slots, rate, losses):
    world = World(search(name), slots, seed, fails=fails(rate, seed), losses=losses, unsettled=0.05).run()
    if rate == 1.0:
        assert world.instructions[-1].state == "failed"
    if rate == 0.0:
        assert world.instructions[-1].state == "completed"


@every
@quick
@given(seed=seeds, slots=slots, rate=st.sampled_from([0.0, 0.2]))
def test_code_that_comes_to_its_own_end_completes_its_trial(name, seed, slots, rate):
    world = World(search(name), slots, seed, fails=fails(rate, seed), breaks=fails(0.3, seed + 1), losses=0.1).run()
    if rate == 0.0:
        assert any(view.state == "completed" for view in world.search.trials.values())


@synchronous
@quick
@given(seed=seeds, slots=slots, salt=st.integers(0, 5), rate=st.sampled_from([0.0, 0.3]))
def test_order_capacity_pauses_and_lost_legs_change_no_decision(name, seed, slots, salt, rate):
    def world(slots, seed, losses, unsettled):
        bad, early = fails(rate, salt), fails(rate / 2, salt + 1)
        return World(search(name), slots, seed, fails=bad, breaks=early, losses=losses, unsettled=unsettled).run()

    calm = world(1, 0, 0.0, 0.0)
    wild = world(slots, seed, 0.4, 0.1)
    assert wild.outcome == calm.outcome
    assert wild.search.best == calm.search.best
    assert wild.instructions[-1] == calm.instructions[-1]


@pytest.mark.parametrize("name", [name for name in SCHEDULERS if name not in ("median",)])
@quick
@given(seed=seeds, slots=slots)
def test_a_monotone_transform_of_the_metric_changes_no_decision(name, seed, slots):
    def ends(goal, value):
        world = World(search(name, goal=goal), slots, seed, value=value, losses=0.1).run()
        return [(type(i), getattr(i, "trial", None), getattr(i, "state", None)) for i in world.instructions]

    plain = ends(Goal("val_acc", "max"), noise)
    assert ends(Goal("val_acc", "max"), lambda t, s: math.exp(3 * noise(t, s)) - 7) == plain
    assert ends(Goal("loss", "min"), lambda t, s: 5 - noise(t, s) ** 3) == plain


@every
@quick
@given(seed=seeds, slots=slots)
def test_the_same_facts_give_the_same_instructions_however_they_are_grouped(name, seed, slots):
    first = World(search(name), slots, seed, fails=fails(0.1, seed), losses=0.2, unsettled=0.1).run()
    lines = [json.loads(json.dumps(to_line(fact))) for fact in first.facts]
    facts = [fact_from_line(line) for line in lines]
    assert search(name).handle(*facts) == first.instructions
    again = search(name)
    half = len(facts) // 2
    instructions = again.handle(*facts[:half])
    recovered = search(name)
    assert recovered.handle(*facts[:half]) == instructions
    assert recovered.outstanding() == again.outstanding()
    assert recovered.running == again.running
    assert recovered.handle(*facts[half:]) == again.handle(*facts[half:])


@every
@quick
@given(seed=seeds)
def test_repeated_and_late_facts_lead_to_nothing(name, seed):
    world = World(search(name), 3, seed, fails=fails(0.1, seed), losses=0.1).run()
    again = search(name)
    for fact in world.facts:
        again.handle(fact)
        if isinstance(fact, CapacityChanged) or getattr(fact, "trial", None) in again.running:
            continue
        assert again.handle(fact) == []
    assert again.done
    assert again.handle(*world.facts) == []


@every
@quick
@given(seed=seeds, slots=slots)
def test_who_failed_or_was_stopped_never_runs_again(name, seed, slots):
    stops = {number: number % 11 for number in range(3, 30, 4)}
    world = World(search(name), slots, seed, fails=fails(0.2, seed), stops=stops, losses=0.1).run()
    ended = set()
    for instruction in world.instructions:
        if isinstance(instruction, Settle) and instruction.state in ("failed", "stopped", "completed"):
            ended.add(instruction.trial)
        elif isinstance(instruction, Run):
            assert instruction.trial not in ended
    asked = [f.trial for f in world.facts if isinstance(f, StopAsked) and f.trial < world.search.plan.trials]
    assert all(world.search.trials[trial].state in ("stopped", "failed", "completed") for trial in asked)


@every
@quick
@given(seed=seeds, at=st.integers(1, 25), slots=slots)
def test_a_person_stops_all_of_it(name, seed, at, slots):
    world = World(search(name), slots, seed, losses=0.1, unsettled=0.1, stops={at: None}).run()
    if any(isinstance(fact, StopAsked) for fact in world.facts):
        finish = world.instructions[-1]
        assert finish.state == "stopped"
        assert finish.reason.startswith("enough; ")
        told = world.facts.index(next(f for f in world.facts if isinstance(f, StopAsked)))
        replayed = search(name)
        replayed.handle(*world.facts[:told])
        after = replayed.handle(*world.facts[told:])
        assert not any(isinstance(instruction, Run) for instruction in after)


@every
@quick
@given(seed=seeds, slots=slots, losses=st.sampled_from([0.0, 0.3]))
def test_a_leg_starts_where_the_last_one_ended_and_ends_at_a_level(name, seed, slots, losses):
    world = World(search(name), slots, seed, losses=losses).run()
    runs: dict[int, list[Run]] = {}
    for instruction in world.instructions:
        if isinstance(instruction, Run):
            runs.setdefault(instruction.trial, []).append(instruction)
            levels = world.search.levels(instruction.trial)
            assert instruction.until in levels
            assert instruction.start in (0, *levels)
    for legs in runs.values():
        assert legs[0].start == 0
        assert all(one.start <= other.start <= one.until for one, other in pairwise(legs))
        assert all(one.until <= other.until for one, other in pairwise(legs))


@synchronous
@pytest.mark.parametrize("slots", [1, 3, 64])
def test_what_was_planned_is_what_happens(name, slots):
    world = World(search(name), slots).run()
    planned = world.search.plan
    several = {"scheduler": GROUPED[name], "space": FOLDED, "seeds": 2} if name in GROUPED else {}
    assert planned == plan(**(several or {"scheduler": SCHEDULERS[name]}))
    assert planned.exact
    runs = [i for i in world.instructions if isinstance(i, Run)]
    assert len(world.search.trials) == planned.trials
    assert len(runs) == planned.legs
    assert sum(run.until - run.start for run in runs) == planned.steps
    assert sum(run.until for run in runs) == planned.steps_retrained
    assert sum(run.start > 0 for run in runs) == planned.promotions
    assert world.search.plan.predicted == (planned.trials, planned.legs, planned.steps)


@every
def test_configurations_depend_on_seed_and_number_alone(name):
    one, other = World(search(name), 1, 0).run(), World(search(name), 5, 1).run()
    assert len(one.search.trials) == len(other.search.trials)
    assert {n: one.search.configuration(n) for n in one.search.trials} == {
        n: other.search.configuration(n) for n in sorted(other.search.trials)
    }
    assert search(name, seed=1).configuration(0) != one.search.configuration(0)


@alone
def test_the_best_is_at_the_highest_level_and_the_older_of_equals(name):
    world = World(search(name), 2, 5).run()
    number, value, _ = world.search.best
    last = max(view.step for view in world.search.trials.values())
    top = [view for view in world.search.trials.values() if view.step == last]
    assert value == max(view.value for view in top)
    assert number == min(view.number for view in top if view.value == value)


@alone
def test_values_that_are_no_numbers_rank_last(name):
    def value(trial, step):
        return math.nan if trial % 2 else noise(trial, step)

    world = World(search(name), 4, 1, value=value).run()
    assert world.search.best[0] % 2 == 0
    assert world.instructions[-1].state == "completed"
    hopeless = World(search(name), 4, 1, value=lambda trial, step: math.nan).run()
    assert hopeless.search.best is None
    assert not any(isinstance(i, Run) and i.start > 0 for i in hopeless.instructions)
    assert hopeless.instructions[-1].state == "completed"
    assert hopeless.instructions[-1].reason.endswith("; no finite val_acc")


def diverging(rate: float, salt: int):
    """Values of which some are nan or infinite from a step on: which one, trial and step decide alone."""

    def value(trial, step):
        bad = [one for one in range(1, step + 1) if noise(trial * 17 + salt, one) < rate]
        return (math.nan, math.inf, -math.inf)[(trial + bad[0]) % 3] if bad else noise(trial, step)

    return value


@alone
@quick
@given(seed=seeds, slots=slots, rate=st.sampled_from([0.05, 0.3, 0.9]), mode=st.sampled_from(["max", "min"]))
def test_a_trial_that_diverges_is_never_promoted_and_never_the_best_while_another_is_finite(
    name, seed, slots, rate, mode
):
    value = diverging(rate, seed)
    goal = Goal("val_acc", mode)
    world = World(search(name, goal=goal), slots, seed, value=value, losses=0.2, unsettled=0.05).run()
    found = world.search
    assert world.instructions[-1].state == "completed"
    told = {view.number: (view.step, view.value) for view in found.trials.values() if view.value is not None}
    if name.startswith(("asha-promote", "hyperband")):
        for instruction in world.instructions:
            if isinstance(instruction, Run) and instruction.start:
                assert math.isfinite(value(instruction.trial, instruction.start))
    sound = {trial for trial, (_, last) in told.items() if math.isfinite(last)}
    if sound:
        assert found.best[0] in sound
        highest = max(told[trial][0] for trial in sound)
        assert told[found.best[0]] == (highest, found.best.value)
        top = [last for step, last in (told[trial] for trial in sound) if step == highest]
        assert found.best[1] == (max if mode == "max" else min)(top)
    elif found.best is not None:
        assert world.instructions[-1].reason.endswith(", which diverged later")
    again = search(name, goal=goal)
    facts = [fact_from_line(json.loads(json.dumps(to_line(fact), allow_nan=False))) for fact in world.facts]
    assert again.handle(*facts) == world.instructions


@every
def test_orders_of_trials_are_unique(name):
    world = World(search(name), 4, 1).run()
    orders = [world.search.order(number) for number in world.search.trials]
    assert len(set(orders)) == len(orders)


@pytest.mark.parametrize("name", [n for n in SCHEDULERS if n not in ("all", "median")])
def test_every_reason_speaks_in_words_and_numbers(name):
    world = World(search(name), 4, 1).run()
    for instruction in world.instructions:
        if isinstance(instruction, Settle) and instruction.state == "stopped":
            assert " is rank " in instruction.reason
            assert "step " in instruction.reason
            assert GOAL.metric in instruction.reason
    assert isinstance(world.instructions[-1], Finish)
