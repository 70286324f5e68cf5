"""Integer geometry: the constants of the papers, and what must hold for any numbers."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workbench.search.rungs import (
    asha_ladders,
    halving,
    hyperband_ladders,
    hyperband_sizes,
    levels,
    median_levels,
    share,
)


@pytest.mark.parametrize(
    ("first", "last", "eta", "steps"),
    [
        (1, 81, 3, (1, 3, 9, 27, 81)),
        (3, 81, 3, (3, 9, 27, 81)),
        (1, 243, 3, (1, 3, 9, 27, 81, 243)),
        (1, 100, 3, (1, 3, 9, 27, 100)),
        (2, 100, 4, (2, 8, 100)),
        (1, 1, 3, (1,)),
        (7, 7, 2, (7,)),
        (2, 5, 3, (5,)),
        (1, 1024, 2, (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)),
    ],
)
def test_levels_are_multiples_with_the_last_step_on_top(first, last, eta, steps):
    assert levels(first, last, eta) == steps


@given(first=st.integers(1, 50), factor=st.integers(1, 5000), eta=st.integers(2, 9))
def test_levels_rise_by_eta_at_least_and_end_exactly(first, factor, eta):
    last = first * factor
    steps = levels(first, last, eta)
    assert steps[-1] == last
    assert all(high >= low * eta for low, high in pairwise(steps))
    assert len(steps) == 1 or steps[0] == first
    assert steps[-1] < first * eta ** len(steps)


@pytest.mark.parametrize(
    ("table", "sizes", "trials"),
    [("algorithm1", (81, 34, 15, 8, 5), 143), ("table1", (81, 27, 9, 6, 5), 128)],
)
def test_hyperband_starts_with_the_papers_sizes(table, sizes, trials):
    assert hyperband_sizes(5, 3, table) == sizes
    assert sum(sizes) == trials


def test_rung_sizes_are_floors_of_the_previous():
    assert halving(34, 4, 3) == (34, 11, 3, 1)
    assert halving(81, 5, 3) == (81, 27, 9, 3, 1)
    assert halving(6, 2, 3) == (6, 2)


def test_a_short_rung_keeps_one_so_that_somebody_reaches_the_top():
    assert halving(5, 4, 3) == (5, 1, 1, 1)


def test_hyperbands_brackets_are_numbered_as_in_the_paper_and_their_trials_are_fixed_ahead():
    ladders = hyperband_ladders(1, 9, 3, "algorithm1")
    assert [(ladder.number, ladder.levels, ladder.sizes, ladder.first) for ladder in ladders] == [
        (2, (1, 3, 9), (9, 3, 1), 0),
        (1, (3, 9), (5, 1), 9),
        (0, (9,), (3,), 14),
    ]


def test_with_more_trials_hyperband_goes_round_again_and_cuts_the_last_bracket_short():
    ladders = hyperband_ladders(1, 9, 3, "algorithm1", trials=28)
    assert sum(ladder.sizes[0] for ladder in ladders) == 28
    assert [(ladder.turn, ladder.number, ladder.sizes[0]) for ladder in ladders] == [
        (0, 2, 9),
        (0, 1, 5),
        (0, 0, 3),
        (1, 2, 9),
        (1, 1, 2),
    ]


def test_asha_shares_trials_by_training_budget():
    assert share(100, (4, 3, 2), 4) == (70, 22, 8)


@given(trials=st.integers(1, 2000), rungs=st.integers(1, 9), eta=st.integers(2, 5))
def test_every_asha_bracket_has_a_trial_and_none_is_lost_in_rounding(trials, rungs, eta):
    counts = share(trials, tuple(range(rungs, 0, -1)), eta)
    assert sum(counts) == trials
    assert min(counts) >= 1


@pytest.mark.parametrize(
    ("brackets", "rungs"),
    [("aggressive", [5]), ("standard", [5, 4, 3]), ("conservative", [5, 4, 3, 2, 1])],
)
def test_sets_of_asha_brackets_are_determineds(brackets, rungs):
    ladders = asha_ladders(1, 81, 3, brackets, trials=200)
    assert [len(ladder.levels) for ladder in ladders] == rungs
    assert all(ladder.levels[-1] == 81 for ladder in ladders)
    assert [ladder.first for ladder in ladders] == [sum(x.sizes[0] for x in ladders[:i]) for i in range(len(ladders))]


def test_standard_brackets_of_four_rungs_are_four_three_and_two():
    assert [len(ladder.levels) for ladder in asha_ladders(1, 64, 4, "standard", 100)] == [4, 3, 2]
    assert [ladder.sizes[0] for ladder in asha_ladders(1, 64, 4, "standard", 100)] == [70, 22, 8]


@given(first=st.integers(1, 2000), more=st.integers(0, 100_000))
def test_median_levels_are_at_most_about_a_hundred_and_spare_the_grace(first, more):
    steps = median_levels(first, first + more)
    assert steps[-1] == first + more
    assert steps[0] >= first
    assert len(steps) <= 101
    assert list(steps) == sorted(set(steps))


def test_median_levels_are_every_step_of_a_short_trial():
    assert median_levels(3, 9) == (3, 4, 5, 6, 7, 8, 9)
