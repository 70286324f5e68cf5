"""What freezing a train cell costs: seconds and bytes, the first time and again, in a small and in a large notebook."""

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
from workbench.snapshot.cell import read_cell
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
    return {**found, "budget": {"seconds": 1.0}}


def _frozen(folder: Path, cells: int, megabytes: int, times: int) -> list[dict[str, float]]:
    command = [sys.executable, "-c", SOURCE, str(folder), str(cells), str(megabytes), str(times)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(done.stderr[-2000:])
    return [json.loads(line) for line in done.stdout.splitlines()]
