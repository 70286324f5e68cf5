"""The store: points in and out, polls, journal lines, checkpoints, and lists of 10,000, each with its bare
reference."""

from __future__ import annotations

import argparse
import os
import sqlite3
import statistics
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from workbench.store import Store
from workbench.store.journal import Journal
from workbench.store.keeping.checkpoints import Checkpoints
from workbench.store.lists import catalog as catalog_module
from workbench.store.lists.catalog import Catalog, read_catalog
from workbench.store.series import Series

TRIALS, STEPS, BATCH = 100, 1_000, 5_000
STATE = os.urandom(50_000)
POINTS = [
    (trial, "val_acc", step, 0, trial * step / 1e5, 1.7e9 + step) for step in range(STEPS) for trial in range(100)
]


def arguments(parser: argparse.ArgumentParser) -> None:
    """The options of this benchmark."""
    parser.add_argument("--store", help="a folder to measure in, on the disk that matters; the temporary one without")
    parser.add_argument("--many", type=int, default=10_000, help="trials and experiments in the long lists")
    parser.add_argument("--repeats", type=int, default=5)


def measure(options: argparse.Namespace) -> dict[str, Any]:
    """Medians; ``bare`` is the same bytes through the same calls with nothing around them, in the same run."""
    with tempfile.TemporaryDirectory(dir=options.store) as folder:
        store = Store(Path(folder) / ".workbench").create()
        repeats = options.repeats
        return {
            "points_in": points_in(store, repeats),
            "points_out": points_out(store, repeats),
            "poll": polls(store),
            "journal": journal_lines(store, repeats),
            "checkpoint": checkpoints(store),
            "many": many(store, options.many, repeats),
            "budgets": {"points_in_per_s": 100_000, "points_out_ms": 50, "many_ms": 300},
        }


def points_in(store: Store, repeats: int) -> dict[str, float]:
    """Points a second, in flushes as the engine makes them; bare is one executemany a flush into a plain table."""
    ours, bare = [], []
    for k in range(repeats):
        with Series.open(store.root / f"series-{k}.db") as series:
            ours.append(len(POINTS) / seconds(partial(put, series)))
        connection = sqlite3.connect(store.root / f"bare-{k}.db", isolation_level=None)
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = NORMAL")
        connection.execute("CREATE TABLE points (trial INT, name TEXT, step INT, idx INT, value REAL, time REAL)")
        bare.append(len(POINTS) / seconds(partial(put_bare, connection)))
        connection.close()
    return beside("per_s", ours, bare)


def put(series: Series) -> None:
    """All points, flush by flush."""
    for first in range(0, len(POINTS), BATCH):
        series.add_points(POINTS[first : first + BATCH])
        series.flush()


def put_bare(connection: sqlite3.Connection) -> None:
    """The same into a table without keys."""
    for first in range(0, len(POINTS), BATCH):
        connection.execute("BEGIN")
        connection.executemany("INSERT INTO points VALUES (?, ?, ?, ?, ?, ?)", POINTS[first : first + BATCH])
        connection.execute("COMMIT")


def points_out(store: Store, repeats: int) -> dict[str, Any]:
    """100 curves of 1,000 points; bare is one SELECT of the same three columns."""
    connection = sqlite3.connect(store.root / "bare-0.db")
    with Series.read(store.root / "series-0.db") as series:
        ours = [1e3 * seconds(lambda: series.curves(range(TRIALS), ["val_acc"])) for _ in range(repeats)]
        whole = [1e3 * seconds(series.points) for _ in range(repeats)]
        after = [1e3 * seconds(lambda: series.points_after(0)) for _ in range(repeats)]
    query = "SELECT step, idx, value FROM points ORDER BY rowid"
    bare = [1e3 * seconds(lambda: connection.execute(query).fetchall()) for _ in range(repeats)]
    connection.close()
    rows = {"all_columns_ms": statistics.median(whole), "after_cursor_0_ms": statistics.median(after)}
    return {**beside("ms", ours, bare), **rows}


def polls(store: Store) -> dict[str, float]:
    """The cost of a viewer's look that finds nothing new, and of one that finds 100 points; microseconds."""
    with Series.open(store.root / "series-0.db") as writer, Series.read(store.root / "series-0.db") as reader:
        cursor, _ = reader.points_after(0)
        nothing = [1e6 * seconds(lambda: (reader.points_after(cursor), reader.trials_after(0))) for _ in range(200)]
        some = []
        for step in range(50):
            writer.add_points([(trial, "new", step, 0, 0.5, 0.0) for trial in range(100)])
            writer.flush()
            begun = time.perf_counter()
            cursor, rows = reader.points_after(cursor)
            some.append(1e6 * (time.perf_counter() - begun))
            assert len(rows) == 100
    return {"nothing_us": statistics.median(nothing), "hundred_points_us": statistics.median(some)}


def journal_lines(store: Store, repeats: int) -> dict[str, float]:
    """Appending in memory, and a commit of one and of 100 lines; bare is a write and an fsync of the same bytes."""
    line = {"kind": "Reached", "trial": 7, "step": 27, "value": 0.9712}
    path = store.root / "bench.jsonl"
    with Journal.open(path) as writer:
        append = [1e6 * seconds(lambda: [writer.append(line) for _ in range(1000)]) / 1000 for _ in range(repeats)]
        writer.commit()
        one, hundred, bare = [], [], []
        descriptor = os.open(store.root / "bare.jsonl", os.O_WRONLY | os.O_CREAT | os.O_APPEND)

        def written() -> None:
            os.write(descriptor, b"x" * 120)
            os.fsync(descriptor)

        for _ in range(10 * repeats):
            writer.append(line)
            one.append(1e3 * seconds(writer.commit))
            for _ in range(100):
                writer.append(line)
            hundred.append(1e3 * seconds(writer.commit))
            bare.append(1e3 * seconds(written))
        os.close(descriptor)
    return {
        "append_us": statistics.median(append),
        **{f"commit_{key}": value for key, value in beside("ms", one, bare).items()},
        "commit_100_lines_ms": statistics.median(hundred),
    }


def checkpoints(store: Store) -> dict[str, float]:
    """Publishing 50 kB without fsync, and settling it; bare is a temporary file that is renamed."""
    found = Checkpoints(store.experiment("bench").trial(0))
    ours, bare, settle = [], [], []

    def publish(step: int) -> None:
        aside = found.begin(step, 1)
        (aside / "state.bin").write_bytes(STATE)
        found.publish(aside, step, 1)

    def write(step: int) -> None:
        aside = store.root / "bare.writing"
        aside.write_bytes(STATE)
        os.replace(aside, store.root / f"bare-{step}")

    for step in range(100):
        ours.append(1e3 * seconds(partial(publish, step)))
        bare.append(1e3 * seconds(partial(write, step)))
        if step % 10 == 0:
            settle.append(1e3 * seconds(found.settle))
    newest = [1e3 * seconds(found.newest) for _ in range(20)]
    return {
        **{f"publish_{key}": value for key, value in beside("ms", ours, bare).items()},
        "settle_ms": statistics.median(settle),
        "newest_ms": statistics.median(newest),
    }


def many(store: Store, count: int, repeats: int) -> dict[str, Any]:
    """``count`` experiments in the list, and ``count`` trials in one series: open, list, filter; milliseconds."""
    catalog = Catalog(store)
    for k in range(count):
        fields = {"name": f"digits {k % 97}", "version": k // 97 + 1, "state": "completed", "created": "2026-11-20"}
        more = {"best": {"trial": 3, "value": 0.97}, "trials": 143, "goal": "max val_acc", "reason": "nothing left"}
        catalog.upsert_experiment(f"20261120-{k:06d}-abcdef", {**fields, **more, "content": "0" * 64, "tags": []})
    written = 1e3 * seconds(catalog.close)

    def opened() -> None:
        catalog_module._read_lists.clear()
        read_catalog(store)

    with Series.open(store.root / "many.db") as series:
        for number in range(count):
            configuration = {"lr": number / count, "hidden": 64, "dropout": 0.25, "optimizer": "SGD"}
            reason = "bracket 4, rung 1 at step 3: 0.912 is rank 40 of 81, 27 go on"
            series.put_trial(
                number, configuration=configuration, state="completed", reason=reason, value=0.9, bracket=1
            )
        flushed = 1e3 * seconds(series.flush)

    def trials() -> list[dict[str, Any]]:
        with Series.read(store.root / "many.db") as reader:
            return reader.trials()

    def filtered() -> list[dict[str, Any]]:
        return [trial for trial in trials() if trial["configuration"]["lr"] > 0.5]

    def median(work: Callable[[], object]) -> float:
        return statistics.median([1e3 * seconds(work) for _ in range(repeats)])

    return {
        "count": count,
        "list_write_ms": written,
        "list_open_ms": median(opened),
        "list_again_ms": median(lambda: read_catalog(store)),
        "list_filter_ms": median(lambda: [e for e in read_catalog(store) if e["name"] == "digits 7"]),
        "trials_write_ms": flushed,
        "trials_open_and_list_ms": median(trials),
        "trials_filter_ms": median(filtered),
    }


def seconds(work: Callable[[], object]) -> float:
    """How long ``work`` takes."""
    begun = time.perf_counter()
    work()
    return time.perf_counter() - begun


def beside(unit: str, ours: list[float], bare: list[float]) -> dict[str, float]:
    """Both medians, and ours over the bare one."""
    ours_, bare_ = statistics.median(ours), statistics.median(bare)
    return {unit: ours_, f"bare_{unit}": bare_, "ratio": ours_ / bare_}
