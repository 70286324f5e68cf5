"""The same training on 1, 2 and 4 processes: by Workbench (``--slots N``), and by torchrun and DistributedDataParallel.

    python -m benchmarks scaling --json

A plain PyTorch loop on the CPU (gloo, one thread for each process; one step of one process takes about 80 ms). The
batch stays the same, and its samples are divided among the processes, so N processes should take 1/N of the time.
*epoch*: the median of the seconds from one epoch's beginning to the next one's, without the first epoch. Workbench's
contain its reports and checkpoints; the script for torchrun saves nothing. *fastest*: the fastest epoch of all rounds.
*processor*: the first process's processor time in an epoch, which other programs on the machine hardly change.
*efficiency*: an epoch of one process divided by N epochs of N processes that were launched in the same way, in the same
round; and the same for the fastest epochs, and for processor time (where waiting for others costs nothing). *whole*:
from the launch to the end, start-up included; Workbench's from nothing (no engine runs) and with an engine that has
trained before (*again*).

Where there are fewer cores than processes, cores / N is the most that efficiency can be.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from importlib.metadata import version
from itertools import pairwise
from pathlib import Path
from typing import Any, TypeAlias

from benchmarks import engines
from workbench.records import Scheduler
from workbench.space import uniform
from workbench.store.files import packed

#: What both train; the names in capitals are replaced. 2.1 million parameters: 8 MB of gradients a step.
MADE = """
import json, os, time
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
torch.manual_seed(0)
x = torch.randn(SAMPLES, 512)
train = TensorDataset(x, x.roll(1, 1))
model = nn.Sequential(*(layer for _ in range(8) for layer in (nn.Linear(512, 512), nn.ReLU())))
"""
EPOCH = """
    total = 0.0
    for inputs, targets in loader:
        loss = nn.functional.mse_loss(model(inputs), targets)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += loss.item()
"""
TOLD = """
at.append((time.monotonic(), time.process_time()))
if os.environ.get("RANK", "0") == "0":
    print("RESULT", json.dumps({"at": at}), flush=True)
"""
CELL = f"""
lr = uniform(1e-4, 1e-3)
{MADE}
loader = DataLoader(train, batch_size=BATCH, shuffle=True)
optimizer = torch.optim.SGD(model.parameters(), lr=lr, momentum=0.9)
at = []
for epoch in trial.steps():
    at.append((time.monotonic(), time.process_time()))
{EPOCH}
    trial.report(score=-total / len(loader))
{TOLD}
"""
SCRIPT = f"""
{MADE}
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data.distributed import DistributedSampler
dist.init_process_group("gloo")
model = DistributedDataParallel(model)
sampler = DistributedSampler(train)
loader = DataLoader(train, batch_size=BATCH // dist.get_world_size(), sampler=sampler)
optimizer = torch.optim.SGD(model.parameters(), lr=5e-4, momentum=0.9)
at = []
for epoch in range(EPOCHS):
    at.append((time.monotonic(), time.process_time()))
    sampler.set_epoch(epoch)
{EPOCH}
    if dist.get_rank() == 0:
        print(epoch, -total / len(loader), flush=True)
{TOLD}
dist.destroy_process_group()
"""
#: Samples of a step, all processes together.
BATCH = 512
#: What the cell would have imported ahead.
AHEAD = ("torch", "torch._dynamo")
SPACE = {"lr": uniform(1e-4, 1e-3)}
WAYS = ("workbench", "torchrun")
#: What was measured in one round, by way and number of processes.
Round: TypeAlias = dict[tuple[str, int], dict[str, float]]


def arguments(parser: argparse.ArgumentParser) -> None:
    """The options of this benchmark."""
    parser.add_argument("--slots", type=int, nargs="+", default=[1, 2, 4], help="numbers of processes (1 2 4)")
    parser.add_argument("--rounds", type=int, default=3, help="how often each is measured, in turns (3)")
    parser.add_argument("--epochs", type=int, default=6, help="epochs of a training, at least 2 (6)")
    parser.add_argument("--steps", type=int, default=20, help="steps of an epoch (20)")


def measure(options: argparse.Namespace) -> dict[str, Any]:
    """Seconds of an epoch, efficiency and seconds from launch to end, by the number of processes; medians."""
    if options.epochs < 2:
        raise SystemExit(f"--epochs {options.epochs}: expected 2 or more, since the first one does not count.")
    cores = len(os.sched_getaffinity(0))
    before = os.getloadavg()[0]
    rounds: list[Round] = []
    for number in range(options.rounds):
        found = {}
        # Whichever is first in a round is second in the next: the load of a shared machine drifts.
        for count in options.slots:
            for way in WAYS if number % 2 == 0 else reversed(WAYS):
                found[way, count] = (_by_workbench if way == "workbench" else _by_torchrun)(count, options)
        rounds.append(found)
    return {
        "unit": "s",
        "cores": cores,
        "torch": version("torch"),
        "load_before": before,
        "load_after": os.getloadavg()[0],
        "steps": options.steps,
        **{way: {str(count): _of(rounds, way, count, cores) for count in options.slots} for way in WAYS},
        "epoch_ratio": {
            str(count): _median(one["workbench", count]["epoch"] / one["torchrun", count]["epoch"] for one in rounds)
            for count in options.slots
        },
    }


def _of(rounds: Sequence[Round], way: str, count: int, cores: int) -> dict[str, Any]:
    """One way with one number of processes: medians over the rounds, and some values of each round."""
    mine = [one[way, count] for one in rounds]
    found: dict[str, Any] = {name: _median(one[name] for one in mine) for name in mine[0]}
    found["fastest"] = min(one["fastest"] for one in mine)
    for name in ("epoch", "whole", "whole_again"):
        if name in mine[0]:
            found[f"{name}, by round"] = [round(one[name], 3) for one in mine]
    if (way, 1) in rounds[0]:
        alone = [one[way, 1] for one in rounds]
        for name in ("epoch", "processor"):
            found[f"efficiency, {name}"] = _median(
                one[name] / count / many[name] for one, many in zip(alone, mine, strict=True)
            )
        found["efficiency, fastest"] = min(one["fastest"] for one in alone) / count / found["fastest"]
        found["efficiency_at_most"] = min(1.0, cores / count)
    return found


def _by_workbench(count: int, options: argparse.Namespace) -> dict[str, float]:
    source = _filled(CELL, options)
    length = Scheduler("all", options.epochs, options.epochs)
    launched = time.monotonic()
    with engines.engine(workers=count) as store:
        ats, wholes, firsts = [], [], []
        for _ in range(2):  # from nothing, and again
            one = engines.spec(source, store, length, trials=1, slots=count, preload=AHEAD, space=SPACE)
            engines.run(store, one)
            wholes.append(time.monotonic() - launched)
            log = (packed.read(store.experiment(one.id).trial(0).log) or b"").decode()
            if engines.state(store, one) != "completed":
                raise RuntimeError(f"the trial on {count} slots failed: {log[-2000:]}")
            ats.append(engines.told(log)["at"])
            firsts.append(ats[-1][0][0] - launched)
            launched = time.monotonic()
    return {
        **_times(ats),
        "whole": wholes[0],
        "whole_again": wholes[1],
        "first_epoch_after": firsts[0],
        "first_epoch_after_again": firsts[1],
    }


def _by_torchrun(count: int, options: argparse.Namespace) -> dict[str, float]:
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder) / "train.py"
        script.write_text(_filled(SCRIPT, options))
        launch = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={count}"]
        launched = time.monotonic()
        done = subprocess.run(
            [*launch, str(script)],
            capture_output=True,
            text=True,
            check=False,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
        )
        whole = time.monotonic() - launched
    if done.returncode:
        raise RuntimeError(f"torchrun with {count} processes: {done.stderr[-2000:]}")
    at = engines.told(done.stdout)["at"]
    return {**_times([at]), "whole": whole, "first_epoch_after": at[0][0] - launched}


def _times(trainings: Sequence[list[list[float]]]) -> dict[str, float]:
    """Seconds of an epoch in some trainings. Each is the clock and the processor time at each epoch's beginning."""
    clock = [one for at in trainings for one in epochs([seconds for seconds, _ in at])]
    processor = [one for at in trainings for one in epochs([seconds for _, seconds in at])]
    return {"epoch": statistics.median(clock), "fastest": min(clock), "processor": statistics.median(processor)}


def epochs(at: Sequence[float]) -> list[float]:
    """Seconds of each epoch but the first, from the beginnings of all and the end of the last one."""
    return [end - begun for begun, end in pairwise(at[1:])]


def _filled(text: str, options: argparse.Namespace) -> str:
    values = {"SAMPLES": BATCH * options.steps, "BATCH": BATCH, "EPOCHS": options.epochs}
    for name, value in values.items():
        text = text.replace(name, str(value))
    return text


def _median(values: Iterator[float]) -> float:
    return statistics.median(values)
