"""A trial on 1, 2 and 4 ranks has the same samples in the same order, the same reports and the same parameters."""

from __future__ import annotations

from itertools import chain

import pytest
import torch
from ranks.world import Run, alone
from thorough import IS_THOROUGH

#: Relative differences of what is computed in float64, and in float32.
DOUBLE, SINGLE = 1e-10, 2e-5


def merged(runs):
    """The batches of all ranks together. A rank whose part is empty repeats the first sample of the batch."""
    whole = []
    for parts in zip(*(run.seen for run in runs), strict=True):
        batch = list(parts[0])
        for part in parts[1:]:
            batch += [] if part == batch[:1] else part
        whole.append(batch)
    return whole


EXACT = [
    "shuffled",
    "uneven",
    "last_of_one",
    "workers",
    "kept_workers",
    "batch_sampler",
    "batches_by_sampler",
    "own_generator",
    "validated_between",
    "stateful",
    "accumulated",
    "clipped",
    "by_hand",
    "gan",
    "either_order",
    "frozen",
    "shared",
    "branched",
    "recomputed",
    "bare",
    "averaged",
    "late_loader",
    "summed",
    "summed_by_batches",
    "iterator",
    "iterator_under_way",
    "cycled",
    "without_loader",
    "compiled",
]
ALL = [*EXACT, "mixed", "single"]
#: Where it counts how many parts there are: of which samples they are, empty ones, and what is summed over them.
BY_FOUR = [
    "uneven",
    "last_of_one",
    "workers",
    "batch_sampler",
    "stateful",
    "accumulated",
    "clipped",
    "by_hand",
    "shared",
    "averaged",
    "summed",
    "summed_by_batches",
    "iterator",
    "mixed",
]


@pytest.mark.parametrize(
    ("name", "ranks"),
    [*((name, 2) for name in ALL), *((name, 4) for name in (ALL if IS_THOROUGH else BY_FOUR))],
)
def test_ranks_train_as_one_process_does(world, name, ranks):
    expected, runs = alone(name), world.run(name, ranks)
    tolerance = DOUBLE if name in EXACT else SINGLE
    assert merged(runs) == expected.seen
    for run in runs:
        assert run.reports == runs[0].reports
        assert all(torch.equal(run.state[key], value) for key, value in runs[0].state.items())
        assert run.pickles
    assert len(runs[0].reports) == len(expected.reports)
    for report, other in zip(runs[0].reports, expected.reports, strict=True):
        assert report == pytest.approx(other, rel=tolerance)
    for key, value in expected.state.items():
        torch.testing.assert_close(runs[0].state[key], value, rtol=tolerance, atol=tolerance / 10)


def test_the_order_does_not_depend_on_what_the_ranks_draw_besides(world):
    two, four = merged(world.run("dropping", 2)), merged(world.run("dropping", 4))
    assert two == four
    assert sorted(chain(*two)) == sorted(3 * [*range(41)])
    assert two[0] == alone("dropping").seen[0]


def test_workers_of_two_ranks_draw_different_numbers(world):
    first, second = world.run("drawing_workers", 2)
    assert first.seen[0] == alone("drawing_workers").seen[0][:4]
    assert set(chain(*first.seen)).isdisjoint(chain(*second.seen))


def test_workers_of_ranks_end_as_soon_as_those_of_one_process(world):
    (alone_s, *_), *_ = sorted(alone("ending_workers").seen)
    for run in world.run("ending_workers", 2):
        (fastest_s, *_), *_ = sorted(run.seen)
        assert fastest_s < alone_s + 0.2
        assert {code for _, *codes in run.seen for code in codes} == {0}


def test_batches_that_workers_were_asked_for_before_stay_whole(world):
    expected, runs = alone("iterator_with_workers"), world.run("iterator_with_workers", 2)
    assert runs[0].seen[:2] == runs[1].seen[:2] == expected.seen[:2]
    assert merged([Run([], {}, run.seen[2:]) for run in runs]) == expected.seen[2:]
    for run in runs:
        for report, other in zip(run.reports, expected.reports, strict=True):
            assert report == pytest.approx(other, rel=DOUBLE)


def test_evaluations_are_not_split(world):
    expected, runs = alone("of_evaluation"), world.run("of_evaluation", 2)
    assert [run.seen for run in runs] == [expected.seen] * 2
    assert [run.reports for run in runs] == [expected.reports] * 2


@pytest.mark.parametrize(
    ("name", "ranks"),
    [
        ("normalized_evenly", 2),
        ("normalized_evenly", 4),
        ("normalized_unevenly", 2),
        ("normalized_unevenly", 4),
        ("normalized_compiled", 2),
        *([("normalized_compiled", 4)] if IS_THOROUGH else []),
    ],
)
def test_norms_are_those_of_the_whole_batch(world, name, ranks):
    expected, runs = alone(name), world.run(name, ranks)
    for key, value in runs[0].state.items():
        assert torch.equal(runs[-1].state[key], value)
        if not key.endswith("largest"):  # the first rank's
            torch.testing.assert_close(value, expected.state[key], rtol=1e-9, atol=1e-11)


def test_norms_of_other_libraries_are_remarked(world):
    runs = world.run("norm_of_others", 2)
    assert any("model.0 is a Narrow, which normalizes each rank's part" in one for one in runs[0].remarks)
    assert world.run("normalized_evenly", 2)[0].remarks == []


def test_a_loop_without_loaders_is_remarked(world):
    assert any("no faster than on one slot" in one for one in world.run("without_loader", 2)[0].remarks)
    assert world.run("shuffled", 2)[0].remarks == []


def test_what_the_code_has_split_is_not_split_again(world):
    first, second = world.run("split_by_code", 2)
    assert [len(run.seen) for run in (first, second)] == [6, 6]
    assert set(chain(*first.seen, *second.seen)) == set(range(41))


def test_ranks_meet_by_the_usual_variables(world):
    assert world.run("shuffled", 2, init="env://")[0].reports == world.run("shuffled", 2)[0].reports
