"""Orders of batches depend on their own random numbers, and parts on nothing else than sizes."""

from __future__ import annotations

import itertools
import random

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st

from workbench.trial.ranks.orders import Stream
from workbench.trial.ranks.samples import Samples
from workbench.trial.ranks.sharding import bounds


def drawn(stream, *, everything=True):
    with stream.drawing(everything=everything):
        return random.random(), np.random.rand(), torch.rand(()).item()  # noqa: NPY002 - the global one is meant


def seeded():
    random.seed(5)
    np.random.seed(5)  # noqa: NPY002
    torch.manual_seed(5)


def test_a_stream_starts_where_the_generators_are_and_leaves_them_there():
    seeded()
    first = random.random(), np.random.rand(), torch.rand(()).item()  # noqa: NPY002
    seeded()
    stream = Stream()
    assert drawn(stream) == first
    assert drawn(stream) != first
    assert (random.random(), np.random.rand(), torch.rand(()).item()) == first  # noqa: NPY002


def test_what_is_drawn_besides_does_not_move_a_stream():
    stream, other = Stream(), Stream()
    drawn(stream), drawn(other)
    random.random(), np.random.rand(), torch.rand(3)  # noqa: NPY002
    assert drawn(stream) == drawn(other)


def test_a_stream_continues_where_its_state_was_taken():
    stream = Stream()
    drawn(stream)
    state = stream.state()
    expected = drawn(stream)
    drawn(stream)
    stream.put(state)
    assert drawn(stream) == expected


@given(st.integers(0, 1000), st.integers(1, 64))
def test_parts_are_contiguous_and_differ_by_one_sample_at_most(count, size):
    parts = [bounds(count, rank, size) for rank in range(size)]
    assert parts[0][0] == 0
    assert parts[-1][1] == count
    assert all(end == start for (_, end), (start, _) in itertools.pairwise(parts))
    sizes = [end - start for start, end in parts]
    assert max(sizes) - min(sizes) <= 1


@given(st.integers(1, 1000), st.integers(1, 64))
def test_the_shares_of_all_ranks_add_up_to_one(count, size):
    shares = []
    for rank in range(size):
        samples = Samples(size)
        start, end = bounds(count, rank, size)
        samples.given("a loader", end - start, count)
        shares.append(samples.take_share())
    assert abs(sum(shares) - 1) < 1e-12
