"""From ``kill -9`` of a runner, a worker or the engine to training again: seconds, and the steps that are repeated.

With ``--load 8``, eight processes keep the machine busy, like a shared one.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks import engines
from benchmarks.processes import worker_of
from workbench.asking import Tending
from workbench.records import Scheduler
from workbench.store import requests
from workbench.store.owner.lease import read_engine
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
#: What keeps one core busy.
BUSY = "while True: pass"
#: The processes to kill.
VICTIMS = ("runner", "worker", "engine")
#: Seconds within which training must continue, however busy the machine is.
PATIENCE_S = 300.0
#: Seconds of training before the next kill, when all workers are there and have torch imported.
APART_S = 2.5


def arguments(parser: argparse.ArgumentParser) -> None:
    """The options of this benchmark."""
    parser.add_argument("--kills", type=int, default=8, help="how often each is killed (8)")
    parser.add_argument("--load", type=int, default=0, help="busy processes beside it (0)")
    parser.add_argument("--victims", nargs="+", choices=VICTIMS, default=VICTIMS, help="who is killed (all)")
    parser.add_argument("--ray", metavar="PYTHON", help="a Python with ray[tune] and torch: Ray's recovery beside ours")


def measure(options: argparse.Namespace) -> dict[str, Any]:
    """Seconds from each kill to training again, and finished turns that are trained again (without the interrupted
    one)."""
    found: dict[str, Any] = {}
    with _busy(options.load):
        for victim in options.victims:
            found[victim] = _engine(options.kills) if victim == "engine" else _part(victim, options.kills)
    if options.ray:
        found["ray tune, its trial's process"] = _by_ray(options.ray, options.kills)
    return {**found, "load": options.load, "budget": {"seconds": 1.5, "steps_redone": 0}}


@contextlib.contextmanager
def _busy(count: int) -> Iterator[None]:
    busy = [subprocess.Popen([sys.executable, "-c", BUSY]) for _ in range(count)]
    try:
        yield
    finally:
        for one in busy:
            one.kill()
            one.wait()


def _part(victim: str, kills: int) -> dict[str, Any]:
    with engines.engine(workers=2) as store:
        one = _started(store)
        times, redone = [], []
        for _ in range(kills):
            leg = _training(store, one)
            engines.until(lambda: _slots(store) == 2, PATIENCE_S)
            time.sleep(APART_S)
            done = _steps(store, one)
            killed = time.time()
            os.kill(leg["pid"] if victim == "runner" else worker_of(leg["pid"]), signal.SIGKILL)
            again = _training(store, one, after=leg["attempt"])
            times.append(again["began"] - killed)
            redone.append(max(0, done - again["start"]))
    return {"seconds": engines.spread(times), "steps_redone": engines.spread(redone)}


def _engine(kills: int) -> dict[str, Any]:
    """The engine is killed; this process waits for the trial, as a notebook does, and so starts the next one.

    seconds: from the kill to the end of a step that was not trained before. seen: until a reader of the store has it.
    """
    with engines.engine(workers=2) as store:
        one = _started(store)
        tend = Tending(store)
        times, seen, redone = [], [], []
        for _ in range(kills):
            engines.until(lambda: _slots(store) == 2, PATIENCE_S)
            time.sleep(APART_S)
            done, legs = _steps(store, one), len(engines.legs(store, one))
            info = read_engine(store)
            assert info is not None
            killed = time.time()
            os.kill(info.pid, signal.SIGKILL)
            trained: list[float] = []
            while not trained:
                if time.time() > killed + PATIENCE_S:
                    raise TimeoutError(f"nothing was trained within {PATIENCE_S:g} s")
                tend()
                time.sleep(0.02)
                trained = [at for at in _times(store, one, done + 1) if at > killed]
            seen.append(time.time() - killed)
            times.append(min(trained) - killed)
            after = engines.legs(store, one)
            redone.append(max(0, done - after[-1]["start"]) if len(after) > legs else 0)
        last = read_engine(store)
        assert last is not None
        os.kill(last.pid, signal.SIGTERM)
        engines.until(lambda: not store.engine_json.exists(), PATIENCE_S)
    return {name: engines.spread(each) for name, each in (("seconds", times), ("seen", seen), ("steps_redone", redone))}


def _started(store: Any) -> Any:
    """A long trial that trains."""
    engines.warm(store, ("torch",))
    one = engines.spec(SOURCE, store, Scheduler("all", 1, 100_000), trials=1, preload=("torch",))
    store.write_spec(one)
    requests.put(store, {"kind": "start", "experiment": one.id})
    _training(store, one)
    return one


def _times(store: Any, one: Any, step: int) -> list[float]:
    """When each step from ``step`` on was reported."""
    with Series.read(store.experiment(one.id).series) as series:
        return [float(row[5]) for row in series.points(names=["score"]) if row[2] >= step]


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

    engines.until(found, PATIENCE_S)
    return found()[-1]


def _steps(store: Any, one: Any) -> int:
    with Series.read(store.experiment(one.id).series) as series:
        return max((int(point[2]) for point in series.points(names=["score"])), default=0)


def _slots(store: Any) -> int:
    """Slots that the engine gives out."""
    return len(json.loads((store.root / "cluster.json").read_text())["slots"])
