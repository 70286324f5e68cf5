"""What checkpoints cost training, by default, for models of 1, 12 and 100 MB: stall, share of the time, bytes.

The last has nine of its ten layers frozen, as in fine-tuning: unchanged parts are not written again. With ``--gpu``
the models have 12 MB to 1 GB, and lie on a GPU.
"""

from __future__ import annotations

import argparse
import statistics
from typing import Any

from benchmarks import engines
from workbench.records import Scheduler

#: A model of about SIZE MB of parameters with momentum, trained for SECONDS on batches of ROWS that keep one thread, or
#: the GPU, busy.
SOURCE = """
x = uniform(0.0, 1.0)
import json, time
import torch
from torch import nn
torch.set_num_threads(1)
width = max(16, int((SIZE * 1e6 / 4 / 10) ** 0.5))
model = nn.Sequential(*(nn.Linear(width, width) for _ in range(10))).to("DEVICE")
model[:FROZEN].requires_grad_(False)
opt = torch.optim.SGD([p for p in model.parameters() if p.requires_grad], lr=1e-3, momentum=0.9)
batch = torch.randn(ROWS, width, device="DEVICE")
parameters = sum(p.nbytes for p in model.parameters())
begun = turns = 0
for turn in trial.steps():
    if turn == 5:
        begun = time.perf_counter()      # the first turns are warm-up
    opt.zero_grad()
    loss = model(batch).square().mean()
    loss.backward()
    opt.step()
    trial.report(score=x, loss=loss)
    if begun and time.perf_counter() - begun > SECONDS:
        spent, turns = time.perf_counter() - begun, turn - 4
        break
print("RESULT", json.dumps({"parameters_mb": parameters / 1e6, "turns_a_second": turns / spent, "seconds": spent}))
"""
#: Megabytes, and how many of the ten layers are frozen.
MODELS = ((1, 0), (12, 0), (100, 0), (100, 9))
GPU_MODELS = ((12, 0), (100, 0), (1000, 0), (1000, 9))
#: Seconds between checkpoints, longer than the run: the reference without checkpoints.
NEVER = 1e9


def arguments(parser: argparse.ArgumentParser) -> None:
    """The options of this benchmark."""
    parser.add_argument("--seconds", type=float, default=12.0, help="how long each model is trained, each time (12)")
    parser.add_argument("--rounds", type=int, default=3, help="how often, with and without checkpoints (3)")
    parser.add_argument("--gpu", action="store_true", help="train larger models on a GPU")


def measure(options: argparse.Namespace) -> dict[str, Any]:
    """For each size: milliseconds of a stall, percent of the time that training waited, percent slower, bytes."""
    found: dict[str, Any] = {}
    device, rows = ("cuda", 8192) if options.gpu else ("cpu", 64)
    with engines.engine(workers=None if options.gpu else 1) as store:
        engines.warm(store, ("torch",))
        for size, frozen in GPU_MODELS if options.gpu else MODELS:
            source = SOURCE.replace("SIZE", str(size)).replace("FROZEN", str(frozen)).replace("ROWS", str(rows))
            source = source.replace("SECONDS", str(options.seconds)).replace("DEVICE", device)
            saving, bare = [], []
            for _ in range(options.rounds):
                bare.append(_trained(store, source, save_s=NEVER))
                saving.append(_trained(store, source))
            best = max(saving, key=lambda one: one["count"])
            found[f"{size} MB{f', {frozen} of 10 layers frozen' if frozen else ''}"] = {
                "parameters_mb": best["parameters_mb"],
                "checkpoint_mb": best["bytes"] / 1e6,
                "checkpoints": best["count"],
                "stall_ms": statistics.median(one["stall_s"] / one["count"] * 1e3 for one in saving),
                "written_ms": statistics.median(one["written_s"] / one["count"] * 1e3 for one in saving),
                "stalled_percent": statistics.median(100 * one["stall_s"] / one["seconds"] for one in saving),
                "slowed_percent": 100
                * (
                    statistics.median(one["turns_a_second"] for one in bare)
                    / statistics.median(one["turns_a_second"] for one in saving)
                    - 1
                ),
            }
    return {**found, "budget": {"stalled_percent": 1.0}}


def _trained(store: Any, source: str, **fields: Any) -> dict[str, Any]:
    # No levels in between: a search takes a checkpoint at each one at any cost, and here they would be a second apart.
    one = engines.spec(source, store, Scheduler("all", 1_000_000, 1_000_000), trials=1, preload=("torch",), **fields)
    engines.run(store, one)
    text = engines.printed(store, one)
    found = engines.told(text)
    (leg,) = engines.legs(store, one)
    # The trial waits for its last checkpoint when it ends; this is not part of the measured time.
    return {**found, **leg["detail"]["saved"]}
