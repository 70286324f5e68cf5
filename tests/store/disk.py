"""What the store does on a disk that is full or cannot be written. Run by test_disk.py in a namespace of its own.

`python disk.py full|readonly FOLDER`: FOLDER is where a small file system may be mounted. Prints `ok`, or fails.
`python disk.py limited FOLDER`: no mount; the kernel refuses files beyond 64 KiB.
`python disk.py forbidden FOLDER`: no mount; the permission to write is taken away, and root's rights given up.
"""

from __future__ import annotations

import contextlib
import os
import resource
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from workbench.errors import StoreFull, StoreReadOnly
from workbench.records import Goal, Program, Scheduler, Searcher, Spec, Training
from workbench.store import Store, journal, requests
from workbench.store.journal import Journal
from workbench.store.keeping.checkpoints import Checkpoints
from workbench.store.lists.catalog import Catalog, read_catalog, resolve
from workbench.store.owner.lease import EngineLease, read_engine
from workbench.store.series import Series

KEY = "20261120-140312-abcdef"


@contextlib.contextmanager
def raises(kind: type[Exception]) -> Iterator[None]:
    try:
        yield
    except kind:
        return
    raise AssertionError(f"nothing was raised, {kind.__name__} was wanted")


def make_spec(key: str) -> Spec:
    code, training = Program("cell", "", "x.py"), Training("python", "/")
    return Spec(key, "digits", 1, "2026", Goal("acc"), {}, Scheduler(), Searcher(), code, training)


def fill(store: Store) -> None:
    """One experiment with a bit of everything."""
    store.create()
    store.write_spec(make_spec(KEY))
    paths = store.experiment(KEY)
    with Journal.open(paths.journal) as writer:
        writer.append({"kind": "Began", "experiment": KEY})
    with Series.open(paths.series) as series:
        series.put_trial(7, state="running")
        series.add_points([(7, "acc", step, 0, step / 10, 0.0) for step in range(10)])
    checkpoints = Checkpoints(paths.trial(7))
    aside = checkpoints.begin(3, 1)
    (aside / "state.bin").write_bytes(b"state")
    checkpoints.publish(aside, 3, 1)
    Catalog.rebuild(store)


def is_all_there(store: Store) -> None:
    paths = store.experiment(KEY)
    assert store.read_spec(KEY) == make_spec(KEY)
    assert resolve(store, "digits@1/t0007").experiment == KEY
    assert [entry["id"] for entry in read_catalog(store)] == [KEY]
    assert next(journal.read(paths.journal))["kind"] == "Began"
    with Series.read(paths.series) as series:
        assert len(series.points()) >= 10
        assert series.trial(7)["state"] == "running"
        series.points_after(0)
    newest = Checkpoints(paths.trial(7)).newest()
    assert newest is not None
    assert newest.file("state.bin").read_bytes() == b"state"


def writes(store: Store, kind: type[Exception], big: bytes) -> None:
    """Each way to write is refused with ``kind``, and nothing that was there is lost."""
    paths = store.experiment(KEY)
    with raises(kind):
        store.put_blob(big)
    checkpoints = Checkpoints(paths.trial(7))
    with raises(kind):
        aside = checkpoints.begin(9, 2)
        try:
            descriptor = os.open(aside / "state.bin", os.O_WRONLY | os.O_CREAT)
            try:
                while True:
                    os.write(descriptor, b"x" * 4096)
            finally:
                os.close(descriptor)
        except OSError:
            checkpoints.publish(aside, 9, 2, details={"more": "x" * len(big)})
    is_all_there(store)
    assert [path.name for path in store.root.rglob("*.writing")] == []


def full(folder: Path) -> None:
    mount(folder, "size=1m")
    store = Store(folder / ".workbench")
    fill(store)
    ballast = folder / "ballast"
    paths = store.experiment(KEY)
    writer, series, catalog = Journal.open(paths.journal), Series.open(paths.series), Catalog(store)
    with ballast.open("wb", buffering=0) as file, contextlib.suppress(OSError):
        while True:
            file.write(b"x" * 512)
    writes(store, StoreFull, b"big" * 100_000)
    told = [writer.append({"kind": "x", "k": k, "text": "y" * 2000}) for k in range(10)]
    catalog.upsert_experiment(KEY, {"note": "z" * 5000})
    points = [(7, "loss", step, 0, step / 7, 0.0) for step in range(20_000)]
    series.add_points(points)
    for _ in range(3):
        with raises(StoreFull):
            writer.commit()
        with raises(StoreFull):
            catalog.close()
        with raises(StoreFull):
            series.flush()
        with raises(StoreFull):
            requests.put(store, {"kind": "note", "note": "z" * 5000})
        with raises(StoreFull):
            store.write_spec(make_spec("another"))
        is_all_there(store)
    assert requests.pending(store) == []
    ballast.unlink()
    mount(folder, "remount,size=16m")
    assert writer.commit() == told[-1]
    catalog.close()
    series.flush()
    assert [line["n"] for line in journal.read(paths.journal)] == list(range(1, told[-1] + 1))
    assert read_catalog(store)[0]["note"] == "z" * 5000
    assert series.points(names=["loss"]) == points
    writer.close()
    series.close()
    is_all_there(store)


def limited(folder: Path) -> None:
    store = Store(folder / ".workbench")
    fill(store)
    paths = store.experiment(KEY)
    writer = Journal.open(paths.journal)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 16, resource.RLIM_INFINITY))
    writes(store, StoreFull, b"big" * 100_000)
    last = [writer.append({"kind": "x", "k": k, "text": "y" * 2000}) for k in range(100)][-1]
    for _ in range(3):
        with raises(StoreFull):
            writer.commit()
        assert len(list(journal.read(paths.journal))) == 1
    with raises(StoreFull):
        requests.put(store, {"kind": "note", "note": "z" * 100_000})
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    assert writer.commit() == last
    writer.close()
    assert len(list(journal.read(paths.journal))) == last
    is_all_there(store)


def refuses(store: Store) -> None:
    """A store that cannot be written is read in every way, and says so to who writes."""
    is_all_there(store)
    writes(store, StoreReadOnly, b"big")
    paths = store.experiment(KEY)
    for write in (
        lambda: Journal.open(paths.journal),
        lambda: Series.open(paths.series),
        lambda: Series.open(paths.folder / "new.db"),
        lambda: requests.put(store, {"kind": "stop"}),
        lambda: store.write_spec(make_spec("another")),
        lambda: EngineLease.acquire(store),
        lambda: Store(store.root / "within").create(),
    ):
        with raises(StoreReadOnly):
            write()
    catalog = Catalog(store)
    catalog.upsert_experiment(KEY, {"note": "x"})
    with raises(StoreReadOnly):
        catalog.close()
    read_engine(store)
    is_all_there(store)


def readonly(folder: Path) -> None:
    mount(folder, "size=16m")
    store = Store(folder / ".workbench")
    fill(store)
    mount(folder, "remount,ro")
    refuses(store)
    # With an engine that writes through another door to the same files: its WAL is seen.
    mount(folder, "remount,rw")
    other = folder.with_name("door")
    other.mkdir()
    subprocess.run(["mount", "--bind", str(folder), str(other)], check=True)
    subprocess.run(["mount", "-o", "remount,bind,ro", str(other)], check=True)
    looked = Store(other / ".workbench")
    with EngineLease.acquire(store):
        engine = read_engine(looked)
        assert engine is not None
        assert engine.alive
        series = Series.open(store.experiment(KEY).series)
        reader = Series.read(looked.experiment(KEY).series)
        cursor, _ = reader.points_after(0)
        series.add_points([(7, "acc", 11, 0, 1.1, 0.0)])
        series.flush()
        assert reader.points_after(cursor)[1] == [(7, "acc", 11, 0, 1.1, 0.0)]
        refuses(looked)
        reader.close()
        # The engine dies and leaves a WAL. Readers through the read-only mount cannot write it into the database.
        child = os.fork()
        if child == 0:
            dying = Series.open(store.experiment(KEY).series)
            dying.add_points([(7, "acc", 12, 0, 1.2, 0.0)])
            dying.flush()
            os._exit(0)
        os.waitpid(child, 0)
        series.close()
    child = os.fork()
    if child == 0:
        dying = Series.open(store.experiment(KEY).series)
        dying.add_points([(7, "acc", 13, 0, 1.3, 0.0)])
        dying.flush()
        os._exit(0)
    os.waitpid(child, 0)
    path = looked.experiment(KEY).series
    assert path.with_name("series.db-wal").stat().st_size > 0
    for shm in (True, False):
        if not shm:
            store.experiment(KEY).series.with_name("series.db-shm").unlink()
        with Series.read(path) as reader:
            assert [point[2] for point in reader.points()][-3:] == [11, 12, 13], shm
    # A writer uses the writable path meanwhile. The reader, which has a copy or an immutable file open, notices.
    reader = Series.read(path)
    assert len(reader.points()) == 13
    with Series.open(store.experiment(KEY).series) as series:
        series.add_points([(7, "acc", 14, 0, 1.4, 0.0)])
    assert len(reader.points()) == 14
    reader.close()
    subprocess.run(["umount", str(other)], check=True)


def forbidden(folder: Path) -> None:
    store = Store(folder / ".workbench")
    fill(store)
    nobody = 65534
    if os.getuid() == 0:
        for path in [folder, store.root, *store.root.rglob("*")]:
            os.chown(path, nobody, nobody)
    for path in sorted([store.root, *store.root.rglob("*")], reverse=True):
        path.chmod(0o500 if path.is_dir() else 0o400)
    if os.getuid() == 0:
        os.chdir(folder)
        os.setgid(nobody)
        os.setuid(nobody)
    try:
        refuses(Store(".workbench"))
    finally:
        for path in [store.root, *store.root.rglob("*")] if os.getuid() != nobody else []:
            path.chmod(0o700)


def mount(folder: Path, options: str) -> None:
    subprocess.run(["mount", "-t", "tmpfs", "-o", options, "none", str(folder)], check=True)


if __name__ == "__main__":
    {f.__name__: f for f in (full, limited, readonly, forbidden)}[sys.argv[1]](Path(sys.argv[2]))
    print("ok")
