"""Curves are thinned to what pixels can show, and nothing that a pixel would show is lost."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest

from workbench.store.series import Series
from workbench_ext.server import curves
from workbench_ext.server.curves import MOST_POINTS, thinned


@pytest.fixture
def path(tmp_path) -> Path:
    return tmp_path / "series.db"


def written(path: Path, **trials: list[float]) -> None:
    with Series.open(path) as series:
        for name, values in trials.items():
            rows = [(int(name[1:]), "loss", step, 0, value, 1e9 + step / 2) for step, value in enumerate(values, 1)]
            series.add_points(rows)


def asked(path: Path, **options):
    return json.loads(curves.curves(path, "loss", **options))


def test_few_points_are_given_as_they_are(path):
    written(path, t0=[3.0, math.nan, 1.0], t5=[math.inf])
    answer = asked(path)
    assert answer["curves"] == [
        {"trial": 0, "x": [1, 2, 3], "y": [3.0, "nan", 1.0], "thinned": False, "points": 3},
        {"trial": 5, "x": [1], "y": ["inf"], "thinned": False, "points": 1},
    ]
    assert asked(path, trials=[5, 7])["curves"] == answer["curves"][1:]
    assert [curve["x"] for curve in asked(path, x="time")["curves"]] == [[0.0, 0.5, 1.0], [0]]


@pytest.mark.parametrize("seed", range(5))
def test_thinning_keeps_both_ends_and_each_columns_least_and_greatest(seed):
    rng = np.random.default_rng(seed)
    xs, ys = np.sort(rng.uniform(0, 1000, 5000)), rng.normal(size=5000)
    ys[rng.integers(0, 5000, 200)] = np.nan
    [(_, kept_x, kept_y, points)] = thinned({0: (xs, ys)}, None, None, 100)
    assert points == 5000
    assert len(kept_x) <= 2 * 101 + 2
    assert (kept_x[0], kept_x[-1]) == (xs[0], xs[-1])
    assert set(zip(kept_x, kept_y.astype(str), strict=True)) <= set(zip(xs, ys.astype(str), strict=True))
    column, kept_column = (np.floor((x - xs[0]) * 100 / (xs[-1] - xs[0])) for x in (xs, kept_x))
    for one in np.unique(column):
        assert np.nanmin(ys[column == one]) == np.nanmin(kept_y[kept_column == one])
        assert np.nanmax(ys[column == one]) == np.nanmax(kept_y[kept_column == one])


def test_a_stretch_without_any_number_keeps_one_point():
    ys = np.full(1000, np.nan)
    [(_, kept_x, kept_y, _)] = thinned({0: (np.arange(1000.0), ys)}, None, None, 10)
    assert 10 <= len(kept_x) <= 12
    assert np.isnan(kept_y).all()


def test_a_closer_look_is_exact_and_runs_to_the_edge(path):
    written(path, t0=[float(step % 7) for step in range(1, 5001)])
    assert asked(path, width=50)["curves"][0]["thinned"]
    [curve] = asked(path, width=50, low=100, high=150)["curves"]
    assert curve["x"] == list(range(99, 152)), "one point beyond either side comes along"
    assert curve["y"] == [float(step % 7) for step in curve["x"]]
    assert asked(path, low=6000, high=7000)["curves"] == [
        {"trial": 0, "x": [5000], "y": [2.0], "thinned": False, "points": 1}
    ]


def test_a_curve_ends_with_what_its_last_step_reported_and_not_with_what_was_logged_within_it(path):
    with Series.open(path) as series:
        for step, reported in ((1, 2.0), (2, 1.0)):
            series.add_points([(0, "loss", step, index, 10.0 * step + index, 1e9) for index in (1, 2)])
            series.add_points([(0, "loss", step, 0, reported, 1e9)])
    [curve] = asked(path)["curves"]
    assert (curve["x"], curve["y"]) == ([1, 1, 1, 2, 2, 2], [11.0, 12.0, 2.0, 21.0, 22.0, 1.0])
    assert asked(path, trials=[0], low=2, high=2)["curves"][0]["y"][-1] == 1.0


def test_what_comes_later_is_read_and_what_was_done_again_replaces(path):
    written(path, t0=[1.0, 2.0], t1=[5.0])
    first = asked(path)
    assert asked(path) == first
    written(path, t1=[6.0, 7.0])
    second = asked(path)
    assert second["cursor"] > first["cursor"]
    assert [curve["y"] for curve in second["curves"]] == [[1.0, 2.0], [6.0, 7.0]]


def test_a_series_made_anew_under_the_same_name_is_read_anew(path):
    written(path, t0=[1.0, 2.0])
    asked(path)
    keep = path.open("rb")  # so that the new file gets another number
    path.unlink()
    written(path, t3=[4.0])
    assert [curve["trial"] for curve in asked(path)["curves"]] == [3]
    keep.close()


def test_the_answer_for_very_many_curves_is_bounded():
    xs = np.arange(2000.0)
    found = thinned(dict.fromkeys(range(600), (xs, np.sin(xs))), None, None, 800)
    assert sum(len(kept) for _, kept, _, _ in found) <= MOST_POINTS + 600 * 2
    assert min(len(kept) for _, kept, _, _ in found) > 100


def test_a_draft_of_many_points_comes_at_once_and_says_so(path, monkeypatch):
    monkeypatch.setattr(curves, "DRAFT_POINTS", 100)
    written(path, t0=[float(step) for step in range(1000)], t3=[7.0])
    draft = asked(path, draft=True)
    assert draft["draft"]
    assert draft["curves"][0]["x"][:3] == [1, 11, 21], "1,001 points are ten times as many as a draft has"
    assert draft["curves"][0]["thinned"]
    assert draft["curves"][1] == {"trial": 3, "x": [1], "y": [7.0], "thinned": True, "points": 1}
    whole = asked(path)
    assert not whole["draft"]
    assert len(whole["curves"][0]["x"]) == 1000
    assert asked(path, draft=True) == whole, "what was read already needs no draft"
