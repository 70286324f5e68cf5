"""What every backend must do, asked of each: this process, a local Dask cluster, and one that is attached to."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import Callable, Iterator, Sequence
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
from workbench.messages import packed
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


@pytest.fixture(scope="module")
def dask(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a Dask cluster that Workbench did not start: one worker with two threads."""
    with dask_cluster(tmp_path_factory.mktemp("dask"), workers=1, threads=2) as (address, _):
        yield address


@pytest.fixture(scope="module")
def attached(tmp_path_factory: pytest.TempPathFactory, dask: str) -> Iterator[Store]:
    """The store of an engine that is attached to that cluster."""
    store = Store(tmp_path_factory.mktemp("attached") / "store")
    with engine(store, WORKBENCH_CLUSTER=dask):
        yield store


@pytest.fixture(scope="module", params=["inline", "local", "attached"])
def trained(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Store, Spec, Spec]:
    """The store of an engine that has trained two searches on this backend: one as it should, one that fails."""
    folder = tmp_path_factory.mktemp(request.param)
    if request.param == "attached":
        address = request.getfixturevalue("dask")

        def make(store: Store, lease: EngineLease) -> Callable[[Any], Any]:
            return partial(DaskBackend, str(store.root), lease.info.proof, address=address)

    else:
        make = {"inline": inline, "local": local}[request.param]
    store = Store(folder / "store")
    spec = spec_of(PLAIN, folder, space=SPACE, seed=11)
    scheduler = Scheduler(kind="all", last=2)
    failing = spec_of(FAILS_SOMETIMES, folder, space=SPACE, scheduler=scheduler, trials=6, seed=2, name="failing")
    run(store, [spec, failing], make)
    return store, spec, failing


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What comes of ``PLAIN``, with seed 11, in this process."""
    folder = tmp_path_factory.mktemp("reference")
    return alone(spec_of(PLAIN, folder, space=SPACE, seed=11), folder)


def alone(spec: Spec, folder: Path) -> dict[str, Any]:
    """What comes of this search in this process."""
    store = Store(folder / "reference")
    run(store, [spec], inline)
    return outcome(store, spec)


def run(store: Store, specs: Sequence[Spec], make: Make) -> None:
    """Run an engine in this process until it is idle."""
    for spec in specs:
        start(store, spec)
    with EngineLease.acquire(store) as lease:
        asyncio.run(Engine(store, lease, make(store, lease), idle_s=0.1).run())


# First, while no other cluster is alive: it takes longest.
def test_a_scheduler_that_is_killed_and_one_that_is_replaced_while_nothing_trains_are_found_again(
    tmp_path: Path, undisturbed: dict[str, Any]
) -> None:
    """If nothing trains, Dask's client connects to the successor without a word: no future is there that this would
    cancel.

    What the scheduler is asked is a lambda, since the cluster cannot import this module.
    """
    slow = PLAIN.replace("trial.report", "__import__('time').sleep(0.1)\n    trial.report")
    store = Store(tmp_path / "store")
    spec = spec_of(slow, tmp_path, space=SPACE, seed=11)
    start(store, spec)

    def begun() -> int:
        return len(lines(store, spec, "LegStarted"))

    with dask_cluster(tmp_path) as (address, processes), engine(store, WORKBENCH_CLUSTER=address):
        until(lambda: any(line["start"] > 0 for line in lines(store, spec, "LegStarted")), what="a promotion")
        kill(processes)
        before = begun()
        port = address.rpartition(":")[2]
        with dask_cluster(tmp_path, port, 1, 2) as (_, processes):
            until(lambda: begun() > before, what="a leg on the successor")
            ask(store, asked.Pause(spec.id))
            until(lambda: state(store, spec) == "paused", what="the pause")
            with Client(address) as looking:
                futures = lambda dask_scheduler: len(dask_scheduler.tasks)  # noqa: E731
                until(lambda: looking.run_on_scheduler(futures) == 0, what="no future that could be cancelled")
            kill(processes)
        with dask_cluster(tmp_path, port, 1, 2), Client(address) as looking:
            clients = lambda dask_scheduler: " ".join(dask_scheduler.clients)  # noqa: E731
            until(
                lambda: "engine" in looking.run_on_scheduler(clients), what="the engine's connection to the successor"
            )
            ask(store, asked.Resume(spec.id))
            assert ended(store, spec, 60) == "completed"
    assert outcome(store, spec) == undisturbed


def kill(processes: Sequence[subprocess.Popen[bytes]]) -> None:
    """Kill a scheduler and what started its workers."""
    for process in processes:
        process.kill()
        process.wait()


def test_a_search_gives_the_same_on_every_backend(
    trained: tuple[Store, Spec, Spec], undisturbed: dict[str, Any]
) -> None:
    store, spec, _ = trained
    assert outcome(store, spec) == undisturbed
    assert [line["state"] for line in lines(store, spec, "Finish")] == ["completed"]


def test_a_failing_trial_stops_nobody_else_on_any_backend(trained: tuple[Store, Spec, Spec]) -> None:
    store, _, failing = trained
    with Series.read(store.experiment(failing.id).series) as series:
        trials = series.trials()
    assert {trial["state"] for trial in trials} == {"failed", "completed"}
    for trial in trials:
        assert trial["state"] == ("failed" if trial["configuration"]["x"] > 0.5 else "completed")
        assert trial["step"] == (0 if trial["state"] == "failed" else 2)


def test_a_leg_whose_worker_sends_what_is_no_message_is_stopped_there_and_trained_again(
    tmp_path: Path, dask: str, attached: Store
) -> None:
    slow = PLAIN.replace("trial.report", "__import__('time').sleep(0.2)\n    trial.report")
    store = attached
    whole = Scheduler(kind="all", last=60)
    spec = spec_of(slow, tmp_path, space=SPACE, seed=11, scheduler=whole, trials=2)
    start(store, spec)

    def forge(dask_worker: Any) -> list[str]:
        [ours] = [one for one in dask_worker.plugins.values() if type(one).__name__ == "Workplace"]
        keys = list(ours._legs)
        for key in keys:
            ours._outbox._send(packed({"op": "saved", "step": "the third", "key": key}), 0.0)
        return keys

    def legs(dask_worker: Any) -> list[str]:
        [ours] = [one for one in dask_worker.plugins.values() if type(one).__name__ == "Workplace"]
        return list(ours._legs)

    with Client(dask) as looking:
        until(lambda: lines(store, spec, "Reached"), what="a first report")
        keys = until(lambda: [key for some in looking.run(forge).values() for key in some], what="a leg under way")
        running = lambda: {key for some in looking.run(legs).values() for key in some}  # noqa: E731
        until(lambda: not running() & set(keys), 6, what="the end of its process, which has ten seconds of work left")
        died = lambda: [line["reason"] for line in lines(store, spec, "LegLeft") if line["outcome"] == "died"]  # noqa: E731
        told = until(lambda: len(died()) >= len(keys) and died(), what="their ends in the journal")
        assert len(told) == len(keys)
        assert all("what its worker sent cannot be read" in reason for reason in told)
        assert ended(store, spec) == "completed"
    same = spec_of(PLAIN, tmp_path, space=SPACE, seed=11, scheduler=whole, trials=2)
    assert outcome(store, spec) == alone(same, tmp_path)


def test_legs_whose_messages_the_scheduler_did_not_pass_on_are_trained_again(
    tmp_path: Path, dask: str, attached: Store
) -> None:
    slow = PLAIN.replace("trial.report", "__import__('time').sleep(0.1)\n    trial.report")
    store = attached
    whole = Scheduler(kind="all", last=40)
    spec = spec_of(slow, tmp_path, space=SPACE, seed=11, scheduler=whole, trials=2)
    start(store, spec)

    def lose(dask_scheduler: Any) -> None:
        import asyncio

        for name, topic in dask_scheduler._broker._topics.items():
            if name.startswith("workbench-"):
                asyncio.get_running_loop().call_later(0.5, topic.subscribers.update, set(topic.subscribers))
                topic.subscribers.clear()

    with Client(dask) as looking:
        until(lambda: len(lines(store, spec, "LegStarted")) == 2, what="both legs")
        until(lambda: all(trial["step"] > 3 for trial in trials(store, spec)), what="a few points of both")
        looking.run_on_scheduler(lose)
        assert ended(store, spec) == "completed"
    told = [line["reason"] for line in lines(store, spec, "LegLeft") if line["outcome"] == "died"]
    assert told == ["messages of its worker were lost on their way"] * 2
    same = spec_of(PLAIN, tmp_path, space=SPACE, seed=11, scheduler=whole, trials=2)
    assert outcome(store, spec) == alone(same, tmp_path)


def trials(store: Store, spec: Spec) -> list[dict[str, Any]]:
    with Series.read(store.experiment(spec.id).series) as series:
        return series.trials()


def test_a_worker_that_is_attached_has_a_slot_for_each_of_its_threads(attached: Store) -> None:
    until(lambda: len(read_cluster(attached)["slots"]) == 2, what="two slots")
