"""A time limit: when it begins, what an extension makes of it, and what is said when it is over."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from workbench.engine.judging.limit import Limit, later

START = datetime(2026, 11, 20, 12, 0, tzinfo=UTC)


def after(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


def begun(seconds: float | None) -> Limit:
    limit = Limit(seconds)
    limit.begin(START.isoformat())
    return limit


def test_without_a_limit_it_is_never_over() -> None:
    assert begun(None).over(after(1e9)) is None


def test_before_the_first_leg_no_time_passes() -> None:
    assert Limit(1.0).over(after(1e6)) is None


def test_it_is_over_once_and_says_how_long_it_was() -> None:
    limit = begun(60.0)
    assert limit.over(after(60)) is None
    assert limit.over(after(61)) == "its time limit of 60 s is over"
    assert limit.over(after(62)) is None


def test_more_time_counts_from_the_end_of_the_old_limit() -> None:
    limit = begun(60.0)
    limit.extend(after(30).isoformat(), 40.0)
    assert limit.over(after(99)) is None
    assert limit.over(after(101)) == "its time limit of 100 s is over"


def test_more_time_after_the_end_counts_from_the_extension() -> None:
    limit = begun(60.0)
    limit.extend(after(100).isoformat(), 40.0)
    assert limit.over(after(139)) is None
    assert limit.over(after(141)) == "its time limit of 140 s is over"


def test_an_extension_by_trials_drops_a_limit_that_is_over_and_no_other() -> None:
    limit = begun(60.0)
    limit.extend(after(30).isoformat(), None)
    assert limit.over(after(61)) is not None
    limit = begun(60.0)
    limit.extend(after(61).isoformat(), None)
    assert limit.over(after(1000)) is None


def test_a_time_beyond_all_dates_is_the_last_one() -> None:
    assert later(START, 1e300) == datetime.max.replace(tzinfo=UTC)
