"""What trials used over time: apart from what they reported, bounded, and with gaps where they did not train."""

from __future__ import annotations

import dataclasses
import itertools
import math
import random
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from workbench.records import Goal
from workbench.store.files.samples import MEASURES, Sample, joined
from workbench.store.layout import ExperimentPaths
from workbench.store.lists import system
from workbench.store.lists.glance import Glance
from workbench.store.lists.measures import measures
from workbench.store.series import Series

WEEK_S = 7 * 24 * 3600
#: An hour of some day.
NOON = 1.7e9


@pytest.fixture
def paths(tmp_path: Path) -> ExperimentPaths:
    return ExperimentPaths("probe", tmp_path)


def spans(seconds: float, apart: float = 5.0) -> list[tuple[float, float, float]]:
    """Samples that follow one another for so many seconds, with random values."""
    rng = random.Random(0)
    return [(k * apart, (k + 1) * apart, rng.random()) for k in range(int(seconds / apart))]


def drawn(paths: ExperimentPaths, measure: str = "cpu", trials: list[int] | None = None) -> dict[int, system.Curve]:
    with Glance(paths.series) as glance:
        return system.curves(glance, measure, trials)


def test_a_week_is_joined_to_a_bounded_number_and_keeps_mean_and_newest() -> None:
    before = spans(WEEK_S)
    found: list[tuple[float, float, float]] = []
    for start in range(0, len(before), 300):  # as they come
        found = joined(found + before[start : start + 300], "mean")
    assert len(found) < 1700
    assert found[-100:] == before[-100:]
    assert sum((until - since) * value for since, until, value in found) / WEEK_S == pytest.approx(0.5, abs=0.01)
    assert all(until - since <= max(5.0, (WEEK_S - until) / 100) for since, until, _ in found)
    assert all(a[1] == b[0] for a, b in itertools.pairwise(found)), "no second is lost or counted twice"


def test_a_peak_stays_where_samples_are_joined() -> None:
    before = [*spans(3600), (3600.0, 3605.0, 7.0), *((3605.0 + a, 3605.0 + b, v) for a, b, v in spans(WEEK_S))]
    found = joined(before, "peak")
    assert len(found) < len(before) / 10
    [(since, until, _)] = [span for span in found if span[2] == 7.0]
    assert since <= 3600 < until


def test_old_samples_are_joined_as_they_are_written(paths: ExperimentPaths) -> None:
    with Series.open(paths.series) as series:
        for start in range(0, 20_000, 500):
            rows: list[Sample] = [
                (name, NOON + 5 * k, NOON + 5 * k + 5, 1.0) for k in range(start, start + 500) for name in MEASURES
            ]
            series.add_samples(3, rows)
            series.flush()
        series.add_samples(4, [("cpu", NOON, NOON + 5, 1.0)])
    with Glance(paths.series) as glance:
        counts = {name: len(list(glance.samples(name, [3]))) for name in MEASURES}
        assert len(list(glance.samples("cpu", [4]))) == 1
    assert all(300 < count < 1700 for count in counts.values()), counts
    xs, ys = drawn(paths, trials=[3])[3]
    assert (xs[0], xs[-1], set(ys)) == (0.0, 100_000.0, {1.0})


def test_samples_are_no_points_and_no_news(paths: ExperimentPaths) -> None:
    def seen() -> tuple[Any, ...]:
        with Series.read(paths.series) as series, Glance(paths.series) as glance:
            told = (series.names(), series.points(), series.points_after(0), series.curves(), series.meta())
            legs = (series.trials(), series.legs(), series.trials_after(0), series.legs_after(0))
            cursor, found = measures(paths, Goal("acc"))
            measured = (cursor, [dataclasses.replace(one, system={}) for one in found])
            return (*told, *legs, measured, glance.newest(), glance.touched(0), series.attempts())

    with Series.open(paths.series) as series:
        series.add_points([(1, "acc", 1, 0, 0.5, NOON), (1, "system/cpu", 1, 0, 0.25, NOON)])
        series.put_trial(1, state="completed")
        series.put_leg(1, 1, began=NOON, left=NOON + 9, outcome="completed")
        series.flush()
        before = seen()
        number = series.flush()
        series.add_samples(1, [("cpu", NOON, NOON + 5, 0.75), ("memory", NOON, NOON + 5, 1e9)])
        assert series.flush() == number
        assert seen() == before
    assert drawn(paths)[1][1] == [0.75, 0.75]


def test_a_series_without_samples_has_no_table_of_them(paths: ExperimentPaths) -> None:
    with Series.open(paths.series) as series:
        series.add_points([(1, "acc", 1, 0, 0.5, NOON)])
    with Series.read(paths.series) as series:
        assert series._fetch("SELECT name FROM sqlite_master WHERE name = 'samples'") == []
        assert series.damage == []
    with Glance(paths.series) as glance:
        assert system.names(glance) == []
        assert system.curves(glance, "cpu") == system.summaries(glance) == {}


def test_a_pause_is_a_gap_and_seconds_count_from_the_trials_start(paths: ExperimentPaths) -> None:
    with Series.open(paths.series) as series:
        series.put_trial(2, started=datetime.fromtimestamp(NOON - 2, UTC).isoformat())
        series.add_samples(2, [("cpu", NOON + a, NOON + a + 5, v) for a, v in ((0, 1.0), (5, 2.0), (100, 3.0))])
    xs, ys = drawn(paths)[2]
    assert xs == pytest.approx([2, 7, 12, 57, 102, 107], abs=1e-3)
    assert ys[:3] + ys[4:] == [1.0, 1.0, 2.0, 3.0, 3.0]
    assert math.isnan(ys[3])


def test_a_clock_that_was_set_back_and_values_that_are_none_break_nothing(paths: ExperimentPaths) -> None:
    with Series.open(paths.series) as series:
        series.add_samples(0, [("cpu", NOON, NOON + 5, math.nan), ("noise", NOON, NOON + 5, 1.0)])
        series.add_samples(0, [("cpu", NOON + 50, NOON + 55, 1.0), ("cpu", NOON + 52, NOON + 54, 9.0)])
        series.flush()
        series.add_samples(0, [("cpu", NOON + 55, NOON + 60, 2.0)])
    assert drawn(paths)[0][1] == [1.0, 1.0, 2.0]


def test_a_trial_is_summed_up_by_means_and_peaks(paths: ExperimentPaths) -> None:
    with Series.open(paths.series) as series:
        series.add_samples(0, [("cpu", NOON, NOON + 1, 4.0), ("cpu", NOON + 1, NOON + 4, 0.0)])
        series.add_samples(0, [("memory", NOON, NOON + 1, 7e9), ("memory", NOON + 1, NOON + 4, 1e9)])
        series.add_samples(5, [("waits", NOON, NOON + 1, 0.5)])
    with Glance(paths.series) as glance:
        assert system.names(glance) == ["cpu", "memory", "waits"]
        assert system.summaries(glance) == {0: {"cpu": 1.0, "memory": 7e9}, 5: {"waits": 0.5}}
