"""The processes of a chaos test: a Dask cluster that Workbench did not start, a kernel and an engine.

Every process has the same mark in its environment, by which the test finds it and recognizes orphans.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import signal
import socket
import struct
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import psutil
from notebook_kernel import Kernel
from running import until

MARK = "WORKBENCH_CHAOS"
_FORKSERVER = "workbench.trial.process.forkserver"
#: In the command lines of workers and of the processes above them, in a cluster of Workbench's own and in another.
_WORKERS = (("multiprocessing.forkserver", "multiprocessing.forkserver"), ("multiprocessing.spawn", "dask_worker"))
#: Clocks jump where a C compiler makes the clock that can.
COMPILER = shutil.which("cc") or shutil.which("gcc")

CELL = """%%train digits --goal max val_acc --steps 1-{last} --seed 3 {line}
lr = loguniform(1e-3, 1.0)
hidden = choice(16, 32, 64)
dropout = uniform(0.0, 0.5)

import random, time
import numpy as np
import torch
from sklearn.datasets import load_digits
from torch import nn

pictures, labels = load_digits(return_X_y=True)
x = torch.tensor(pictures / 16, dtype=torch.float32)
y = torch.tensor(labels)
generator = np.random.default_rng(trial.seed)
model = nn.Sequential(nn.Linear(64, hidden), nn.ReLU(), nn.Dropout(dropout), nn.Linear(hidden, 10))
optimizer = torch.optim.SGD(model.parameters(), lr=lr, momentum=0.9)
scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 5, 0.9)
history = []
for epoch in trial.steps():
    time.sleep({pause})
    model.train()
    for rows in torch.randperm(1200).split(100):
        optimizer.zero_grad()
        noisy = x[rows] + 0.01 * torch.tensor(generator.normal(size=(len(rows), 64)), dtype=torch.float32)
        loss = nn.functional.cross_entropy(model(noisy), y[rows])
        loss.backward()
        optimizer.step()
    scheduler.step()
    with torch.no_grad():
        right = (model.eval()(x[1200:]).argmax(dim=1) == y[1200:]).float().mean().item()
    history.append(right)
    trial.report(val_acc=right, loss=loss.item(), noise=random.random(), turns=len(history), mean=sum(history))
"""

#: The same in plain Python: the kernel, each engine and each forkserver that a fault ends starts again without torch.
PLAIN_CELL = """%%train digits --goal max val_acc --steps 1-{last} --seed 3 {line}
lr = loguniform(1e-3, 1.0)

import random, time

total, history = 0.0, []
for epoch in trial.steps():
    time.sleep({pause})
    total = 0.9 * total + lr * random.random()
    history.append(total)
    trial.report(val_acc=total, noise=random.random(), turns=len(history), mean=sum(history))
"""


class World:
    """One folder with a store, its cluster and its kernel. ``remote``: the Dask scheduler and workers are not ours."""

    def __init__(self, folder: Path, *, remote: bool, mark: str | None = None) -> None:
        self.folder = folder
        self.store = folder / ".workbench"
        self.mark = mark or secrets.token_hex(8)
        # Every process has it mapped. Elsewhere it would be data that training reads, and that changes while it trains.
        self.clock = Path("/dev/shm") / f"clock-{self.mark}"
        self.kernel: Kernel | None = None
        self._remote = remote
        self._port = _free_port()
        self._log = open(folder / "cluster.log", "ab")
        self._cluster: dict[str, subprocess.Popen[bytes]] = {}
        self._over = threading.Event()
        self._watch: threading.Thread | None = None
        self.environment = {MARK: self.mark}
        if COMPILER is not None:
            library = folder / "clock.so"
            self.set_clock(0)
            source = Path(__file__).with_name("clock.c")
            subprocess.run([COMPILER, "-O1", "-shared", "-fPIC", "-o", str(library), str(source)], check=True)
            self.environment |= {"LD_PRELOAD": str(library), "CHAOS_CLOCK": str(self.clock)}
        if remote:
            self.environment["WORKBENCH_CLUSTER"] = f"tcp://127.0.0.1:{self._port}"

    def open(self) -> None:
        """Start the cluster; one of its processes that dies is started again, as its administrator's systemd would."""
        if self._remote:
            self._raise_cluster()
            self._watch = threading.Thread(target=self._administer, daemon=True)
            self._watch.start()

    def set_clock(self, seconds: float) -> None:
        """Set everybody's wall clock off by ``seconds``."""
        # In place: every process has the file mapped.
        descriptor = os.open(self.clock, os.O_RDWR | os.O_CREAT, 0o600)
        os.pwrite(descriptor, struct.pack("d", seconds), 0)
        os.close(descriptor)

    def sit_down(self, cell: str) -> None:
        """Open the notebook and run it: a fresh kernel, the cell, and a wait for its end that tends the engine."""
        self.kernel = Kernel(self.folder, **self.environment)
        self.kernel.run(cell)
        self.kernel.begin("wb.last().wait()")

    def role(self, name: str) -> list[psutil.Process]:
        """The living processes of one kind: kernel, engine, cluster, forkserver, runner, worker or dask-scheduler."""
        return [process for process in self.marked() if role_of(process) == name]

    def marked(self) -> list[psutil.Process]:
        """Every living process of this world."""
        return marked(self.mark)

    def close(self) -> None:
        """End the kernel and the cluster. This does not end processes that others left behind."""
        if self.kernel is not None:
            with contextlib.suppress(RuntimeError):
                self.kernel.end()
        self._over.set()
        if self._watch is not None:
            self._watch.join()
        for process in self._cluster.values():
            process.terminate()
        for process in self._cluster.values():
            process.wait(30)
        self.clock.unlink(missing_ok=True)
        self._log.close()

    def kill_all(self) -> None:
        """After a failed run: leave nothing behind on the machine."""
        for process in self.marked():
            with contextlib.suppress(psutil.Error):
                process.send_signal(signal.SIGKILL)

    def _administer(self) -> None:
        while not self._over.wait(0.2):
            self._raise_cluster()

    def _raise_cluster(self) -> None:
        address = f"tcp://127.0.0.1:{self._port}"
        parts = {
            "scheduler": ["--host", "127.0.0.1", "--port", str(self._port), "--no-dashboard"],
            "worker": [address, "--nthreads", "1", "--nworkers", "2", "--no-dashboard", "--death-timeout", "60"],
        }
        for part, options in parts.items():
            process = self._cluster.get(part)
            if process is None or process.poll() is not None:
                self._cluster[part] = _start(part, options, {**os.environ, **self.environment}, self._log)


def marked(mark: str) -> list[psutil.Process]:
    """Every living process with this mark."""
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if process.environ().get(MARK) == mark and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
    return found


def _start(part: str, options: list[str], environment: dict[str, str], log: IO[bytes]) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", f"distributed.cli.dask_{part}", *options]
    return subprocess.Popen(
        command, env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
    )


def role_of(process: psutil.Process) -> str | None:
    """What a process is, by its command line and the one above it: a runner, a worker, an engine."""
    line = _command(process)
    try:
        above = _command(process.parent())
    except psutil.Error:
        return None  # it has just ended
    if _FORKSERVER in line:
        return "runner" if _FORKSERVER in above else "forkserver"
    if any(own in line and its in above for own, its in _WORKERS):
        return "worker"
    names = {
        "workbench.engine": "engine",
        "workbench.cluster.local": "cluster",
        "ipykernel": "kernel",
        "dask_scheduler": "dask-scheduler",
    }
    return next((name for part, name in names.items() if part in line), None)


def _command(process: psutil.Process | None) -> str:
    """Its command line; nothing where it is gone or about to be."""
    try:
        return " ".join(process.cmdline()) if process is not None else ""
    except psutil.Error:
        return ""


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextlib.contextmanager
def world(folder: Path, *, remote: bool) -> Iterator[World]:
    """A world that is open; nothing of it is left afterwards, whatever happened."""
    made = World(folder, remote=remote)
    try:
        made.open()
        yield made
    finally:
        made.close()
        made.kill_all()
        until(lambda: not made.marked(), 20, "the end of every process")
