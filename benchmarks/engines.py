"""Engines and experiments for the benchmarks: started as a user's are, measured from the store."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from workbench.experiment import Experiment
from workbench.records import ENDED, Goal, Program, Scheduler, Searcher, Spec, Training
from workbench.snapshot.surroundings import variables
from workbench.space import Space, uniform
from workbench.store import Store, new_id, requests
from workbench.store.journal import read as read_journal
from workbench.store.series import Series

SPACE = {"x": uniform(0.0, 1.0)}


#: Python's arguments that make it an engine.
PROGRAM = ("-m", "workbench.engine")


@contextlib.contextmanager
def engine(workers: int | None = 2, program: Sequence[str] = PROGRAM) -> Iterator[Store]:
    """A temporary store with a running engine. workers: None, as many as fit: of GPUs, if there are. program: Python's
    arguments that make it an engine."""
    with tempfile.TemporaryDirectory() as folder:
        store = Store(Path(folder) / "store").create()
        with open(store.engine_log, "ab") as log:
            process = subprocess.Popen(
                [
                    *(sys.executable, *program, "--store", str(store.root)),
                    *(() if workers is None else ("--workers", str(workers))),
                ],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                env=dict(os.environ),
            )
        try:
            yield store
        except BaseException:
            print(store.engine_log.read_text()[-4000:], file=sys.stderr)
            raise
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(30)


def spec(source: str, store: Store, scheduler: Scheduler, **fields: Any) -> Spec:
    """An experiment of training code given as text, over one hyperparameter ``x``."""
    preload = fields.pop("preload", ())
    # As a cell's launch records it: all variables.
    training = Training(
        python=sys.executable, cwd=str(store.root), preload=preload, env=variables.here().env, is_whole=True
    )
    return Spec(
        id=new_id(),
        name="benchmark",
        version=1,
        created="2026-01-01T00:00:00.000+00:00",
        goal=Goal("score"),
        space=Space(fields.pop("space", SPACE)).to_json(),
        scheduler=scheduler,
        searcher=Searcher("random"),
        program=Program(kind="cell", source=source, filename="<benchmark@1>"),
        training=training,
        **fields,
    )


def run(store: Store, one: Spec, timeout: float = 300) -> float:
    """Start the experiment and wait for its end; seconds from the request to the end."""
    store.write_spec(one)
    begun = time.perf_counter()
    requests.put(store, {"kind": "start", "experiment": one.id})
    until(lambda: state(store, one) in ENDED, timeout)
    return time.perf_counter() - begun


#: By journal: the last line that :func:`state` has read, and the state by then.
_read: dict[Path, tuple[int, str | None]] = {}


def state(store: Store, one: Spec) -> str | None:
    """The experiment's state from its journal, which is the fastest to read; only lines that are new are read.

    A benchmark that waits asks many times a second: reading all of a journal each time took a quarter of a core from
    the search.
    """
    path = store.experiment(one.id).journal
    n, last = _read.get(path, (0, None))
    for line in read_journal(path, after=n):
        n = line["n"]
        if line["kind"] == "Finish":
            last = line["state"]
    _read[path] = n, last
    return last


def until(condition: Callable[[], Any], timeout: float) -> None:
    """Wait until ``condition`` is true."""
    deadline = time.monotonic() + timeout
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(f"nothing came of it within {timeout:g} s")
        time.sleep(0.02)


def lines(store: Store, one: Spec) -> list[dict[str, Any]]:
    """The experiment's journal."""
    return list(read_journal(store.experiment(one.id).journal))


def legs(store: Store, one: Spec) -> list[dict[str, Any]]:
    """The experiment's legs."""
    with Series.read(store.experiment(one.id).series) as series:
        return series.legs()


def printed(store: Store, one: Spec) -> str:
    """All that the training code of the first trial has printed."""
    return Experiment.of(store, one.id)[0].log


def told(printed: str) -> dict[str, Any]:
    """What training code or a script printed behind ``RESULT``, as JSON."""
    found: dict[str, Any] = json.loads(printed.split("RESULT", 1)[1].splitlines()[0])
    return found


def warm(store: Store, preload: tuple[str, ...] = ()) -> None:
    """Start the cluster and the training environment before anything is measured."""
    source = "x = uniform(0.0, 1.0)\nfor turn in trial.steps():\n    trial.report(score=x)\n"
    run(store, spec(source, store, Scheduler("all", 1, 1), trials=8, preload=preload))


def seconds(line: dict[str, Any]) -> float:
    """A journal line's time, in seconds."""
    from datetime import datetime

    return datetime.fromisoformat(line["at"]).timestamp()


def spread(values: Sequence[float]) -> dict[str, float]:
    """Median and ends of some values."""
    ordered = sorted(values)
    return {
        "min": ordered[0],
        "median": statistics.median(ordered),
        "p99": ordered[min(len(ordered) - 1, int(len(ordered) * 0.99))],
        "max": ordered[-1],
        "count": len(ordered),
    }


replace = dataclasses.replace
