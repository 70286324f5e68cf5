"""A search made longer: what was decided stays, and what comes is as though it had been so from the beginning."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from search_world import GOAL, GROUPED, SCHEDULERS, SYNCHRONOUS, World, noise, search

from workbench.errors import BadOption
from workbench.facts import (
    CapacityChanged,
    Ended,
    Extended,
    Finish,
    Reached,
    Run,
    Settle,
    StopAsked,
    fact_from_line,
    to_line,
)
from workbench.records import Scheduler, Searcher
from workbench.search import Search
from workbench.space import Space, choice, uniform

quick = settings(max_examples=25 if settings().derandomize else 400)
every = pytest.mark.parametrize("name", [*SCHEDULERS, *GROUPED])
synchronous = pytest.mark.parametrize("name", SYNCHRONOUS)
seeds = st.integers(0, 10_000)
slots = st.sampled_from([1, 2, 3, 7])
extensions = st.sampled_from(
    [
        Extended("more", trials=5),
        Extended("more", trials=23),
        Extended("higher", last=30),
        Extended("higher", last=81),
        Extended("both", trials=7, last=40),
    ]
)


def go_on(world: World, fact: Extended) -> World:
    """Extend the search, and let the world run to the next end."""
    ends = sum(isinstance(i, Finish) for i in world.instructions)
    world.tell(fact)
    for _ in range(20_000):
        if world.search.done:
            break
        world.turn()
    assert world.search.done, "the search never finished"
    assert sum(isinstance(i, Finish) for i in world.instructions) == ends + 1
    assert not world.legs
    assert all(state in ("completed", "stopped", "failed") for state in world.state.values())
    assert {n: v.state for n, v in world.search.trials.items()} == world.state
    for kind in ("completed", "stopped", "failed"):
        count = sum(state == kind for state in world.state.values())
        assert (f" {count} {kind}" in world.instructions[-1].reason) == bool(count)
    return world


def fails(rate: float, salt: int):
    return lambda trial, step: noise(trial * 31 + salt, step) < rate


@every
@quick
@given(seed=seeds, slots=slots, fact=extensions, rate=st.sampled_from([0.0, 0.2]), losses=st.sampled_from([0.0, 0.3]))
def test_an_ended_search_goes_on_and_ends_again(name, seed, slots, fact, rate, losses):
    world = World(search(name), slots, seed, fails=fails(rate, seed), breaks=fails(rate / 2, seed + 1), losses=losses)
    world.unsettled = losses / 5
    go_on(world.run(), fact)
    assert world.search.plan.scheduler.last == (fact.last or world.search.plan.scheduler.last)
    if rate == 0.0:
        assert len(world.search.trials) == world.search.plan.trials
    if fact.last and rate == 0.0:
        best = max(view.step for view in world.search.trials.values())
        assert best == fact.last


@every
@quick
@given(seed=seeds, slots=slots, first=extensions, second=extensions)
def test_it_may_be_extended_again_and_again(name, seed, slots, first, second):
    world = World(search(name), slots, seed, losses=0.1).run()
    go_on(world, first)
    last = world.search.plan.scheduler.last
    go_on(world, Extended("again", trials=second.trials, last=last + 5 if second.last else None))


@every
@quick
@given(seed=seeds, slots=slots, fact=extensions, at=st.integers(1, 60))
def test_a_running_search_can_be_extended_at_any_moment(name, seed, slots, fact, at):
    world = World(search(name), slots, seed, losses=0.1, unsettled=0.05)
    world.tell(CapacityChanged(slots))
    for turn in range(20_000):
        if turn == at:
            world.tell(fact)
        if world.search.done and turn > at:
            break
        world.turn()
    assert world.search.done
    assert all(state in ("completed", "stopped", "failed") for state in world.state.values())
    assert len(world.search.trials) == world.search.plan.trials


@every
@quick
@given(seed=seeds, slots=slots, fact=extensions, at=st.integers(1, 40), losses=st.sampled_from([0.0, 0.2]))
def test_a_stopped_search_goes_on_where_it_was(name, seed, slots, fact, at, losses):
    world = World(search(name), slots, seed, losses=losses, unsettled=losses / 5, stops={at: None}).run()
    asked = any(isinstance(one, StopAsked) for one in world.facts)
    world.stops = {}
    go_on(world, fact)
    if asked and losses == 0.0:
        # No trial is left out: the extended search has all the trials of its plan.
        assert len(world.search.trials) == world.search.plan.trials


@synchronous
@quick
@given(seed=seeds, slots=slots, at=st.integers(1, 40))
def test_stopped_and_gone_on_decides_what_undisturbed_decides(name, seed, slots, at):
    calm = World(search(name), 1, 0).run()
    world = World(search(name), slots, seed, stops={at: None}).run()
    if not any(isinstance(one, StopAsked) for one in world.facts):
        return
    world.stops = {}
    go_on(world, Extended("more time", seconds=60.0))
    short = {n: outcome[:5] for n, outcome in world.outcome.items()}
    assert short == {n: outcome[:5] for n, outcome in calm.outcome.items()}


def leaves_and_goes_on(name: str, seed: int, slots: int, at: int, turns: int, fact: Extended, losses: float) -> World:
    """Stopped as a whole after ``at`` facts, and made longer ``turns`` later, while legs may still be leaving."""
    world = World(search(name), slots, seed, losses=losses, stops={at: None})
    world.tell(CapacityChanged(slots))
    while not world.search.done and len(world.facts) <= at + turns:
        world.turn()
    world.stops = {}
    world.tell(fact)
    for _ in range(20_000):
        if world.search.done:
            break
        world.turn()
    assert world.search.done, "the search never finished"
    return world


@every
@quick
@given(
    seed=seeds,
    slots=slots,
    fact=extensions,
    at=st.integers(1, 40),
    turns=st.integers(0, 6),
    losses=st.sampled_from([0.0, 0.2]),
)
def test_who_is_still_leaving_when_the_search_is_extended_goes_on(name, seed, slots, fact, at, turns, losses):
    world = leaves_and_goes_on(name, seed, slots, at, turns, fact, losses)
    assert not world.legs
    assert all(state in ("completed", "stopped", "failed") for state in world.state.values())
    assert {n: v.state for n, v in world.search.trials.items()} == world.state
    assert len(world.search.trials) == world.search.plan.trials
    facts = [fact_from_line(json.loads(json.dumps(to_line(one)))) for one in world.facts]
    recovered = search(name)
    assert recovered.handle(*facts[:at]) + recovered.handle(*facts[at:]) == world.instructions


@synchronous
@quick
@given(seed=seeds, slots=slots, at=st.integers(1, 40), turns=st.integers(0, 6))
def test_extended_while_it_leaves_decides_what_undisturbed_decides(name, seed, slots, at, turns):
    fact = Extended("more time", seconds=60.0)
    world = leaves_and_goes_on(name, seed, slots, at, turns, fact, 0.0)
    calm = World(search(name), 1, 0).run()
    assert {n: o[:5] for n, o in world.outcome.items()} == {n: o[:5] for n, o in calm.outcome.items()}


@synchronous
@quick
@given(seed=seeds, slots=slots, fact=extensions, rate=st.sampled_from([0.0, 0.2]))
def test_order_and_capacity_change_no_decision_of_an_extended_search(name, seed, slots, fact, rate):
    def world(slots, seed, losses):
        bad, early = fails(rate, 1), fails(rate / 2, 2)
        return go_on(World(search(name), slots, seed, fails=bad, breaks=early, losses=losses).run(), fact)

    calm, wild = world(1, 0, 0.0), world(slots, seed, 0.4)
    assert wild.outcome == calm.outcome
    assert wild.instructions[-1] == calm.instructions[-1]


@every
@quick
@given(seed=seeds, slots=slots, fact=extensions, stop=st.sampled_from([None, 12]))
def test_reading_the_journal_again_gives_the_same(name, seed, slots, fact, stop):
    world = World(search(name), slots, seed, losses=0.2, stops={stop: None} if stop else {}).run()
    world.stops = {}
    go_on(world, fact)
    facts = [fact_from_line(json.loads(json.dumps(to_line(one)))) for one in world.facts]
    for half in (len(facts) // 2, len(facts) * 3 // 4):
        recovered = search(name)
        assert recovered.handle(*facts[:half]) + recovered.handle(*facts[half:]) == world.instructions
        assert recovered.trials[0] == world.search.trials[0]


def test_more_rounds_of_hyperband_are_as_though_they_had_been_asked_for_at_first():
    scheduler = SCHEDULERS["hyperband"]
    at_once = World(search(scheduler, trials=34), 3, 1).run()
    later = go_on(World(search(scheduler), 3, 2).run(), Extended("a round", trials=17))
    assert {n: o[:5] for n, o in later.outcome.items()} == {n: o[:5] for n, o in at_once.outcome.items()}
    assert later.search.plan == at_once.search.plan


def test_more_trials_of_a_plain_search_are_the_next_ones():
    at_once = World(search("all", trials=25), 3, 1).run()
    later = go_on(World(search("all", trials=5), 3, 2).run(), Extended("more", trials=20))
    assert {n: o[:5] for n, o in later.outcome.items()} == {n: o[:5] for n, o in at_once.outcome.items()}


def test_higher_rungs_take_the_best_of_each_bracket_by_eta():
    world = World(search(Scheduler("hyperband", 1, 9, 3)), 3, 0).run()
    before = {n: view.value for n, view in world.search.trials.items() if view.step == 9}
    kept = {n: view.state for n, view in world.search.trials.items() if view.step < 9}
    mark = len(world.instructions)
    go_on(world, Extended("higher", last=27))
    runs = [i for i in world.instructions[mark:] if isinstance(i, Run)]
    # Brackets ended with 1, 1 and 3 trials: one of each goes on, the best.
    assert [(run.start, run.until) for run in runs] == [(9, 27)] * 3
    last = [n for n in before if world.search.bracket(n) == 0]
    assert max(last, key=lambda n: (before[n], -n)) in {run.trial for run in runs}
    assert {n: world.search.trials[n].state for n in kept} == kept
    assert sum(view.state == "completed" for view in world.search.trials.values()) == len(before)


def test_asha_lets_a_trial_that_waited_at_the_end_go_on_when_more_come():
    # Two of three trials are better than all that come: with nine at the rung, they are among the best third.
    values = {0: 0.9, 1: 0.8, 2: 0.1}
    world = World(
        search(Scheduler("asha", 1, 9, 3), trials=3), 1, 0, value=lambda t, s: values.get(t, 0.2 + t / 100)
    ).run()
    assert world.search.trials[1].state == "stopped"
    go_on(world, Extended("more", trials=6))
    assert world.search.trials[1].step == 3
    resumed = [i for i in world.instructions if isinstance(i, Run) and i.trial == 1]
    assert [(run.start, run.until) for run in resumed] == [(0, 1), (1, 3)]
    assert any(isinstance(i, Settle) and (i.trial, i.state) == (1, "paused") for i in world.instructions)


def test_who_was_stopped_by_a_person_stays_stopped():
    world = World(search("asha-promote"), 2, 0, stops={6: 0}).run()
    go_on(world, Extended("more", trials=20, last=30))
    assert world.search.trials[0].state == "stopped"


def test_a_leg_that_was_told_it_ends_goes_on_nevertheless():
    one = search("all", trials=1)
    one.handle(CapacityChanged(1))
    one.handle(Extended("higher", last=30))
    told = one.handle(Reached(0, 3, 0.5), fact_from_line({"kind": "Ended", "trial": 0, "step": 9, "value": 0.7}))
    assert [(i.start, i.until) for i in told if isinstance(i, Run)] == [(9, 30)]


@pytest.mark.parametrize(
    ("fact", "words"),
    [
        (Extended("less", last=9), "takes 9 steps already; expected more"),
        (Extended("less", last=3), "takes 9 steps already"),
        (Extended("none", trials=-1), "a whole number of 1 or more"),
    ],
)
def test_what_is_no_extension_is_refused(fact, words):
    with pytest.raises(BadOption, match=words):
        search("hyperband").extension(fact)


def test_a_grid_has_no_more_points_than_it_has():
    space = Space({"a": choice(1, 2, 3), "b": choice(1, 2)})
    grid = Search(GOAL, space, Scheduler("all", 1, 9), Searcher("grid"), trials=4)
    assert grid.extension(Extended("more", trials=10)).trials == 6
    grid = Search(GOAL, space, Scheduler("all", 1, 9), Searcher("grid"))
    with pytest.raises(BadOption, match="the grid has 6 points, and all of them are in the search"):
        grid.extension(Extended("more", trials=1))


def ended_early(seeds: int) -> Search:
    """A search whose first configuration ended by itself at step 12 with 0.95; the others took all 27 steps."""
    one = Search(GOAL, Space({"x": uniform(0, 1)}), Scheduler("all", 27, 27), trials=2, seeds=seeds)
    one.handle(CapacityChanged(2 * seeds))
    first, others = range(seeds), range(seeds, 2 * seeds)
    one.handle(*(Ended(trial, 12, 0.95) for trial in first), *(Ended(trial, 27, 0.9) for trial in others))
    return one


@pytest.mark.parametrize("seeds", [1, 2])
def test_a_trial_whose_code_ended_by_itself_keeps_its_rank_when_others_go_on(seeds):
    one = ended_early(seeds)
    assert one.best[:2] == (0, 0.95)
    for last, value in ((81, 0.91), (243, 0.92)):
        one.handle(Extended("higher", last=last), CapacityChanged(2 * seeds))
        assert set(one.running) == set(range(seeds, 2 * seeds))
        one.handle(*(Ended(trial, last, value) for trial in one.running))
        assert one.best[:2] == (0, 0.95)
        assert one.standings.first(2 * seeds) == list(range(2 * seeds))
    one.handle(Extended("higher", last=729), CapacityChanged(2 * seeds))
    one.handle(*(Ended(trial, 729, 0.96) for trial in one.running))
    assert one.best[:2] == (seeds, 0.96)


def test_a_worse_trial_whose_code_ended_by_itself_is_not_the_best_while_the_others_go_on():
    one = search("all", trials=2)
    one.handle(CapacityChanged(2), Ended(0, 5, 0.3), Ended(1, 9, 0.9), Extended("higher", last=27), CapacityChanged(2))
    assert one.best[:2] == (1, 0.9)
    one.handle(Ended(1, 27, float("nan")))
    assert one.best[:2] == (0, 0.3)
