"""Run a scenario in one child process after another; the k-th dies at its k-th call that changes a file.

`python dying.py SCENARIO FOLDER`: each child works in a store of its own, FOLDER/<k>-<how>, and writes what it was
promised to FOLDER/<k>-<how>.told, before and beside all counting. ``how``: ``before`` the call, or with ``half`` of a
write done. A kill needs no fsync to be real, so fsyncs are counted and not made. Prints how many calls there were.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path

from workbench.records import Goal, Program, Scheduler, Searcher, Spec, Training
from workbench.store import Store, requests
from workbench.store.catalog import Catalog
from workbench.store.checkpoints import Checkpoints
from workbench.store.journal import Journal
from workbench.store.lease import EngineLease
from workbench.store.series import Series

COUNTED = ("write", "pwrite", "fsync", "replace", "rename", "ftruncate", "unlink", "rmdir", "mkdir", "utime")
KILLED = 77
Tell = Callable[[object], None]


def journal(store: Store, tell: Tell) -> None:
    path = store.journal_path
    path.write_bytes(b'{"n":1,"at":"","schema":1,"kind":"x","k":0}\n{"n":2,"at":"","sch')
    tell(1)
    for group in ((1, 2), (3,), (4, 5, 6)):
        with Journal.open(path) as writer:
            for k in group:
                writer.append({"kind": "x", "k": k})
            tell(writer.commit())


def ask(store: Store, tell: Tell) -> None:
    asked = [requests.put(store, {"kind": "stop", "k": 0})]
    tell(["asked", *asked])
    asked.append(requests.put(store, {"kind": "stop", "k": 1}))
    tell(["asked", *asked])
    (store.requests / "half.json").write_bytes(b'{"kind":')
    requests.pending(store)
    requests.remove(store, asked[0])
    tell(["removed", asked[0]])


def spec(store: Store, tell: Tell) -> None:
    store.create()
    for key in ("a", "b"):
        tell({"blob": store.put_blob(key.encode() * 1000)})
        store.write_spec(make_spec(key))
        tell({"spec": key})
    tell({"blob": store.put_blob(b"a" * 1000)})


def make_spec(key: str) -> Spec:
    code, training = Program("cell", "", "x.py"), Training("python", "/")
    return Spec(key, "digits", 1, "2026", Goal("acc"), {}, Scheduler(), Searcher(), code, training)


def checkpoint(store: Store, tell: Tell) -> None:
    trial = store.experiment("a").trial(0)
    for step, attempt in ((3, 1), (9, 1), (9, 2), (9, 2), (27, 3)):
        checkpoints = Checkpoints(trial)
        aside = checkpoints.begin(step, attempt)
        descriptor = os.open(aside / "state.bin", os.O_WRONLY | os.O_CREAT)
        os.write(descriptor, f"{step} {attempt} ".encode() * 100)
        os.close(descriptor)
        checkpoints.publish(aside, step, attempt)
        tell([step, attempt])
        checkpoints.settle()
    tell([27, 3])
    checkpoints.remove(3)
    tell("removed")


def catalog(store: Store, tell: Tell) -> None:
    for state in ("waiting", "running", "completed"):
        listed = Catalog(store)
        for key in ("a", "b"):
            listed.upsert_experiment(key, {"name": key, "version": 1, "state": state})
        listed.close()
        tell(state)


def lease(store: Store, tell: Tell) -> None:
    for _ in range(2):
        held = EngineLease.acquire(store)
        tell("held")
        held.beat(address="tls://x")
        held.closing()
        held.release()
        tell("released")


def series(store: Store, tell: Tell) -> None:
    path = store.root / "series.db"
    for k in range(3):
        opened = Series.open(path)
        opened.add_points([(k, "acc", step, 0, step / 7, 0.0) for step in range(50)])
        opened.put_trial(k, state="running")
        opened.flush()
        tell(k + 1)
        opened.close()
        if k == 1:
            path.write_bytes(b"no database any more")  # it is moved aside, and made again
            tell(0)
    tell(1)


SCENARIOS = {f.__name__: f for f in (journal, ask, spec, checkpoint, catalog, lease, series)}


def die_at(number: int, how: str) -> None:
    """From now on count; the ``number``-th call is the last."""
    left = [number]

    def counted(name: str) -> Callable[..., object]:
        real = getattr(os, name)

        def call(*arguments: object, **more: object) -> object:
            left[0] -= 1
            if left[0] == 0:
                if how == "half" and name in ("write", "pwrite"):
                    data = memoryview(arguments[1]).cast("B")  # type: ignore[arg-type]
                    real(arguments[0], data[: len(data) // 2], *arguments[2:])
                os._exit(KILLED)
            return None if name == "fsync" else real(*arguments, **more)

        return call

    for name in COUNTED:
        setattr(os, name, counted(name))


def live(scenario: str, folder: Path, number: int, how: str) -> bool:
    """One life; True where it ended by itself."""
    child = os.fork()
    if child == 0:
        try:
            store = Store(folder / f"{number}-{how}").create()
            told = os.open(folder / f"{number}-{how}.told", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
            real = os.write

            def tell(what: object) -> None:
                real(told, json.dumps(what).encode() + b"\n")

            die_at(number, how)
            SCENARIOS[scenario](store, tell)
            os._exit(0)
        except BaseException:
            import traceback

            traceback.print_exc()
            os._exit(1)
    _, status = os.waitpid(child, 0)
    code = os.waitstatus_to_exitcode(status)
    if code not in (0, KILLED):
        raise SystemExit(f"{scenario} {number} {how}: exit code {code}")
    return code == 0


def main() -> None:
    scenario, folder = sys.argv[1], Path(sys.argv[2])
    number = 1
    while not live(scenario, folder, number, "before"):
        live(scenario, folder, number, "half")
        number += 1
    print(number - 1)


if __name__ == "__main__":
    main()
