"""What starts when the extension is loaded: the engine of a store that was trained in, and nothing anywhere else."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from notebook_kernel import Kernel
from running import PLAIN, SLOW, end, ended, engine_process, processes_below, spec_of, start, until

from workbench import asked
from workbench.asking import ask, check_cluster
from workbench.cluster.own import end_found
from workbench.errors import NoAnswer
from workbench.records import Scheduler
from workbench.space import uniform
from workbench.store import Store
from workbench.store.lists.catalog import read_catalog
from workbench.store.owner import own_cluster
from workbench.store.owner.lease import read_engine

#: Waits until what began with the extension is done.
SETTLED = "import threading; [t.join() for t in threading.enumerate() if t.name == 'workbench-ahead']"


@pytest.fixture
def trained(tmp_path: Path) -> Iterator[Store]:
    """A store in which something was trained; no engine runs."""
    store = Store(tmp_path / ".workbench").create()
    fields = {"scheduler": Scheduler(kind="all", last=1), "trials": 1, "preload": ("sqlite3",)}
    spec = spec_of(PLAIN, tmp_path, space={"x": uniform(0.0, 1.0)}, **fields)
    start(store, spec)
    process = engine_process(store, workers=1)
    assert ended(store, spec) == "completed"
    end(process)
    yield store
    if _runs(store):
        ask(store, asked.End())
        until(lambda: not _runs(store), what="the engine's end")
    end_found(store.root)


def _runs(store: Store) -> bool:
    info = read_engine(store)
    return info is not None and info.alive


def test_the_engine_of_a_store_gets_ready_for_what_was_trained_last(trained: Store) -> None:
    kernel = Kernel(trained.root.parent, WORKBENCH_AHEAD="1")
    try:
        until(lambda: _runs(trained), what="an engine before any train cell")
        until(
            lambda: any("workbench.trial.process.forkserver" in command for command in _cluster(trained)),
            what="a forkserver",
        )
    finally:
        kernel.end()


def _cluster(store: Store) -> list[str]:
    """The command lines of all processes of the store's cluster."""
    record = own_cluster.read(store.root)
    return [] if record is None else [_command(pid) for pid in processes_below(record.pid)]


def _command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text()
    except OSError:
        return ""


def test_nothing_is_made_in_a_folder_without_a_store(tmp_path: Path) -> None:
    kernel = Kernel(tmp_path, WORKBENCH_AHEAD="1")
    try:
        kernel.run(SETTLED)
        assert list(tmp_path.iterdir()) == []
    finally:
        kernel.end()


def test_the_installed_packages_are_known_before_the_first_train_cell(tmp_path: Path) -> None:
    kernel = Kernel(tmp_path, WORKBENCH_AHEAD="1")
    try:
        kernel.run(SETTLED)
        kernel.run("from workbench.snapshot.surroundings.environment import _distributions_in as found, distributions")
        assert "True" in kernel.run("(before := found.cache_info()).currsize > 0")
        assert "True" in kernel.run("bool(distributions()) and found.cache_info().misses == before.misses")
    finally:
        kernel.end()


@pytest.mark.parametrize("how", ["off", "foreign", "empty", "unfinished"])
def test_no_engine_starts_where_it_is_turned_off_or_something_would_be_trained(trained: Store, how: str) -> None:
    folder = trained.root.parent
    if how == "foreign":  # its owner moved it, and was not asked yet
        folder = folder / "elsewhere"
        folder.mkdir()
        trained.root.rename(folder / ".workbench")
    elif how == "unfinished":
        spec = spec_of(SLOW, folder, space={"x": uniform(0.0, 1.0)}, scheduler=Scheduler(kind="all", last=1000))
        start(trained, spec)
        process = engine_process(trained, workers=1)
        until(lambda: _is_listed(trained, spec.id), what="the search in the catalog")
        process.kill()
        process.wait()
        end_found(trained.root)
    elif how == "empty":
        folder = folder / "empty"
        folder.mkdir()
        Store(folder / ".workbench").create()
    kernel = Kernel(folder, WORKBENCH_AHEAD="0" if how == "off" else "1")
    try:
        kernel.run(SETTLED)
        assert not _runs(Store(folder / ".workbench"))
    finally:
        kernel.end()


def _is_listed(store: Store, experiment: str) -> bool:
    return any(entry["id"] == experiment and entry["state"] == "running" for entry in read_catalog(store))


def test_an_engine_without_work_makes_way_for_another_cluster(trained: Store) -> None:
    process = engine_process(trained, workers=1)
    until(lambda: _runs(trained), what="an engine")
    with pytest.raises(NoAnswer):
        check_cluster(trained, "tcp://127.0.0.1:1")
    assert _runs(trained), "the named cluster does not answer: nothing changes"
    process.terminate()
    process.wait(30)
