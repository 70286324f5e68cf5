"""What freezing a train cell costs: seconds and bytes, the first time and again, in a small and in a large notebook;
and the decision that nothing has changed since it was trained.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks import engines

#: A notebook that has torch, scikit-learn's digits and a helper; CELLS more cells, and a file of MEGABYTES.
SOURCE = """
import json, sys, time
from pathlib import Path
import numpy as np, torch
from sklearn.datasets import load_digits
from workbench.snapshot import take
from workbench.snapshot.capture import capture
from workbench.snapshot.reading.cell import read_cell
from workbench.store import Store

folder, count, megabytes = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
X, y = load_digits(return_X_y=True)
X = torch.tensor(X, dtype=torch.float32)

def accuracy(model):
    return (model(X).argmax(1).numpy() == y).mean()

train = '''lr = loguniform(1e-3, 1.0)
model = torch.nn.Linear(64, 10)
for epoch in trial.steps():
    trial.report(val_acc=accuracy(model), loss=float(X.mean()) * lr)
'''
cells = ["", *(f"frame_{n} = read('data/{n}.csv')\\n" + "# why it is so\\n" * 60 for n in range(count)), train]
notebook = folder / "notebook.ipynb"
if not notebook.exists():
    pictures = "x" * (megabytes * 1_000_000 // max(count, 1))
    shown = [{"cell_type": "code", "source": text, "outputs": [{"text": pictures}]} for text in cells]
    notebook.write_text(json.dumps({"cells": shown, "nbformat": 4, "nbformat_minor": 5, "metadata": {}}))
store = Store(folder / "store").create()

def size():
    files = [path.stat() for path in store.root.rglob("*") if path.is_file()]
    return sum({file.st_ino: file.st_size for file in files}.values())

for _ in range(int(sys.argv[4])):
    before, begun = size(), time.perf_counter()
    cell = read_cell(train, globals())
    captured = capture(cell.needs, globals(), store, assigned=cell.assigned, attributes=cell.attributes)
    between = time.perf_counter()
    take(store, cell=cell, capture=captured, notebook=notebook, cells=cells, typed="%%train", folder=folder)
    ended = time.perf_counter()
    print(json.dumps({"capture": between - begun, "snapshot": ended - between, "bytes": size() - before}))
"""
#: The decision that nothing has changed around a cell that reads MANY files and a large one, in a kernel with torch.
AGAIN = """
import json, os, sys, time
from pathlib import Path
import numpy as np, torch
from workbench.launch import Origin, draft
from workbench.records import ENDED, Goal
from workbench.settled import settled
from workbench.snapshot.reading.cell import read_cell
from workbench.store import Store, requests
from workbench.store.series import Series

folder, times = Path(sys.argv[1]), int(sys.argv[2])
os.chdir(folder / "project")
store = Store(folder / "store")
train = '''
import torch
from pathlib import Path
lr = loguniform(1e-3, 1.0)
total = sum(len(path.read_bytes()) for path in sorted(Path("many").glob("*.txt")))
with open("large.bin", "rb") as file:
    total += len(file.read())
for epoch in trial.steps():
    trial.report(score=total * lr)
'''

def decided():
    begun = time.perf_counter()
    cell = read_cell(train, {})
    settings = settled(cell, goal=Goal("score"), steps=(1, 1), scheduler="all", trials=4)
    return draft(cell, {}, "again", settings, store, Origin()), time.perf_counter() - begun

made, seconds = decided()
if made.former is None:
    spec = made.launch()
    requests.put(store, {"kind": "start", "experiment": spec.id})
    state = None
    while state not in ENDED:
        time.sleep(0.05)
        path = store.experiment(spec.id).series
        if path.exists():
            with Series.read(path) as series:
                state = series.meta().get("state")
    sys.exit(state != "completed")
for _ in range(times):
    assert made.twin is not None and not made.standing.unchecked, str(made.standing)
    print(json.dumps(seconds))
    made, seconds = decided()
"""
#: Files that the cell reads, and bytes of the large one.
MANY, LARGE = 300, 50_000_000
NOTEBOOKS = {"10 cells": (10, 0), "5,000 cells, 50 MB": (5000, 50)}
#: How often one kernel freezes the cell.
TIMES = 5


def arguments(parser: argparse.ArgumentParser) -> None:
    """The options of this benchmark."""
    parser.add_argument("--runs", type=int, default=3, help="how many kernels, each with a store of its own (3)")


def measure(options: argparse.Namespace) -> dict[str, Any]:
    """Seconds of capturing and of the snapshot, and bytes that the store grew by."""
    found: dict[str, Any] = {}
    for name, (cells, megabytes) in NOTEBOOKS.items():
        told: dict[str, list[dict[str, float]]] = {"first": [], "again": [], "first of the next kernel": []}
        for _ in range(options.runs):
            with TemporaryDirectory() as folder:
                first, *again = _frozen(Path(folder), cells, megabytes, TIMES)
                told["first"].append(first)
                told["again"] += again
                told["first of the next kernel"] += _frozen(Path(folder), cells, megabytes, 1)
        found[name] = {
            when: {
                "capture_s": engines.spread([line["capture"] for line in lines]),
                "snapshot_s": engines.spread([line["snapshot"] for line in lines]),
                "bytes": int(max(line["bytes"] for line in lines)),
            }
            for when, lines in told.items()
        }
    return {**found, "the same again": _again(options.runs), "budget": {"seconds": 1.0, "again_s": 0.05}}


def _again(kernels: int) -> dict[str, Any]:
    """Seconds from the call to the decision that nothing has changed: the first time in a kernel, and after that."""
    with engines.engine(workers=1) as store:
        project = store.root.parent / "project"
        (project / "many").mkdir(parents=True)
        for number in range(MANY):
            (project / "many" / f"{number}.txt").write_text(f"{number}\n")
        (project / "large.bin").write_bytes(bytes(LARGE))
        _ran(AGAIN, project.parent, TIMES)  # trains it
        told = [_ran(AGAIN, project.parent, TIMES) for _ in range(kernels)]
    return {
        "first_s": engines.spread([lines[0] for lines in told]),
        "again_s": engines.spread([line for lines in told for line in lines[1:]]),
    }


def _frozen(folder: Path, cells: int, megabytes: int, times: int) -> list[Any]:
    return _ran(SOURCE, folder, cells, megabytes, times)


def _ran(source: str, *words: object) -> list[Any]:
    """What a process that runs ``source`` printed, line by line."""
    command = [sys.executable, "-c", source, *map(str, words)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(done.stderr[-2000:])
    return [json.loads(line) for line in done.stdout.splitlines()]
