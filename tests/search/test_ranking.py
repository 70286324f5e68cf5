"""The ranking against a plain sorted list."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workbench.search.rules import ranking
from workbench.search.rules.ranking import Ranking

ENTRIES = st.lists(st.tuples(st.floats(allow_nan=False), st.integers(0, 5000)), unique_by=lambda entry: entry[1])


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    monkeypatch.setattr(ranking, "BLOCK", 4)


@given(ENTRIES)
def test_ranks_and_entries_are_those_of_a_sorted_list(entries):
    found = Ranking()
    for count, entry in enumerate(entries, 1):
        rank = found.add(entry)
        assert rank == sorted(entries[:count]).index(entry) + 1
    assert len(found) == len(entries)
    for rank, entry in enumerate(sorted(entries), 1):
        assert found.at(rank) == entry
        assert found.rank(entry) == rank


def test_many_entries_in_many_blocks():
    rng = random.Random(0)
    entries = [(rng.random(), trial) for trial in range(500)]
    found = Ranking()
    for entry in entries:
        found.add(entry)
    assert [found.at(rank) for rank in range(1, 501)] == sorted(entries)
    assert found.rank((2.0, 0)) == 501


@pytest.mark.parametrize("rank", [0, 1, -1])
def test_a_rank_that_nobody_has_is_an_error(rank):
    with pytest.raises(IndexError):
        Ranking().at(rank)


@given(st.lists(st.integers(0, 2), min_size=1, max_size=200), st.randoms(use_true_random=False))
def test_equal_values_rank_by_age_across_blocks(values, rng):
    entries = [(float(value), trial) for trial, value in enumerate(values)]
    rng.shuffle(entries)
    found = Ranking()
    for entry in entries:
        found.add(entry)
    assert [found.at(rank) for rank in range(1, len(entries) + 1)] == sorted(entries)
    assert [found.rank(entry) for entry in sorted(entries)] == list(range(1, len(entries) + 1))
