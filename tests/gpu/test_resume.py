"""In strict mode, a trial on a GPU that is killed after every step and resumed equals an undisturbed one."""

from __future__ import annotations

from typing import Any

import pytest
from gpu.loops import HEAD, LOOPS
from trial.loops import FOOT, TORCH
from trial.loops import HEAD as PLAIN_HEAD
from trial.world import points, said

STEPS = 4
FIRST = 'import torch\ntorch.set_default_device("cuda")\n'
ON_HOST = FOOT.replace(".detach()", ".detach().cpu()")
#: Their undisturbed turn fails: torch refuses their generators, which are on the CPU, if the default device is a GPU.
NOT_THERE = frozenset(
    {
        "loaders of torch",
        "the trial's own loader",
        "random generators of every sort",
        "a loader that knows where it is",
        "workers that live on from epoch to epoch",
    }
)


def result(output: str) -> str:
    lines = [line for line in output.splitlines() if line.startswith("RESULT")]
    assert len(lines) == 1, f"the code after the loop ran {len(lines)} times:\n{output}"
    return lines[0]


def same(server: Any, experiment: Any, source: str) -> None:
    cell = experiment(source + ON_HOST, steps=STEPS, deterministic="strict")
    calm = server.runner()
    told = calm.leg(cell.order(trial=0))
    assert told[-1]["outcome"] == "completed", told[-1]["error"]["traceback"]
    calm.kill()
    expected, weights = points(told), result(calm.output())

    resumed: dict[Any, float] = {}
    output, start = "", 0
    cell = experiment(source + ON_HOST, steps=STEPS, deterministic="strict")
    while True:
        runner = server.runner()
        told = runner.leg(cell.order(start + 1, start=start))
        left = told[-1]
        assert left["op"] == "left", runner.output()
        assert left["error"] is None, left["error"]["traceback"]
        runner.kill()
        assert said(told, "begun")[0]["step"] == start
        resumed |= points(told)
        output += runner.output()
        if left["outcome"] == "completed":
            break
        start = left["step"]
    assert resumed == expected
    assert result(output) == weights


@pytest.mark.parametrize("name", LOOPS)
def test_resumed_equals_undisturbed(server: Any, experiment: Any, name: str) -> None:
    same(server, experiment, HEAD + LOOPS[name])


@pytest.mark.parametrize("name", [name for name in TORCH if name not in NOT_THERE])
def test_loops_that_know_of_no_gpu_resume_exactly_on_one(server: Any, experiment: Any, name: str) -> None:
    same(server, experiment, FIRST + PLAIN_HEAD + TORCH[name])
