"""A kernel's engines are forked from a process that has imported what they need, and are the same as those that
begin as new processes."""

from __future__ import annotations

import contextlib
import importlib
import inspect
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path

import psutil
import pytest
from distributed.nanny import WorkerProcess
from notebook_kernel import Kernel
from running import PLAIN, SLOW, alive, ended, lines, outcome, spec_of, start, until

from workbench import asked, nursery
from workbench.asking import ask, ensure_engine, keep_nursery
from workbench.cluster.own import end_found
from workbench.engine import __main__ as program
from workbench.nursery import KEPT
from workbench.records import Scheduler
from workbench.space import uniform
from workbench.store import Store
from workbench.store.owner import own_cluster
from workbench.store.owner.lease import read_engine

TRAIN = """%%train one --goal max score --steps 1-1 --trials 2 --wait
x = uniform(0.0, 1.0)
for step in trial.steps():
    trial.report(score=x)
"""

SCRIPT = """
import argparse
from workbench import trial
asked = argparse.ArgumentParser()
asked.add_argument("--lr", type=float)
lr = asked.parse_args().lr
for step in trial.steps():
    trial.report(score=lr)
"""


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Store]:
    """A store for whose engines this process holds a nursery."""
    monkeypatch.setenv("WORKBENCH_WORKERS", "1")
    monkeypatch.setattr(KEPT, "_failed", 0)  # this process's count, to which the tests before have added
    store = Store(tmp_path / ".workbench").create()
    # pytest says in a variable whether it sets a test up or runs it.
    facts = nursery._facts
    monkeypatch.setattr(nursery, "_facts", lambda root, surroundings: facts(root, without(surroundings)))
    keep_ready(store)
    yield store
    KEPT.let_go()
    end_engine(store)
    end_found(store.root)


def keep_ready(store: Store) -> psutil.Process:
    """Hold a nursery that has finished its imports."""
    keep_nursery(store)
    assert KEPT._nursery is not None
    assert KEPT._nursery.is_ready(60)
    return held()


def without(surroundings: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in surroundings.items() if name != "PYTEST_CURRENT_TEST"}


def end_engine(store: Store) -> None:
    info = read_engine(store)
    if info is not None and info.alive:
        ask(store, asked.End())
        until(lambda: not (found := read_engine(store)) or not found.alive, what="the engine's end")


def held() -> psutil.Process:
    """The nursery that this process holds, once it shows its command line, which a program that begins does not yet."""
    (found,) = until(lambda: [one for one in psutil.Process().children() if is_nursery(one)], what="a nursery")
    return found


def is_nursery(process: psutil.Process) -> bool:
    try:
        return "workbench.nursery" in process.cmdline()
    except psutil.Error:
        return False


def engine_of(store: Store) -> psutil.Process:
    """The engine, once it answers."""
    ask(store, asked.Ping())
    info = read_engine(store)
    assert info is not None
    return psutil.Process(info.pid)


def test_an_engine_is_forked_and_so_is_its_cluster_with_nothing_of_their_parents(store: Store) -> None:
    engine, parent = engine_of(store), held()
    assert engine.parent() == parent
    record = until(lambda: own_cluster.read(store.root), what="the cluster")
    cluster = psutil.Process(record.pid)
    assert cluster.parent() == engine
    assert engine.cmdline()[1:6] == ["-P", "-m", "workbench.engine", "--store", str(store.root)]
    assert cluster.cmdline()[1:6] == ["-P", "-m", "workbench.cluster.local", "--store", str(store.root)]
    for one in (engine, cluster):
        assert os.getsid(one.pid) == one.pid
        assert one.cwd() == str(store.root)
        assert one.exe() == psutil.Process().exe()
        assert memory_of(one) == memory_of(parent), "a new process would lie elsewhere"
    # What the engine holds, such as the lock by which it is the engine, ends with the engine.
    assert str(store.engine_lock) in opened(engine)
    assert opened(parent) & opened(engine) == set()
    # The cluster says by a pipe that it is there, and then closes that.
    until(lambda: opened(engine) & opened(cluster) <= {str(store.engine_log)}, what="nothing that both have open")
    assert parent.cwd() == "/"


def memory_of(process: psutil.Process) -> str:
    """Where its command line lies: a fork has the memory of its parent, and the kernel places a new process by chance
    (``man proc_pid_stat``, field 48)."""
    return Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[45]


def opened(process: psutil.Process) -> set[str]:
    """What a process has open, apart from what is everybody's."""
    found = set()
    for name in os.listdir(f"/proc/{process.pid}/fd"):
        with contextlib.suppress(OSError):  # it was closed meanwhile
            found.add(os.readlink(f"/proc/{process.pid}/fd/{name}"))
    return {one for one in found if one != "/dev/null" and not one.startswith("anon_inode:")}


def test_what_it_trains_is_what_an_engine_of_its_own_trains(store: Store, tmp_path: Path) -> None:
    def trained(where: Store) -> object:
        spec = spec_of(PLAIN, tmp_path, space={"x": uniform(0.0, 1.0)})
        start(where, spec)
        ensure_engine(where)
        assert ended(where, spec) == "completed"
        return outcome(where, spec)

    other = Store(tmp_path / "other" / ".workbench")
    try:
        assert trained(store) == trained(other)
        assert engine_of(other).parent() == psutil.Process(), "the nursery is for one store"
    finally:
        end_engine(other)
        end_found(other.root)


def test_one_that_is_killed_takes_no_engine_with_it_and_is_replaced(store: Store, tmp_path: Path) -> None:
    spec = spec_of(SLOW, tmp_path, space={"x": uniform(0.0, 1.0)}, scheduler=Scheduler(kind="all", last=10), trials=2)
    start(store, spec)
    engine, first = engine_of(store), held()
    until(lambda: lines(store, spec, "LegStarted"), what="a leg")
    first.kill()
    until(lambda: not alive([first.pid]), what="the nursery's end")
    assert ended(store, spec) == "completed"
    assert {line["attempt"] for line in lines(store, spec, "LegStarted")} == {1}
    assert engine.is_running()
    end_engine(store)
    ensure_engine(store)  # without one, an engine is started as before
    assert engine_of(store).parent() == psutil.Process()
    end_engine(store)
    second = keep_ready(store)
    assert engine_of(store).parent() == second != first


def test_one_that_is_frozen_is_replaced_by_a_new_process(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    frozen = held()
    monkeypatch.setattr(nursery, "FORKS_S", 0.2)  # it will not answer, and the time is waited for in full
    frozen.suspend()
    assert engine_of(store).parent() == psutil.Process()
    assert not alive([frozen.pid])


def test_one_that_still_imports_is_not_waited_for_long(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    KEPT.let_go()
    keep_nursery(store)
    importing = held()
    importing.suspend()
    with monkeypatch.context() as patched:
        patched.setattr(nursery, "READY_S", 0.0)  # it will not be ready, and the time is waited for in full
        assert engine_of(store).parent() == psutil.Process()
    end_engine(store)
    importing.resume()
    assert keep_ready(store) == importing, "it was not ended for that"
    assert engine_of(store).parent() == importing


def test_an_answer_that_came_too_late_is_not_taken_for_the_next(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    first = held()
    with monkeypatch.context() as patched:
        patched.setattr(KEPT._nursery, "_hear", interrupted)  # the answer comes within milliseconds, before any signal
        with pytest.raises(KeyboardInterrupt):
            ensure_engine(store)
    assert not alive([first.pid])
    assert engine_of(store).is_running()


def test_an_engine_that_would_not_be_the_same_is_a_new_process(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    packages = tmp_path / "site-packages"
    packages.mkdir()
    first = held()

    def replaced() -> bool:
        nonlocal first
        before, first = first, keep_ready(store)
        return before != first

    assert not replaced()
    monkeypatch.setenv("WORKBENCH_TEST_SETTING", "1")
    ensure_engine(store)
    assert engine_of(store).parent() == psutil.Process(), "its variables would be others"
    assert engine_of(store).environ()["WORKBENCH_TEST_SETTING"] == "1"
    end_engine(store)
    assert replaced()
    monkeypatch.syspath_prepend(str(packages))
    assert replaced()
    (packages / "installed").mkdir()
    assert replaced(), "a package was installed"
    (settings := tmp_path / "dask").mkdir()
    monkeypatch.setenv("DASK_CONFIG", str(settings))
    assert replaced()
    (settings / "dask.yaml").write_text("distributed: {}")
    assert replaced(), "what Dask reads when it is imported was written"
    mask = os.umask(0o077)
    try:
        assert replaced(), "files would get other modes"
    finally:
        os.umask(mask)
    assert replaced()
    assert engine_of(store).parent() == first


def test_none_is_started_again_and_again(store: Store) -> None:
    for _ in range(KEPT.MOST_FAILED):
        held().kill()
        until(lambda: not KEPT._nursery.is_alive, what="its end")
        keep_nursery(store)
    assert not KEPT.holds
    assert engine_of(store).parent() == psutil.Process()


def test_it_buries_engines_that_have_ended(store: Store) -> None:
    engine, parent = engine_of(store), held()
    end_engine(store)
    until(lambda: not parent.children(), what="the burial")
    assert not psutil.pid_exists(engine.pid)
    assert engine_of(store).parent() == parent


def test_a_kernel_holds_one_from_the_start_and_it_ends_with_the_kernel(tmp_path: Path) -> None:
    kernel, store = Kernel(tmp_path, WORKBENCH_AHEAD="1"), Store(tmp_path / ".workbench")
    off = Kernel(tmp_path, WORKBENCH_AHEAD="0")

    def below(one: Kernel) -> list[psutil.Process]:
        return [child for child in psutil.Process(one.pid).children() if is_nursery(child)]

    try:
        (first,) = until(lambda: below(kernel), what="a nursery before any train cell")
        assert list(tmp_path.iterdir()) == []
        for _ in range(2):
            kernel.run(TRAIN.replace("train one", "train one --again"))
            assert engine_of(store).parent() == first
            end_engine(store)
        kernel.run("import os; os.environ['WORKBENCH_TEST_SETTING'] = '1'")
        (second,) = until(
            lambda: (found := below(kernel)) and first not in found and found, what="one with that variable"
        )
        kernel.run("%unload_ext workbench")
        until(lambda: not below(kernel), what="the end of what nothing needs")
        kernel.run("%load_ext workbench")
        (third,) = until(lambda: below(kernel), what="another one")
        assert len({first.pid, second.pid, third.pid}) == 3
        assert below(off) == []
        kernel.run(TRAIN.replace("train one", "train one --again"))
        engine = engine_of(store)
        os.kill(kernel.pid, signal.SIGKILL)
        until(lambda: not third.is_running(), what="the nursery's end")
        assert engine.is_running()
        assert engine_of(store) == engine
    finally:
        kernel.end()
        off.end()
        end_engine(store)


def test_a_command_begins_one_before_its_own_imports_and_ends_with_it(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(SCRIPT)
    store = Store(tmp_path / ".workbench")
    # A new process would lie elsewhere in memory than what it was forked from.
    with typed(tmp_path, "--detach") as (command, seen):
        assert command.wait(60) == 0, "the search was started"
        (where,) = {*seen}  # the engine is called so too, for a moment
        engine = engine_of(store)
        assert memory_of(engine) == where
    until(lambda: not nurseries(tmp_path), what="the nursery's end")
    with typed(tmp_path, "--again", "--detach") as (command, seen):
        assert command.wait(60) == 0
        assert seen == [], "the engine runs"
    assert engine_of(store) == engine
    end_engine(store)


@pytest.mark.parametrize("options", [["--plan"], ["--cluster", "tcp://127.0.0.1:1"]])
def test_a_command_that_forks_no_engine_begins_none(tmp_path: Path, options: list[str]) -> None:
    (tmp_path / "train.py").write_text(SCRIPT)
    with typed(tmp_path, *options) as (command, seen):
        command.wait(60)
        assert seen == []
    assert not (tmp_path / ".workbench" / "engine.json").exists()


def test_a_command_that_is_refused_leaves_none(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("print(1)\n")
    with typed(tmp_path) as (command, seen):
        assert command.wait(60) != 0
        assert len(seen) == 1
    until(lambda: not nurseries(tmp_path), what="the nursery's end")
    assert [one.name for one in tmp_path.iterdir()] == ["train.py"]


@contextlib.contextmanager
def typed(folder: Path, *options: str) -> Iterator[tuple[subprocess.Popen[bytes], list[str]]]:
    """``workbench run`` in a folder, and where in memory the nurseries lie that it has begun so far."""
    words = ["run", "train.py", "--goal", "max", "score", "--steps", "1-1", "--trials", "2", *options]
    around = {**os.environ, "WORKBENCH_AHEAD": "1", "WORKBENCH_WORKERS": "1"}
    command = subprocess.Popen(
        [sys.executable, "-m", "workbench", *words, "--", "--lr", "uniform(0, 1)"], cwd=folder, env=around
    )
    seen: dict[int, str] = {}

    def look() -> None:
        while command.poll() is None:
            for one in nurseries(folder):
                with contextlib.suppress(OSError):
                    where = memory_of(one)
                    if is_nursery(one):  # not a program that it begins, such as ``uname``, a moment after its fork
                        seen.setdefault(one.pid, where)

    looking = threading.Thread(target=look)
    looking.start()
    command.wait(60)
    looking.join()
    yield command, [*seen.values()]


def nurseries(folder: Path) -> list[psutil.Process]:
    """Those of the store in a folder."""
    return [one for one in psutil.process_iter() if is_nursery(one) and str(folder / ".workbench") in one.cmdline()]


def test_what_is_imported_ahead_is_there() -> None:
    """A module that was renamed would be imported on the way to the first report again."""
    for name in (*program._CLUSTER, *program._ENGINE):
        importlib.import_module(name)
    for name, function in program._CALLS:
        getattr(importlib.import_module(name), function)()
    # As Dask looks at whether a worker has started.
    assert "_init_msg_interval" in inspect.getsource(WorkerProcess._wait_until_connected)
