"""Real engines, real Dask workers, real runners: searches end as planned, whatever dies on the way."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
from pathlib import Path
from typing import Any

import psutil
import pytest
import running
from running import PLAIN, SLOW, ended, engine, lines, outcome, spec_of, start, state, until

from benchmarks.processes import worker_of
from workbench.records import Scheduler, Spec
from workbench.search import plan
from workbench.space import uniform
from workbench.store import Store
from workbench.store.series import Series

SPACE = {"x": uniform(0.0, 1.0)}


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "store").create()


def test_a_hyperband_search_does_exactly_what_its_plan_says(store: Store, tmp_path: Path) -> None:
    spec = spec_of(PLAIN, tmp_path, space=SPACE)
    start(store, spec)
    with engine(store):
        assert ended(store, spec) == "completed"
    promised = plan(spec.scheduler, space=running.Space(SPACE))
    with Series.read(store.experiment(spec.id).series) as series:
        trials, legs = series.trials(), series.legs()
    assert len(trials) == promised.trials == 17
    assert sum(leg["step"] - leg["start"] for leg in legs) == promised.steps == 69
    assert {trial["state"] for trial in trials} == {"completed", "stopped"}
    assert all(trial["reason"] for trial in trials)


def test_the_result_does_not_depend_on_the_number_of_workers(store: Store, tmp_path: Path) -> None:
    outcomes = []
    for workers in (1, 3):
        spec = spec_of(PLAIN, tmp_path, space=SPACE, seed=5, name=f"on-{workers}")
        start(store, spec)
        with engine(store, workers=workers):
            assert ended(store, spec) == "completed"
        outcomes.append(outcome(store, spec))
    assert outcomes[0] == outcomes[1]


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The outcome of the slow search when no process is killed."""
    folder = tmp_path_factory.mktemp("calm")
    store, spec = Store(folder / "store").create(), spec_of(SLOW, folder, space=SPACE, seed=7)
    start(store, spec)
    with engine(store):
        assert ended(store, spec) == "completed"
    return outcome(store, spec)


def runner_pids(store: Store, spec: Spec) -> list[int]:
    with Series.read(store.experiment(spec.id).series) as series:
        return [leg["pid"] for leg in series.legs() if leg.get("pid") and not leg.get("ended")]


def promoted(store: Store, spec: Spec) -> bool:
    return any(line["start"] > 0 for line in lines(store, spec, "LegStarted"))


@pytest.mark.slow
@pytest.mark.parametrize("victim", ["runner", "worker", "nursery", "notice", "engine"])
def test_a_kill_costs_nothing_but_time(store: Store, tmp_path: Path, undisturbed: dict[str, Any], victim: str) -> None:
    spec = spec_of(SLOW.replace("0.05", "0.15"), tmp_path, space=SPACE, seed=7)
    start(store, spec)
    with engine(store) as process:
        until(lambda: promoted(store, spec), what="a promotion")
        below = running.processes_below(process.pid)
        if victim == "runner":
            until(lambda: killed(runner_pids(store, spec)), what="a runner to kill")
        elif victim == "worker":
            worker = until(lambda: worker_pids(process.pid), what="a worker")[0]
            os.kill(worker, signal.SIGKILL)
        elif victim == "nursery":  # all workers were forked from it
            worker = psutil.Process(until(lambda: worker_pids(process.pid), what="a worker")[0])
            worker.parent().kill()
            until(lambda: not running.alive([worker.pid]), 20, "the end of the worker")
        elif victim == "notice":  # to every process of the worker, as a machine does that is about to go
            worker = until(lambda: worker_pids(process.pid), what="a worker")[0]
            for pid in (worker, *running.processes_below(worker)):
                os.kill(pid, signal.SIGTERM)
            until(lambda: not running.alive([worker]), 20, "the end of the worker")
        else:
            process.kill()
            process.wait()
            with engine(store):
                assert ended(store, spec) == "completed"
        assert ended(store, spec) == "completed"
        below += running.processes_below(process.pid)
    assert outcome(store, spec) == undisturbed
    assert len(lines(store, spec, "LegStarted")) > len(undisturbed["trials"])
    if victim == "notice":
        assert {line["cause"] for line in lines(store, spec, "LegLeft") if line["cause"]} == {"preempted"}
    until(lambda: not running.alive(below), 10, "the end of every process")


SLOW_TO_IMPORT = """
import os, time
here = os.path.dirname(__file__)
with open(here + "/pids", "a") as file:
    print(os.getpid(), file=file)
while not os.path.exists(here + "/gate"):
    time.sleep(0.02)
"""


def test_an_environment_that_is_killed_while_it_is_imported_is_started_again(store: Store, tmp_path: Path) -> None:
    # What is imported ahead is installed: a module beside the notebook is the training code's own.
    there = tmp_path / "site-packages"
    there.mkdir()
    (there / "slow_to_import.py").write_text(SLOW_TO_IMPORT)
    spec = spec_of(PLAIN, tmp_path, space=SPACE, preload=("slow_to_import",), verify=False)
    start(store, spec)
    with engine(store, workers=1, PYTHONPATH=str(there)):
        until(lambda: (there / "pids").exists() and (there / "pids").read_text().endswith("\n"), what="an import")
        os.kill(int((there / "pids").read_text().split()[0]), signal.SIGKILL)
        (there / "gate").touch()
        assert ended(store, spec) == "completed"


def killed(pids: list[int]) -> bool:
    """Kill the first of ``pids`` that still lives."""
    for pid in pids:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue
        return True
    return False


def worker_pids(engine: int) -> list[int]:
    """Dask workers below the engine: they read what runners print."""
    found = {}
    for child in psutil.Process(engine).children(recursive=True):
        with contextlib.suppress(psutil.NoSuchProcess, OSError, LookupError):  # it has ended since
            if "workbench.trial.process.forkserver" in " ".join(child.parent().cmdline()):
                found[worker_of(child.pid)] = None
    return [*found]


def test_a_stopped_experiment_leaves_no_process_and_no_lie(store: Store, tmp_path: Path) -> None:
    spec = spec_of(SLOW.replace("0.05", "0.15"), tmp_path, space=SPACE)
    start(store, spec)
    with engine(store):
        until(lambda: state(store, spec) == "running" and runner_pids(store, spec), what="a running leg")
        running.requests.put(store, {"kind": "stop", "experiment": spec.id, "reason": "enough"})
        assert ended(store, spec) == "stopped"
        with Series.read(store.experiment(spec.id).series) as series:
            assert {trial["state"] for trial in series.trials()} <= {"stopped", "completed"}
            assert series.meta()["slots"]["used"] == 0
            pids = [leg["pid"] for leg in series.legs() if leg.get("pid")]
        until(lambda: not running.alive(pids), 15, "the end of the runners")


def test_a_trial_that_does_not_listen_is_killed_with_its_children(store: Store, tmp_path: Path) -> None:
    deaf = """
x = uniform(0.0, 1.0)
import signal, subprocess, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
child = subprocess.Popen(["sleep", "600"])
print("child", child.pid, flush=True)
for epoch in trial.steps():
    trial.report(score=x)
    time.sleep(600)
"""
    spec = spec_of(deaf, tmp_path, space=SPACE, scheduler=Scheduler(kind="all", last=3), trials=1, probe=False)
    start(store, spec)
    with engine(store):
        log = store.experiment(spec.id).trial(0).log
        until(lambda: log.exists() and "child" in log.read_text(), what="the child")
        pids = runner_pids(store, spec)
        child = int(log.read_text().split("child")[1].split()[0])
        running.requests.put(store, {"kind": "stop", "experiment": spec.id, "trial": 0})
        until(lambda: not running.alive([*pids, child]), 10, "the end of the runner and its child")
        assert ended(store, spec) in ("stopped", "completed")


def test_a_failing_trial_never_stops_its_experiment(store: Store, tmp_path: Path) -> None:
    source = """
x = uniform(0.0, 1.0)
for epoch in trial.steps():
    if x > 0.5:
        raise RuntimeError(f"x is {x:.3f}")
    trial.report(score=x)
"""
    spec = spec_of(source, tmp_path, space=SPACE, seed=1, scheduler=Scheduler("hyperband", 1, 9, 3))
    start(store, spec)
    with engine(store):
        assert ended(store, spec) == "completed"
    with Series.read(store.experiment(spec.id).series) as series:
        trials = series.trials()
    failed = [trial for trial in trials if trial["state"] == "failed"]
    assert {trial["number"] for trial in failed} == {t["number"] for t in trials if t["configuration"]["x"] > 0.5}
    assert all("RuntimeError: x is" in trial["reason"] for trial in failed)
    assert all("line 5" in trial["reason"] for trial in failed)
    assert all("raise RuntimeError" in trial["error"] for trial in failed)


def test_a_typing_error_costs_two_trials_and_not_eighty(store: Store, tmp_path: Path) -> None:
    source = "x = uniform(0.0, 1.0)\nfor epoch in trial.steps():\n    trial.report(score=xx)\n"
    spec = spec_of(source, tmp_path, space=SPACE, scheduler=Scheduler("hyperband", 1, 81, 3))
    start(store, spec)
    with engine(store):
        assert ended(store, spec) == "failed"
    assert len({line["trial"] for line in lines(store, spec, "LegStarted")}) == 2
    assert any("NameError" in line["reason"] for line in lines(store, spec, "StopAsked"))


def test_a_second_engine_is_refused_and_says_who_holds_the_store(store: Store) -> None:
    with engine(store, workers=1):
        until(lambda: running.engine_pid(store), what="the engine")
        second = running.engine_process(store)
        assert second.wait(20) == 3
        assert str(running.engine_pid(store)) in store.engine_log.read_text()


def test_an_idle_engine_ends_itself(store: Store) -> None:
    with engine(store, workers=1, idle=0.5) as process:
        assert process.wait(30) == 0
    assert not store.engine_json.exists()


def test_an_address_that_nobody_answers_is_refused_with_what_to_do(store: Store, tmp_path: Path) -> None:
    spec = spec_of(PLAIN, tmp_path, space=SPACE)
    start(store, spec)
    with engine(store, WORKBENCH_CLUSTER="tcp://127.0.0.1:9"):
        assert ended(store, spec) == "failed"
    reason = lines(store, spec, "StopAsked")[0]["reason"]
    assert "tcp://127.0.0.1:9" in reason
    assert "dask scheduler" in reason


def test_versions_that_differ_are_refused_before_anything_trains(store: Store, tmp_path: Path) -> None:
    spec = spec_of(PLAIN, tmp_path, space=SPACE)
    spec = running.with_versions(spec, {"numpy": "0.0.1"})
    start(store, spec)
    with engine(store):
        assert ended(store, spec) == "failed"
    assert any("numpy" in line["reason"] and "0.0.1" in line["reason"] for line in lines(store, spec, "StopAsked"))
    assert not lines(store, spec, "Reached")


def test_a_segmentation_fault_is_the_trials_and_the_worker_survives(store: Store, tmp_path: Path) -> None:
    source = """
x = uniform(0.0, 1.0)
import ctypes
for epoch in trial.steps():
    if x > 0.5 and epoch == 1:
        ctypes.string_at(0)
    trial.report(score=x)
"""
    scheduler = Scheduler(kind="all", last=3)
    spec = spec_of(source, tmp_path, space=SPACE, seed=3, scheduler=scheduler, trials=4, max_restarts=1)
    start(store, spec)
    with engine(store) as process:
        # While the cluster starts, a process that is being made could be taken for a worker.
        until(lambda: lines(store, spec, "LegLeft"), what="the end of a leg")
        workers = until(lambda: worker_pids(process.pid), what="workers")
        assert ended(store, spec) == "completed"
        assert set(workers) <= set(worker_pids(process.pid))
    with Series.read(store.experiment(spec.id).series) as series:
        trials = series.trials()
    broken = [trial for trial in trials if trial["configuration"]["x"] > 0.5]
    assert broken
    assert all(trial["state"] == "failed" and "SIGSEGV" in trial["reason"] for trial in broken)


#: An engine whose store is removed when it has taken the lease, and before it can read anything.
ROBBED = """
import shutil, sys
from workbench.engine import __main__
begun = __main__._begun
def robbed(store, options):
    shutil.rmtree(store.root)
    return begun(store, options)
__main__._begun = robbed
sys.exit(__main__.main(sys.argv[1:]))
"""


def test_an_engine_whose_store_is_removed_while_it_begins_ends_as_one_without_a_store(store: Store) -> None:
    process = running.engine_process(store, workers=1, program=("-c", ROBBED))
    assert process.wait(60) == 5


def test_an_engine_whose_store_is_removed_ends_and_leaves_a_new_store_alone(store: Store, tmp_path: Path) -> None:
    spec = spec_of(PLAIN, tmp_path, space=SPACE)
    with engine(store, workers=1) as process:
        until(lambda: running.engine_pid(store), what="the engine")
        # Between two heartbeats it writes nothing: files are removed one by one, and a new store needs an empty folder.
        beat = store.engine_json.stat().st_mtime_ns
        until(lambda: store.engine_json.stat().st_mtime_ns != beat, what="a heartbeat")
        process.send_signal(signal.SIGSTOP)
        shutil.rmtree(store.root)
        store.create()
        process.send_signal(signal.SIGCONT)
        with engine(store, workers=1):
            start(store, spec)
            assert ended(store, spec) == "completed"
            assert process.wait(30) == 5
            assert running.engine_pid(store)


#: A training that writes all that a trial writes: what it prints, files of its own, pictures and checkpoints.
WRITING = """
x = uniform(0.0, 1.0)
import contextlib, time
for epoch in trial.steps():
    time.sleep(0.02)  # the log stays small
    print("step", epoch, flush=True)
    with contextlib.suppress(OSError):
        (trial.folder / "weights").write_text(str(x))
    with contextlib.suppress(OSError):
        trial.log(sample=[[0.0, 1.0], [1.0, 0.0]])
    trial.report(score=x)
"""


def test_a_store_that_is_removed_while_it_trains_does_not_come_back_in_part(store: Store, tmp_path: Path) -> None:
    spec = spec_of(WRITING, tmp_path, space=SPACE, scheduler=Scheduler(kind="all", first=1, last=5000), trials=4)
    start(store, spec)
    with engine(store) as process:
        until(lambda: [*store.experiment(spec.id).trials.glob("*.zip")], what="a checkpoint")
        workers = worker_pids(process.pid)
        store.root.rename(tmp_path / "trash")
        assert process.wait(30) == 5
        until(lambda: not any(map(psutil.pid_exists, workers)), what="the end of the workers")
        assert not store.root.exists()
        # Without a part that has no mark of its owner, the next search has its store at this place again.
        store.create()
        assert store.exists
