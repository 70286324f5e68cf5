"""How long a leg may be silent, which worker gets no more legs, and which slot a leg may use. No test needs a clock."""

from __future__ import annotations

import pytest

from workbench.cluster.address import machine
from workbench.cluster.backend import Slot
from workbench.engine.judging.patience import AGAIN, LEAST_S, MOST_TURN_S, TIMES, TURN_S, Patience
from workbench.engine.judging.suspects import ENOUGH, Suspects
from workbench.engine.legs.leg import Leg
from workbench.engine.legs.placing import fit

CRASH = ("signal", "")


def test_a_persons_limit_holds_as_it_is() -> None:
    patience = Patience(60.0)
    patience.heard_after(3000.0)
    patience.hung(1)
    assert patience.limit(1) == 60.0


def test_before_anything_was_heard_nothing_counts_as_hung() -> None:
    assert Patience().limit(0) is None


@pytest.mark.parametrize(("silences", "limit"), [([1.0, 2.0], LEAST_S), ([5.0, 7200.0, 1.0], TIMES * 7200.0)])
def test_a_limit_is_learned_from_the_longest_silence_that_ended(silences: list[float], limit: float) -> None:
    patience = Patience()
    for silence in silences:
        patience.heard_after(silence)
    assert patience.limit(0) == limit


def test_a_trial_that_counted_as_hung_gets_longer_and_the_others_do_not() -> None:
    patience = Patience()
    patience.heard_after(1.0)
    patience.hung(3)
    assert (patience.limit(3), patience.limit(4)) == (AGAIN * LEAST_S, LEAST_S)


@pytest.mark.parametrize(
    ("longest", "under_way", "given"),
    [(0.1, 0.0, TURN_S), (100.0, 3.0, 200.0), (0.0, 70.0, 70.0), (10.0, 90.0, 90.0), (1e6, 0.0, MOST_TURN_S)],
)
def test_who_leaves_with_a_checkpoint_gets_twice_the_time_of_a_turn(
    longest: float, under_way: float, given: float
) -> None:
    patience = Patience()
    patience.turned_after(longest)
    patience.turned_after(longest / 2)
    assert patience.turn_s(under_way) == given


def test_time_in_which_everything_slept_is_told_apart() -> None:
    patience = Patience()
    assert [patience.asleep(now) for now in (10.0, 11.0, 12.5, 3612.5, 3613.5)] == [0.0, 0.0, 0.0, 3600.0, 0.0]


def test_a_worker_on_which_three_trials_died_the_same_way_is_set_aside() -> None:
    suspects = Suspects()
    told = [suspects.died("a", ("e", trial), CRASH, is_needed=False) for trial in range(ENOUGH)]
    assert told[:-1] == [None] * (ENOUGH - 1)
    assert "3 trials of different configuration died there in the same way (signal)" in str(told[-1])


def test_one_trial_that_dies_again_and_again_says_nothing_about_its_worker() -> None:
    suspects = Suspects()
    assert not any(suspects.died("a", ("e", 7), CRASH, is_needed=False) for _ in range(9))


def test_a_worker_is_kept_where_something_came_to_a_good_end_or_others_die_alike_or_it_is_needed() -> None:
    well, alike, needed = Suspects(), Suspects(), Suspects()
    alike.died("b", ("e", 9), CRASH, is_needed=False)
    for trial in range(ENOUGH):
        well.well("a")
        assert well.died("a", ("e", trial), CRASH, is_needed=False) is None
        assert alike.died("a", ("e", trial), CRASH, is_needed=False) is None
        assert needed.died("a", ("e", trial), CRASH, is_needed=True) is None


def test_other_ways_and_innocent_ones_do_not_add_up() -> None:
    suspects = Suspects()
    ways = [CRASH, ("exception", "RuntimeError"), ("exception", "ValueError")]
    assert not any(suspects.died("a", ("e", trial), way, is_needed=False) for trial, way in enumerate(ways))
    assert not any(suspects.died("a", ("e", trial), ("preempted", ""), is_needed=False) for trial in range(9))


def leg(**wanted: object) -> Leg:
    return Leg(trial=0, attempt=1, start=0, until=1, reason="", key="k", **wanted)  # type: ignore[arg-type]


SLOTS = [Slot("tls://10.0.0.1:1", 0, ["x"]), Slot("tls://10.0.0.1:2", 0, []), Slot("tls://10.0.0.2:1", 0, [])]


def test_a_leg_that_wants_its_machine_alone_waits_for_an_empty_one_and_keeps_others_off() -> None:
    assert fit(SLOTS, leg(), []) == SLOTS
    assert fit(SLOTS, leg(alone=True), []) == SLOTS[2:]
    assert fit(SLOTS[:2], leg(alone=True), []) == []
    assert fit(SLOTS, leg(), ["tls://10.0.0.2:9"]) == SLOTS[:2]


def test_closed_slots_are_nobodys() -> None:
    assert fit([Slot("inline", 0, [], closed="why")], leg(), []) == []


def test_a_machine_is_the_host_in_an_address() -> None:
    assert [machine(one) for one in ("tls://[::1]:40", "tcp://node-7:8786", "inline")] == ["[::1]", "node-7", "inline"]
