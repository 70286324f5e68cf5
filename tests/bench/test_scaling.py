"""The benchmark of scaling, much shortened: both ways train on one and on two processes."""

from __future__ import annotations

import json

import pytest

from benchmarks import __main__, scaling


@pytest.mark.slow
def test_both_ways_are_measured_on_one_and_two_processes(capsys: pytest.CaptureFixture[str]) -> None:
    short = ["--slots", "1", "2", "--rounds", "1", "--epochs", "2", "--steps", "2"]
    assert __main__.main(["scaling", "--json", *short]) == 0
    found = json.loads(capsys.readouterr().out)
    for way in ("workbench", "torchrun"):
        for count in ("1", "2"):
            one = found[way][count]
            assert 0 < 2 * one["epoch"] < one["whole"], one
            assert 0 < one["first_epoch_after"] < one["whole"], one
            assert 0 < one["fastest"] <= one["epoch"], one
            assert one["processor"] > 0, one
        for of in ("epoch", "fastest", "processor"):
            assert found[way]["1"][f"efficiency, {of}"] == 1.0
            assert found[way]["2"][f"efficiency, {of}"] > 0
    ratio = found["workbench"]["2"]["epoch"] / found["torchrun"]["2"]["epoch"]
    assert found["epoch_ratio"]["2"] == pytest.approx(ratio)


def test_the_first_epoch_does_not_count() -> None:
    assert scaling.epochs([0.0, 10.0, 11.0, 13.0]) == [1.0, 2.0]


def test_a_training_without_a_measured_epoch_is_refused() -> None:
    with pytest.raises(SystemExit, match="expected 2 or more"):
        __main__.main(["scaling", "--epochs", "1"])
