"""What dies while a notebook's search runs: the kernel, and the engine with all of its session. Nothing is lost."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest
from notebook_kernel import Kernel
from running import alive, ended, engine_pid, lines, outcome, processes_below, until

from workbench import asked
from workbench.asking import ask
from workbench.records import Spec
from workbench.store import Store
from workbench.store.lists.known import experiments
from workbench.store.series import Series

WEIGHTS = "weights = [0.5, 0.25]"
#: While there is a file "hold", promoted trials wait: a kill finds legs under way. Carried state shows a wrong resume.
CELL = """%%train search --goal max score --steps 1-9 --seed 7{line}
import os, random, time
x = uniform(0.0, 1.0)
total, history = 0.0, []
for epoch in trial.steps():
    time.sleep(0.05)
    while epoch > 1 and os.path.exists("hold"):
        time.sleep(0.005)
    total = 0.9 * total + weights[0] * x + weights[1] * random.random()
    history.append(total)
    trial.report(score=total, noise=random.random(), turns=len(history))"""

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def start_kernel() -> Iterator[Callable[[Path], Kernel]]:
    """Start kernels; they end with the tests, and so do the engines of the stores in their folders."""
    kernels, folders = [], set()

    def start(folder: Path) -> Kernel:
        kernels.append(Kernel(folder))
        kernels[-1].run(WEIGHTS)
        folders.add(folder)
        return kernels[-1]

    yield start
    for kernel in kernels:
        with contextlib.suppress(RuntimeError):
            kernel.end()
    for folder in folders:
        store = Store(folder / ".workbench")
        if engine_pid(store):
            ask(store, asked.End())
            until(lambda store=store: not engine_pid(store), 30, "the engine's end")


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory, start_kernel: Callable[[Path], Kernel]) -> dict:
    """The outcome of the cell, in a store of its own, when no process is killed."""
    folder = tmp_path_factory.mktemp("calm")
    start_kernel(folder).run(CELL.format(line=" --wait"))
    store = Store(folder / ".workbench")
    spec = the_only(store)
    assert ended(store, spec) == "completed"
    return outcome(store, spec)


def the_only(store: Store) -> Spec:
    (entry,) = experiments(store)
    return store.read_spec(entry["id"])


def turns(store: Store, spec: Spec) -> int:
    """How many turns were trained, those that were trained again counted too."""
    with Series.read(store.experiment(spec.id).series) as series:
        return sum(leg["step"] - leg["start"] for leg in series.legs())


def search_under_way(kernel: Kernel, folder: Path, store: Store) -> Spec:
    """Run the cell; returns when trials were promoted, which wait in their first step after that."""
    (folder / "hold").touch()
    kernel.run(CELL.format(line=""))
    spec = until(lambda: [store.read_spec(entry["id"]) for entry in experiments(store)], 30, "the spec")[0]
    until(lambda: any(line["start"] > 0 for line in lines(store, spec, "LegStarted")), 60, "a promotion")
    return spec


def test_a_killed_kernel_costs_nothing(
    tmp_path: Path, undisturbed: dict, start_kernel: Callable[[Path], Kernel]
) -> None:
    store = Store(tmp_path / ".workbench")
    first = start_kernel(tmp_path)
    spec = search_under_way(first, tmp_path, store)
    engine = engine_pid(store)
    below = processes_below(engine)
    first.kill()
    before = len(lines(store, spec))
    assert not lines(store, spec, "Finish")
    (tmp_path / "hold").unlink()
    until(lambda: len(lines(store, spec)) > before, 10, "anything new after the kernel's death")
    assert engine_pid(store) == engine
    assert set(alive(below)) & {pid for pid in below if "forkserver" in command(pid)}

    second = start_kernel(tmp_path)
    second.run(CELL.format(line=""))
    assert second.run("wb.last().id") == repr(spec.id)
    assert "unchanged: showing " in second.run("wb.last().changed")
    assert second.run("wb.last().wait().state") == "'completed'"
    assert the_only(store) == spec
    assert engine_pid(store) == engine
    assert outcome(store, spec) == undisturbed
    assert turns(store, spec) == 69  # the plan's: not one was trained twice
    second.end()


def test_a_kernel_that_waits_gets_a_killed_engine_replaced(
    tmp_path: Path, undisturbed: dict, start_kernel: Callable[[Path], Kernel]
) -> None:
    store = Store(tmp_path / ".workbench")
    kernel = start_kernel(tmp_path)
    spec = search_under_way(kernel, tmp_path, store)
    engine = engine_pid(store)
    below = processes_below(engine)
    for pid in [engine, *below]:
        with contextlib.suppress(ProcessLookupError):
            if os.getsid(pid) == engine or "workbench.cluster.local" in command(pid):
                os.kill(pid, signal.SIGKILL)
    until(lambda: not alive([engine, *below]), 10, "the end of the engine and of all that it had started")
    assert not lines(store, spec, "Finish")
    (tmp_path / "hold").unlink()
    assert kernel.run("wb.last().wait().state") == "'completed'"
    assert engine_pid(store) not in (engine, None)
    assert outcome(store, spec) == undisturbed


def command(pid: int) -> str:
    with contextlib.suppress(psutil.NoSuchProcess):
        return " ".join(psutil.Process(pid).cmdline())
    return ""
