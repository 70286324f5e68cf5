"""Parameters that are sharded over ranks are trained as by one process, and are whole in checkpoints."""

from __future__ import annotations

import pytest
import torch
from ranks.world import Failed, alone


@pytest.mark.parametrize("ranks", [2, 4])
@pytest.mark.parametrize("name", ["uneven", "shuffled", "accumulated", "clipped", "sharded_transformer", "sharded_sgd"])
def test_shards_train_as_one_process_does(world, name, ranks):
    expected, runs = alone(name), world.run(name, ranks, strategy="fsdp")
    for run in runs:
        assert len(run.reports) == len(expected.reports)
        for report, other in zip(run.reports, expected.reports, strict=True):
            assert report == pytest.approx(other, rel=1e-10)
        assert run.state.keys() == expected.state.keys()
        for key, value in expected.state.items():
            torch.testing.assert_close(run.state[key], value, rtol=1e-9, atol=1e-11)
            assert torch.equal(run.state[key], runs[0].state[key])


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("compiled", "model is compiled"),
        ("frozen", "is frozen, or not a plain parameter"),
        ("shared", "shared parameters are not sharded"),
        ("rmsprop", "is a RMSprop. Sharded parameters are trained by SGD, Adam and AdamW only"),
    ],
)
def test_what_cannot_be_sharded_is_refused_by_name(world, name, text):
    for one in world.answers(name, 2, strategy="fsdp"):
        assert isinstance(one, Failed)
        assert one.args[0] == "BadInput", one.args[2]
        assert text in one.args[1]
        assert "Use --strategy replicate." in one.args[1]


def test_each_rank_has_its_part_of_parameters_and_moments(world):
    for run in world.run("sharded_parts", 4, strategy="fsdp"):
        (own, whole, moments), *_ = run.seen
        assert whole > 100
        assert own <= whole / 2
        assert moments <= 2 * own
