"""The search core by example: these facts, those instructions."""

from __future__ import annotations

import pytest
from search_world import GOAL, SPACE, search

from workbench.errors import BadOption
from workbench.facts import (
    CapacityChanged,
    Ended,
    Failed,
    Finish,
    Left,
    Lost,
    PauseAsked,
    Reached,
    ResumeAsked,
    RoomAsked,
    Run,
    Settle,
    Stop,
    StopAsked,
)
from workbench.records import Goal, Program, Scheduler, Searcher, Spec, Training
from workbench.search import Search


def orders(instructions):
    """Instructions without their reasons."""
    fields = {Run: ("trial", "start", "until"), Stop: ("trial", "then"), Settle: ("trial", "state"), Finish: ("state",)}
    return [(type(i).__name__, *(getattr(i, name) for name in fields[type(i)])) for i in instructions]


@pytest.fixture
def hyperband():
    """Hyperband of one bracket: 3 trials at step 1, the best of them goes on to 3."""
    return search(Scheduler("hyperband", 1, 3, 3), trials=3)


@pytest.fixture
def stopping():
    return search(Scheduler("asha", 1, 9, 3, mode="stop"), trials=4)


def test_places_are_given_out_as_slots_allow(hyperband):
    assert hyperband.handle(CapacityChanged(0)) == []
    assert orders(hyperband.handle(CapacityChanged(2))) == [("Run", 0, 0, 1), ("Run", 1, 0, 1)]
    assert hyperband.running == (0, 1)
    assert orders(hyperband.handle(Reached(1, 1, 0.5))) == [("Settle", 1, "paused"), ("Run", 2, 0, 1)]


def test_the_last_value_of_a_rung_decides_it(hyperband):
    hyperband.handle(CapacityChanged(1), Reached(0, 1, 0.3), Reached(1, 1, 0.9))
    assert hyperband.handle(Reached(2, 1, 0.6)) == [
        Settle(2, "stopped", "bracket 1, rung 0 at step 1: val_acc 0.6 is rank 2 of 3, 1 goes on; the cut is 0.9"),
        Settle(0, "stopped", "bracket 1, rung 0 at step 1: val_acc 0.3 is rank 3 of 3, 1 goes on; the cut is 0.9"),
        Run(1, 1, 3, "bracket 1, rung 0 at step 1: val_acc 0.9 is rank 1 of 3, 1 goes on; the cut is 0.9"),
    ]
    assert hyperband.handle() == []
    assert hyperband.handle(Ended(1, 3, 0.95)) == [
        Settle(1, "completed", "all 3 steps: val_acc 0.95"),
        Finish("completed", "3 trials, 1 completed, 2 stopped; best val_acc 0.95 by t0001 at step 3"),
    ]
    assert hyperband.done
    assert hyperband.best[:2] == (1, 0.95)


def test_a_metric_that_is_minimised_keeps_its_own_sign_in_words():
    hyperband = search(Scheduler("hyperband", 1, 3, 3), goal=Goal("loss", "min"), trials=3)
    told = hyperband.handle(CapacityChanged(1), Reached(0, 1, 0.3), Reached(1, 1, 0.9), Reached(2, 1, -0.6))
    assert told[-1] == Run(2, 1, 3, "bracket 1, rung 0 at step 1: loss -0.6 is rank 1 of 3, 1 goes on; the cut is -0.6")
    assert hyperband.best[:2] == (2, -0.6)


def test_a_lost_run_starts_again_from_its_last_level_and_before_new_places(hyperband):
    hyperband.handle(CapacityChanged(1), Reached(0, 1, 0.3), Reached(1, 1, 0.9), Reached(2, 1, 0.6))
    assert orders(hyperband.handle(Lost(1, "its worker went away"))) == [("Run", 1, 1, 3)]
    fresh = search(Scheduler("hyperband", 1, 3, 3), trials=3)
    assert orders(fresh.handle(CapacityChanged(1), Lost(0, "gone"))) == [("Run", 0, 0, 1), ("Run", 0, 0, 1)]


def test_the_reason_of_an_interrupted_trial_names_no_step(hyperband):
    """The search knows its last level only: the trial continues from a newer checkpoint, if it has one."""
    hyperband.handle(CapacityChanged(1), Reached(0, 1, 0.3), Reached(1, 1, 0.9), Reached(2, 1, 0.6))
    assert hyperband.handle(Lost(1, "its worker went away")) == [Run(1, 1, 3, "continues: its worker went away")]
    assert hyperband.trials[1].reason == "continues: its worker went away"


def test_a_lost_run_waits_while_there_is_no_slot(hyperband):
    hyperband.handle(CapacityChanged(1), CapacityChanged(0))
    assert hyperband.handle(Lost(0, "its worker went away")) == []
    assert hyperband.trials[0].state == "waiting"
    assert orders(hyperband.handle(CapacityChanged(1))) == [("Run", 0, 0, 1)]


def test_fewer_slots_stop_nobody_but_start_nobody(hyperband):
    hyperband.handle(CapacityChanged(2))
    assert hyperband.handle(CapacityChanged(1)) == []
    assert orders(hyperband.handle(Reached(0, 1, 0.5))) == [("Settle", 0, "paused")]
    assert orders(hyperband.handle(Reached(1, 1, 0.5))) == [("Settle", 1, "paused"), ("Run", 2, 0, 1)]


def test_a_failed_trial_shrinks_the_next_rung_only_where_too_few_are_left():
    hyperband = search(Scheduler("hyperband", 1, 3, 3), trials=3)
    told = hyperband.handle(CapacityChanged(3), Failed(0, "ValueError"), Failed(1, "ValueError"), Reached(2, 1, 0.1))
    assert orders(told)[3:] == [("Settle", 0, "failed"), ("Settle", 1, "failed"), ("Run", 2, 1, 3)]


def test_when_all_fail_the_search_fails(hyperband):
    told = hyperband.handle(CapacityChanged(3), *(Failed(number, "ValueError") for number in range(3)))
    assert told[-1] == Finish("failed", "3 trials, 3 failed")


def test_equal_values_go_to_the_older_trial():
    hyperband = search(Scheduler("hyperband", 1, 3, 3), trials=3)
    told = hyperband.handle(CapacityChanged(3), *(Reached(number, 1, 0.5) for number in (2, 1, 0)))
    assert orders(told)[-1] == ("Run", 0, 1, 3)


def test_other_brackets_fill_the_slots_while_a_rung_waits():
    hyperband = search(Scheduler("hyperband", 1, 9, 3))
    started = orders(hyperband.handle(CapacityChanged(12)))
    assert started == [*(("Run", n, 0, 1) for n in range(9)), *(("Run", n, 0, 3) for n in range(9, 12))]
    told = hyperband.handle(*(Reached(number, 1, number / 10) for number in range(9)))
    assert [one for one in orders(told) if one[0] == "Run"] == [
        ("Run", 12, 0, 3),
        ("Run", 13, 0, 3),
        *(("Run", n, 0, 9) for n in (14, 15, 16)),
        *(("Run", n, 1, 3) for n in (8, 7, 6)),
    ]


def test_higher_rungs_go_first():
    hyperband = search(Scheduler("hyperband", 1, 9, 3))
    hyperband.handle(CapacityChanged(1), *(Reached(number, 1, number / 10) for number in range(8)))
    assert orders(hyperband.handle(Reached(8, 1, 0.8)))[-1] == ("Run", 8, 1, 3)
    assert hyperband.order(8) < hyperband.order(9)


def test_trained_to_the_top_by_reaching_it_is_as_good_as_ending():
    one = search(Scheduler("all", 1, 9), trials=1)
    one.handle(CapacityChanged(1))
    assert orders(one.handle(Reached(0, 9, 0.5))) == [("Settle", 0, "completed"), ("Finish", "completed")]
    assert one.handle(Ended(0, 9, 0.5)) == []


def test_asha_by_stopping_keeps_the_slot_until_the_leg_has_left(stopping):
    assert orders(stopping.handle(CapacityChanged(2))) == [("Run", 0, 0, 9), ("Run", 1, 0, 9)]
    assert stopping.handle(Reached(0, 1, 0.9)) == []
    assert stopping.handle(Reached(1, 1, 0.5)) == [
        Stop(1, "bracket 2, rung 0 at step 1: val_acc 0.5 is rank 2 of 2, 1 goes on")
    ]
    assert stopping.trials[1].state == "stopping"
    assert stopping.running == (0, 1)
    assert stopping.leaving == (1,)
    assert [run.trial for run in stopping.outstanding()] == [0]
    assert orders(stopping.handle(Left(1))) == [("Settle", 1, "stopped"), ("Run", 2, 0, 9)]


def test_a_stopped_leg_that_is_lost_or_done_is_gone_too(stopping):
    stopping.handle(CapacityChanged(3), Reached(0, 1, 0.9), Reached(1, 1, 0.5), Reached(2, 1, 0.4))
    assert orders(stopping.handle(Lost(1, "its worker went away"))) == [("Settle", 1, "stopped"), ("Run", 3, 0, 9)]
    assert orders(stopping.handle(Ended(2, 9, 0.4))) == [("Settle", 2, "completed")]


def test_asha_promotes_the_best_of_eta_at_once():
    asha = search(Scheduler("asha", 1, 9, 3), trials=9)
    told = asha.handle(CapacityChanged(1), Reached(0, 1, 0.1), Reached(1, 1, 0.9), Reached(2, 1, 0.5))
    assert told[-1] == Run(
        1, 1, 3, "bracket 2, rung 0 at step 1: val_acc 0.9 is rank 1 of 3, 1 goes on; the cut is 0.9"
    )


@pytest.fixture
def crowded():
    """ASHA with six values in its lowest rung, told while there was no slot: two may go on."""
    asha = search(Scheduler("asha", 1, 9, 3), trials=9)
    asha.handle(CapacityChanged(6), CapacityChanged(0))
    asha.handle(*(Reached(number, 1, value) for number, value in enumerate([0.5, 0.1, 0.2, 0.6, 0.7, 0.8])))
    return asha


def test_asha_forgets_who_fell_behind_the_cut_before_there_was_a_slot(crowded):
    assert orders(crowded.handle(CapacityChanged(4))) == [
        ("Run", 5, 1, 3),
        ("Run", 4, 1, 3),
        ("Run", 6, 0, 1),
        ("Run", 7, 0, 1),
    ]


def test_asha_never_promotes_who_was_stopped_while_waiting_and_nobody_in_its_place(crowded):
    assert crowded.handle(StopAsked(5, "not this one")) == [Settle(5, "stopped", "not this one")]
    assert orders(crowded.handle(CapacityChanged(2))) == [("Run", 4, 1, 3), ("Run", 6, 0, 1)]


def test_asha_takes_back_who_fell_behind_when_the_cut_comes_to_it_again(crowded):
    crowded.handle(CapacityChanged(5))
    assert orders(crowded.handle(Reached(6, 1, 0.0), Reached(7, 1, 0.05)))[-1] == ("Settle", 7, "paused")
    assert orders(crowded.handle(Reached(8, 1, 0.04)))[-1] == ("Run", 3, 1, 3)


def test_asha_with_few_trials_still_trains_one_to_the_end():
    asha = search(Scheduler("asha", 1, 27, 3), trials=2)
    asha.handle(CapacityChanged(2))
    asha.handle(Reached(0, 1, 0.1))
    assert orders(asha.handle(Reached(1, 1, 0.9))) == [("Run", 1, 1, 3)]
    asha.handle(Reached(1, 3, 0.9), Reached(1, 9, 0.9))
    assert orders(asha.handle(Ended(1, 27, 0.9))) == [
        ("Settle", 1, "completed"),
        ("Settle", 0, "stopped"),
        ("Finish", "completed"),
    ]


def test_asha_shares_slots_evenly_and_the_rest_is_the_most_aggressive_brackets():
    asha = search(Scheduler("asha", 1, 64, 4, brackets="standard"), trials=100)
    runs = asha.handle(CapacityChanged(8))
    assert [asha.bracket(run.trial) for run in runs] == [3, 3, 3, 3, 2, 2, 1, 1]
    assert [asha.bracket(run.trial) for run in asha.handle(CapacityChanged(11))] == [3, 2, 1]


def test_median_stops_who_lags():
    median = search(Scheduler("median", 1, 4), trials=5)
    median.handle(CapacityChanged(4))
    for number, value in enumerate([0.5, 0.6, 0.7]):
        assert median.handle(Reached(number, 1, value)) == []
    assert median.handle(Reached(3, 1, 0.55)) == [
        Stop(3, "step 1: best val_acc 0.55 is worse than 0.6, the median of 3 others' averages up to there")
    ]


def test_median_forgives_a_trial_whose_best_is_good():
    median = search(Scheduler("median", 1, 4), trials=5)
    median.handle(CapacityChanged(4), *(Reached(number, 1, 0.5) for number in range(3)), Reached(3, 1, 0.9))
    assert median.handle(*(Reached(number, 2, 0.5) for number in range(3)), Reached(3, 2, 0.1)) == []


def test_median_holds_a_trial_against_the_others_averages():
    median = search(Scheduler("median", 1, 4), trials=5)
    median.handle(CapacityChanged(4), *(Reached(number, 1, 0.1) for number in range(3)))
    median.handle(*(Reached(number, 2, 0.9) for number in range(3)))
    assert median.handle(Reached(3, 1, 0.6), Reached(3, 2, 0.6)) == []
    told = median.handle(CapacityChanged(5), Reached(4, 1, 0.2), Reached(4, 2, 0.4))
    assert orders(told)[1:] == [("Stop", 4, "stopped")]
    assert "worse than 0.5, the median of 4 others' averages" in told[-1].reason


def test_median_stops_nobody_before_three_others_came():
    median = search(Scheduler("median", 1, 4), trials=5)
    median.handle(CapacityChanged(4), Reached(0, 1, 0.9), Reached(1, 1, 0.9))
    assert median.handle(Reached(2, 1, 0.1)) == []


def test_a_value_told_again_changes_nothing(stopping):
    stopping.handle(CapacityChanged(1), Reached(0, 3, 0.9))
    assert stopping.handle(Reached(0, 3, 0.1), Reached(0, 1, 0.1), Reached(0, 2, 0.1), Reached(0, 10, 0.1)) == []
    assert (stopping.trials[0].step, stopping.trials[0].value) == (3, 0.9)


def test_only_a_leg_that_was_told_to_leave_has_left(stopping):
    stopping.handle(CapacityChanged(1))
    assert (
        stopping.handle(Left(0), Left(3), Lost(3, "gone"), Failed(3, "no"), Ended(3, 9, 0.1), Reached(3, 1, 0.1)) == []
    )
    assert stopping.running == (0,)


def test_interrupted_legs_go_on_in_the_order_they_were_lost(hyperband):
    hyperband.handle(CapacityChanged(2), CapacityChanged(0), Lost(1, "gone"), Lost(0, "gone"))
    assert orders(hyperband.handle(CapacityChanged(3))) == [("Run", 1, 0, 1), ("Run", 0, 0, 1), ("Run", 2, 0, 1)]


def test_pausing_lets_running_legs_leave_and_resuming_lets_them_go_on(hyperband):
    hyperband.handle(CapacityChanged(2))
    assert orders(hyperband.handle(PauseAsked("lunch"))) == [("Stop", 0, "paused"), ("Stop", 1, "paused")]
    assert hyperband.handle(PauseAsked("lunch")) == []
    assert orders(hyperband.handle(Left(0))) == [("Settle", 0, "paused")]
    # It came to its rung before the order did: its value counts.
    assert orders(hyperband.handle(Reached(1, 1, 0.5))) == [("Settle", 1, "paused")]
    assert hyperband.handle(CapacityChanged(3)) == []
    assert orders(hyperband.handle(ResumeAsked("back"))) == [("Run", 0, 0, 1), ("Run", 2, 0, 1)]


def test_one_trial_makes_room_and_goes_on_before_new_ones(hyperband):
    hyperband.handle(CapacityChanged(2))
    assert orders(hyperband.handle(CapacityChanged(1), RoomAsked(1, "for another"))) == [("Stop", 1, "paused")]
    assert hyperband.handle(RoomAsked(1, "for another"), RoomAsked(7, "for another")) == []
    assert hyperband.leaving == (1,)
    assert hyperband.handle(Left(1)) == [Settle(1, "paused", "for another")]
    assert hyperband.handle(RoomAsked(1, "for another")) == []
    # Its value at the rung counts like any other, and what waits longest is continued first.
    assert orders(hyperband.handle(Reached(0, 1, 0.5))) == [("Settle", 0, "paused"), ("Run", 1, 0, 1)]
    assert orders(hyperband.handle(CapacityChanged(2))) == [("Run", 2, 0, 1)]


def test_a_trial_that_makes_room_is_stopped_like_any_other(hyperband):
    hyperband.handle(CapacityChanged(2), RoomAsked(0, "for another"))
    assert hyperband.handle(StopAsked(0, "not this one")) == [Stop(0, "not this one")]
    assert orders(hyperband.handle(Left(0))) == [("Settle", 0, "stopped"), ("Run", 2, 0, 1)]


def test_a_leg_that_is_still_leaving_after_resuming_comes_back(hyperband):
    hyperband.handle(CapacityChanged(1), PauseAsked("lunch"))
    assert hyperband.handle(ResumeAsked("back")) == []
    assert orders(hyperband.handle(Left(0))) == [("Settle", 0, "paused"), ("Run", 0, 0, 1)]


def test_a_leg_that_takes_its_time_to_pause_is_told_to_stop_all_the_same(hyperband):
    hyperband.handle(CapacityChanged(2), PauseAsked("lunch"))
    assert hyperband.handle(StopAsked(0, "not this one")) == [Stop(0, "not this one")]
    assert hyperband.handle(StopAsked(None, "enough")) == [Stop(1, "enough")]
    assert hyperband.handle(StopAsked(None, "enough"), PauseAsked("lunch")) == []
    assert orders(hyperband.handle(Left(0), Left(1)))[-1] == ("Finish", "stopped")


def test_a_person_stops_one_trial_in_any_state(hyperband):
    hyperband.handle(CapacityChanged(1), Reached(0, 1, 0.9))
    assert hyperband.handle(StopAsked(0, "not this one")) == [Settle(0, "stopped", "not this one")]
    assert hyperband.handle(StopAsked(1, "nor this")) == [Stop(1, "nor this")]
    assert hyperband.handle(StopAsked(1, "nor this")) == []
    assert hyperband.handle(StopAsked(2, "nor the last")) == [Settle(2, "stopped", "nor the last")]
    assert hyperband.handle(StopAsked(7, "no such trial")) == []
    assert hyperband.handle(Left(1)) == [
        Settle(1, "stopped", "nor this"),
        Finish("stopped", "3 trials, 3 stopped; best val_acc 0.9 by t0000 at step 1"),
    ]


def test_a_stopped_trial_is_not_promoted_and_nobody_takes_its_rank():
    hyperband = search(Scheduler("hyperband", 1, 3, 3), trials=3)
    hyperband.handle(CapacityChanged(3), Reached(0, 1, 0.9), Reached(1, 1, 0.5))
    hyperband.handle(StopAsked(0, "not this one"))
    assert orders(hyperband.handle(Reached(2, 1, 0.1))) == [("Settle", 2, "stopped"), ("Run", 1, 1, 3)]


def test_a_person_stops_all_of_it(hyperband):
    hyperband.handle(CapacityChanged(2), Reached(0, 1, 0.9))
    told = hyperband.handle(StopAsked(None, "enough"))
    assert orders(told) == [("Settle", 0, "stopped"), ("Stop", 1, "stopped"), ("Stop", 2, "stopped")]
    assert hyperband.handle(StopAsked(None, "enough")) == []
    assert orders(hyperband.handle(Left(1), Left(2))) == [
        ("Settle", 1, "stopped"),
        ("Settle", 2, "stopped"),
        ("Finish", "stopped"),
    ]


def test_a_search_that_cannot_be_trained_at_all_ends_failed(hyperband):
    hyperband.handle(CapacityChanged(1), StopAsked(None, "no environment", then="failed"))
    assert hyperband.handle(Left(0))[-1].state == "failed"


def test_code_that_ends_by_itself_keeps_its_rank_and_trains_no_more():
    hyperband = search(Scheduler("hyperband", 1, 9, 3), trials=9)
    told = hyperband.handle(CapacityChanged(9), Ended(0, 1, 0.99), *(Reached(n, 1, n / 10) for n in range(1, 9)))
    assert ("Settle", 0, "completed") in orders(told)
    assert [one[1] for one in orders(told) if one[0] == "Run"][9:] == [8, 7]
    assert "after 1 of 9 steps" in hyperband.trials[0].reason
    told = hyperband.handle(Reached(8, 3, 0.5), Reached(7, 3, 0.4))
    assert orders(told)[-1] == ("Finish", "completed")
    assert hyperband.best[:2] == (0, 0.99)


def test_one_trial_runs_to_its_end_in_one_leg():
    assert orders(search(Scheduler("hyperband", 1, 81, 3), trials=1).handle(CapacityChanged(4))) == [("Run", 0, 0, 81)]


def test_a_search_is_made_from_a_spec():
    spec = Spec(
        id="20260101T000000-abc",
        name="digits",
        version=1,
        created="2026-01-01T00:00:00Z",
        goal=GOAL,
        space=SPACE.to_json(),
        scheduler=Scheduler("hyperband", 1, 9, 3),
        searcher=Searcher(),
        program=Program("cell", "", "<cell>"),
        training=Training("python", "."),
        seed=3,
    )
    made = Search.of(spec)
    assert made.plan.trials == 17
    assert made.configuration(5) == search(Scheduler("hyperband", 1, 9, 3), seed=3).configuration(5)


@pytest.mark.parametrize("trials", [0, -1, 2.5, True])
def test_a_number_of_trials_that_is_none_is_refused(trials):
    with pytest.raises(BadOption, match=r"--trials .*expected an integer of 1 or more"):
        search(trials=trials)
