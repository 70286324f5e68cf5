"""Large arrays and tensors: of what training can change, each byte counts; checkpoints of earlier versions go on."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from trial.test_legs import Here
from trial.world import trained_here

from workbench.trial.classifier import ARRAY
from workbench.trial.looking import digests

LOOP = """
import numpy as np
import torch
table, array = torch.zeros(2_500_000), np.zeros(1_500_000)
for epoch in trial.steps():
    if epoch == 0:
        table{data}[1_250_600] = 7.0
        array[[0, 750_400]] = 7.0
    if epoch == 1:
        array[0] = 0.0
    trial.report(score=table.sum(), array=array.sum())
"""


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """As if all of these were larger than half a gigabyte."""
    monkeypatch.setattr(digests, "SAMPLED_FROM", 1 << 20)
    yield digests
    digests.look(digests.NEWEST)


def check(cell: Any, first: int) -> None:
    for step in range(first, 4):
        left = trained_here(Here(), cell.order(step + 1, start=step))
        assert left["error"] is None, left["error"]["traceback"]
        assert left["metrics"] == {"score": 7.0, "array": 14.0 if step == 0 else 7.0}


def test_every_change_is_saved_though_neither_samples_nor_counts_show_it(experiment: Any) -> None:
    check(experiment(LOOP.format(data=".data")), 0)
    assert digests.way() == digests.NEWEST


def test_a_trial_whose_checkpoint_was_compared_by_samples_goes_on_with_them(
    experiment: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is one of an earlier version: the sums of large values differ between the two ways."""
    cell = experiment(LOOP.format(data=""))
    with monkeypatch.context() as patch:
        patch.setattr(digests, "NEWEST", digests.SAMPLES)
        assert trained_here(Here(), cell.order(1))["error"] is None
    check(cell, 1)
    assert digests.way() == digests.SAMPLES
    check(experiment(LOOP.format(data=".data")), 0)


@pytest.mark.parametrize(("mode", "counts"), [("c", True), ("r+", False), ("r", False)])
def test_of_mapped_files_and_of_what_cannot_be_written_samples_are_enough(
    tmp_path: Path, mode: str, counts: bool
) -> None:
    path = tmp_path / "large.bin"
    np.zeros(1_500_000).tofile(path)
    array, see = np.memmap(path, mode=mode), lambda *_: 0
    before = ARRAY.look(array, see)
    if mode == "r":
        np.memmap(path, mode="r+")[6_003_200] = 1
    else:
        array[6_003_200] = 1
    assert (ARRAY.look(array, see) != before) == counts
