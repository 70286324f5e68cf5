"""From Shift-Enter to the first report, in kernels as people use them; and from a request to an engine that runs.

In a kernel: ``%load_ext workbench``, a cell that imports torch and scikit-learn and prepares data, some seconds in
which a person reads on, then a ``%%train`` cell. *cold*: in a new folder; *second*: the same cell, changed, in the same
kernel; *warm*: in a new kernel after the folder's engine has ended; *restarted*: in the same kernel after the engine
has ended. The time is that of the first report, by the training code's own clock; *returns* is when the cell returns.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from jupyter_client.manager import start_new_kernel

from benchmarks import engines
from workbench import asked
from workbench.asking import ask
from workbench.records import Scheduler
from workbench.store import Store
from workbench.store.owner.lease import read_engine
from workbench.store.series import Series

SOURCE = "import torch\nx = uniform(0.0, 1.0)\nfor turn in trial.steps():\n    trial.report(score=x)\n"
SET_UP = """
import torch
from sklearn.datasets import load_digits
data = load_digits()
X = torch.tensor(data.data, dtype=torch.float32) / 16
y = torch.tensor(data.target)
"""
TRAIN = """%%train digits --goal max score --steps 1-3 --seed {seed}
lr = loguniform(1e-4, 1)
import time, torch
from sklearn.metrics import accuracy_score
model = torch.nn.Linear(64, 10).to(trial.device)
X, y = X.to(trial.device), y.to(trial.device)
optimizer = torch.optim.SGD(model.parameters(), lr)
for epoch in trial.steps():
    loss = torch.nn.functional.cross_entropy(model(X), y)
    optimizer.zero_grad(); loss.backward(); optimizer.step()
    trial.report(score=accuracy_score(y.cpu(), model(X).argmax(1).cpu()), at=time.time())
"""
#: Seconds between the set-up cell and the train cell: a person reads, and writes on.
READS_S = 5.0
#: Seconds between two searches of a person who looks at the first and changes the cell.
EDITS_S = 15.0


def arguments(parser: argparse.ArgumentParser) -> None:
    """The options of this benchmark."""
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--gpu", action="store_true", help="train on a GPU, by an engine with dask-cuda")


def measure(options: argparse.Namespace) -> dict[str, Any]:
    """Seconds until the first report."""
    runs = getattr(options, "runs", 3)
    workers = None if getattr(options, "gpu", False) else 2
    with engines.engine(workers) as store:
        engines.warm(store, preload=("torch",))
        running = [_requested(store) for _ in range(runs)]
    found: dict[str, list[float]] = {}
    imports = []
    for _ in range(runs):
        for name, seconds in _in_kernels(workers).items():
            found.setdefault(name, []).append(seconds)
        imports.append(_imports())
    return {
        "unit": "s",
        "request_to_report": engines.spread(running),
        **{name: engines.spread(seconds) for name, seconds in found.items()},
        "reference_import_torch_and_sklearn": engines.spread(imports),
        "budget": {"from_nothing": 0.6, "engine_running": 0.15},
    }


def _requested(store: Store) -> float:
    one = engines.spec(SOURCE, store, Scheduler("all", 1, 1), trials=1, preload=("torch",))
    begun = time.perf_counter()
    store.write_spec(one)
    ask(store, asked.Start(one.id))
    while not any(line["kind"] == "Ended" for line in engines.lines(store, one)):
        time.sleep(0.002)
    taken = time.perf_counter() - begun
    engines.until(lambda: engines.state(store, one), 30)
    return taken


def _in_kernels(workers: int | None) -> dict[str, float]:
    """One round: seconds by situation."""
    with tempfile.TemporaryDirectory() as folder:
        store = Store(Path(folder) / ".workbench")
        first = _Kernel(folder, workers)
        try:
            found = first.train("cold", 1) | first.train("second", 2)
            time.sleep(EDITS_S)
            found |= first.train("later", 5)
            _end_engine(store)
            found |= first.train("restarted", 3)
        finally:
            first.end()
        _end_engine(store)
        later = _Kernel(folder, workers)
        try:
            found |= later.train("warm", 4)
        finally:
            later.end()
            _end_engine(store)
    return found


class _Kernel:
    """A kernel in ``folder``, its set-up cells run."""

    def __init__(self, folder: str, workers: int | None) -> None:
        self._store = Store(Path(folder) / ".workbench")
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("WORKBENCH_", "JPY_"))}
        slots = {} if workers is None else {"WORKBENCH_WORKERS": str(workers)}
        self._manager, self._client = start_new_kernel(cwd=folder, env={**kept, **slots})
        for cell in ("%load_ext workbench", SET_UP):
            self._run(cell)
        time.sleep(READS_S)

    def _run(self, code: str) -> None:
        reply = self._client.execute_interactive(code, output_hook=lambda message: None, timeout=120)["content"]
        if reply["status"] != "ok":
            raise RuntimeError(str(reply))

    def train(self, name: str, seed: int) -> dict[str, float]:
        """Run the train cell: seconds until it returns, and until the first report."""
        before, begun = set(self._store.experiment_ids()), time.time()
        self._run(TRAIN.format(seed=seed))
        returned = time.time()
        self._run("import workbench as wb; wb.last().wait()")
        (newest,) = set(self._store.experiment_ids()) - before
        with Series.read(self._store.experiment(newest).series) as series:
            first = min(value for _, name, _, _, value, _ in series.points() if name == "at")
        return {f"{name}_report": first - begun, f"{name}_returns": returned - begun}

    def end(self) -> None:
        """End the kernel."""
        self._client.stop_channels()
        self._manager.shutdown_kernel(now=True)


def _end_engine(store: Store) -> None:
    info = read_engine(store)
    if info is not None and info.alive:
        ask(store, asked.End())
        engines.until(lambda: not store.engine_json.exists(), 30)


def _imports() -> float:
    begun = time.perf_counter()
    subprocess.run([sys.executable, "-c", "import torch, sklearn.metrics"], check=True)
    return time.perf_counter() - begun
