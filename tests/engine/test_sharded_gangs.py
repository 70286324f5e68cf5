"""Trials whose models are sharded over several slots: exact after a fault, and whole in checkpoints."""

from __future__ import annotations

import dataclasses
import math
import os
import signal
from pathlib import Path

import torch
from gang_world import gang, losses, pid_of
from running import ended, engine, lines, outcome, start, until

import workbench as wb
from workbench.records import Scheduler
from workbench.store import Store
from workbench.store.keeping.checkpoints import Checkpoints


def test_a_killed_rank_of_a_sharded_trial_changes_no_result(tmp_path: Path, runtime: None) -> None:
    store = Store(tmp_path / "store").create()
    whole = Scheduler(kind="all", first=15, last=15)
    spec = gang(tmp_path, 2, pause=0.1, scheduler=whole, trials=1, verify=False, save_steps=1, strategy="fsdp")
    calm = dataclasses.replace(spec, id=f"{spec.id}c", name="calm")
    alone = gang(tmp_path, 1, "alone", scheduler=whole, trials=1, verify=False)
    with engine(store, workers=2):
        for one in (calm, alone):
            start(store, one)
            assert ended(store, one) == "completed"
        (tmp_path / "steps").unlink()
        start(store, spec)
        passing = Checkpoints(store.experiment(spec.id).trial(0).passing)
        until(lambda: max(passing.steps(), default=0) > 0, what="a checkpoint")
        pid = pid_of(tmp_path, 1)
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
        assert ended(store, spec) == "completed"
    assert len(lines(store, spec, "Lost")) == 1
    assert outcome(store, spec) == outcome(store, calm)
    one, other = losses(store, alone), losses(store, spec)
    assert one.keys() == other.keys()
    assert all(math.isclose(value, one[key], rel_tol=1e-4) for key, value in other.items()), (one, other)
    model = wb.open("gang", store=store).best.load().model
    expected = wb.open("calm", store=store).best.load().model.state_dict()
    assert type(model[0].weight) is torch.nn.Parameter, "whole and plain"
    assert all(torch.equal(value, expected[name]) for name, value in model.state_dict().items())
