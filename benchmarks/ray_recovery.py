"""The loop of ``recovery`` under Ray Tune, as its documentation has it: a checkpoint with each report, always retried.

Ray is not a dependency: ``python -m benchmarks recovery --ray PYTHON`` runs this file with a Python that has it
and torch. Prints one line of JSON: seconds from each ``kill -9`` of the trial's process to training again, and the
number of finished turns that are trained again.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any


def train(configuration: dict[str, Any]) -> None:
    """Turns of 0.2 s over a state of a megabyte."""
    import torch
    from ray import tune

    weights, first = torch.zeros(250_000), 0
    checkpoint = tune.get_checkpoint()
    if checkpoint is not None:
        with checkpoint.as_directory() as folder:
            weights, first = torch.load(Path(folder, "state.pt"))
    with open(configuration["log"], "a") as log:
        for turn in range(first, 100_000):
            print(json.dumps({"at": time.time(), "pid": os.getpid(), "step": turn}), file=log, flush=True)
            time.sleep(0.2)
            weights += 1.0
            with tempfile.TemporaryDirectory() as folder:
                torch.save((weights, turn + 1), Path(folder, "state.pt"))
                tune.report({"score": float(weights[0])}, checkpoint=tune.Checkpoint.from_directory(folder))


def _kill(log: Path, kills: int, apart_s: float) -> dict[str, list[float]]:
    found: dict[str, list[float]] = {"seconds": [], "steps_redone": []}
    for _ in range(kills):
        time.sleep(apart_s)
        last = _lines(log)[-1]
        killed = time.time()
        os.kill(last["pid"], signal.SIGKILL)
        while (again := _lines(log)[-1])["pid"] == last["pid"]:
            time.sleep(0.005)
        begun = next(line for line in _lines(log) if line["pid"] == again["pid"])
        found["seconds"].append(begun["at"] - killed)
        # The interrupted turn does not count as lost; turns finished before it do.
        found["steps_redone"].append(max(0, last["step"] - begun["step"]))
    return found


def _lines(log: Path) -> list[dict[str, Any]]:
    while not log.exists() or not log.read_text().endswith("\n"):
        time.sleep(0.005)
    return [json.loads(line) for line in log.read_text().splitlines()]


def _main(kills: int, apart_s: float) -> None:
    import ray
    from ray import tune

    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        log = Path(folder, "log")
        ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
        tuner = tune.Tuner(
            train,
            param_space={"log": str(log)},
            run_config=tune.RunConfig(
                storage_path=folder, failure_config=tune.FailureConfig(max_failures=-1), verbose=0
            ),
        )
        threading.Thread(target=tuner.fit, daemon=True).start()
        found = _kill(log, kills, apart_s)
        print("RESULT", json.dumps({"ray": ray.__version__, **found}), flush=True)
        ray.shutdown()


if __name__ == "__main__":
    _main(int(sys.argv[1]), float(sys.argv[2]))
