"""Many points at one look say the same as all points one by one."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from workbench.errors import StoreError
from workbench.records import Goal
from workbench.store.lists.glance import Glance
from workbench.store.series import Series


@pytest.fixture
def path(tmp_path: Path) -> Path:
    with Series.open(tmp_path / "series.db") as series:
        series.add_points(
            [
                (1, "loss", 1, 0, 5.0, 10.0),
                (1, "loss", 2, 0, 7.0, 20.0),
                (0, "loss", 1, 0, math.nan, 25.0),
                (0, "loss", 2, 0, 3.0, 70.0),
                (0, "loss", 3, 0, -math.inf, 80.0),
                (2, "acc", 1, 0, 0.5, 100.0),
            ]
        )
    return tmp_path / "series.db"


def test_points_come_by_trial_and_step(path: Path) -> None:
    with Glance(path) as glance:
        assert list(glance.points("loss", "step")) == [
            (0, 1, None),
            (0, 2, 3.0),
            (0, 3, -math.inf),
            (1, 1, 5.0),
            (1, 2, 7.0),
        ]
        assert list(glance.points("loss", "time", [1])) == [(1, 10.0, 5.0), (1, 20.0, 7.0)]
        assert list(glance.points("nobody's", "step")) == []


def test_what_changed_is_known_by_number(path: Path) -> None:
    with Glance(path) as glance:
        before = glance.newest()
        with Series.open(path) as series:
            series.add_points(
                [(4, "loss", 1, 0, 1.0, 110.0), (5, "acc", 1, 0, 1.0, 110.0), (1, "loss", 1, 0, 5.0, 1.0)]
            )
        assert glance.changed("loss", before) == {4}, "what is said again unchanged is nothing new"
        assert glance.newest() == before + 2


@pytest.mark.parametrize(
    ("mode", "best"), [("min", [5.0, 5.0, 5.0, 5.0, 5.0, 5.0, 3.0]), ("max", [5.0, 7.0, 7.0, 7.0, 7.0, 7.0, 7.0])]
)
def test_the_best_so_far_never_gets_worse(path: Path, mode: str, best: list[float]) -> None:
    with Glance(path) as glance:
        # Spans of ten seconds, from 10 to 100; the last report of the goal that counts came after 60.
        assert glance.best_so_far(Goal("loss", mode), 9) == best


def test_a_value_that_was_logged_within_a_step_is_not_the_best_so_far(path: Path) -> None:
    with Series.open(path) as series:
        series.add_points([(1, "loss", 2, 1, 0.1, 15.0), (1, "loss", 2, 2, 9.0, 16.0)])
    with Glance(path) as glance:
        assert min(glance.best_so_far(Goal("loss", "min"), 9)) == 3.0
        assert max(glance.best_so_far(Goal("loss", "max"), 9)) == 7.0


def test_a_metric_that_nobody_reported_has_no_best(path: Path, tmp_path: Path) -> None:
    with Glance(path) as glance:
        assert glance.best_so_far(Goal("nobody's"), 9) == []
    Series.open(tmp_path / "empty.db").close()
    with Glance(tmp_path / "empty.db") as glance:
        assert (glance.newest(), glance.best_so_far(Goal("loss"), 9)) == (0, [])


def test_a_damaged_series_is_told_as_the_stores_error(tmp_path: Path) -> None:
    (tmp_path / "series.db").write_bytes(b"this is no database" * 100)
    with pytest.raises(StoreError, match=r"series\.db"), Glance(tmp_path / "series.db") as glance:
        glance.newest()
