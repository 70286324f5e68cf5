"""What was measured of trials: every metric, durations, sizes and slots, as the points and legs say."""

from __future__ import annotations

import math
import time

import pytest

from workbench.records import Goal
from workbench.store import Store
from workbench.store.lists.measures import Measure, measures
from workbench.store.series import Series

ID = "20260101-000000-aaaaaa"
LOSSES = {1: 0.9, 2: 0.4, 3: 0.6, 4: math.nan}
ACCURACIES = {1: 0.5, 2: 0.8, 3: 0.8, 4: math.inf}


@pytest.fixture
def paths(tmp_path):
    """One trial of two legs: its goal is best at step 2, and it logs a loss within its steps."""
    paths = Store(tmp_path / ".workbench").create().experiment(ID)
    paths.folder.mkdir(parents=True)
    with Series.open(paths.series) as series:
        series.add_points((0, "val/acc", step, 0, value, 1.0) for step, value in ACCURACIES.items())
        series.add_points((0, "val/loss", step, 0, value, 1.0) for step, value in LOSSES.items())
        series.add_points((0, "loss", step, idx, step + idx / 10, 1.0) for step in (1, 2, 3) for idx in (1, 2))
        series.add_points([(0, "late", 3, 0, 7.0, 1.0)])
        series.put_leg(0, 1, slot="cpu0", began=100.0, left=110.0, outcome="reached", detail={"setup_s": 4.0})
        series.put_leg(0, 2, slot="cpu1", began=130.0, left=135.0, outcome="completed", detail={"setup_s": 1.5})
    return paths


def test_each_metric_has_its_last_lowest_and_highest_value_and_the_one_at_the_goals_best(paths):
    _, [one] = measures(paths, Goal("val/acc", "max"))
    assert (one.best, one.best_step) == (0.8, 2)
    assert one.metrics["val/acc"] == Measure(math.inf, 0.5, 0.8, 0.8)
    assert one.metrics["val/loss"].low == 0.4
    assert math.isnan(one.metrics["val/loss"].last)
    assert one.metrics["val/loss"].at_best == 0.4
    assert one.metrics["loss"] == Measure(3.2, 1.1, 3.2, 2.2)
    assert one.metrics["late"] == Measure(7.0, 7.0, 7.0, None)


def test_the_best_of_a_minimized_goal_is_its_lowest(paths):
    _, [one] = measures(paths, Goal("val/loss", "min"))
    assert (one.best, one.best_step) == (0.4, 2)
    assert one.metrics["val/acc"].at_best == 0.8


def test_a_report_comes_after_the_points_within_its_step(paths):
    with Series.open(paths.series) as series:
        series.add_points([(0, "loss", 3, 0, 9.0, 1.0)])
    _, [one] = measures(paths, Goal("val/acc", "max"))
    assert one.metrics["loss"].last == 9.0


def test_durations_are_of_all_legs_and_the_slot_of_the_newest(paths):
    _, [one] = measures(paths, Goal("val/acc", "max"))
    assert (one.duration, one.slot_time, one.setup_time) == (35.0, 15.0, 5.5)
    assert (one.slot, one.bytes) == ("cpu1", 0)
    with Series.open(paths.series) as series:
        series.put_leg(0, 3, slot="cpu2", began=time.time() - 60)
    _, [one] = measures(paths, Goal("val/acc", "max"))
    assert one.slot == "cpu2"
    assert 15 + 60 <= one.slot_time < 15 + 90


def test_only_what_changed_is_told_again(paths):
    goal = Goal("val/acc", "max")
    cursor, _ = measures(paths, goal)
    assert measures(paths, goal, cursor) == (cursor, [])
    with Series.open(paths.series) as series:
        series.add_points([(3, "val/acc", 1, 0, 0.1, 1.0)])
        series.put_leg(5, 1, slot="cpu0", began=1.0)
    later, found = measures(paths, goal, cursor)
    assert later > cursor
    assert [(one.trial, one.best, one.slot) for one in found] == [(3, 0.1, None), (5, None, "cpu0")]
    with Series.open(paths.series) as series:
        series.add_points([(3, "val/acc", 2, 0, 0.2, 1.0)])
    last, [three] = measures(paths, goal, later)
    assert (three.trial, three.best) == (3, 0.2)
    assert measures(paths, goal, last) == (last, [])


def test_an_experiment_that_has_not_started_has_none(tmp_path):
    paths = Store(tmp_path / ".workbench").create().experiment(ID)
    assert measures(paths, Goal("val/acc", "max"), 4) == (4, [])
