"""What a kernel has imported is imported for its folder's workers before the first train cell, and kept for them."""

from __future__ import annotations

import os
import signal
import socket
from pathlib import Path

import psutil
import pytest
from notebook_kernel import Kernel
from running import alive, ended, lines, until

from workbench import asked
from workbench.asking import ask
from workbench.lab import keeper
from workbench.messages import Join, Ready, Soon
from workbench.store import Store
from workbench.store.owner import own_cluster
from workbench.store.owner.lease import read_engine
from workbench.store.series import Series
from workbench.trial.process.wire import Connection

TRAIN = """%%train one --goal max score --steps 1-1 --trials 2 --wait
import numpy, os
x = uniform(0.0, 1.0)
for step in trial.steps():
    trial.report(score=float(numpy.float64(x)), parent=os.getppid())
"""


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


def forkservers(pid: int) -> list[int]:
    """Below a process: forkservers, without what was forked from them."""
    return [one.pid for one in psutil.Process(pid).children() if is_forkserver(one)]


def below(pid: int) -> list[int]:
    """All forkservers and runners below a process, at any depth."""
    return [one.pid for one in psutil.Process(pid).children(recursive=True) if is_forkserver(one)]


def is_forkserver(process: psutil.Process) -> bool:
    try:
        return "workbench.trial.process.forkserver" in " ".join(process.cmdline())
    except psutil.Error:  # it has just ended
        return False


def place_of(forkserver: int) -> str:
    """The socket at which a forkserver can be joined, once it is ready."""
    place = until(lambda: [one.laddr for one in psutil.Process(forkserver).net_connections("unix") if one.laddr])[0]
    until(lambda: Path(place).stat().st_mode & 0o100, what="that it is ready")
    return str(place)


def parents(store: Store) -> set[float]:
    """The processes from which the runners of the newest experiment were forked."""
    with Series.read(store.experiment(max(store.experiment_ids())).series) as series:
        return {value for _, name, *_, value, _ in series.points() if name == "parent"}


def end_engine(store: Store) -> None:
    info = read_engine(store)
    if info is not None and info.alive:
        ask(store, asked.End())
        until(lambda: psutil.pid_exists(info.pid) is False, what="the engine's end")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "notebooks"
    folder.mkdir()
    return folder


def test_workers_fork_from_what_the_kernel_has_started_and_the_next_engines_do(folder: Path) -> None:
    kernel = Kernel(folder, WORKBENCH_AHEAD="1")
    store = Store(folder / ".workbench")
    try:
        assert forkservers(kernel.pid) == []
        kernel.run("import numpy")
        until(lambda: len(forkservers(kernel.pid)) == 1, what="a forkserver before any train cell")
        assert list(folder.iterdir()) == []
        started = forkservers(kernel.pid)
        for _ in range(2):
            kernel.run(TRAIN.replace("train one", "train one --again"))
            assert "completed" in kernel.run("wb.last().state")
            record = own_cluster.read(store.root)
            assert record is not None
            assert below(record.pid) == []
            assert parents(store) == {float(started[0])}
            end_engine(store)
            assert alive(started) == started
        os.kill(kernel.pid, signal.SIGKILL)
        until(lambda: alive(started) == [], what="the end of what only the kernel kept")
    finally:
        end_engine(store)
        kernel.end()


def test_a_kernel_that_dies_takes_nothing_from_workers_that_train(folder: Path) -> None:
    kernel = Kernel(folder, WORKBENCH_AHEAD="1")
    store = Store(folder / ".workbench")
    try:
        kernel.run("import numpy")
        until(lambda: len(forkservers(kernel.pid)) == 1, what="a forkserver before any train cell")
        started = forkservers(kernel.pid)
        mark = folder / "go"
        waits = f"    import os, time\n    while not os.path.exists({str(mark)!r}): time.sleep(0.01)\n"
        kernel.run(TRAIN.replace(" --wait", "").replace("    trial.report", f"{waits}    trial.report"))
        until(lambda: len(psutil.Process(started[0]).children()) > 0, what="a runner")
        kernel.kill()
        assert alive(started) == started
        mark.touch()
        spec = store.read_spec(store.experiment_ids()[0])
        assert ended(store, spec) == "completed"
        assert {line["attempt"] for line in lines(store, spec, "LegStarted")} == {1}
    finally:
        end_engine(store)


def test_what_is_imported_later_comes_with_another_one_and_nothing_where_it_is_turned_off(folder: Path) -> None:
    (folder / "off").mkdir()
    off = Kernel(folder / "off", WORKBENCH_AHEAD="0")
    kernel = Kernel(folder, WORKBENCH_AHEAD="1")
    try:
        for one in (kernel, off):
            one.run("import numpy")
        until(lambda: len(forkservers(kernel.pid)) == 1, what="a forkserver")
        first = forkservers(kernel.pid)
        kernel.run("import scipy")
        until(lambda: len(forkservers(kernel.pid)) == 1 and forkservers(kernel.pid) != first, what="another one")
        kernel.run("%unload_ext workbench")
        until(lambda: forkservers(kernel.pid) == [], what="the end of what nothing keeps")
        assert forkservers(off.pid) == []
    finally:
        kernel.end()
        off.end()


def test_it_is_let_go_where_no_cell_is_run_for_long(folder: Path) -> None:
    kernel = Kernel(folder, WORKBENCH_AHEAD="1")
    try:
        kernel.run("import numpy")
        until(lambda: len(forkservers(kernel.pid)) == 1, what="a forkserver")
        kernel.run("from workbench.lab import keeper; keeper.LOOK_S = keeper.KEPT_S = 0.2")
        until(lambda: forkservers(kernel.pid) == [], 2 * keeper.LOOK_S, "the end of what is not used")
    finally:
        kernel.end()


FUNCTION = """import workbench as wb
def train(trial, x: float = wb.uniform(0.0, 1.0)):
    for step in trial.steps():
        trial.report(score=x)
three = wb.Experiment("three", train, goal=wb.maximize("score"), scheduler=wb.All(1), trials=2)
three.start()
"""


def test_workers_hear_of_an_experiment_before_it_is_launched(folder: Path) -> None:
    kernel, store = Kernel(folder, WORKBENCH_AHEAD="1"), Store(folder / ".workbench")
    try:
        kernel.run("import numpy")
        until(lambda: len(forkservers(kernel.pid)) == 1, what="a forkserver")
        place = place_of(*forkservers(kernel.pid))
        with socket.socket(socket.AF_UNIX) as worker:
            worker.settimeout(60)
            worker.connect(place)
            joined = Connection(worker)
            joined.send(Join())
            assert isinstance(joined.receive(), Ready)
            kernel.run("1")
            kernel.run(TRAIN)
            assert joined.receive() == Soon()
            kernel.run(TRAIN.replace("train one", "train two"))
            assert joined.receive() == Soon()
            kernel.run(TRAIN.replace("train one", "train two --try"))
            kernel.run(FUNCTION)
            assert joined.receive() == Soon()
            assert joined.ready() == []
    finally:
        kernel.end()
        end_engine(store)


def test_one_that_still_imports_takes_the_place_of_none(folder: Path) -> None:
    """An engine may start at that moment, and would wait for its imports."""
    kernel, store = Kernel(folder, WORKBENCH_AHEAD="1"), Store(folder / ".workbench")
    try:
        kernel.run("import numpy")
        until(lambda: len(forkservers(kernel.pid)) == 1, what="a forkserver")
        (started,) = forkservers(kernel.pid)
        place = place_of(started)
        with socket.socket(socket.AF_UNIX) as newer:
            newer.bind(place.replace("-1.sock", "-2.sock"))
            os.chmod(newer.getsockname(), 0o600)
            newer.listen(8)
            newer.settimeout(60)
            kernel.run("1")
            with newer.accept()[0]:  # the kernel holds this one as well
                kernel.run(TRAIN)
                assert parents(store) == {started}
            os.unlink(newer.getsockname())
    finally:
        kernel.end()
        end_engine(store)
