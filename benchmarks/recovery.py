"""From ``kill -9`` of a runner or a worker to training again, by default: seconds, and the steps done once more."""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

from benchmarks import engines
from workbench.records import Scheduler
from workbench.store import requests
from workbench.store.series import Series

#: Steps of 0.2 s, as a small epoch's, over a state that a wrong resume would show.
SOURCE = """
x = uniform(0.0, 1.0)
import time
import torch
weights = torch.zeros(250_000)
for turn in trial.steps():
    time.sleep(0.2)
    weights += x
    trial.report(score=float(weights[0]))
"""
#: Seconds of training before the next kill, when all workers are there and have torch imported.
APART_S = 2.5


def arguments(parser: argparse.ArgumentParser) -> None:
    """The options of this benchmark."""
    parser.add_argument("--kills", type=int, default=8, help="how often each is killed (8)")
    parser.add_argument("--ray", metavar="PYTHON", help="a Python with ray[tune] and torch: Ray's recovery beside ours")


def measure(options: argparse.Namespace) -> dict[str, Any]:
    """Seconds from each kill to training again, and turns done that are trained once more (not the one under way)."""
    found: dict[str, Any] = {}
    for victim in ("runner", "worker"):
        with engines.engine(workers=2) as store:
            engines.warm(store, ("torch",))
            one = engines.spec(SOURCE, store, Scheduler("all", 1, 100_000), trials=1, preload=("torch",))
            store.write_spec(one)
            requests.put(store, {"kind": "start", "experiment": one.id})
            times, redone = [], []
            for _ in range(options.kills):
                leg = _training(store, one)
                engines.until(lambda: _slots(store) == 2, 60)
                time.sleep(APART_S)
                done = _steps(store, one)
                killed = time.time()
                os.kill(leg["pid"] if victim == "runner" else _worker(leg["pid"]), signal.SIGKILL)
                again = _training(store, one, after=leg["attempt"])
                times.append(again["began"] - killed)
                redone.append(max(0, done - again["start"]))
            found[victim] = {"seconds": engines.spread(times), "steps_redone": engines.spread(redone)}
    if options.ray:
        found["ray tune, its trial's process"] = _by_ray(options.ray, options.kills)
    return {**found, "budget": {"seconds": 1.5, "steps_redone": 0}}


def _by_ray(python: str, kills: int) -> dict[str, Any]:
    script = Path(__file__).with_name("ray_recovery.py")
    done = subprocess.run([python, str(script), str(kills), str(APART_S)], capture_output=True, text=True, check=False)
    if "RESULT" not in done.stdout:
        raise RuntimeError(f"{python} measured nothing: {done.stderr[-2000:]}")
    told = engines.told(done.stdout)
    spreads = {name: engines.spread(told[name]) for name in ("seconds", "steps_redone")}
    return {"version": told["ray"], **spreads}


def _training(store: Any, one: Any, after: int = 0) -> dict[str, Any]:
    def found() -> list[dict[str, Any]]:
        if not store.experiment(one.id).series.exists():
            return []
        return [leg for leg in engines.legs(store, one) if leg["attempt"] > after and leg.get("began")]

    engines.until(found, 60)
    return found()[-1]


def _steps(store: Any, one: Any) -> int:
    with Series.read(store.experiment(one.id).series) as series:
        return max((int(point[2]) for point in series.points(names=["score"])), default=0)


def _slots(store: Any) -> int:
    """Slots that the engine gives out."""
    return len(json.loads((store.root / "cluster.json").read_text())["slots"])


def _worker(runner: int) -> int:
    """The Dask worker above a runner: the parent of its forkserver."""
    import psutil

    return int(psutil.Process(runner).parent().ppid())
