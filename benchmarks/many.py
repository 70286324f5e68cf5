"""A store with 1,000 finished experiments: the cost of listing, checking and cleaning it, and of starting an engine in
it.

The experiments are copies of one that a real engine has trained, each with an id, a snapshot and blobs of its own.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from benchmarks import engines
from workbench import asked
from workbench.asking import ask
from workbench.store import Store
from workbench.store.files.atomic import to_json
from workbench.store.lists.catalog import read_catalog

#: Versions that each name has.
VERSIONS = 10
CELL = """
x = uniform(0.0, 1.0)
weights = [0.0] * 100
for epoch in trial.steps():
    weights[epoch] = x * scale
    print("epoch", epoch, weights[epoch])
    trial.report(score=sum(weights) + epoch)
"""
_NOTEBOOK = """
import sys
from IPython.core.interactiveshell import InteractiveShell
shell = InteractiveShell.instance()
shell.run_line_magic("load_ext", "workbench")
shell.user_ns["scale"] = 0.5
shell.run_cell("%%train seed --goal max score --trials 27 --steps 9 --store {store} --wait\\n" + {cell!r})
"""


def arguments(parser: argparse.ArgumentParser) -> None:
    """The options of this benchmark."""
    parser.add_argument("--experiments", type=int, default=1000)
    parser.add_argument("--at", type=Path, help="a folder in which the store is kept, or found again")
    parser.add_argument("--runs", type=int, default=3)


def measure(options: argparse.Namespace) -> dict[str, Any]:
    """Seconds of each command, its start included."""
    count, runs = getattr(options, "experiments", 1000), getattr(options, "runs", 3)
    with _store(getattr(options, "at", None), count) as store:
        files = sum(len(names) + len(folders) for _, folders, names in os.walk(store.experiments)) / count
        engine = _engine_start(store)
        try:
            found = {
                "ls": _spread(runs, lambda: _command(store, "ls")),
                "doctor": _spread(runs, lambda: _command(store, "doctor")),
                "gc_dry_run": _spread(runs, lambda: _command(store, "gc", "--dry-run")),
                "gc": _spread(runs, lambda: _command(store, "gc")),
                "open": _spread(runs, lambda: _python(_OPEN.format(store=str(store.root)))),
                "train": _spread(runs, lambda: _python(_TRAIN.format(store=str(store.root), cell=CELL))),
                "panel_first": _python(_PANEL.format(store=str(store.root), what="list")),
                "panel_poll": _python(_PANEL.format(store=str(store.root), what="poll")),
                "panel_unchanged": _python(_PANEL.format(store=str(store.root), what="unchanged")),
                "panel_store": _python(_PANEL.format(store=str(store.root), what="store")),
            }
        finally:
            ask(store, asked.End())
            engines.until(lambda: not store.engine_json.exists(), 60)
    budget = {"ls": 0.3, "doctor": 3.0, "gc": 5.0, "gc_dry_run": 5.0}
    return {"unit": "s", "experiments": count, "files_each": files, "engine_start": engine, **found, "budget": budget}


_OPEN = """
import time
import workbench as wb
begun = time.perf_counter()
wb.open("copy3", store={store!r}).trials
print("RESULT", time.perf_counter() - begun)
"""
_TRAIN = """
import time
from IPython.core.interactiveshell import InteractiveShell
shell = InteractiveShell.instance()
shell.run_line_magic("load_ext", "workbench")
shell.user_ns["scale"] = time.time()
cell = "%%train copy3 --goal max score --trials 1 --steps 1 --store {store}\\n" + {cell!r}
begun = time.perf_counter()
shell.run_cell(cell)
print("RESULT", time.perf_counter() - begun)
"""
_PANEL = """
import time
from workbench.store import Store
from workbench_ext.server import disk, experiments
from workbench_ext.server.watching import changes, listed
store = Store({store!r})
if {what!r} == "list":
    begun = time.perf_counter()
    experiments.experiments(store)
elif {what!r} in ("unchanged", "store"):
    read = listed.tag_of if {what!r} == "unchanged" else disk.disk
    read(store)
    begun = time.perf_counter()
    read(store)
else:
    seen = changes.Changes()
    seen.look(store, False)
    begun = time.perf_counter()
    seen.look(store, False)
print("RESULT", time.perf_counter() - begun)
"""


def _spread(runs: int, work: Any) -> dict[str, float]:
    return engines.spread([work() for _ in range(runs)])


def _command(store: Store, *words: str) -> float:
    begun = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-m", "workbench", "--store", str(store.root), *words], capture_output=True, check=False
    )
    if done.returncode not in (0, 1):
        raise RuntimeError(done.stderr.decode())
    return time.perf_counter() - begun


def _python(script: str) -> float:
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return float(done.stdout.split("RESULT", 1)[1].split()[0])


def _engine_start(store: Store) -> float:
    """Seconds until a new engine answers."""
    begun = time.perf_counter()
    ask(store, asked.Quota(0))
    return time.perf_counter() - begun


# ---------------------------------------------------------------------------------------------------------------------
# The store


@contextmanager
def _store(at: Path | None, count: int) -> Iterator[Store]:
    if at is not None:
        store = Store(at)
        if not store.exists:
            fill(seed(at), count)
        yield store
        return
    with tempfile.TemporaryDirectory() as folder:
        yield fill(seed(Path(folder) / "store"), count)


def seed(root: Path) -> Store:
    """A store with one experiment, launched from a cell and trained by an engine that has left since."""
    store = Store(root).create()
    script = _NOTEBOOK.format(store=root, cell=CELL)
    subprocess.run([sys.executable, "-c", script], check=True, cwd=root.parent, capture_output=True)
    ask(store, asked.End())
    engines.until(lambda: not store.engine_json.exists(), 60)
    return store


def fill(store: Store, count: int) -> Store:
    """Make ``count`` copies of the one experiment in ``store``; the store."""
    (entry,) = read_catalog(store)
    entries = [entry]
    begun = datetime.now(UTC) - timedelta(days=count)
    for number in range(count):
        created = begun + timedelta(days=number)
        key = f"{created:%Y%m%d-%H%M%S}-{''.join('abcdefghij'[int(d)] for d in f'{number:06d}')}"
        entries.append(_copied(store, entry, key, number, created.isoformat(timespec="milliseconds")))
    tables = {"experiments": {str(n): one for n, one in enumerate(entries, 1)}, "about": {"1": {"schema": 1}}}
    store.catalog_path.write_bytes(to_json(tables))
    return store


def _copied(store: Store, entry: dict[str, Any], key: str, number: int, created: str) -> dict[str, Any]:
    source, target = store.experiment(entry["id"]), store.experiment(key)
    text = source.spec.read_text()
    for digest in sorted(set(re.findall(r"\b[0-9a-f]{64}\b", text))):
        text = text.replace(digest, _twin(store, digest, number))
    name, version = f"copy{number // VERSIONS}", number % VERSIONS + 1
    spec = {**json.loads(text), "id": key, "name": name, "version": version, "created": created}
    spec["content"] = hashlib.sha256(f"content {number}".encode()).hexdigest()
    shutil.copytree(source.folder, target.folder)
    target.spec.write_bytes(to_json(spec))
    label = {"id": key, "name": name, "version": version, "label": f"{name}@{version}", "created": created}
    return {**entry, **label, "content": spec["content"]}


def _twin(store: Store, digest: str, number: int) -> str:
    """A blob or a snapshot of about the same size and kind, under a name of its own; the name."""
    blob, snapshot = store.blobs / digest, store.snapshots / digest
    if blob.is_file():
        data = blob.read_bytes()
        for named in {found.decode() for found in re.findall(rb"\b[0-9a-f]{64}\b", data)}:
            data = data.replace(named.encode(), _twin(store, named, number).encode())
        data += f"\n{number}".encode()
        twin = hashlib.sha256(data).hexdigest()
        (store.blobs / twin).write_bytes(data)
    elif snapshot.is_dir():
        twin = hashlib.sha256(f"{digest} {number}".encode()).hexdigest()
        shutil.copytree(snapshot, store.snapshots / twin, symlinks=True)
    else:
        return digest
    return twin
