"""Training outlives its engine: the next one adopts what trains, and no step is trained twice."""

from __future__ import annotations

import dataclasses
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import running
from running import ended, engine, lines, outcome, spec_of, start, until

from workbench.cli import main
from workbench.cluster.own import end_found
from workbench.records import Spec
from workbench.space import uniform
from workbench.store import Store
from workbench.store.owner import own_cluster
from workbench.store.owner.lease import read_engine
from workbench.store.owner.own_cluster import OwnCluster
from workbench.store.series import Series

SPACE = {"x": uniform(0.0, 1.0)}
#: As the slow loop of the other tests, and each turn leaves a line in a file.
COUNTED = """
x = uniform(0.0, 1.0)
import random, time
total, history = 0.0, []
for epoch in trial.steps():
    time.sleep(0.1)
    total = 0.9 * total + x + 0.01 * random.random()
    history.append(total)
    with open("turns", "a") as file:
        print(x, epoch, file=file)
    trial.report(score=total, noise=random.random(), turns=len(history))
"""

#: An engine whose stream to the scheduler is slow at first, as on a busy machine. What it asks goes another way.
SLOW_STREAM = """
import sys, time
from distributed import client
from workbench.engine import __main__

class Slow(client.BatchedSend):
    def start(self, comm):
        self.next_deadline = time.time() + 0.4
        super().start(comm)

client.BatchedSend = Slow
sys.exit(__main__.main(sys.argv[1:]))
"""


def counted(folder: Path) -> Spec:
    return spec_of(COUNTED, folder, space=SPACE, seed=7, verify=False)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    """What a test that fails leaves behind would hold the slots of those after it."""
    store = Store(tmp_path / "store").create()
    yield store
    if (left := read_engine(store)) is not None and left.alive:
        os.kill(left.pid, signal.SIGKILL)
    end_found(store.root)


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What the search gives when nothing is killed."""
    folder = tmp_path_factory.mktemp("calm")
    store, spec = Store(folder / "store").create(), counted(folder)
    start(store, spec)
    with engine(store):
        assert ended(store, spec) == "completed"
    return results(store, spec, folder)


def results(store: Store, spec: Spec, folder: Path) -> dict[str, Any]:
    """What must not depend on kills: the outcome, which legs there were, and how often each step was trained."""
    legs = {(one["trial"], one["start"], one["until"]) for one in lines(store, spec, "LegStarted")}
    return {**outcome(store, spec), "legs": legs, "turns": turns(folder)}


def decided(found: dict[str, Any]) -> dict[str, Any]:
    """What stays the same of ``found`` where what trained was lost: legs that begin again do so from the newest
    checkpoint, and train some steps twice."""
    return {**found, "legs": {(trial, until) for trial, _, until in found["legs"]}, "turns": None}


def long_legs(store: Store, spec: Spec) -> set[int]:
    """Trials that have a leg of six steps or more, which trains."""
    path = store.experiment(spec.id).series
    if not path.exists():
        return set()
    with Series.read(path) as series:
        legs = [leg for leg in series.legs() if leg.get("began") and not leg.get("ended")]
    return {leg["trial"] for leg in legs if leg["until"] - leg["start"] >= 6}


def turns(folder: Path) -> Counter[str]:
    """How often each step of each trial was trained."""
    path = folder / "turns"
    return Counter(path.read_text().splitlines()) if path.exists() else Counter()


def more_turns(folder: Path, count: int) -> None:
    """Wait until so many steps more were trained."""
    before = sum(turns(folder).values())
    until(lambda: sum(turns(folder).values()) >= before + count, what=f"{count} steps more")


def cluster_of(store: Store) -> OwnCluster:
    return until(lambda: own_cluster.read(store.root), what="the record of the cluster")


def kill(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait()


@pytest.mark.parametrize("kills", [1, 3])
def test_a_killed_engine_costs_no_step(store: Store, tmp_path: Path, undisturbed: dict[str, Any], kills: int) -> None:
    spec = counted(tmp_path)
    start(store, spec)
    clusters = set()
    for number in range(kills):
        process = running.engine_process(store)
        until(lambda: long_legs(store, spec), what="a long leg that trains")
        clusters.add(cluster_of(store).pid)
        kill(process)
        if number == 0:
            more_turns(tmp_path, 2)  # only the workers are there
    with engine(store):
        assert ended(store, spec) == "completed"
        clusters.add(cluster_of(store).pid)
    assert len(clusters) == 1
    assert results(store, spec, tmp_path) == undisturbed
    assert set(turns(tmp_path).values()) == {1}
    assert own_cluster.read(store.root) is None


def test_an_engine_hears_all_that_is_said_while_it_takes_over(
    store: Store, tmp_path: Path, undisturbed: dict[str, Any]
) -> None:
    spec = counted(tmp_path)
    start(store, spec)
    process = running.engine_process(store)
    until(lambda: long_legs(store, spec), what="a long leg that trains")
    kill(process)
    with engine(store, program=["-c", SLOW_STREAM]):
        assert ended(store, spec) == "completed"
    assert results(store, spec, tmp_path) == undisturbed


def test_a_killed_cluster_is_replaced_whether_its_engine_lives_or_not(
    store: Store, tmp_path: Path, undisturbed: dict[str, Any]
) -> None:
    spec = counted(tmp_path)
    start(store, spec)
    process = running.engine_process(store)
    met = until(lambda: long_legs(store, spec), what="a long leg that trains")
    first = cluster_of(store)
    below = running.processes_below(first.pid)
    os.kill(first.pid, signal.SIGKILL)
    met |= until(lambda: long_legs(store, spec) - met, what="another leg, on a new cluster")
    assert process.poll() is None
    second = cluster_of(store)
    below += running.processes_below(second.pid)
    kill(process)
    os.kill(second.pid, signal.SIGKILL)
    with engine(store):
        assert ended(store, spec) == "completed"
        assert cluster_of(store).pid not in (first.pid, second.pid)
    assert decided(results(store, spec, tmp_path)) == decided(undisturbed)
    until(lambda: not running.alive(below), 20, "the end of what both clusters had started")


def test_nothing_outlives_the_grace_time_and_the_status_says_so_meanwhile(
    store: Store, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    spec = counted(tmp_path)
    start(store, spec)
    process = running.engine_process(store, WORKBENCH_GRACE="10")
    until(lambda: long_legs(store, spec), what="a long leg that trains")
    below = running.processes_below(process.pid)
    kill(process)
    assert "Its engine is gone; its trials train for" in workbench(capsys, store, "engine", "status")
    assert "its trials train for" in workbench(capsys, store, "ls", "--json")
    until(lambda: not running.alive(below), 40, "the end of what the engine had started")
    assert "trains on" not in workbench(capsys, store, "engine", "status")
    assert own_cluster.read(store.root) is None


def test_another_workbenchs_cluster_is_ended_and_engine_stop_ends_ones_own(
    store: Store, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    spec = counted(tmp_path)
    start(store, spec)
    process = running.engine_process(store)
    until(lambda: long_legs(store, spec), what="a long leg that trains")
    below = running.processes_below(process.pid)
    kill(process)
    old = until(lambda: (found := cluster_of(store)).lost and found, what="the word that the engine is gone")
    own_cluster.write(dataclasses.replace(old, protocol=old.protocol + 1))
    process = running.engine_process(store)
    until(lambda: not running.alive(below), 30, "the end of the other Workbench's cluster")
    until(lambda: cluster_of(store).pid != old.pid, what="a cluster of its own")
    below = running.processes_below(process.pid)
    kill(process)
    assert "the training that the last one left has ended" in workbench(capsys, store, "engine", "stop")
    until(lambda: not running.alive(below), 10, "the end of what the engine had started")


def test_a_cluster_that_no_engine_could_find_ends_with_its_engine(store: Store, tmp_path: Path) -> None:
    spec = counted(tmp_path)
    start(store, spec)
    (tmp_path / "no folder").touch()
    nowhere = {"XDG_STATE_HOME": str(tmp_path / "no folder"), "WORKBENCH_ADOPT": str(store.root)}
    process = running.engine_process(store, **nowhere)
    until(lambda: long_legs(store, spec), what="a long leg that trains")
    below = running.processes_below(process.pid)
    kill(process)
    until(lambda: not running.alive(below), 20, "the end of what the engine had started")


def workbench(capsys: pytest.CaptureFixture[str], store: Store, *words: str) -> str:
    """What the command line prints."""
    capsys.readouterr()
    main(["--store", str(store.root), *words])
    return capsys.readouterr().out


def test_a_watcher_in_a_terminal_has_a_killed_engine_replaced(tmp_path: Path) -> None:
    store = Store(tmp_path / "store").create()
    spec = counted(tmp_path)
    start(store, spec)
    words = [sys.executable, "-m", "workbench", "--store", str(store.root), "watch", spec.label]
    with engine(store, workers=1) as process:
        watching = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        until(lambda: running.state(store, spec) == "running", what="the search")
        process.kill()
        process.wait()
        try:
            said, _ = watching.communicate(timeout=100)
            assert watching.returncode == 0, said
        finally:
            watching.kill()
            if (info := read_engine(store)) is not None and info.alive:
                os.kill(info.pid, signal.SIGTERM)
    assert running.state(store, spec) == "completed"
