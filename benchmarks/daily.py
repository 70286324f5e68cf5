"""The daily loop: a project module that imports torch is edited and trained, again and again, by one engine.

For each version, the seconds from the request to the first line of its training code, and the memory of all forkservers
and runners afterwards (shared pages by parts). A reference in the same run: importing torch in a new process. ``late``
is a search of 20 short trials whose module imports torch where no text tells it, and its legs' seconds for that.
"""

from __future__ import annotations

import argparse
import dataclasses
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from benchmarks import engines
from workbench.records import Scheduler
from workbench.store import Store
from workbench.store.series import Series

#: Seconds until unused runners have ended.
SETTLE_S = 7.0
SOURCE = """
import time
at = time.time()
import daily
x = uniform(0.0, 1.0)
for turn in trial.steps():
    trial.report(score=x, at=at, version=daily.version())
"""
LATE = """
import importlib, time
begun = time.perf_counter()
importlib.import_module("tor" + "ch")
took = time.perf_counter() - begun
x = uniform(0.0, 1.0)
for turn in trial.steps():
    trial.report(score=x, took=took)
"""


def arguments(parser: argparse.ArgumentParser) -> None:
    """The options of this benchmark."""
    parser.add_argument("--versions", type=int, default=5)


def measure(options: argparse.Namespace) -> dict[str, Any]:
    """Seconds and megabytes of each version."""
    waited, megabytes = [], []
    with engines.engine(workers=1) as store:
        for version in range(1, getattr(options, "versions", 5) + 1):
            code = store.root / f"code-{version}"
            code.mkdir()
            (code / "daily.py").write_text(f"import torch\n\ndef version():\n    return {version}\n")
            waited.append(_first(store, code))
            time.sleep(SETTLE_S)
            megabytes.append(_memory())
        late = engines.spec(LATE, store, Scheduler("all", 1, 1), trials=20, verify=False)
        seconds = engines.run(store, late)
        took = sorted(_values(store, late, "took"))
    begun = time.perf_counter()
    subprocess.run([sys.executable, "-c", "import torch"], check=True)
    return {
        "unit": "s, MB",
        "first_turn": waited,
        "memory": megabytes,
        "late_search": seconds,
        "late_import_median": took[len(took) // 2],
        "reference_import_torch": time.perf_counter() - begun,
    }


def _first(store: Store, code: Path) -> float:
    one = engines.spec(
        SOURCE, store, Scheduler("all", 1, 1), trials=2, preload=("torch", "torch._dynamo"), verify=False
    )
    path = (str(code), *(entry for entry in sys.path if entry))
    one = dataclasses.replace(one, training=dataclasses.replace(one.training, path=path))
    begun = time.time()
    engines.run(store, one)
    return min(_values(store, one, "at")) - begun


def _values(store: Store, one: Any, name: str) -> list[float]:
    with Series.read(store.experiment(one.id).series) as series:
        return [value for _, reported, *_, value, _ in series.points() if reported == name]


def _memory() -> float:
    """Megabytes of the forkservers below this process, and of what was forked from them."""
    found = 0
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if b"workbench.trial.process.forkserver" in (folder / "cmdline").read_bytes() and _is_below(folder.name):
                text = (folder / "smaps_rollup").read_text()
                found += int(next(line for line in text.splitlines() if line.startswith("Pss:")).split()[1])
        except (OSError, StopIteration):
            continue
    return found / 1024


def _is_below(pid: str) -> bool:
    while pid not in ("0", "1"):
        if int(pid) == os.getpid():
            return True
        pid = (Path("/proc", pid, "stat").read_text().rpartition(")")[2]).split()[1]
    return False
