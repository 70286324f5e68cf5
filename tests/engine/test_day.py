"""A simulated day: many searches with trials of several sizes come and go, and each has its due."""

from __future__ import annotations

import pytest

from benchmarks.day import DAY, Day, Demand, drawn, summary
from workbench.engine.fair import Claim, reachable


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


@pytest.mark.slow
@pytest.mark.timeout(240)
def test_in_five_minutes_each_has_its_due_within_a_tenth_of_the_machine() -> None:
    found = summary(Day(DAY, slots=8, hours=24.0, setup=0.5, seed=0).run())
    assert found["windows_of_contention"] > 200
    assert abs(found["largest_deviation"]) <= 0.1, found
    assert found["deviation_of_99_in_100"] <= 0.05, found
    assert found["idle_slots"] <= 0.06, found
    assert found["longest_wait_s"] <= 300, found


@pytest.mark.slow
@pytest.mark.timeout(240)
@pytest.mark.parametrize("seed", [2, 3, 9, 17, 21])
def test_so_it_is_on_days_of_drawn_searches_and_no_search_waits_for_long(seed: int) -> None:
    found = summary(Day(drawn(seed, 8), slots=8, hours=24.0, setup=0.5, seed=seed).run())
    assert found["windows_of_contention"] > 100
    assert abs(found["largest_deviation"]) <= 0.1, found
    assert found["longest_wait_s"] <= 300, found
    assert found["made_room"] / (24 * 8) <= 120, "times a slot makes room in an hour"
    assert found["set_ups_again"] <= 0.03, found
