"""What several ranks cannot train is refused by name on every rank, and ranks that differ are found."""

from __future__ import annotations

import time

import pytest
from ranks.world import Failed


@pytest.mark.parametrize(
    ("name", "kind", "texts"),
    [
        ("of_stream", "BadInput", ["the DataLoader loader cannot be split over 2 ranks", "class Stream, is iterable"]),
        ("of_whole_batches", "BadInput", ["the DataLoader loader", "batch_size=None", "BatchSampler"]),
        ("out_of_order", "BadInput", ["the DataLoader loader", "in_order=True"]),
        ("cycled_unevenly", "BadInput", ["repeats the batches of the DataLoader loader", "while True: yield from"]),
        ("lazy", "BadInput", ["model.0.weight has no shape yet", "Call the model on one batch"]),
        ("sparse", "BadInput", ["model.0 is a Embedding with sparse=True", "sparse=False"]),
        ("several_gpus", "BadInput", ["model is a DataParallel"]),
        ("different_models", "BadInput", ["rank 0 has model.weight (1, 6)", "rank 1 has model.weight (2, 6)"]),
        ("two_uneven", "BadInput", ["the DataLoader two", "the DataLoader one", "drop_last=True"]),
        ("other_reports", "BadMetric", ["rank 0 reported {'loss', 'of_0'} and rank 1 {'loss', 'of_1'}", "of_0, of_1"]),
        ("own_steps", "TrialFailed", ["before step 2 of the optimizers", "on rank 0", "on rank 1", "learning rate"]),
        (
            "late_layer",
            "TrialFailed",
            ["after the first backward pass, the ranks differ: the gradient of model.3.weight"],
        ),
        ("past_hooks", "TrialFailed", ["before step 1 of the optimizers", "the gradient of model.0.weight["]),
        ("one_changed", "TrialFailed", ["before step 8 of the optimizers, the ranks differ: model.2.weight[0, 3] is"]),
    ],
)
def test_it_is_refused_on_every_rank(world, name, kind, texts):
    answers = world.answers(name, 2)
    for one in answers:
        assert isinstance(one, Failed)
        assert one.args[0] == kind, one.args[2]
        for text in texts:
            assert text in one.args[1]


def test_the_differing_rank_is_named_with_both_values(world):
    for one in world.answers("one_changed", 4):
        assert "on rank 0 and" in one.args[1]
        assert "on rank 1." in one.args[1]


def test_ranks_are_compared_every_so_many_steps(world):
    assert "before step 1 " in world.answers("past_hooks", 2, every=1000)[0].args[1]
    assert not any(isinstance(one, Failed) for one in world.answers("one_changed", 2, every=1000))
    assert "before step 11 " in world.answers("one_changed", 2, every=10)[0].args[1]


@pytest.mark.parametrize("ranks", [2, 3])
def test_a_rank_that_breaks_off_a_pass_is_found_by_all(world, ranks):
    started = time.monotonic()
    for one in world.answers("one_breaks", ranks):
        assert one.args[0] == "TrialFailed", one.args[2]
        assert "rank 0 waits in a backward pass, rank 1 waits in trial.report" in one.args[1]
        assert "no break, return or branch may depend on the rank" in one.args[1]
    assert time.monotonic() - started < 20  # a collective's own limit is 30


def test_a_rank_that_ends_before_the_others_is_found_by_them(world):
    first, second = world.answers("one_returns", 2)
    assert not isinstance(second, Failed)
    assert first.args[0] == "TrialFailed", first.args[2]
    assert "rank 0 waits in a backward pass, rank 1 has left the loop" in first.args[1]


def test_a_rank_that_fails_keeps_its_own_error(world):
    first, second = world.answers("one_fails", 2)
    assert second.args[:2] == ("ValueError", "no more")
    assert first.args[:2] == ("TrialFailed", "rank 1 failed. Its own error says why.")


def test_losses_that_add_up_are_remarked(world):
    assert any("criterion adds up the losses" in one for one in world.run("added_up", 2)[0].remarks)
