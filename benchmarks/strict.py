"""What `--deterministic strict` costs beside `seeded`: an optimizer step of two small models on digits, and a trial.

Both modes are measured in turns in one run, on the same engine and worker; the ratios are of neighbours.
"""

from __future__ import annotations

import argparse
import statistics
from typing import Any

from benchmarks import engines
from workbench.records import Scheduler

#: The median of a pass over digits in batches of 64, in ms an optimizer step, after two passes to warm up.
SOURCE = """
x = uniform(0.0, 1.0)
import json, statistics, time
import torch
from sklearn.datasets import load_digits
from torch import nn
device = trial.device
images, labels = load_digits(return_X_y=True)
images = torch.tensor(images, dtype=torch.float32, device=device) / 16
labels = torch.tensor(labels, device=device)
models = {
    "mlp": lambda: nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Dropout(0.2), nn.Linear(128, 10)),
    "cnn": lambda: nn.Sequential(
        nn.Unflatten(1, (1, 8, 8)), nn.Conv2d(1, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(),
        nn.Conv2d(16, 32, 3, stride=2, padding=1), nn.ReLU(), nn.Flatten(), nn.Linear(512, 10),
    ),
}
model = models[MODEL]().to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
wait = torch.cuda.synchronize if device == "cuda" else lambda: None
passes, loss = [], None
for turn in trial.steps():
    order = torch.randperm(len(labels), device=device).split(64)
    wait()
    begun = time.perf_counter()
    for rows in order:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(images[rows]), labels[rows])
        loss.backward()
        optimizer.step()
    wait()
    passes.append((time.perf_counter() - begun) / len(order) * 1e3)
    trial.report(score=-loss.item())
print("RESULT", json.dumps({"ms": statistics.median(passes[2:]), "loss": loss.item(), "device": str(device)}))
"""
#: Training that takes no time: what is left is the trial's own cost, a fresh process in strict mode.
NOTHING = "x = uniform(0.0, 1.0)\nfor turn in trial.steps():\n    trial.report(score=x)\n"
MODES = ("seeded", "strict")


def arguments(parser: argparse.ArgumentParser) -> None:
    """The options of this benchmark."""
    parser.add_argument("--rounds", type=int, default=5, help="how often each mode is measured, in turns (5)")
    parser.add_argument("--passes", type=int, default=20, help="passes over digits in a round (20)")
    parser.add_argument("--trials", type=int, default=40, help="trials that do nothing, in a round (40)")


def measure(options: argparse.Namespace) -> dict[str, Any]:
    """Milliseconds an optimizer step and a trial in both modes, and the ratios strict to seeded."""
    found: dict[str, Any] = {}
    with engines.engine(workers=1) as store:
        engines.warm(store, ("torch",))
        for model in ("mlp", "cnn"):
            source = SOURCE.replace("MODEL", repr(model))
            rounds = [{mode: _trained(store, source, mode, options.passes) for mode in MODES}
                      for _ in range(options.rounds)]  # fmt: skip
            found[f"{model}, an optimizer step"] = {
                "unit": "ms",
                "device": rounds[0]["strict"]["device"],
                **_paired([{mode: one[mode]["ms"] for mode in MODES} for one in rounds]),
                "strict_rounds_equal": len({one["strict"]["loss"] for one in rounds}) == 1,
            }
        trials = [{mode: _nothing(store, mode, options.trials) for mode in MODES} for _ in range(options.rounds)]
        found["a trial besides its training"] = {"unit": "ms", **_paired(trials)}
    return found


def _paired(rounds: list[dict[str, float]]) -> dict[str, Any]:
    ratios = [one["strict"] / one["seeded"] for one in rounds]
    spread = {mode: engines.spread([one[mode] for one in rounds]) for mode in MODES}
    return {**spread, "ratio": {"median": statistics.median(ratios), "min": min(ratios), "max": max(ratios)}}


def _trained(store: Any, source: str, mode: str, passes: int) -> dict[str, Any]:
    one = engines.spec(source, store, Scheduler("all", 1, passes), trials=1, preload=("torch",), deterministic=mode)
    engines.run(store, one)
    text = engines.printed(store, one)
    return engines.told(text)


def _nothing(store: Any, mode: str, trials: int) -> float:
    one = engines.spec(NOTHING, store, Scheduler("all", 1, 1), trials=trials, preload=("torch",), deterministic=mode)
    engines.run(store, one)
    lines = engines.lines(store, one)
    first = next(line for line in lines if line["kind"] == "LegStarted")
    last = next(line for line in lines if line["kind"] == "Finish")
    return (engines.seconds(last) - engines.seconds(first)) / trials * 1e3
