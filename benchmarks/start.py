"""From the request to the first report on disk: with an engine that is up, and from nothing."""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks import engines
from workbench import asked
from workbench.asking import ask
from workbench.records import Scheduler
from workbench.store import Store

SOURCE = "x = uniform(0.0, 1.0)\nfor turn in trial.steps():\n    trial.report(score=x)\n"
WITH_TORCH = "import torch\n" + SOURCE


def arguments(parser: argparse.ArgumentParser) -> None:
    """The options of this benchmark."""
    parser.add_argument("--runs", type=int, default=5)


def measure(options: argparse.Namespace) -> dict[str, Any]:
    """Seconds until the first level is in the journal."""
    runs = getattr(options, "runs", 5)
    with engines.engine(workers=2) as store:
        engines.warm(store, preload=("torch",))
        running = [_first(store) for _ in range(runs)]
    nothing, imports = [], []
    for _ in range(max(2, runs // 2)):
        with TemporaryDirectory() as folder:
            store = Store(Path(folder) / "store").create()
            nothing.append(_first(store))
            ask(store, asked.End())
            engines.until(lambda: not store.engine_json.exists(), 30)  # noqa: B023
        imports.append(_import_torch())
    return {
        "unit": "s",
        "engine_running": engines.spread(running),
        "from_nothing": engines.spread(nothing),
        "reference_import_torch": engines.spread(imports),
        "ratio_from_nothing_to_import_torch": sorted(nothing)[len(nothing) // 2] / sorted(imports)[len(imports) // 2],
        "budget": {"engine_running": 0.15, "from_nothing": 2.0},
    }


def _first(store: Store) -> float:
    one = engines.spec(WITH_TORCH, store, Scheduler("all", 1, 1), trials=1, preload=("torch",))
    begun = time.perf_counter()
    store.write_spec(one)
    ask(store, asked.Start(one.id))
    while not any(line["kind"] == "Ended" for line in engines.lines(store, one)):
        time.sleep(0.002)
    taken = time.perf_counter() - begun
    engines.until(lambda: engines.state(store, one), 30)
    return taken


def _import_torch() -> float:
    import subprocess
    import sys

    begun = time.perf_counter()
    subprocess.run([sys.executable, "-c", "import torch"], check=True)
    return time.perf_counter() - begun
