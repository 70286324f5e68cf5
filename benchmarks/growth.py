"""What grows while searches come and go: memory of the engine and its processes, descriptors, files in the store.

With ``--viewers`` threads follow the store as pages do; with ``--faults`` a runner or a worker is killed in each second
search, so that what a fault leaves behind is counted too.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import random
import signal
import threading
import time
from collections.abc import Iterator
from typing import Any

import psutil

from benchmarks import engines
from benchmarks.overhead import NOTHING
from workbench.errors import StoreError
from workbench.records import Scheduler
from workbench.store import Store
from workbench.store.lists.catalog import read_catalog
from workbench.store.owner.lease import read_engine
from workbench.store.series import Series

MB = 1 << 20
_FORKSERVER = "workbench.trial.process.forkserver"
#: Seconds after a search within which its files are closed and packed.
SETTLE_S = 2.0


def arguments(parser: argparse.ArgumentParser) -> None:
    """The options of this benchmark."""
    parser.add_argument("--trials", type=int, default=20_000, help="trials in all (20000)")
    parser.add_argument("--minutes", type=float, help="end after this time at the latest")
    parser.add_argument("--each", type=int, default=200, help="trials of one experiment (200)")
    parser.add_argument("--rows", type=int, default=10, help="looks at memory and files (10)")
    parser.add_argument("--viewers", type=int, default=0, help="threads that follow what runs (0)")
    parser.add_argument("--faults", action="store_true", help="kill a runner or a worker in each second search")


def measure(options: argparse.Namespace) -> dict[str, Any]:
    """One row for each look, and the growth for 1,000 trials after the first third of the rows, which is warm-up."""
    rows: list[dict[str, float]] = []
    until = time.monotonic() + (options.minutes * 60 if options.minutes else float("inf"))
    every = max(options.each, options.trials // options.rows // options.each * options.each)
    with engines.engine(workers=2) as store, _viewers(store, options.viewers):
        engines.warm(store)
        info = read_engine(store)
        assert info is not None
        engine = psutil.Process(info.pid)
        chance, kills = random.Random(0), 0
        for trials in range(options.each, options.trials + 1, options.each):
            one = engines.spec(NOTHING, store, Scheduler("asha", 1, 27, 3), trials=options.each)
            if options.faults and chance.random() < 0.5:
                threading.Timer(0.5, _kill_one, (engine, chance)).start()
                kills += 1
            engines.run(store, one, timeout=3600)
            if trials % every == 0:
                time.sleep(SETTLE_S)
                rows.append({"trials": float(trials), **_row(store, engine)})
            if time.monotonic() > until:
                break
    warm = rows[len(rows) // 3 :]
    thousands = max(1.0, (warm[-1]["trials"] - warm[0]["trials"]) / 1000)
    grown = {name: (warm[-1][name] - warm[0][name]) / thousands for name in warm[0] if name != "trials"}
    shown = {f"{row['trials']:.0f} trials": row for row in rows}
    return {"rows": shown, "per 1000 trials": grown, "kills": kills, "budget": {"engine_mb": 0.0, "files": 1000}}


def _row(store: Store, engine: psutil.Process) -> dict[str, float]:
    files = wal = 0
    for _, inner, names in os.walk(store.root):
        files += len(names) + len(inner)
        wal += sum(name.endswith(("-wal", "-shm")) for name in names)
    below = engine.children(recursive=True)
    return {
        "engine_mb": engine.memory_info().rss / MB,
        "others_mb": _shares(below),
        "descriptors": float(engine.num_fds()),
        "processes": float(len(below)),
        "files": float(files),
        "wal_files": float(wal),
    }


def _shares(processes: list[psutil.Process]) -> float:
    """Megabytes of these processes, shared pages by share."""
    total = 0
    for process in processes:
        with contextlib.suppress(psutil.Error):
            total += process.memory_full_info().pss
    return total / MB


def _kill_one(engine: psutil.Process, chance: random.Random) -> None:
    """Kill a runner or a worker: what is a forkserver's child, or has one as its child."""
    tree = engine.children(recursive=True)
    runners = [process for process in tree if _FORKSERVER in _words(_above(process))]
    workers = [process for process in tree if any(_FORKSERVER in _words(child) for child in _below(process))]
    if below := [*runners, *(worker for worker in workers if _FORKSERVER not in _words(worker))]:
        with contextlib.suppress(psutil.Error, ProcessLookupError):
            os.kill(chance.choice(below).pid, signal.SIGKILL)


def _above(process: psutil.Process) -> psutil.Process | None:
    with contextlib.suppress(psutil.Error):
        return process.parent()
    return None


def _below(process: psutil.Process) -> list[psutil.Process]:
    with contextlib.suppress(psutil.Error):
        return list(process.children())
    return []


def _words(process: psutil.Process | None) -> str:
    with contextlib.suppress(psutil.Error):
        return " ".join(process.cmdline()) if process is not None else ""
    return ""


@contextlib.contextmanager
def _viewers(store: Store, count: int) -> Iterator[None]:
    """Threads that read the list and the newest experiment's trials and points by cursor, five times a second."""
    over = threading.Event()

    def follow() -> None:
        while not over.wait(0.2):
            with contextlib.suppress(StoreError, OSError, IndexError):
                newest = sorted(read_catalog(store), key=lambda entry: str(entry["created"]) + str(entry["id"]))[-1]
                with Series.read(store.experiment(str(newest["id"])).series) as series:
                    series.trials()
                    series.points(names=["score"])

    threads = [threading.Thread(target=follow, daemon=True) for _ in range(count)]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        over.set()
        for thread in threads:
            thread.join()
