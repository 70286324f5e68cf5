"""Searches on a real GPU, by a real engine with dask-cuda: exact under faults, seen, divided, drained, refused."""

from __future__ import annotations

import dataclasses
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from cli.stored import typed
from notebook_kernel import Kernel
from running import (
    ended,
    engine,
    engine_process,
    lines,
    meta,
    most_at_once,
    outcome,
    processes_below,
    spec_of,
    start,
    until,
)

from workbench.cluster.devices import gpu_slots, plan
from workbench.cluster.own import end_found
from workbench.records import Scheduler, Spec
from workbench.space import uniform
from workbench.store import Store
from workbench.store.lists import system
from workbench.store.lists.glance import Glance
from workbench.store.owner.slots import holders
from workbench.store.series import Series

#: Convolutions with dropout, which draw on the GPU; each step says when it was, and where. It
#: sleeps, so that a kill or a drain finds a step under way.
LOOP = """
x = uniform(0.0, 1.0)
import json, os, time
import torch
from torch import nn
from torch.nn import functional as F
X = torch.randn(64, 3, 8, 8, device=trial.device)
Y = (X.mean((1, 2, 3)) > 0).long()
model = nn.Sequential(
    nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Dropout2d(0.2), nn.Flatten(), nn.Linear(288, 2)
).to(trial.device)
opt = torch.optim.AdamW(model.parameters(), lr=0.01 * x)
for epoch in trial.steps():
    begun = time.monotonic()
    time.sleep({pause})
    opt.zero_grad(); loss = F.cross_entropy(model(X), Y); loss.backward(); opt.step()
    trial.report(score=-loss, noise=torch.rand(1, device=trial.device))
    with open({steps!r}, "a") as file:
        file.write(json.dumps([trial.number, begun, time.monotonic(), os.getpid(), X.device.type]) + "\\n")
"""
#: Computes on the GPU for some seconds.
BUSY = """
x = uniform(0.0, 1.0)
import time, torch
square = torch.randn(8192, 8192, device="cuda")
for epoch in trial.steps():
    begun = time.monotonic()
    while time.monotonic() - begun < 3:
        square = (square @ square).clamp(-1, 1)
        torch.cuda.synchronize()
    trial.report(score=square.mean())
"""
#: Holds this part of the GPU's memory for some steps. It sleeps, so that another program comes meanwhile.
HOLDS = """
x = uniform(0.0, 1.0)
import time, torch
total = torch.cuda.get_device_properties(0).total_memory
held = torch.empty(int(total * {part}), dtype=torch.uint8, device="cuda")
for epoch in trial.steps():
    time.sleep(0.05)
    trial.report(score=x)
"""
HYPERBAND = Scheduler(kind="hyperband", first=1, last=3, eta=3)
#: Trains what the cells before it have made on the GPU.
HELD = """%%train held --goal min score --steps 3 --trials 2 --deterministic strict --wait
lr = loguniform(1e-3, 1e-1)
opt = torch.optim.SGD(base.parameters(), lr=lr)
for epoch in trial.steps():
    loss = base(data).square().mean()
    opt.zero_grad(); loss.backward(); opt.step()
    trial.report(score=loss)
"""
#: Another program, which holds most of the GPU's memory.
OUTSIDE = """
import torch
total = torch.cuda.get_device_properties(0).total_memory
held = torch.empty(int(total * 0.65), dtype=torch.uint8, device="cuda")
torch.cuda.synchronize()
print("held", flush=True)
input()
"""


@pytest.fixture
def runtime(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A runtime folder of its own: the GPU's slot is free there, whatever the machine's other engines do."""
    (tmp_path / "runtime").mkdir(mode=0o700)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "runtime"))


@pytest.fixture
def store(tmp_path: Path, runtime: None) -> Store:
    return Store(tmp_path / "store").create()


def search(tmp_path: Path, source: str = LOOP, *, name: str = "gpu", pause: float = 0.02, **fields: Any) -> Spec:
    if source is LOOP:
        source = LOOP.format(pause=pause, steps=str(tmp_path / name))
    known = {"scheduler": HYPERBAND, "deterministic": "strict", "verify": False, "preload": ("torch", "numpy")}
    return spec_of(source, tmp_path, name=name, space={"x": uniform(0.1, 1.0)}, **{**known, **fields})


def steps_of(tmp_path: Path, name: str = "gpu") -> list[Any]:
    path = tmp_path / name
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def trials_of(store: Store, spec: Spec) -> list[dict[str, Any]]:
    with Series.read(store.experiment(spec.id).series) as series:
        return series.trials()


def calm(store: Store, spec: Spec, source: str) -> dict[str, Any]:
    """What the search finds if nothing disturbs it."""
    program = dataclasses.replace(spec.program, source=source)
    alone = dataclasses.replace(spec, id=f"{spec.id}c", name=f"{spec.name}-calm", slots=1, program=program)
    start(store, alone)
    assert ended(store, alone) == "completed"
    return outcome(store, alone)


def test_each_gpu_is_a_slot() -> None:
    found = plan(None)
    assert found.trains_on_gpus, found.note
    assert gpu_slots()
    assert all(name.startswith("gpu-GPU-") for name in gpu_slots())


def test_a_search_trains_on_the_gpu_and_resumes_exactly(store: Store, tmp_path: Path) -> None:
    spec = search(tmp_path, verify=True, pause=0.0)
    with engine(store, workers=None):
        start(store, spec)
        assert until(holders, what="the slot")[0].slot in gpu_slots()
        assert ended(store, spec) == "completed"
        found = until(lambda: meta(store, spec).get("verify"), what="the verdict")
        assert found["verdict"] == "identical", found
        again = search(tmp_path, name="again", pause=0.0)
        again = dataclasses.replace(again, seed=spec.seed)
        start(store, again)
        assert ended(store, again) == "completed"
    assert outcome(store, again)["points"] == outcome(store, spec)["points"]
    assert {step[4] for step in steps_of(tmp_path)} == {"cuda"}
    peaks = [line.get("device_peak") for line in lines(store, spec, "LegLeft")]
    assert all(peaks), peaks


def test_killed_runners_workers_and_engines_change_nothing(store: Store, tmp_path: Path) -> None:
    whole = {"scheduler": Scheduler("all", 12, 12), "trials": 2}
    spec = search(tmp_path, pause=0.1, checkpoint_s=0.1, **whole)
    with engine(store, workers=None):
        expected = calm(store, spec, search(tmp_path, name="calm", pause=0.0).program.source)
    process = engine_process(store, workers=None)
    start(store, spec)

    def went_on(more: int) -> list[Any]:
        count = len(steps_of(tmp_path)) + more
        return until(lambda: len(found := steps_of(tmp_path)) >= count and found, what="more steps")

    os.kill(went_on(3)[-1][3], signal.SIGKILL)
    went_on(3)
    os.kill(until(holders, what="a worker")[0].pid, signal.SIGKILL)
    went_on(3)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    with engine(store, workers=None):
        assert ended(store, spec) == "completed"
    assert outcome(store, spec) == expected
    assert lines(store, spec, "Lost")


def test_what_the_gpu_does_is_seen_while_it_trains(store: Store, tmp_path: Path) -> None:
    spec = search(tmp_path, BUSY, scheduler=Scheduler("all", 1, 3), trials=1, deterministic="seeded")

    def curve(measure: str) -> Any:
        path = store.experiment(spec.id).series
        if not path.exists():
            return None
        with Glance(path) as glance:
            return system.curves(glance, measure).get(0)

    with engine(store, workers=None):
        start(store, spec)
        until(lambda: curve("gpu_power"), what="a sample")
        (slot,) = [one for one in typed("queue", "--json").json["slots"] if one["slot"] == gpu_slots()[0]]
        assert slot["gpu"]["memory_bytes"] > 256 << 20, slot
        assert ended(store, spec) == "completed"
    used, held, power = (curve(measure)[1] for measure in ("gpu", "gpu_memory", "gpu_power"))
    assert max(used) > 0.5
    assert 256 << 20 < max(held) < 16 << 30
    assert 50 < max(power) < 1500


@pytest.mark.parametrize("slots", [0.25, "auto"])
def test_trials_share_a_gpu_and_find_what_they_find_alone(store: Store, tmp_path: Path, slots: Any) -> None:
    divided: dict[str, Any] = {"packs": True} if slots == "auto" else {"slots": slots}
    spec = search(tmp_path, pause=0.05, scheduler=Scheduler("all", 12, 12), trials=6, probe=False, **divided)
    with engine(store, workers=None):
        start(store, spec)
        assert ended(store, spec) == "completed"
        alone = search(tmp_path, name="calm", pause=0.0)
        expected = calm(store, dataclasses.replace(spec, packs=False), alone.program.source)
    assert outcome(store, spec) == expected
    together = most_at_once(span(steps_of(tmp_path)))
    assert together == 4 if slots == 0.25 else together > 1


def span(found: list[Any]) -> list[tuple[int, float, float]]:
    each: dict[int, tuple[int, float, float]] = {}
    for trial, begun, end, *_ in found:
        before = each.get(trial, (trial, begun, end))
        each[trial] = (trial, min(before[1], begun), max(before[2], end))
    return list(each.values())


@pytest.mark.parametrize(("slots", "part", "words"), [(0.25, 0.3, "its part of the slot"), (1, 1.2, "out of memory")])
def test_one_that_needs_more_memory_than_it_may_have_fails_by_that_name(
    store: Store, tmp_path: Path, slots: float, part: float, words: str
) -> None:
    spec = search(tmp_path, HOLDS.format(part=part), scheduler=Scheduler("all", 2, 2), trials=2, slots=slots)
    with engine(store, workers=None):
        start(store, spec)
        ended(store, spec)
    told = [trials_of(store, spec), lines(store, spec), meta(store, spec)]
    assert words in json.dumps(told, default=str).lower()


@pytest.fixture
def outside() -> Iterator[Callable[[], subprocess.Popen[str]]]:
    begun: list[subprocess.Popen[str]] = []

    def begin() -> subprocess.Popen[str]:
        program = subprocess.Popen(
            [sys.executable, "-c", OUTSIDE], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        begun.append(program)
        assert program.stdout is not None
        assert program.stdout.readline() == "held\n"
        return program

    yield begin
    for program in begun:
        program.kill()
        program.wait()


def test_a_trial_that_would_not_fit_beside_another_program_waits_for_it(
    store: Store, tmp_path: Path, outside: Callable[[], subprocess.Popen[str]]
) -> None:
    spec = search(tmp_path, HOLDS.format(part=0.3), scheduler=Scheduler("all", 40, 40), trials=3)
    with engine(store, workers=None):
        start(store, spec)
        until(lambda: lines(store, spec, "LegLeft"), what="the end of the first trial")
        program = outside()
        told = until(
            lambda: (why := meta(store, spec).get("reason") or "") and why.startswith("waits for memory") and why,
            what="the reason",
        )
        assert f"(pid {program.pid}) holds" in told
        program.kill()
        program.wait()
        assert ended(store, spec) == "completed"
    assert {trial["state"] for trial in trials_of(store, spec)} == {"completed"}


def test_a_drained_gpu_is_free_and_the_trial_goes_on_there_later(store: Store, tmp_path: Path) -> None:
    spec = search(tmp_path, pause=0.05, scheduler=Scheduler("all", 60, 60), trials=1)
    (slot,) = gpu_slots()
    with engine(store, workers=None) as process:
        expected = calm(store, spec, search(tmp_path, name="calm", pause=0.0).program.source)
        start(store, spec)
        until(lambda: len(steps_of(tmp_path)) > 5, what="some steps")
        assert typed("drain", slot).code == 0
        assert not holders()
        smi = ["nvidia-smi", "--query-compute-apps=pid", "--format=csv,noheader"]
        held = subprocess.run(smi, capture_output=True, text=True, check=True).stdout.split()
        # Nothing of the engine holds memory there, its worker included.
        assert not set(map(int, held)) & set(processes_below(process.pid))
        typed("drain", slot, "--undo")
        assert ended(store, spec) == "completed"
    assert outcome(store, spec) == expected


def test_a_notebooks_model_that_lies_on_the_gpu_goes_along(tmp_path: Path, runtime: None) -> None:
    kernel = Kernel(tmp_path, WORKBENCH_WORKERS="")
    try:
        kernel.run("import torch\nbase = torch.nn.Linear(8, 2).cuda()\ndata = torch.randn(64, 8, device='cuda')")
        kernel.run("summed = data.sum().item()")
        kernel.run(HELD)
        said = kernel.run("print(wb.last().state, base.weight.device, data.sum().item() == summed)")
        assert said == "completed cuda:0 True\n"
    finally:
        kernel.end()
        end_found(tmp_path / ".workbench")
