"""Run a scenario in one child process after another; the k-th dies at its k-th call that changes a file.

`python dying.py SCENARIO FOLDER`: each child works in a store of its own, FOLDER/<k>-<how>, and writes what it was
promised to FOLDER/<k>-<how>.told, before and beside all counting. ``how``: ``before`` the call, or with ``half`` of a
write done. A kill needs no fsync to be real, so fsyncs are counted and not made. Prints how many calls there were.
"""

from __future__ import annotations

import dataclasses
import json
import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

from workbench.records import Goal, Program, Scheduler, Searcher, Spec, Training
from workbench.store import Store, requests
from workbench.store.journal import Journal
from workbench.store.keeping import cleaning
from workbench.store.keeping.checkpoints import Checkpoints
from workbench.store.lists.catalog import Catalog
from workbench.store.lists.said import said
from workbench.store.owner.cluster import write_cluster
from workbench.store.owner.lease import EngineInfo, EngineLease
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
    requests.take(store, asked[0])
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
            listed.upsert_experiment(key, {"name": key, "version": 1, "state": state, "created": ""})
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
            path.write_bytes(b"no database any more")  # the next iteration moves it away and makes a new one
            tell(0)
    tell(1)


def filled(store: Store) -> None:
    """Two experiments, each with a completed trial and one that the search stopped; and old, unreferenced files."""
    for key in ("a", "b"):
        capture = store.put_blob(key.encode() * 1000)
        made = make_spec(key)
        store.write_spec(dataclasses.replace(made, program=dataclasses.replace(made.program, capture=capture)))
        with Journal.open(store.experiment(key).journal) as writer:
            for trial, steps, state in ((0, (1, 3, 9), "completed"), (1, (1,), "stopped")):
                checkpoints = Checkpoints(store.experiment(key).trial(trial))
                writer.append({"kind": "Run", "trial": trial, "start": 0, "until": 9, "reason": ""})
                for step in steps:
                    aside = checkpoints.begin(step, 1)
                    (aside / "state.bin").write_bytes(b"x" * 100)
                    checkpoints.publish(aside, step, 1)
                    writer.append({"kind": "Saved", "trial": trial, "attempt": 1, "step": step})
                    writer.append({"kind": "Reached", "trial": trial, "step": step, "value": step / 10})
                writer.append({"kind": "Settle", "trial": trial, "state": state, "reason": ""})
            writer.append({"kind": "Finish", "state": "completed", "reason": ""})
    Catalog.rebuild(store)
    store.put_blob(b"nobody names it")
    (store.snapshot("ab" * 32) / "code").mkdir(parents=True)
    (store.snapshots / ".half.writing").mkdir()
    (store.blobs / ".half.writing").write_bytes(b"half")
    for path in (*store.blobs.iterdir(), *store.snapshots.iterdir()):
        os.utime(path, (0, 0))


def delete(store: Store, tell: Tell) -> None:
    with Journal.open(store.journal_path) as writer:
        writer.append({"kind": "delete", "experiment": "a", "label": "digits@1"})
        writer.commit()
        tell("deleted")
    listed = Catalog(store)
    listed.remove("a")
    shutil.rmtree(cleaning.put_aside(store.experiment("a").folder))
    listed.close()
    tell("gone")


def clean(store: Store, tell: Tell) -> None:
    cleaning.clean_ended(store, "b", said(store))
    tell("rule")
    cleaning.sweep(store, said(store))
    tell("swept")


def wishes(store: Store, tell: Tell) -> None:
    wanted = (
        {"kind": "pin", "trial": 0, "step": 1},
        {"kind": "pin", "trial": 0, "step": 3},
        {"kind": "keep", "rule": {"experiment": 1, "best": 2, "latest": 2, "stopped": 1}},
        {"kind": "unpin", "trial": 0, "step": 1},
    )
    with Journal.open(store.journal_path) as writer:
        listed = Catalog(store)
        for number, wish in enumerate(wanted, 1):
            writer.append({**wish, "experiment": "b"})
            writer.commit()
            tell(number)
            listed.upsert_experiment("b", {"pins": ["t0000:3"]})
            listed.close()


def cluster(store: Store, tell: Tell) -> None:
    info = EngineInfo("host", "boot", 7, "then", "now", 1, "running")
    for k in range(3):
        write_cluster(store, info, {"at": str(k), "workers": [{"name": "w" * 1000}], "slots": [], "memory": None})
        tell(k)


SCENARIOS = {
    f.__name__: f for f in (journal, ask, spec, checkpoint, catalog, lease, series, delete, clean, wishes, cluster)
}
#: What is there before anything is counted.
PREPARED = {"delete": filled, "clean": filled, "wishes": filled}


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

            PREPARED.get(scenario, id)(store)
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
