"""What every backend must do, asked of each: this process, a local Dask cluster, and one that is attached to."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from distributed import Client
from running import PLAIN, dask_cluster, ended, engine, lines, outcome, spec_of, start, state, until

from workbench import asked
from workbench.asking import ask
from workbench.cluster.dask import DaskBackend
from workbench.engine.engine import Engine
from workbench.engine.legs.inline import InlineBackend
from workbench.records import Scheduler, Spec
from workbench.space import uniform
from workbench.store import Store
from workbench.store.owner.cluster import read_cluster
from workbench.store.owner.lease import EngineLease
from workbench.store.series import Series

SPACE = {"x": uniform(0.0, 1.0)}
FAILS_SOMETIMES = """
x = uniform(0.0, 1.0)
for epoch in trial.steps():
    if x > 0.5:
        raise ValueError("too much")
    trial.report(score=x)
"""
Make = Callable[[Store, EngineLease], Callable[[Any], Any]]


def inline(store: Store, lease: EngineLease) -> Callable[[Any], Any]:
    return InlineBackend


def local(store: Store, lease: EngineLease) -> Callable[[Any], Any]:
    return partial(DaskBackend, str(store.root), lease.info.proof, workers=2)


@pytest.fixture(params=["inline", "local", "attached"])
def make(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Make]:
    if request.param == "attached":
        with dask_cluster(tmp_path) as (address, _):

            def attached(store: Store, lease: EngineLease) -> Callable[[Any], Any]:
                return partial(DaskBackend, str(store.root), lease.info.proof, address=address)

            yield attached
    else:
        yield {"inline": inline, "local": local}[request.param]


def run(store: Store, spec: Spec, make: Make) -> None:
    """Run an engine in this process until it is idle."""
    start(store, spec)
    with EngineLease.acquire(store) as lease:
        asyncio.run(Engine(store, lease, make(store, lease), idle_s=0.1).run())


def test_a_search_gives_the_same_on_every_backend(tmp_path: Path, make: Make) -> None:
    store = Store(tmp_path / "store")
    spec = spec_of(PLAIN, tmp_path, space=SPACE, seed=11)
    run(store, spec, make)
    reference = Store(tmp_path / "reference")
    same = spec_of(PLAIN, tmp_path, space=SPACE, seed=11)
    run(reference, same, inline)
    assert outcome(store, spec) == outcome(reference, same)
    assert [line["state"] for line in lines(store, spec, "Finish")] == ["completed"]


def test_a_failing_trial_stops_nobody_else_on_any_backend(tmp_path: Path, make: Make) -> None:
    store = Store(tmp_path / "store")
    scheduler = Scheduler(kind="all", last=2)
    spec = spec_of(FAILS_SOMETIMES, tmp_path, space=SPACE, scheduler=scheduler, trials=6, seed=2)
    run(store, spec, make)
    with Series.read(store.experiment(spec.id).series) as series:
        for trial in series.trials():
            assert trial["state"] == ("failed" if trial["configuration"]["x"] > 0.5 else "completed")
            assert trial["step"] == (0 if trial["state"] == "failed" else 2)


def test_a_scheduler_that_is_killed_and_comes_back_is_found_again(tmp_path: Path) -> None:
    slow = PLAIN.replace("trial.report", "__import__('time').sleep(0.1)\n    trial.report")
    store = Store(tmp_path / "store")
    spec = spec_of(slow, tmp_path, space=SPACE, seed=11)
    start(store, spec)
    with dask_cluster(tmp_path) as (address, processes), engine(store, WORKBENCH_CLUSTER=address):
        until(lambda: any(line["start"] > 0 for line in lines(store, spec, "LegStarted")), what="a promotion")
        for process in processes:
            process.kill()
            process.wait()
        with dask_cluster(tmp_path, port=address.rpartition(":")[2]):
            assert ended(store, spec) == "completed"
    reference = Store(tmp_path / "reference")
    same = spec_of(PLAIN, tmp_path, space=SPACE, seed=11)
    run(reference, same, inline)
    assert outcome(store, spec) == outcome(reference, same)


def test_a_scheduler_that_is_replaced_while_nothing_trains_is_noticed(tmp_path: Path) -> None:
    """Dask's client connects to the successor without a word: no future is there that this would cancel.

    What the scheduler is asked is a lambda, since the cluster cannot import this module.
    """
    slow = PLAIN.replace("trial.report", "__import__('time').sleep(0.1)\n    trial.report")
    store = Store(tmp_path / "store")
    spec = spec_of(slow, tmp_path, space=SPACE, seed=11)
    start(store, spec)
    with dask_cluster(tmp_path) as (address, processes), engine(store, WORKBENCH_CLUSTER=address):
        until(lambda: lines(store, spec, "Reached"), what="a first report")
        ask(store, asked.Pause(spec.id))
        until(lambda: state(store, spec) == "paused", what="the pause")
        with Client(address) as looking:
            futures = lambda dask_scheduler: len(dask_scheduler.tasks)  # noqa: E731
            until(lambda: looking.run_on_scheduler(futures) == 0, what="no future that could be cancelled")
        for process in processes:
            process.kill()
            process.wait()
        with dask_cluster(tmp_path, port=address.rpartition(":")[2]), Client(address) as looking:
            clients = lambda dask_scheduler: " ".join(dask_scheduler.clients)  # noqa: E731
            until(
                lambda: "engine" in looking.run_on_scheduler(clients), what="the engine's connection to the successor"
            )
            ask(store, asked.Resume(spec.id))
            assert ended(store, spec, 60) == "completed"
    reference = Store(tmp_path / "reference")
    same = spec_of(PLAIN, tmp_path, space=SPACE, seed=11)
    run(reference, same, inline)
    assert outcome(store, spec) == outcome(reference, same)


def test_a_leg_whose_worker_sends_what_is_no_message_is_stopped_there_and_trained_again(tmp_path: Path) -> None:
    slow = PLAIN.replace("trial.report", "__import__('time').sleep(0.2)\n    trial.report")
    store = Store(tmp_path / "store")
    whole = Scheduler(kind="all", last=60)
    spec = spec_of(slow, tmp_path, space=SPACE, seed=11, scheduler=whole, trials=2)
    start(store, spec)

    def forge(dask_worker: Any) -> list[str]:
        [ours] = [one for one in dask_worker.plugins.values() if type(one).__name__ == "Workplace"]
        keys = list(ours._legs)
        for key in keys:
            ours._outbox._send({"op": "saved", "step": "the third", "key": key}, 0.0)
        return keys

    def legs(dask_worker: Any) -> list[str]:
        [ours] = [one for one in dask_worker.plugins.values() if type(one).__name__ == "Workplace"]
        return list(ours._legs)

    with dask_cluster(tmp_path) as (address, _), engine(store, WORKBENCH_CLUSTER=address), Client(address) as looking:
        until(lambda: lines(store, spec, "Reached"), what="a first report")
        keys = until(lambda: [key for some in looking.run(forge).values() for key in some], what="a leg under way")
        running = lambda: {key for some in looking.run(legs).values() for key in some}  # noqa: E731
        until(lambda: not running() & set(keys), 6, what="the end of its process, which has ten seconds of work left")
        told = [line["reason"] for line in lines(store, spec, "LegLeft") if line["outcome"] == "died"]
        assert len(told) == len(keys)
        assert all("what its worker sent cannot be read" in reason for reason in told)
        assert ended(store, spec) == "completed"
    reference = Store(tmp_path / "reference")
    same = spec_of(PLAIN, tmp_path, space=SPACE, seed=11, scheduler=whole, trials=2)
    run(reference, same, inline)
    assert outcome(store, spec) == outcome(reference, same)


def test_legs_whose_messages_the_scheduler_did_not_pass_on_are_trained_again(tmp_path: Path) -> None:
    slow = PLAIN.replace("trial.report", "__import__('time').sleep(0.1)\n    trial.report")
    store = Store(tmp_path / "store")
    whole = Scheduler(kind="all", last=40)
    spec = spec_of(slow, tmp_path, space=SPACE, seed=11, scheduler=whole, trials=2)
    start(store, spec)

    def lose(dask_scheduler: Any) -> None:
        import asyncio

        for name, topic in dask_scheduler._broker._topics.items():
            if name.startswith("workbench-"):
                asyncio.get_running_loop().call_later(0.5, topic.subscribers.update, set(topic.subscribers))
                topic.subscribers.clear()

    with dask_cluster(tmp_path) as (address, _), engine(store, WORKBENCH_CLUSTER=address), Client(address) as looking:
        until(lambda: len(lines(store, spec, "LegStarted")) == 2, what="both legs")
        until(lambda: all(trial["step"] > 3 for trial in trials(store, spec)), what="a few points of both")
        looking.run_on_scheduler(lose)
        assert ended(store, spec) == "completed"
    told = [line["reason"] for line in lines(store, spec, "LegLeft") if line["outcome"] == "died"]
    assert told == ["messages of its worker were lost on their way"] * 2
    reference = Store(tmp_path / "reference")
    same = spec_of(PLAIN, tmp_path, space=SPACE, seed=11, scheduler=whole, trials=2)
    run(reference, same, inline)
    assert outcome(store, spec) == outcome(reference, same)


def trials(store: Store, spec: Spec) -> list[dict[str, Any]]:
    with Series.read(store.experiment(spec.id).series) as series:
        return series.trials()


def test_a_worker_that_is_attached_has_a_slot_for_each_of_its_threads(tmp_path: Path) -> None:
    store = Store(tmp_path / "store").create()
    with dask_cluster(tmp_path, workers=1, threads=3) as (address, _), engine(store, WORKBENCH_CLUSTER=address):
        until(lambda: len(read_cluster(store)["slots"]) == 3, what="three slots")
