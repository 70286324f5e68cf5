"""The benchmark of scaling, much shortened: both ways train on two processes; what efficiency is, without training."""

from __future__ import annotations

import json

import pytest

from benchmarks import __main__, scaling


@pytest.mark.slow
def test_both_ways_are_measured_on_two_processes(capsys: pytest.CaptureFixture[str]) -> None:
    short = ["--slots", "2", "--rounds", "1", "--epochs", "2", "--steps", "2"]
    assert __main__.main(["scaling", "--json", *short]) == 0
    found = json.loads(capsys.readouterr().out)
    for way in ("workbench", "torchrun"):
        one = found[way]["2"]
        assert 0 < 2 * one["epoch"] < one["whole"], one
        assert 0 < one["first_epoch_after"] < one["whole"], one
        assert 0 < one["fastest"] <= one["epoch"], one
        assert one["processor"] > 0, one
    ratio = found["workbench"]["2"]["epoch"] / found["torchrun"]["2"]["epoch"]
    assert found["epoch_ratio"]["2"] == pytest.approx(ratio)


def test_efficiency_compares_with_one_process_of_the_same_way_and_round() -> None:
    def taken(epoch: float, processor: float) -> dict[str, float]:
        return {"epoch": epoch, "fastest": epoch - 1, "processor": processor, "whole": 9 * epoch}

    rounds = [
        {("torchrun", 1): taken(8, 6), ("torchrun", 2): taken(5, 4), ("workbench", 1): taken(100, 100)},
        {("torchrun", 1): taken(10, 9), ("torchrun", 2): taken(5, 3), ("workbench", 1): taken(100, 100)},
        {("torchrun", 1): taken(20, 6), ("torchrun", 2): taken(10, 3), ("workbench", 1): taken(100, 100)},
    ]
    two = scaling._of(rounds, "torchrun", 2, 2)
    assert two["efficiency, epoch"] == 1.0, "the median of 0.8, 1 and 1"
    assert two["efficiency, processor"] == 1.0, "the median of 0.75, 1.5 and 1"
    assert two["efficiency, fastest"] == pytest.approx(7 / 8), "7 s alone, 4 s by two"
    assert (two["epoch"], two["fastest"], two["whole"], two["epoch, by round"]) == (5, 4, 45, [5, 5, 10])
    assert (two["efficiency_at_most"], scaling._of(rounds, "torchrun", 2, 1)["efficiency_at_most"]) == (1.0, 0.5)
    one = scaling._of(rounds, "torchrun", 1, 2)
    assert {one[f"efficiency, {of}"] for of in ("epoch", "fastest", "processor")} == {1.0}


def test_the_first_epoch_does_not_count() -> None:
    assert scaling.epochs([0.0, 10.0, 11.0, 13.0]) == [1.0, 2.0]


def test_a_training_without_a_measured_epoch_is_refused() -> None:
    with pytest.raises(SystemExit, match="expected 2 or more"):
        __main__.main(["scaling", "--epochs", "1"])
