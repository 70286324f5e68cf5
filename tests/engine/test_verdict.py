"""What a comparison with an undisturbed turn says, and in which words."""

from __future__ import annotations

import math
from typing import Any

import pytest
from running import spec_of

from workbench.engine.judging.verdict import Task, causes, compared, sentence

TASK = Task(trial=3, start=0, until=6, resumed=2, why="the first promotion")
NOTHING: dict[str, Any] = {"files": []}


def reports(**metrics: list[float]) -> dict[tuple[str, int], float]:
    return {(name, step): value for name, values in metrics.items() for step, value in enumerate(values, 1)}


CALM = reports(loss=[0.6, 0.5, 0.4, 0.3, 0.2, 0.1], acc=[1, 2, 3, 4, 5, 6])


def words(trial: dict[tuple[str, int], float], calm: dict[tuple[str, int], float] = CALM, **more: Any) -> str:
    return sentence({**TASK.to_json(), **compared(TASK, "loss", trial, calm), **more})


def test_the_same_bits_are_identical() -> None:
    assert compared(TASK, "loss", CALM, CALM) == {"verdict": "identical", "unsteady": []}
    assert words(CALM) == ("resuming t0003 at step 2 is exact: every metric to step 6 has the same bits as undisturbed")


def test_a_last_bit_is_enough_to_part() -> None:
    other = {**CALM, ("loss", 4): math.nextafter(0.3, 1)}
    found = compared(TASK, "loss", other, CALM)
    assert (found["verdict"], found["step"], found["metric"], found["before"]) == ("parts", 4, "loss", False)
    assert "differs from step 4: loss 0.30000000000000004 vs 0.29999999999999999 undisturbed" in words(other)
    assert "something in the loop is not restored; because" in words(other, causes=["because"])


def test_the_first_step_counts_and_there_the_goal() -> None:
    other = {**CALM, ("acc", 5): 0.0, ("loss", 5): 0.0, ("acc", 6): 0.0}
    assert compared(TASK, "loss", other, CALM)["metric"] == "loss"


def test_what_differs_before_anything_was_resumed_is_told_and_not_excused() -> None:
    trial, calm = {**CALM, **reports(seconds=[1.0] * 6)}, {**CALM, **reports(seconds=[2.0] * 6)}
    found = compared(TASK, "loss", trial, calm)
    assert (found["verdict"], found["metric"], found["step"], found["before"]) == ("parts", "seconds", 1, True)
    assert found["unsteady"] == ["seconds"]
    assert words(trial, calm).endswith("so seconds does not repeat itself; loss has the same bits")
    # What parts after resuming says more.
    assert compared(TASK, "loss", {**trial, ("acc", 5): 0.0}, calm)["metric"] == "acc"


def test_a_state_that_differs_is_named() -> None:
    told = {"verdict": "parts", "differs": ["history", "t"], "step": 6, "metric": "the state of history, t"}
    assert words(CALM, **told).endswith("the same bits as undisturbed, but the state differs in history, t")


def test_a_goal_that_does_not_repeat_itself_is_told() -> None:
    other = {**CALM, ("loss", 1): 9.0}
    found = compared(TASK, "loss", other, CALM)
    assert (found["verdict"], found["step"], found["before"]) == ("parts", 1, True)
    assert "training does not repeat itself" in words(other)


def test_nan_equals_nan_and_what_is_missing_parts() -> None:
    odd = {**CALM, ("loss", 3): math.nan}
    assert compared(TASK, "loss", odd, odd)["verdict"] == "identical"
    found = compared(TASK, "loss", odd, CALM)
    assert (found["a"], found["b"]) == ("nan", 0.4)
    more = compared(TASK, "loss", {**CALM, ("extra", 4): 1.0}, CALM)
    assert (more["metric"], more["step"], more["b"]) == ("extra", 4, None)
    # What only the undisturbed turn reported may have been lost with an engine, and steps after the end do not count.
    assert compared(TASK, "loss", CALM, {**CALM, ("extra", 4): 1.0})["verdict"] == "identical"
    assert compared(TASK, "loss", CALM, {**CALM, ("loss", 7): 1.0})["verdict"] == "identical"


def test_without_a_report_nothing_can_be_said() -> None:
    assert compared(TASK, "loss", {}, {})["verdict"] == "could not"


@pytest.mark.parametrize(
    ("settings", "places", "touched", "expected"),
    [
        ({}, [{"device": "cpu"}], {"files": ["/data/n.txt"]}, "/data/n.txt"),
        ({}, [{"device": "H200"}], NOTHING, "--deterministic strict"),
        ({}, [{"threads": 1}, {"threads": 4}], NOTHING, "numbers of threads: 1 and 4"),
    ],
)
def test_likely_causes_are_named(tmp_path: Any, settings: Any, places: Any, touched: Any, expected: str) -> None:
    spec = spec_of("", tmp_path, **settings)
    assert any(expected in cause for cause in causes(spec, [], places, touched))


def test_names_left_out_are_named(tmp_path: Any) -> None:
    spec = spec_of("", tmp_path, deterministic="strict")
    assert causes(spec, [{"name": "stream", "reason": "a generator"}], [{"device": "H200"}], NOTHING) == [
        "names left out: stream (a generator)"
    ]
