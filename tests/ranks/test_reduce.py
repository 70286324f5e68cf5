"""Reports of several ranks become means by their samples."""

from __future__ import annotations

import math
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workbench.errors import BadMetric
from workbench.trial.ranks.reduce import mean


def test_a_mean_is_weighted_by_samples():
    assert mean([(3, {"loss": 1.0}), (1, {"loss": 5.0})]) == {"loss": 2.0}


def test_without_samples_all_ranks_count_equally():
    assert mean([(0, {"loss": 1.0}), (0, {"loss": 5.0})]) == {"loss": 3.0}


def test_a_rank_without_samples_does_not_count():
    assert mean([(2, {"loss": 1.5}), (0, {"loss": math.nan})]) == {"loss": 1.5}
    assert mean([(2, {"loss": 1.5}), (0, {"loss": math.inf})]) == {"loss": 1.5}


@given(st.floats(), st.lists(st.integers(0, 1000), min_size=1, max_size=8))
def test_a_value_that_is_equal_on_all_ranks_keeps_its_bits(value, samples):
    reduced = mean([(count, {"loss": value}) for count in samples])
    assert struct.pack("<d", reduced["loss"]) == struct.pack("<d", value)


@given(st.lists(st.tuples(st.integers(1, 100), st.floats(-1e300, 1e300)), min_size=2, max_size=8))
def test_a_mean_lies_between_the_values(pairs):
    reduced = mean([(samples, {"loss": value}) for samples, value in pairs])["loss"]
    values = [value for _, value in pairs]
    slack = 1e-12 * max(map(abs, values))
    assert min(values) - slack <= reduced <= max(values) + slack


def test_what_is_not_finite_stays_so():
    assert math.isnan(mean([(1, {"loss": math.nan}), (1, {"loss": 1.0})])["loss"])
    assert mean([(1, {"loss": math.inf}), (3, {"loss": 1.0})])["loss"] == math.inf
    assert math.isnan(mean([(1, {"loss": math.inf}), (1, {"loss": -math.inf})])["loss"])


def test_different_names_are_refused():
    with pytest.raises(BadMetric, match=r"rank 0 reported \{'acc', 'loss'\} and rank 2 \{'loss'\}: acc is not in both"):
        mean([(1, {"loss": 1.0, "acc": 0.0})] * 2 + [(1, {"loss": 1.0})])
