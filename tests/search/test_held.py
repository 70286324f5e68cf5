"""Single trials that a person pauses, stops and resumes. The search core by example, and by what always holds."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from search_world import GROUPED, SCHEDULERS, SYNCHRONOUS, World, search

from workbench.facts import (
    CapacityChanged,
    Finish,
    Left,
    Lost,
    PauseAsked,
    Reached,
    Rest,
    ResumeAsked,
    Run,
    Settle,
    Stop,
    StopAsked,
    fact_from_line,
    instruction_from_line,
    to_line,
)
from workbench.records import Scheduler
from workbench.search.life import Life

every = pytest.mark.parametrize("name", [*SCHEDULERS, *GROUPED])
quick = settings(max_examples=15, deadline=None)
seeds, slots = st.integers(0, 10_000), st.integers(1, 6)


@pytest.fixture
def hyperband():
    """Hyperband of one bracket: 3 trials at step 1, the best of them goes on to 3."""
    return search(Scheduler("hyperband", 1, 3, 3), trials=3)


def runs(instructions):
    return [(i.trial, i.start, i.until) for i in instructions if isinstance(i, Run)]


def test_a_paused_trial_leaves_its_slot_to_others_and_its_rung_waits_for_it(hyperband):
    hyperband.handle(CapacityChanged(1))
    assert hyperband.handle(PauseAsked("break", trial=0)) == [Stop(0, "break", then="paused")]
    told = hyperband.handle(Left(0))
    assert told[0] == Settle(0, "paused", "break")
    assert runs(told) == [(1, 0, 1)]
    assert hyperband.trials[0].held
    hyperband.handle(Reached(1, 1, 0.5))
    told = hyperband.handle(Reached(2, 1, 0.6))
    assert told == [
        Settle(2, "paused", "bracket 1, rung 0 at step 1: val_acc 0.6; waits for 1 more of 3"),
        Rest("t0000 is paused, and nothing else is left to train; resume it to continue"),
    ]
    assert runs(hyperband.handle(ResumeAsked("go on", trial=0))) == [(0, 0, 1)]
    # The rung is decided as if it had never been paused.
    assert runs(hyperband.handle(Reached(0, 1, 0.9))) == [(0, 1, 3)]


def test_a_trial_that_is_paused_at_its_rung_is_promoted_and_runs_when_it_is_resumed(hyperband):
    hyperband.handle(CapacityChanged(2), Reached(0, 1, 0.9), PauseAsked("break", trial=0), Reached(1, 1, 0.5))
    told = hyperband.handle(Reached(2, 1, 0.6))
    assert runs(told) == []
    assert isinstance(told[-1], Rest)
    assert [(t.state, t.held) for t in hyperband.trials.values()] == [("paused", True), *[("stopped", False)] * 2]
    assert runs(hyperband.handle(ResumeAsked("go on", trial=0))) == [(0, 1, 3)]
    assert isinstance(hyperband.handle(Reached(0, 3, 0.95))[-1], Finish)


def test_a_paused_trial_that_the_rung_leaves_behind_is_stopped(hyperband):
    hyperband.handle(CapacityChanged(2), Reached(0, 1, 0.1), PauseAsked("break", trial=0), Reached(1, 1, 0.5))
    assert runs(hyperband.handle(Reached(2, 1, 0.6))) == [(2, 1, 3)]
    assert (hyperband.trials[0].state, hyperband.trials[0].held) == ("stopped", False)
    assert hyperband.handle(ResumeAsked("go on", trial=0)) == []  # the search stopped it, not a person


def test_a_trial_is_paused_before_it_has_begun_and_its_place_stays_taken(hyperband):
    assert hyperband.handle(PauseAsked("later", trial=1)) == [Settle(1, "paused", "later")]
    assert runs(hyperband.handle(CapacityChanged(3))) == [(0, 0, 1), (2, 0, 1)]
    assert runs(hyperband.handle(ResumeAsked("now", trial=1))) == [(1, 0, 1)]
    assert hyperband.handle(PauseAsked("no such trial", trial=99)) == []


def test_the_search_is_resumed_as_a_whole_and_paused_trials_stay_paused_while_others_train(hyperband):
    hyperband.handle(CapacityChanged(2), PauseAsked("break", trial=0), Left(0))
    hyperband.handle(PauseAsked("all of it"), Left(1), Left(2))
    assert runs(hyperband.handle(ResumeAsked("go on"))) == [(1, 0, 1), (2, 0, 1)]
    hyperband.handle(Reached(1, 1, 0.5), Reached(2, 1, 0.6))
    # Nothing but the paused trial is left: this is what a person resumes now.
    assert runs(hyperband.handle(ResumeAsked("go on"))) == [(0, 0, 1)]


def test_a_lost_leg_of_a_trial_that_was_told_to_pause_waits_for_the_person_too(hyperband):
    hyperband.handle(CapacityChanged(1), PauseAsked("break", trial=0), Lost(0, "its worker went away"))
    assert runs(hyperband.handle(ResumeAsked("go on", trial=0), Reached(1, 1, 0.5))) == [(0, 0, 1)]


def test_a_trial_that_a_person_stopped_trains_to_its_end_when_it_is_resumed(hyperband):
    hyperband.handle(CapacityChanged(1), StopAsked(0, "enough"), Left(0))
    assert hyperband.trials[0].asked
    told = hyperband.handle(ResumeAsked("go on after all", trial=0))
    assert told == [Settle(0, "paused", "go on after all")]
    assert not hyperband.trials[0].asked
    # It goes before new places, and is not compared: the two others decide.
    assert runs(hyperband.handle(Reached(1, 1, 0.5))) == [(0, 0, 3)]
    hyperband.handle(Reached(0, 1, 0.99))
    told = hyperband.handle(Reached(0, 3, 0.99))
    assert Settle(0, "completed", "all 3 steps: val_acc 0.99") in told
    assert runs(told) == [(2, 0, 1)]
    assert runs(hyperband.handle(Reached(2, 1, 0.6))) == [(2, 1, 3)]
    last = hyperband.handle(Reached(2, 3, 0.7))[-1]
    assert last == Finish("completed", "3 trials, 2 completed, 1 stopped; best val_acc 0.99 by t0000 at step 3")
    assert [entry.ranks for entry in hyperband.climb.entries(0)] == [False, False]


def test_what_the_search_stopped_or_what_has_ended_is_not_resumed(hyperband):
    hyperband.handle(CapacityChanged(3), Reached(0, 1, 0.9), Reached(1, 1, 0.5), Reached(2, 1, 0.6))
    assert [hyperband.handle(ResumeAsked("go on", trial=number)) for number in (1, 2, 99)] == [[]] * 3
    hyperband.handle(Reached(0, 3, 0.9))
    assert hyperband.done
    assert hyperband.handle(ResumeAsked("go on", trial=0), PauseAsked("break", trial=0)) == []


@every
@quick
@given(seed=seeds, slots=slots)
def test_every_search_ends_however_often_single_trials_are_paused(name, seed, slots):
    world = World(search(name), slots, seed, losses=0.1, unsettled=0.05, holds=0.3).run()
    assert not any(view.held for view in world.search.trials.values())


@pytest.mark.parametrize("name", [*SYNCHRONOUS, "hyperband x4", "all x4"])
@quick
@given(seed=seeds, slots=slots)
def test_pauses_of_single_trials_change_no_decision_of_a_synchronous_search(name, seed, slots):
    calm = World(search(name), 1, 0).run()
    paused = World(search(name), slots, seed, losses=0.1, holds=0.3).run()
    ended = {number: one[:5] for number, one in calm.outcome.items()}  # reasons may name the pause
    assert {number: one[:5] for number, one in paused.outcome.items()} == ended
    assert paused.search.best == calm.search.best
    assert paused.search.climb.brackets == calm.search.climb.brackets


@every
@quick
@given(seed=seeds, slots=slots)
def test_a_search_that_reads_its_journal_again_remembers_which_trials_are_paused(name, seed, slots):
    first = World(search(name), slots, seed, losses=0.1, unsettled=0.05, holds=0.3).run()
    facts = [fact_from_line(json.loads(json.dumps(to_line(fact)))) for fact in first.facts]
    assert search(name).handle(*facts) == first.instructions
    half = len(facts) // 2
    again, recovered = search(name), search(name)
    again.handle(*first.facts[:half])
    recovered.handle(*facts[:half])
    assert [view.held for view in recovered.trials.values()] == [view.held for view in again.trials.values()]
    assert recovered.outstanding() == again.outstanding()


@every
@quick
@given(seed=seeds, slots=slots, at=st.integers(1, 25))
def test_a_stopped_trial_that_is_resumed_changes_no_decision_about_others(name, seed, slots, at):
    world = World(search(name), slots, seed)
    world.tell(CapacityChanged(slots))
    while not world.search.done and len(world.facts) < at:
        world.turn()
    world.tell(StopAsked(0, "enough"))
    if 0 in world.legs:
        world.end(0)
        world.tell(Left(0))
    if world.search.done or not world.search.trials[0].asked:
        return
    back = ResumeAsked("after all", 0)
    world.tell(back)
    while not world.search.done:
        world.turn()
    assert world.search.trials[0].state == "completed"
    # A search that was told the same of the others, and never of the resumption, has the same rungs.
    alone = search(name)
    at = world.facts.index(back)
    alone.handle(*world.facts[:at], *(fact for fact in world.facts[at:] if getattr(fact, "trial", None) != 0))
    if name in SYNCHRONOUS:
        assert alone.climb.brackets == world.search.climb.brackets


def test_a_journal_of_before_has_pauses_of_the_whole_search_only():
    assert fact_from_line({"kind": "PauseAsked", "reason": "a break"}) == PauseAsked("a break")
    assert fact_from_line({"kind": "ResumeAsked", "reason": "go on"}) == ResumeAsked("go on")
    assert fact_from_line(to_line(PauseAsked("a break", trial=3))) == PauseAsked("a break", trial=3)
    assert instruction_from_line(to_line(Rest("t0003 is paused"))) == Rest("t0003 is paused")


def test_an_experiment_of_which_only_paused_trials_are_left_is_paused_until_one_is_resumed():
    life = Life().began("1")
    assert life.after(PauseAsked("break", trial=0), "2") == life
    rests = life.after(Rest("t0000 is paused"), "3")
    assert (rests.state, rests.reason, rests.pause) == ("paused", "t0000 is paused", "trials")
    assert rests.after(ResumeAsked("go on", trial=0), "4").state == "waiting"
    assert rests.began("4").state == "running"  # another trial can run after all
    whole = life.after(PauseAsked("all"), "3")
    assert whole.after(ResumeAsked("go on", trial=0), "4") == whole
    assert whole.after(Rest("t0000 is paused"), "4") == whole
