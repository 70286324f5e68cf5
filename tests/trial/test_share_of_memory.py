"""A trial with a part of a slot gets that part of a GPU's memory; a machine without GPUs notices nothing."""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch

from workbench.engine.judging.faults import Faults

LIMITED = """
from workbench.trial.process.devices import device_memory, peak_memory, share
share.begin({parts})
import torch
share.torch_imported()
share.torch_imported()
"""


def run(code: str, parts: int = 4) -> str:
    """What a process of its own prints: what torch was told stays."""
    done = subprocess.run(
        [sys.executable, "-c", LIMITED.format(parts=parts) + code], check=False, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_torch_is_asked_once_and_cuda_is_not_initialised() -> None:
    ask = "print(sum(one[0] == share._limit for one in torch.cuda._queued_calls), torch.cuda.is_initialized())"
    assert run(ask) == "1 False"
    assert run(ask, parts=1) == "0 False"
    assert run("print(peak_memory(), device_memory())") == "None None"


def test_a_trial_that_used_up_its_part_is_not_retried_though_others_hold_the_rest() -> None:
    memory = {"total": 80e9, "ours": 19e9, "others": 55e9}
    error = {"type": "OutOfMemoryError", "device_memory": {**memory, "allowed": 20e9}}
    verdict = Faults(3).judge(0, "cuda_out_of_memory", 1, error, "OutOfMemoryError: out of memory")
    assert not verdict.again
    assert "its part of the slot has 20.0 of the device's 80.0 GB: give each trial a larger part" in verdict.reason
    assert Faults(3).judge(0, "cuda_out_of_memory", 1, {**error, "device_memory": memory}, "").again


@pytest.mark.skipif(not torch.cuda.is_available(), reason="it needs a GPU")
def test_a_gpu_gives_a_quarter_and_no_more() -> None:
    code = """
total = torch.cuda.get_device_properties(0).total_memory
kept = torch.empty(int(total * 0.2), dtype=torch.uint8, device="cuda")
try:
    more = torch.empty(int(total * 0.1), dtype=torch.uint8, device="cuda")
except torch.OutOfMemoryError:
    found = device_memory()
    print(found["allowed"] == total // 4, peak_memory() >= int(total * 0.2))
del kept
share.begin(1)
torch.cuda.empty_cache()
whole = torch.empty(int(total * 0.3), dtype=torch.uint8, device="cuda")
print(device_memory().get("allowed"))
"""
    assert run(code).split() == ["True", "True", "None"]
