"""What every tool trains, and the lines by which each is timed. Needs NumPy, torch and scikit-learn, no tool.

Law: the same configuration gives the same values at the same steps, in whichever processes its steps are trained.

Each process that trains appends lines of JSON to a file of its own, by one ``os.write`` to a descriptor opened with
``O_APPEND``: ``at`` (``time.time()``), ``pid``, ``kind``, ``trial`` (the number of the configuration) and ``step``.
Kinds: ``begin``, the first line of a training function; ``report``, a step is trained and its value is reported next;
``searched``, the call that searches has returned; ``launched``, a process that is measured was started here and not by
the driver.
"""

from __future__ import annotations

import functools
import json
import os
import random
import signal
import sys
import time
from pathlib import Path
from typing import Any

#: The geometry of all searches: steps of the last rung, and one trial in ETA is promoted.
R, ETA = 27, 3
LEVELS = (1, 3, 9, 27)
WORKERS = 2
#: Trials without work; configurations on digits; trials that are stopped; trials of which one is killed.
TRIALS = {"trial": 200, "start": 2, "digits": 81, "stop": 40, "recovery": 12}
#: Seconds of a step, where one has a length: of a model that is stopped, and of one that is killed.
STOP_STEP_S, RECOVERY_STEP_S = 0.02, 0.06

_descriptors: dict[tuple[int, str], int] = {}


def line(folder: str, kind: str, trial: int = -1, step: int = 0) -> None:
    """Append a line of this process."""
    key = (os.getpid(), folder)  # a fork gets a file of its own
    if key not in _descriptors:
        path = Path(folder, f"{key[0]}.jsonl")
        _descriptors[key] = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    fields = {"at": time.time(), "pid": key[0], "kind": kind, "trial": trial, "step": step}
    os.write(_descriptors[key], (json.dumps(fields) + "\n").encode())


def lines(folder: str | Path) -> list[dict[str, Any]]:
    """The lines of all processes so far, by time. A line that a kill cut off is left out."""
    found = []
    for path in Path(folder).glob("*.jsonl"):
        whole = path.read_text().rpartition("\n")[0]
        found += [json.loads(text) for text in whole.splitlines()]
    return sorted(found, key=lambda one: one["at"])


def value(trial: int) -> float:
    """The value that a trial without work reports at each step."""
    return random.Random(trial).random()


def configuration(trial: int) -> dict[str, Any]:
    """The configuration of this number: the space of the quickstart, seeded."""
    chance = random.Random(f"digits {trial}")
    hidden = chance.choice((32, 64, 128, 256))
    return {"lr": 10 ** chance.uniform(-4.0, 0.0), "hidden": hidden, "dropout": chance.uniform(0.0, 0.5)}


@functools.cache
def _digits() -> tuple[Any, Any, Any, Any]:
    import torch
    from sklearn.datasets import load_digits

    torch.set_num_threads(1)
    digits = load_digits()
    x = torch.tensor(digits.data / 16, dtype=torch.float32)
    y = torch.tensor(digits.target)
    order = torch.randperm(len(x), generator=torch.Generator().manual_seed(0))
    return x, y, order[:1437], order[1437:]


def made(trial: int) -> tuple[Any, Any]:
    """A new model and its optimizer."""
    import torch
    from torch import nn

    _digits()
    values = configuration(trial)
    torch.manual_seed(trial)
    hidden = values["hidden"]
    model = nn.Sequential(nn.Linear(64, hidden), nn.ReLU(), nn.Dropout(values["dropout"]), nn.Linear(hidden, 10))
    return model, torch.optim.SGD(model.parameters(), lr=values["lr"], momentum=0.9)


def epoch(model: Any, optimizer: Any, trial: int, step: int) -> float:
    """Train one epoch of digits; the accuracy on the held-out digits. step: its number, from 1."""
    import torch
    from torch import nn

    x, y, training, held_out = _digits()
    # Most tools keep no random state, so each epoch has its own seed: a resumed trial trains the same.
    torch.manual_seed(trial * 1000 + step)
    model.train()
    for batch in training[torch.randperm(len(training))].split(32):
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x[batch]), y[batch]).backward()
        optimizer.step()
    model.eval()
    with torch.no_grad():
        return float((model(x[held_out]).argmax(1) == y[held_out]).float().mean())


class Training:
    """One trial of one measurement as a tool without checkpoints of its own holds it: a model, and a step at a time."""

    def __init__(self, measurement: str, folder: str, trial: int) -> None:
        self.measurement, self.folder, self.trial = measurement, folder, trial
        self.step = 0
        #: Only digits train a model. The killed trial has one as well, so that it has a state to lose.
        self.model: Any = None
        self.optimizer: Any = None
        if measurement in ("digits", "recovery"):
            self.model, self.optimizer = made(trial)

    def train(self) -> float:
        """Train the next step and say so; its value."""
        began = time.perf_counter()
        self.step += 1
        if self.model is not None:
            found = epoch(self.model, self.optimizer, self.trial, self.step)
        else:
            found = value(self.trial)
        length = {"stop": STOP_STEP_S, "recovery": RECOVERY_STEP_S}.get(self.measurement, 0.0)
        if length:
            time.sleep(max(0.0, length - (time.perf_counter() - began)))
        line(self.folder, "report", self.trial, self.step)
        return found

    def state(self) -> dict[str, Any]:
        """What a checkpoint holds."""
        if self.model is None:
            return {"step": self.step}
        return {"step": self.step, "model": self.model.state_dict(), "optimizer": self.optimizer.state_dict()}

    def load(self, state: dict[str, Any]) -> None:
        """Go on from a checkpoint."""
        self.step = state["step"]
        if self.model is not None:
            self.model.load_state_dict(state["model"])
            self.optimizer.load_state_dict(state["optimizer"])


def begun(measurement: str, folder: str, trial: int) -> Training:
    """A training function's first call: says that it began."""
    line(folder, "begin", trial)
    return Training(measurement, folder, trial)


def asked() -> tuple[str, str, int]:
    """The measurement, the folder for its lines and the number of trials, from a peer's command line.

    From here on SIGTERM ends this process in order, so that clusters and engines that it started end too.
    """
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    return sys.argv[1], sys.argv[2], int(sys.argv[3])


def tell(**versions: str) -> None:
    """Print the peer's line of JSON: the search has ended, by tools of these versions."""
    print(json.dumps({"versions": versions}), flush=True)
