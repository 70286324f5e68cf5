"""Engines attached to one Dask scheduler that none of them started: they share its slots as those of a machine."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from contending import NEAR_S, farthest, long, steps_of
from distributed import Client
from gang_world import HASTY
from running import ended, engine, engine_process, lines, meta, most_at_once, outcome, start, until

from workbench.records import Spec
from workbench.store import Store

#: A Dask scheduler with an older Workbench, in which this module is not there.
OLDER = """
import sys
sys.modules["workbench.cluster.arbiter"] = None
from distributed.cli.dask_scheduler import main
main(sys.argv[1:])
"""
SCHEDULER = ("-m", "distributed.cli.dask_scheduler")


@contextlib.contextmanager
def cluster(
    folder: Path, workers: int, *program: str, port: str = "0"
) -> Iterator[tuple[str, list[subprocess.Popen[bytes]]]]:
    """A Dask scheduler and workers of one slot each; yields the address and the processes."""
    found = folder / "scheduler.json"
    found.unlink(missing_ok=True)
    at = ["--host", "127.0.0.1", "--no-dashboard"]
    with open(folder / "dask.log", "ab") as log:
        more: dict[str, Any] = {"stdout": log, "stderr": log}
        line = [*(program or SCHEDULER), *at, "--port", port, "--scheduler-file", str(found)]
        processes = [subprocess.Popen([sys.executable, *line], **more)]
        try:
            until(lambda: found.exists() and found.read_text().strip(), what="a Dask scheduler")
            address = json.loads(found.read_text())["address"]
            line = ["-m", "distributed.cli.dask_worker", address, *at, "--no-nanny", "--nthreads", "1"]
            processes += [subprocess.Popen([sys.executable, *line], **more) for _ in range(workers)]
            with Client(address) as client:
                if workers:
                    client.wait_for_workers(workers, timeout=60)
            yield address, processes
        finally:
            for process in reversed(processes):
                process.kill()
                process.wait(30)


def on(address: str, user: str = "") -> dict[str, Any]:
    """Settings of an engine on this cluster. user: whose it is, by JupyterHub."""
    return {"program": ("-c", HASTY), "WORKBENCH_CLUSTER": address, "JUPYTERHUB_USER": user}


def alone(tmp_path: Path, *specs: Spec) -> list[Any]:
    """What these searches find if each trains alone, on this machine."""
    store = Store(tmp_path / "calm").create()
    found = []
    with engine(store):
        for spec in specs:
            calm = dataclasses.replace(spec, id=f"{spec.id}c", name=f"{spec.name}-calm")
            start(store, calm)
            assert ended(store, calm) == "completed"
            found.append(outcome(store, calm))
    return found


def held(client: Any) -> dict[str, tuple[str, str]]:
    """Which slots are held: by the engine of which store, and since when."""
    read = lambda dask_scheduler: [  # noqa: E731  # the scheduler cannot import this module
        (one.slot, one.store, one.since)
        for plugin in dask_scheduler.plugins.values()
        if type(plugin).__name__ == "SharedSlots"
        for one in plugin._arbiter.holders()
    ]
    return {slot: (store, since) for slot, store, since in client.run_on_scheduler(read)}


def says(store: Store, spec: Spec) -> str:
    if not store.experiment(spec.id).series.exists():
        return ""
    told = meta(store, spec)
    return " ".join([*told.get("says", ()), told.get("reason") or ""])


def test_two_engines_share_a_cluster_by_weight_and_results_are_those_of_training_alone(tmp_path: Path) -> None:
    light, heavy = Store(tmp_path / "light").create(), Store(tmp_path / "heavy").create()
    one, three = long(tmp_path, "one", 330, 2), long(tmp_path, "three", 280, 2, weight=3.0)
    with cluster(tmp_path, 2) as (address, _), engine(light, **on(address)), engine(heavy, **on(address)):
        start(light, one)
        until(lambda: len(steps_of(tmp_path)) > 3, what="the first search")
        asked = time.monotonic()
        start(heavy, three)
        seen = until(lambda: "held by" in (said := says(heavy, three)) and said, what="why the second waits")
        assert f"held by {light.root} (one@1)" in seen
        assert ended(heavy, three) == "completed"
        both = [step for step in steps_of(tmp_path) if step[1] >= asked]
        assert ended(light, one) == "completed"
    assert farthest(both, "three", due=0.75) < NEAR_S
    assert f"made room for {heavy.root} (three@1)" in {line["reason"] for line in lines(light, one, "RoomAsked")}
    assert most_at_once(steps_of(tmp_path)) == 2, "all slots, and no slot twice"
    found = [outcome(light, one), outcome(heavy, three)]
    assert found == alone(tmp_path, one, three)


def test_two_users_have_halves_of_a_cluster_whatever_one_of_them_says_and_however_many_engines_are_whose(
    tmp_path: Path,
) -> None:
    first, second, other = (Store(tmp_path / name).create() for name in ("first", "second", "other"))
    mine = {first: long(tmp_path, "one", 900, 2, weight=3.0), second: long(tmp_path, "two", 900, 2, priority=5)}
    theirs = long(tmp_path, "other", 160, 2)
    with (
        cluster(tmp_path, 2) as (address, _),
        engine(first, **on(address, "ada")),
        engine(second, **on(address, "ada")),
        engine(other, **on(address, "grace")),
    ):
        for store, spec in mine.items():
            start(store, spec)
        last = lambda: [name for name, *_ in steps_of(tmp_path)[-6:]]  # noqa: E731
        until(lambda: last() == ["two"] * 6, what="the first user's search of the higher priority in all slots")
        start(other, theirs)
        assert ended(other, theirs) == "completed"
        found = steps_of(tmp_path)
    assert farthest(found, "other", due=0.5) < NEAR_S
    # By the search of the higher priority; or by the other one, where that still had a slot for a moment.
    asked = [line["reason"] for store, spec in mine.items() for line in lines(store, spec, "RoomAsked")]
    assert "made room for grace" in asked
    assert most_at_once(found) == 2, "all slots, and no slot twice"
    begun = min(step[1] for step in found if step[0] == "other")
    assert not [step for step in found if step[0] == "one" and step[1] > begun], "priorities count among one's own"


def test_a_higher_priority_comes_first_on_a_cluster(tmp_path: Path) -> None:
    a, b = Store(tmp_path / "a").create(), Store(tmp_path / "b").create()
    low, high = long(tmp_path, "low", 120), long(tmp_path, "high", 60, priority=1)
    with cluster(tmp_path, 1) as (address, _), engine(a, **on(address)), engine(b, **on(address)):
        start(a, low)
        until(lambda: len(steps_of(tmp_path)) > 3, what="the first search")
        start(b, high)
        assert ended(b, high) == "completed"
        assert ended(a, low) == "completed"
    ordered = [step[0] for step in sorted(steps_of(tmp_path), key=lambda step: step[1])]
    first = ordered.index("high")
    assert ordered[first : first + 60] == ["high"] * 60, "no step of the other in between"
    assert ordered[-1] == "low"


def test_a_killed_engine_gives_its_slots_to_the_other_at_once(tmp_path: Path) -> None:
    a, b = Store(tmp_path / "a").create(), Store(tmp_path / "b").create()
    endless, short = long(tmp_path, "endless", 10_000, 2, priority=1), long(tmp_path, "short", 20, 2)
    with cluster(tmp_path, 2) as (address, _), engine(b, **on(address)), Client(address) as client:
        process = engine_process(a, **on(address))
        try:
            start(a, endless)
            until(lambda: len(steps_of(tmp_path)) > 3, what="the first search")
            until(lambda: {store for store, _ in held(client).values()} == {str(a.root)}, what="all slots")
            start(b, short)
            until(lambda: "2 of 2 are held by" in says(b, short), what="why the second waits")
            assert not steps_of(tmp_path, "short")
            os.kill(process.pid, signal.SIGKILL)
        finally:
            process.kill()
            process.wait()
        killed = time.monotonic()
        until(lambda: str(a.root) not in {store for store, _ in held(client).values()}, 5.0, what="free slots")
        assert ended(b, short) == "completed"
        plugins = lambda dask_scheduler: [one for one in dask_scheduler.worker_plugins if "workbench-" in one]  # noqa: E731
        until(lambda: len(client.run_on_scheduler(plugins)) == 1, what="the end of what it had on the workers")
    began = min(step[1] for step in steps_of(tmp_path, "short"))
    print(f"the other trained {began - killed:.2f} s after the kill")
    assert began - killed < 10.0
    assert most_at_once(steps_of(tmp_path)) == 2, "no slot twice"


def test_engines_claim_again_when_the_scheduler_is_replaced(tmp_path: Path) -> None:
    a, b = Store(tmp_path / "a").create(), Store(tmp_path / "b").create()
    one, two = long(tmp_path, "one", 150, 2), long(tmp_path, "two", 150, 2)
    with contextlib.ExitStack() as stack:
        address, processes = stack.enter_context(cluster(tmp_path, 2))
        stack.enter_context(engine(a, **on(address)))
        stack.enter_context(engine(b, **on(address)))
        start(a, one)
        start(b, two)
        until(lambda: steps_of(tmp_path, "one") and steps_of(tmp_path, "two"), what="both searches")
        for process in processes:
            process.kill()
            process.wait()
        lost = time.monotonic()
        stack.enter_context(cluster(tmp_path, 2, port=address.rpartition(":")[2]))
        assert [ended(a, one), ended(b, two)] == ["completed"] * 2
    again = [step for step in steps_of(tmp_path) if step[1] > lost + 0.5]
    assert most_at_once(again) == 2
    changes = sum(x[0] != y[0] for x, y in pairwise(sorted(again, key=lambda step: step[1])))
    assert changes > 10, "they train side by side"
    assert [outcome(a, one), outcome(b, two)] == alone(tmp_path, one, two)


def test_a_cluster_without_workers_is_named_before_the_first_and_when_all_are_gone(tmp_path: Path) -> None:
    store = Store(tmp_path / "store").create()
    spec = long(tmp_path, "alone", 2, 40)
    none = ("waiting", "waits for a slot: the cluster has no workers")
    told = lambda: (meta(store, spec).get("state"), meta(store, spec).get("reason"))  # noqa: E731
    there = store.experiment(spec.id).series
    with cluster(tmp_path, 0) as (address, _), engine(store, **on(address)):
        start(store, spec)
        until(lambda: there.exists() and told() == none, 30, f"the reason: {none}")
        line = [sys.executable, "-m", "distributed.cli.dask_worker", address, "--no-nanny", "--nthreads", "1"]
        with subprocess.Popen([*line, "--no-dashboard"], stderr=subprocess.DEVNULL) as worker:
            try:
                until(lambda: told()[0] == "running" and len(steps_of(tmp_path)) > 1, 60, "training")
            finally:
                worker.kill()
        until(lambda: told() == none, 30, f"the reason again: {none}")


def test_an_engine_alone_asks_once_for_each_slot(tmp_path: Path) -> None:
    store = Store(tmp_path / "store").create()
    many = long(tmp_path, "many", 2, 30)
    with cluster(tmp_path, 2) as (address, _), engine(store, **on(address)), Client(address) as client:
        start(store, many)
        first = until(lambda: len(found := held(client)) == 2 and found, what="both slots")
        until(lambda: len(lines(store, many, "LegLeft")) >= 25, what="many legs")
        assert held(client) == first, "kept from leg to leg"
        assert ended(store, many) == "completed"
        until(lambda: not held(client), what="an idle engine without a slot")


def test_a_scheduler_with_an_older_workbench_is_named_and_trains(tmp_path: Path) -> None:
    store = Store(tmp_path / "store").create()
    spec = long(tmp_path, "alone", 2, 2)
    with cluster(tmp_path, 1, "-c", OLDER) as (address, _), engine(store, **on(address)):
        start(store, spec)
        assert ended(store, spec) == "completed"
    said = says(store, spec)
    assert "slots are not shared with other engines of this cluster: the Dask scheduler at" in said, said
    assert "Install the same Workbench version in the scheduler's environment" in said


@pytest.fixture(autouse=True)
def runtime(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A runtime folder of its own."""
    folder = tmp_path / "runtime"
    folder.mkdir(mode=0o700)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(folder))
