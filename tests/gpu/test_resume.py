"""In strict mode, a trial on a GPU that is killed again and again and resumed equals an undisturbed one."""

from __future__ import annotations

from typing import Any

import pytest
from gpu.loops import HEAD, LOOPS
from trial.loops import FOOT, TORCH
from trial.loops import HEAD as PLAIN_HEAD
from trial.test_resume import same

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


@pytest.mark.parametrize("name", LOOPS)
def test_resumed_equals_undisturbed(server: Any, experiment: Any, name: str) -> None:
    same(server, experiment, HEAD + LOOPS[name] + ON_HOST, deterministic="strict")


@pytest.mark.parametrize("name", [name for name in TORCH if name not in NOT_THERE])
def test_loops_that_know_of_no_gpu_resume_exactly_on_one(server: Any, experiment: Any, name: str) -> None:
    same(server, experiment, FIRST + PLAIN_HEAD + TORCH[name] + ON_HOST, deterministic="strict")
