"""Memory and time of eight trials, two at a time, with one set of frozen weights: loaded by each, and by
``trial.shared``.

    python -m benchmarks shared --json

Each trial trains a small head on frozen weights of --mb megabytes, read from a file. Memory is that of the
engine and all that it starts: the sum of proportional set sizes (PSS: a page that n processes map counts 1/n for each),
sampled five times a second; and of pages that only one process has. The first trial's set-up runs a second time beside
it, in each way.
"""

from __future__ import annotations

import argparse
import statistics
import threading
from typing import Any

import psutil

from benchmarks import engines
from workbench.records import Scheduler
from workbench.store.files import packed

TRIALS = 8
SOURCE = """
x = uniform(0.0, 1.0)
import json, time
import torch
from torch import nn
torch.set_num_threads(1)

def load(path):
    layers = nn.Sequential(*(nn.Linear(WIDTH, WIDTH) for _ in range(10)))
    layers.load_state_dict(torch.load(path, mmap=False))
    return layers.requires_grad_(False)

begun = time.perf_counter()
base = LOAD
seconds = time.perf_counter() - begun
head = nn.Linear(WIDTH, 10)
opt = torch.optim.SGD(head.parameters(), lr=1e-3)
batch = torch.randn(16, WIDTH)
begun = time.perf_counter()
for turn in trial.steps():
    loss = head(base(batch)).square().mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    trial.report(score=x)
    if time.perf_counter() - begun > SECONDS:
        break
print("RESULT", json.dumps({"seconds": seconds, "steps": turn + 1}))
"""
LOADS = {"each trial loads": "load(PATH)", "trial.shared": "trial.shared(load, PATH)"}


def arguments(parser: argparse.ArgumentParser) -> None:
    """The options of this benchmark."""
    parser.add_argument("--mb", type=float, default=200.0, help="megabytes of frozen weights (200)")
    parser.add_argument("--seconds", type=float, default=6.0, help="how long each trial trains (6)")
    parser.add_argument("--slots", type=int, default=2, help="trials at the same time (2)")


def measure(options: argparse.Namespace) -> dict[str, Any]:
    """For each way: seconds of set-up, megabytes at the peak, and what checkpoints cost."""
    import torch
    from torch import nn

    width = int((options.mb * 1e6 / 4 / 10) ** 0.5)
    found: dict[str, Any] = {}
    with engines.engine(workers=options.slots) as store:
        engines.warm(store, ("torch",))
        path = store.root.parent / "base.pt"
        torch.save(nn.Sequential(*(nn.Linear(width, width) for _ in range(10))).state_dict(), path)
        for name, load in {"without weights": "nn.Identity()", **LOADS}.items():
            source = SOURCE.replace("LOAD", load).replace("PATH", repr(str(path)))
            source = source.replace("WIDTH", str(width)).replace("SECONDS", str(options.seconds))
            found[name] = _trained(store, source)
    return {"weights_mb": 10 * (width * width + width) * 4 / 1e6, "trials": TRIALS, "slots": options.slots, **found}


def path_mb(width: int) -> float:
    """Megabytes of the weights."""
    return 10 * (width * width + width) * 4 / 1e6


def _trained(store: Any, source: str) -> dict[str, Any]:
    one = engines.spec(source, store, Scheduler("all", 1_000_000, 1_000_000), trials=TRIALS, preload=("torch",))
    memory = _Memory()
    with memory:
        wall = engines.run(store, one)
    logs = [packed.read(store.experiment(one.id).trial(number).log) or b"" for number in range(TRIALS)]
    told = [engines.told(log.decode()) for log in logs]
    seconds = [one["seconds"] for one in told]
    legs = engines.legs(store, one)
    saved = [leg["detail"]["saved"] for leg in legs if leg["detail"].get("saved")]
    count = sum(one["count"] for one in saved)
    return {
        "peak_pss_mb": max(memory.pss) / 1e6,
        "median_pss_mb": statistics.median(memory.pss) / 1e6,
        "peak_private_mb": max(memory.private) / 1e6,
        "median_private_mb": statistics.median(memory.private) / 1e6,
        "set_up_first_s": max(seconds),
        "set_up_median_s": statistics.median(seconds),
        "set_up_sum_s": sum(seconds),
        "whole_search_s": wall,
        "steps": sum(one["steps"] for one in told),
        "checkpoints": count,
        "checkpoint_mb": max((one["bytes"] for one in saved), default=0) / 1e6,
        "stall_ms": sum(one["stall_s"] for one in saved) / count * 1e3 if count else 0.0,
    }


class _Memory(threading.Thread):
    """Samples the memory of the engine and all processes that it has started, together."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self._over = threading.Event()
        #: Bytes at each sample: each shared page in parts, and only pages that one process has.
        self.pss: list[int] = []
        self.private: list[int] = []

    def __enter__(self) -> _Memory:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self.join()

    def run(self) -> None:
        while not self._over.wait(0.2):
            pss = private = 0
            for process in psutil.Process().children(recursive=True):
                try:
                    memory = process.memory_full_info()
                except psutil.Error:
                    continue
                pss, private = pss + memory.pss, private + memory.uss
            self.pss.append(pss)
            self.private.append(private)
