"""What an engine without work costs: processor time of its processes, as a share of one core, and their memory."""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from typing import Any

import psutil

from benchmarks import engines
from workbench.store.owner.lease import read_engine

#: Seconds after which what a search leaves to do is done: its files, its points, and a forkserver that imports what its
#: training was seen to import, which begins ten seconds after the search.
SETTLES_S = 20.0


def arguments(parser: argparse.ArgumentParser) -> None:
    """The options of this benchmark."""
    parser.add_argument("--seconds", type=float, default=30.0, help="how long nothing is done (30)")


def measure(options: argparse.Namespace) -> dict[str, Any]:
    """Percent of a core for each kind of process while nothing trains, after a search that imported torch."""
    with engines.engine(workers=2) as store:
        engines.warm(store, ("torch",))
        info = read_engine(store)
        assert info is not None
        root = psutil.Process(info.pid)
        time.sleep(SETTLES_S)
        before = _spent(root)
        time.sleep(options.seconds)
        after = _spent(root)
        share: dict[str, float] = {}
        for pid, (kind, spent) in after.items():
            share[kind] = share.get(kind, 0.0) + (spent - before.get(pid, (kind, 0.0))[1]) / options.seconds * 100
        memory: dict[str, float] = {}
        for kind, one in _held(root):
            memory[kind] = memory.get(kind, 0.0) + one
        return {
            "unit": "% of a core",
            **share,
            "all": sum(share.values()),
            "budget": 0.5,
            "memory_mb": {**memory, "all": sum(memory.values()), "budget": 400},
        }


def _held(root: psutil.Process) -> Iterator[tuple[str, float]]:
    """Megabytes of each process, shared pages by parts, with what it is."""
    for process in [root, *root.children(recursive=True)]:
        yield _kind(process, root), process.memory_full_info().pss / 1e6


def _spent(root: psutil.Process) -> dict[int, tuple[str, float]]:
    """Processor seconds of each process of an engine, by process, with what it is."""
    found = {}
    for process in [root, *root.children(recursive=True)]:
        times = process.cpu_times()
        kind = _kind(process, root)
        found[process.pid] = (kind, times.user + times.system)
    return found


def _kind(process: psutil.Process, root: psutil.Process) -> str:
    words = " ".join(process.cmdline())
    return (
        "engine"
        if process.pid == root.pid
        else "cluster"
        if "workbench.cluster.local" in words
        else "forkserver"
        if "workbench.trial.process.forkserver" in words
        else "worker"
        if "workbench.cluster.workers.worker" in words
        else "others"
    )
