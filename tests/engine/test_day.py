"""A simulated day: many searches with trials of several sizes come and go, and each has its due."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import pytest
from thorough import IS_THOROUGH

from benchmarks.day import DAY, Day, Demand, drawn, summary
from workbench.engine.fair import Claim, aged, in_turn, reachable
from workbench.engine.sharing import tenure

#: How many times the simulated day is shorter.
SHORTER = 1 if IS_THOROUGH else 8
#: Days of drawn searches: seed, hours, and windows of contention. Those furthest from their due, by the rules that were
#: tried before.
DRAWN = [(3, 12.0, 40), (9, 12.0, 40), (17, 12.0, 40)] if IS_THOROUGH else [(3, 6.0, 8)]


def shorter(demands: Iterable[Demand], by: int) -> tuple[Demand, ...]:
    """The same searches of a day that is so many times shorter, with fewer trials each."""
    return tuple(replace(one, arrives=one.arrives / by, trials=max(1, one.trials // by)) for one in demands)


def test_a_day_of_two_searches_counts_what_each_had() -> None:
    demands = (Demand("a", 0.0, trials=1000, minutes=0.5), Demand("b", 0.0, trials=1000, minutes=0.5, weight=3.0))
    found = Day(demands, slots=4, hours=0.5, setup=0.1, seed=0).run()
    for window in found.windows[1:-1]:
        assert window.contended == pytest.approx(300)
        assert window.due[0] == pytest.approx(300)
        assert window.due[1] == pytest.approx(900)
        assert window.had[0] + window.had[1] == pytest.approx(1200, abs=1200 * 0.05)
        assert window.had[1] / window.had[0] == pytest.approx(3, rel=0.2)


def test_no_slots_are_due_to_a_trial_that_cannot_fill_them() -> None:
    first, large, small = Claim("a", 2, 2, priority=1), Claim("b", 0, 8, unit=4), Claim("c", 0, 1)
    assert reachable(5, [first, large]) == {"a": 2.0, "b": 0.0}
    assert reachable(5, [first, large, small]) == {"a": 2.0, "b": 0.0, "c": 1.0}
    assert reachable(8, [first, large, small]) == {"a": 2.0, "b": 4.0, "c": 1.0}


@pytest.mark.timeout(240)  # the whole day
def test_in_five_minutes_each_has_its_due_within_a_tenth_of_the_machine() -> None:
    found = summary(Day(shorter(DAY, SHORTER), slots=8, hours=24.0 / SHORTER, setup=0.5, seed=0).run())
    assert found["windows_of_contention"] > 200 / SHORTER
    assert abs(found["largest_deviation"]) <= 0.1, found
    assert found["deviation_of_99_in_100"] <= 0.05, found
    assert found["idle_slots"] <= 0.06, found
    assert found["longest_wait_s"] <= 300, found


@pytest.mark.timeout(480)  # twelve hours
@pytest.mark.parametrize(("seed", "hours", "windows"), DRAWN)
def test_so_it_is_on_days_of_drawn_searches_and_no_search_waits_for_long(seed: int, hours: float, windows: int) -> None:
    found = summary(Day(drawn(seed, 8), slots=8, hours=hours, setup=0.5, seed=seed).run())
    assert found["windows_of_contention"] > windows
    assert abs(found["largest_deviation"]) <= 0.1, found
    assert found["longest_wait_s"] <= 300, found
    assert found["made_room"] / (hours * 8) <= 120, "times a slot makes room in an hour"


@pytest.mark.parametrize(("is_lent", "setup", "seconds"), [(False, 0.1, 10.0), (True, 0.1, 2.0), (True, 3.0, 30.0)])
def test_a_leg_keeps_its_slot_for_a_tenure(is_lent: bool, setup: float, seconds: float) -> None:
    assert tenure(is_lent, setup) == seconds


def test_free_slots_go_to_those_who_have_too_few_and_had_least() -> None:
    over, owing, owed, first = (
        Claim("over", 2, 9, debt=-50.0), Claim("owing", 0, 9, debt=40.0), Claim("owed", 0, 9, debt=-9.0),
        Claim("first", 0, 9, debt=60.0, priority=1),
    )  # fmt: skip
    goals = {"over": 1, "owing": 1, "owed": 1, "first": 1}
    assert in_turn([over, owing, owed, first], goals) == ["first", "owed", "owing", "over"]


def test_shares_over_time_are_those_that_whole_trials_can_have() -> None:
    found = reachable(8, [Claim("single", 0, 2, weight=0.5), Claim("gang", 0, 80, unit=4)])
    assert found["single"] == pytest.approx(2, abs=0.1), "it has all that it can use"
    assert found["gang"] == pytest.approx(4, abs=0.1), "the other two slots are of no use to it"


def test_empty_slots_make_no_debt_for_one_that_has_all_it_can_use() -> None:
    lends, gang = Claim("lends", 3, 3), Claim("gang", 4, 80, unit=4)
    assert aged(8, [lends, gang], 10.0)["lends"] == 0.0
