"""Workbench itself, through the store as the cell does it: a spec is written, an engine is asked, the journal is read.

The cell's own part (freezing the notebook) is left out: the peers have none. Variants of a measurement are named
after a dash: ``-stopping`` (ASHA by stopping instead of promotion), ``-module`` (the cell imports a module of the
project), ``-warm`` (with an engine that runs), ``-again`` (with one that has run the same search before), ``-worker``
(a Dask worker is killed).
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import workbench
from benchmarks.peers import work

#: Cells as a user writes them. The names in capitals are replaced. This one imports nothing of a project.
WITHOUT_WORK = """
import json, os, random, time
trial_number = choice(*range(TRIALS))

def line(kind, step=0):
    fields = {"at": time.time(), "pid": os.getpid(), "kind": kind, "trial": trial_number, "step": step}
    path = os.path.join(FOLDER, f"{os.getpid()}.jsonl")
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.write(descriptor, (json.dumps(fields) + chr(10)).encode())
    os.close(descriptor)

line("begin")
for step in trial.steps():
    PAUSE
    line("report", step + 1)
    trial.report(score=random.Random(trial_number).random())
"""
#: The same from a module of the project, as the digits have it.
WITH_MODULE = """
from benchmarks.peers import work
trial_number = choice(*range(TRIALS))
work.line(FOLDER, "begin", trial_number)
for step in trial.steps():
    work.line(FOLDER, "report", trial_number, step + 1)
    trial.report(score=work.value(trial_number))
"""
DIGITS = """
import torch
from benchmarks.peers import work
import time
trial_number = choice(*range(TRIALS))
work.line(FOLDER, "begin", trial_number)
model, optimizer = work.made(trial_number)
for step in trial.steps():
    began = time.perf_counter()
    score = work.epoch(model, optimizer, trial_number, step + 1)
    PAUSE
    work.line(FOLDER, "report", trial_number, step + 1)
    trial.report(score=score)
"""
#: What the cell would have imported ahead, as ``launch`` finds it in the text and in the module.
AHEAD = ("numpy", "sklearn", "torch", "torch._dynamo")
PAUSES = {
    "stop": f"time.sleep({work.STOP_STEP_S})",
    "recovery": f"time.sleep(max(0.0, {work.RECOVERY_STEP_S} - (time.perf_counter() - began)))",
}


def _search(store: workbench.store.Store, measurement: str, folder: str, trials: int) -> None:
    """Search, and return at the end: a grid over the numbers of the configurations."""
    from benchmarks import engines
    from workbench.asked import Start
    from workbench.asking import ask
    from workbench.records import Scheduler, Searcher
    from workbench.space import choice

    name, _, variant = measurement.partition("-")
    has_model = name in ("digits", "recovery")
    source = DIGITS if has_model else WITH_MODULE if variant == "module" else WITHOUT_WORK
    source = source.replace("FOLDER", repr(folder)).replace("TRIALS", str(trials))
    stops = variant == "stopping" or name == "stop"
    asha = Scheduler("asha", 1, work.R, work.ETA, mode="stop" if stops else "promote")
    one = engines.spec(
        source.replace("PAUSE", PAUSES.get(name, "pass")),
        store,
        Scheduler("all", work.R, work.R) if name == "recovery" else asha,
        trials=trials,
        space={"trial_number": choice(*range(trials))},
        preload=AHEAD if has_model else (),
    )
    training = dataclasses.replace(one.training, path=tuple(entry for entry in sys.path if entry))
    one = dataclasses.replace(one, training=training, searcher=Searcher("grid"))
    store.write_spec(one)
    ask(store, Start(one.id))
    while (state := engines.state(store, one)) is None:
        time.sleep(0.005)
    work.line(folder, "searched")
    if state != "completed":
        raise RuntimeError(f"the search {state}: {engines.lines(store, one)[-1].get('reason')}")


@contextlib.contextmanager
def _own(store: workbench.store.Store) -> Iterator[None]:
    """An engine that the first request starts, and that is ended here."""
    from benchmarks import engines
    from workbench import asked
    from workbench.asking import ask

    try:
        yield
    finally:
        ask(store, asked.End())
        engines.until(lambda: not store.engine_json.exists(), 30)


def _main() -> None:
    from workbench.asking import ready
    from workbench.store import Store

    measurement, folder, trials = work.asked()
    os.environ["WORKBENCH_WORKERS"] = str(work.WORKERS)
    name, _, variant = measurement.partition("-")
    if len(sys.argv) > 4:  # a store whose engine runs
        _search(Store(Path(sys.argv[4])), measurement, folder, trials)
    elif name in ("start", "digits") and not variant:
        with tempfile.TemporaryDirectory() as place:
            store = Store(Path(place) / "store").create()
            with ready(store), _own(store):  # as `workbench run` does
                _search(store, measurement, folder, trials)
    else:
        from benchmarks import engines

        with engines.engine(workers=work.WORKERS) as store:
            engines.warm(store, AHEAD if name in ("digits", "recovery") else ())
            if variant == "again":
                with tempfile.TemporaryDirectory() as before:
                    _search(store, measurement, before, trials)
            if variant in ("again", "warm"):
                work.line(folder, "launched")
                command = [sys.executable, "-m", __spec__.name, name, folder, str(trials), str(store.root)]
                subprocess.run(command, check=True)
            else:
                _search(store, measurement, folder, trials)
    work.tell(Workbench=workbench.__version__)


if __name__ == "__main__":
    _main()
