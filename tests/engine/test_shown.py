"""The best value of a trial that viewers are shown is the best of the values that its curve has."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path

import pytest
from lab.recorded import spec

from workbench.cluster.backend import Slot
from workbench.engine.legs.leg import Leg
from workbench.engine.shown import Shown
from workbench.facts import CapacityChanged, Ended, Extended
from workbench.records import Goal, Scheduler
from workbench.search import Search
from workbench.space import Space, uniform
from workbench.standing import ranked
from workbench.store.lists.glance import Glance
from workbench.store.series import Series

GOAL = Goal("val_acc", "max")


@pytest.fixture
def series(tmp_path: Path) -> Iterator[Series]:
    with Series.open(tmp_path / "series.db") as made:
        yield made


def shown_of(series: Series, goal: Goal = GOAL) -> Shown:
    about = spec(goal=goal, space=Space({"x": uniform(0.0, 1.0)}).to_json())
    return Shown(about, Search.of(about), series, lambda: "2026-01-01T00:00:00+00:00")


def best_of(shown: Shown, series: Series, reports: list[tuple[int, float]]) -> object:
    """The best value that is shown after these reports of trial 0, which is the best one of its curve."""
    for step, value in reports:
        shown.know(0, step, value)
        series.add_points([(0, "val_acc", step, 0, value, 1.0)])
    shown._search.handle(CapacityChanged(1))
    shown.put_trial(0, None, 1, 0)
    series.flush()
    told = series.trial(0)["best"]
    with Glance(series.path) as glance:
        found = glance.best(shown._spec.goal, 0)
    assert told == (found and found[1])
    return told


@pytest.mark.parametrize(
    ("mode", "reports", "best"),
    [
        ("max", [(1, 0.5), (2, 0.9), (2, 0.6), (3, 0.7)], 0.7),  # two reports in one step
        ("min", [(1, 0.5), (2, 0.1), (2, 0.4)], 0.4),
        ("max", [(1, 0.5), (2, 0.9), (3, 0.6), (2, 0.8), (3, 0.7)], 0.8),  # a leg that resumed after step 1
        ("max", [(1, 0.5), (2, 0.9), (2, math.nan)], 0.5),
        ("max", [(1, 0.5), (1, math.nan)], None),
        ("max", [(1, 0.5), (2, 0.5), (2, 0.4)], 0.5),
        ("max", [(1, 0.5), (2, math.nan), (2, 0.6)], 0.6),
        ("max", [(1, 0.5), (3, 0.9), (2, 0.7), (3, 0.4), (4, 0.3)], 0.7),  # a step between two others
    ],
)
def test_a_value_that_was_replaced_is_not_the_best(
    series: Series, mode: str, reports: list[tuple[int, float]], best: float | None
) -> None:
    assert best_of(shown_of(series, Goal("val_acc", mode)), series, reports) == best


def test_an_engine_that_begins_again_knows_the_value_that_replaced_a_level(series: Series) -> None:
    """The journal has the level as the search heard it; a leg that resumed below it reported its step again."""
    best_of(shown_of(series), series, [(1, 0.5), (3, 0.9), (3, 0.7)])
    again = shown_of(series)
    again.know(0, 3, 0.9)
    again.recall(series)
    assert best_of(again, series, []) == 0.7


def test_the_counts_of_states_are_those_of_the_trials(series: Series) -> None:
    """A leg begins without a decision of the search: its first step may take an hour."""
    shown, leg = shown_of(series), Leg(0, 1, 0, 9, "go", "k0")
    shown._search.handle(CapacityChanged(1))
    for began, state in ((None, "waiting"), (1.0, "running")):
        leg.began = began
        shown.put_trial(0, leg, 1, 0)
        series.flush()
        assert (series.trial(0)["state"], series.meta()["counts"]) == (state, {state: 1})
    shown.give_up("Workbench failed inside", "2026-01-01T00:00:00+00:00")
    series.flush()
    assert (series.trial(0)["state"], series.meta()["counts"]) == ("failed", {"failed": 1})


def test_a_pause_does_not_count_for_the_time_left(series: Series, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = 100.0  # an hour's pause cannot be awaited
    monkeypatch.setattr("workbench.engine.shown.time.monotonic", lambda: clock)
    shown = shown_of(series)
    leg = Leg(0, 1, 0, 9, "go", "k0", slot=Slot("worker", 0, ["k0"]))
    shown.first_leg_at, shown.steps_done = clock, 10

    def left() -> float:
        shown.put_header("running", "training", None, None, [leg])
        series.flush()
        return float(series.meta()["seconds_left"])

    for _ in range(20):
        clock += 1
        shown.look([leg])
    before = left()
    for _ in range(3600):
        clock += 1
        shown.look([])
    assert left() == pytest.approx(before)
    clock += 20
    shown.look([leg])
    assert left() == pytest.approx(2 * before)


def test_the_rank_of_a_trial_whose_code_ended_by_itself_is_shown_again_when_others_went_further(
    series: Series,
) -> None:
    about = spec(goal=GOAL, space=Space({"x": uniform(0.0, 1.0)}).to_json(), scheduler=Scheduler("all", 9, 9), trials=3)
    one = Search.of(about)
    shown = Shown(about, one, series, lambda: "2026-01-01T00:00:00+00:00")
    one.handle(CapacityChanged(3), Ended(0, 5, 0.95), Ended(1, 5, 0.94), Ended(2, 9, 0.9))
    for number in range(3):
        shown.put_trial(number, None, 1, 0)
    one.handle(Extended("longer", last=27), CapacityChanged(3), Ended(2, 27, 0.91))
    shown.put_trial(2, None, 2, 0)
    shown.put_header("completed", "", None, None, [])
    series.flush()
    assert [row["number"] for row in ranked(series.trials(), "max")] == [0, 1, 2]
