"""Helpers for tests that run real engines: specs written by hand, engines as processes, waiting for facts on disk."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import nursed
import pytest

from workbench.cluster.own import end_found
from workbench.records import ENDED, Goal, Program, Scheduler, Searcher, Spec, Training
from workbench.space import Space
from workbench.store import Store, layout, new_id, requests
from workbench.store.journal import read as read_journal
from workbench.store.owner.lease import read_engine
from workbench.store.owner.slots import cores
from workbench.store.series import Series

#: A loop in plain Python whose metrics depend on its configuration, its seed and every turn before.
PLAIN = """
x = uniform(0.0, 1.0)
import random
total = 0.0
for epoch in trial.steps():
    total = 0.9 * total + x + 0.01 * random.random()
    trial.report(score=total, noise=random.random())
"""

PROGRAM = ("-m", "workbench.engine")

Process = nursed.Engine | subprocess.Popen[bytes]

#: Turns long enough that a kill finds a leg under way, and carried state that a wrong resume would show.
SLOW = """
x = uniform(0.0, 1.0)
import random, time
total, history = 0.0, []
for epoch in trial.steps():
    time.sleep(0.05)
    total = 0.9 * total + x + 0.01 * random.random()
    history.append(total)
    trial.report(score=total, noise=random.random(), turns=len(history))
"""


def spec_of(
    source: str,
    folder: Path,
    *,
    space: Mapping[str, Any] | None = None,
    scheduler: Scheduler | None = None,
    goal: Goal | None = None,
    name: str = "probe",
    preload: tuple[str, ...] = (),
    searcher: Searcher | None = None,
    **fields: Any,
) -> Spec:
    """A spec for training code given as text."""
    return Spec(
        id=new_id(),
        name=name,
        version=1,
        created="2026-01-01T00:00:00.000+00:00",
        goal=goal or Goal("score"),
        space=Space(dict(space or {})).to_json(),
        scheduler=scheduler or Scheduler(kind="hyperband", first=1, last=9, eta=3),
        searcher=searcher or Searcher("random"),
        program=Program(kind="cell", source=source, filename=f"<{name}@1>"),
        training=Training(python=sys.executable, cwd=str(folder), preload=preload),
        **fields,
    )


def with_versions(spec: Spec, versions: dict[str, str]) -> Spec:
    """``spec``, asking for these versions of the training environment."""
    return dataclasses.replace(spec, training=dataclasses.replace(spec.training, versions=versions))


def start(store: Store, spec: Spec) -> str:
    """Write ``spec`` and the request to start it; the request's id."""
    store.create()
    store.write_spec(spec)
    return requests.put(store, {"kind": "start", "experiment": spec.id})


@contextlib.contextmanager
def few_cores(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, count: int) -> Iterator[list[str]]:
    """A runtime folder of its own and at most so many cores; the names of their slots."""
    runtime = tmp_path / "runtime"
    runtime.mkdir(mode=0o700)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(runtime))
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, sorted(before)[:count])
    try:
        yield cores()
    finally:
        os.sched_setaffinity(0, before)


@contextlib.contextmanager
def engine_on_cores(folder: Path, cores: int, workers: int) -> Iterator[Store]:
    """A store in ``folder`` with a living engine, which has a runtime folder of its own and at most so many cores: one
    for all tests of a file. Tests with engines of their own come before, or they would share its slots."""
    with pytest.MonkeyPatch.context() as patch, few_cores(folder, patch, cores):
        store = Store(folder / "store").create()
        with engine(store, workers=workers):
            yield store


@contextlib.contextmanager
def engine(
    store: Store, *, workers: int | None = 2, idle: float = 600.0, program: Sequence[str] = PROGRAM, **env: str
) -> Iterator[Process]:
    """A real engine process for ``store``, which has the store; it and all it started is gone afterwards."""
    store.create()
    process = engine_process(store, workers=workers, idle=idle, program=program, **env)
    try:
        # Until then who asks for something would start another one, which outlives the test.
        until(lambda: engine_pid(store) is not None or process.poll() is not None, what="an engine")
        yield process
    finally:
        end(process)
        end_found(store.root)  # what a killed engine has left


def engine_process(
    store: Store, *, workers: int | None = 2, idle: float = 600.0, program: Sequence[str] = PROGRAM, **env: str
) -> Process:
    """Start an engine and give its process at once. workers: None, as many as fit: of GPUs, if there are. program:
    Python's arguments that make it an engine."""
    store.create()
    words = ["--store", str(store.root), *(() if workers is None else ("--workers", str(workers))), "--idle", str(idle)]
    around = {**os.environ, **env}
    with open(store.engine_log, "ab") as log:
        if program is PROGRAM and (forked := _nursery().begin(words, log, around)) is not None:
            return forked
        return subprocess.Popen(
            [sys.executable, *program, *words],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env=around,
            start_new_session=True,
        )


@functools.cache
def _nursery() -> nursed.Nursery:
    return nursed.Nursery()


def end(process: Process) -> None:
    """Ask the engine to leave; after a while make it."""
    if process.poll() is None:
        process.send_signal(signal.SIGTERM)
    try:
        process.wait(20)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def until(condition: Callable[[], Any], timeout: float = 60.0, what: str = "it") -> Any:
    """Wait until ``condition`` gives something true; that."""
    deadline = time.monotonic() + timeout
    while True:
        begun = time.thread_time()
        value = condition()
        if value:
            return value
        if time.monotonic() > deadline:
            raise AssertionError(f"{what} did not happen within {timeout:g} s")
        time.sleep(max(0.01, 12 * (time.thread_time() - begun)))  # what is waited for needs the cores


#: Journals that were read, by path, with what would be another journal. Those who wait read them again and again.
_read: dict[Path, tuple[tuple[int, int, int], list[dict[str, Any]]]] = {}


def lines(store: Store, spec: Spec, kind: str | None = None) -> list[dict[str, Any]]:
    """The experiment's journal so far, or its lines of one kind."""
    path = store.experiment(spec.id).journal
    if not path.exists():
        return []
    stat = path.stat()
    known = stat.st_ino, stat.st_size, stat.st_mtime_ns
    if path not in _read or _read[path][0] != known:
        _read[path] = known, [*read_journal(path)]
    return [line for line in _read[path][1] if kind is None or line["kind"] == kind]


#: States that were read, and when, by the path of their series, with what would be another one.
_states: dict[Path, tuple[float, list[tuple[int, int]], str | None]] = {}
#: Seconds for which one holds if its files do not change: what was written may be committed, and so be seen, later.
_HOLDS_S = 0.25


def state(store: Store, spec: Spec) -> str | None:
    """The experiment's state as viewers see it."""
    path, marks = _series(store.root, spec.id), []
    for one in (path, f"{path}-wal"):
        with contextlib.suppress(FileNotFoundError):
            stat = os.stat(one)
            marks.append((stat.st_size, stat.st_mtime_ns))
    if not marks:
        return None
    now = time.monotonic()
    if path in _states:
        read, known, found = _states[path]
        if known == marks and now - read < _HOLDS_S:
            return found
    with Series.read(path) as series:
        found = series.meta().get("state")
    _states[path] = now, marks, found
    return found


@functools.cache
def _series(root: Path, experiment: str) -> Path:
    return Store(root).experiment(experiment).series


def ended(store: Store, spec: Spec, timeout: float = 120.0) -> str:
    """Wait for the experiment's end; the state it ended in."""
    return until(
        lambda: (found := state(store, spec)) in ENDED and found, timeout, f"the end of {spec.label} in {store.root}"
    )


def outcome(store: Store, spec: Spec) -> dict[str, Any]:
    """What must not depend on faults: configurations, decisions, and every reported metric."""
    with Series.read(store.experiment(spec.id).series) as series:
        trials = series.trials()
        points = sorted(tuple(row)[:5] for row in series.points())
    return {
        "trials": {row["number"]: (row["configuration"], row["state"], row["level"], row["value"]) for row in trials},
        "points": points,
    }


def meta(store: Store, spec: Spec) -> dict[str, Any]:
    """How the experiment stands, as viewers see it."""
    with Series.read(store.experiment(spec.id).series) as series:
        return series.meta()


def copied(store: Store, spec: Spec, folder: Path) -> Store:
    """A store that is made at ``folder``, with a copy of the ended experiment without the folders of its trials."""
    ours, copy = store.experiment(spec.id), Store(folder).create()
    theirs = copy.experiment(spec.id)
    # Its engine runs: other files beside the series and the trials come and go, and the series may be written.
    shutil.copytree(
        ours.folder, theirs.folder, ignore=shutil.ignore_patterns(layout.TRIALS, f"{ours.series.name}*", ".*")
    )
    with (
        contextlib.closing(sqlite3.connect(ours.series)) as before,
        contextlib.closing(sqlite3.connect(theirs.series)) as after,
    ):
        before.backup(after)
    return copy


def engine_pid(store: Store) -> int | None:
    """The living engine's process."""
    info = read_engine(store)
    return info.pid if info is not None and info.alive else None


def processes_below(pid: int) -> list[int]:
    """Every descendant of ``pid``, nearest first."""
    import psutil

    try:
        return [child.pid for child in psutil.Process(pid).children(recursive=True)]
    except psutil.NoSuchProcess:
        return []


def alive(pids: list[int]) -> list[int]:
    """Those of ``pids`` that live (zombies do not)."""
    import psutil

    found = []
    for pid in pids:
        with contextlib.suppress(psutil.NoSuchProcess):
            if psutil.Process(pid).status() != psutil.STATUS_ZOMBIE:
                found.append(pid)
    return found


def most_at_once(found: Iterable[Sequence[Any]]) -> int:
    """How many trials trained at the same moment at most. found: of each step whose it is, when it began and ended."""
    moments = sorted(moment for _, begun, end, *_ in found for moment in ((begun, 1), (end, -1)))
    now = most = 0
    for _, change in moments:
        now += change
        most = max(most, now)
    return most


#: Without what Dask measures each millisecond for its pages: for that an idle small cluster takes an eighth of a core.
QUIET_DASK = {
    "DASK_DISTRIBUTED__WORKER__PROFILE__ENABLED": "False",
    "DASK_DISTRIBUTED__ADMIN__TICK__INTERVAL": "1s",
    "DASK_DISTRIBUTED__ADMIN__TICK__CYCLE": "1s",
    "DASK_DISTRIBUTED__ADMIN__SYSTEM_MONITOR__GIL__ENABLED": "False",
}


@contextlib.contextmanager
def dask_cluster(
    folder: Path, port: str = "0", workers: int = 2, threads: int = 1
) -> Iterator[tuple[str, list[subprocess.Popen[bytes]]]]:
    """A Dask scheduler and workers that Workbench did not start; yields the address and the processes."""
    (folder / "scheduler.json").unlink(missing_ok=True)
    found = folder / "scheduler.json"
    log = open(folder / "dask.log", "ab")
    scheduler = ["--host", "127.0.0.1", "--port", port, "--no-dashboard", "--scheduler-file", str(found)]
    size = ["--nthreads", str(threads), "--nworkers", str(workers)]
    worker = [*size, "--no-dashboard", "--scheduler-file", str(found)]
    around = {**os.environ, **QUIET_DASK}
    processes = [
        subprocess.Popen(
            [sys.executable, "-m", f"distributed.cli.dask_{part}", *options], stdout=log, stderr=log, env=around
        )
        for part, options in (("scheduler", scheduler), ("worker", worker))
    ]
    try:
        until(lambda: found.exists() and found.read_text().strip(), what="a Dask scheduler")
        yield json.loads(found.read_text())["address"], processes
    finally:
        for process in reversed(processes):
            process.terminate()
        for process in processes:
            process.wait(30)
        log.close()
