"""Which trial is the best, in one place: what is nan or infinite comes last, and ties go to the older trial."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workbench.standing import Standings, has_diverged, ranked

VALUES = st.sampled_from([None, math.nan, math.inf, -math.inf, 0.0, 0.25, 0.5])


def told(mode, *values):
    standings = Standings(mode)
    for trial, level, value in values:
        standings.tell(trial, level, value)
    return standings


def best(standings):
    found = standings.best
    return None if found is None else (found.trial, -found.below, standings.value(found))


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("mode", ["max", "min"])
def test_what_is_no_finite_number_is_never_the_best(mode, bad):
    assert best(told(mode, (0, 1, bad), (1, 1, 0.5))) == (1, 1, 0.5)
    assert best(told(mode, (0, 1, bad))) is None
    # It was the best, and diverged on its way up: the other is, though it stands lower.
    assert best(told(mode, (0, 1, 0.5), (1, 1, 0.5), (0, 3, 0.5), (0, 9, bad))) == (1, 1, 0.5)


def test_where_all_have_diverged_it_is_the_last_finite_value_of_one():
    standings = told("min", (0, 1, 0.5), (1, 1, 0.25), (1, 3, math.nan), (0, 3, math.inf))
    assert best(standings) == (1, 1, 0.25)
    assert standings.best.diverged
    assert standings.diverged == {0, 1}
    standings.tell(0, 9, 0.75)
    assert (best(standings), standings.diverged) == ((0, 9, 0.75), {1})


def test_what_was_never_reported_has_not_diverged():
    assert [has_diverged(value) for value in (None, 0.0, math.nan, -math.inf)] == [False, False, True, True]
    assert told("max", (0, 9, None)).diverged == set()


@given(values=st.lists(st.tuples(st.integers(0, 4), VALUES), max_size=40), mode=st.sampled_from(["max", "min"]))
def test_it_is_what_looking_at_all_would_give(values, mode):
    standings, levels, newest, finite = Standings(mode), {}, {}, {}
    for trial, value in values:
        levels[trial] = levels.get(trial, 0) + 1
        standings.tell(trial, levels[trial], value)
        if value is not None:
            newest[trial] = value
            if math.isfinite(value):
                finite[trial] = (levels[trial], value)
    sign = -1 if mode == "max" else 1
    ranked = sorted(finite, key=lambda t: (not math.isfinite(newest[t]), -finite[t][0], sign * finite[t][1], t))
    assert standings.first(9) == ranked
    assert best(standings) == ((ranked[0], *finite[ranked[0]]) if ranked else None)


@given(
    values=st.lists(st.tuples(st.integers(0, 8), VALUES), max_size=60),
    failed=st.sets(st.integers(0, 8), max_size=3),
    mode=st.sampled_from(["max", "min"]),
    members=st.sampled_from([1, 3]),
)
def test_rows_are_ranked_as_the_search_ranks_trials(values, failed, mode, members):
    standings, levels = Standings(mode, members), {}
    for trial, value in values:
        levels[trial] = levels.get(trial, 0) + 1
        standings.tell(trial, levels[trial], value)
    for trial in failed:
        standings.drop(trial)
    rows = [{"number": n, "state": "failed" if n in failed else "paused", **standings.told(n)} for n in range(9)]
    found = [row["number"] for row in ranked(rows, mode)]
    first = standings.first(9)
    assert found[: len(first)] == first
    assert standings.best is None or found[0] == standings.best.trial


def test_trials_that_reached_no_level_are_ranked_by_their_newest_value_and_failed_ones_come_last():
    rows = [
        {"number": n, "value": value, "state": "failed" if n == 1 else "running", "standing": None}
        for n, value in enumerate([None, 0.9, 0.2, math.nan, 0.3])
    ]
    assert [row["number"] for row in ranked(rows, "max")] == [4, 2, 0, 3, 1]
