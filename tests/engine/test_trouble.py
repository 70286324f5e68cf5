"""Workers that are the trouble, legs that hang, and time in which everything sleeps: with real processes."""

from __future__ import annotations

import json
import os
import signal
import time
from pathlib import Path

import pytest
import running
from gang_world import gang
from running import ended, engine, few_cores, lines, outcome, spec_of, start, until

from workbench.records import Scheduler, Spec
from workbench.space import uniform
from workbench.store import Store
from workbench.store.journal import read as read_journal
from workbench.store.series import Series

SPACE = {"x": uniform(0.0, 1.0)}


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "store").create()


def breaking(tmp_path: Path) -> Spec:
    """A search whose trials die of a signal on one worker: the one that trains first.

    Steps on the other one last, so that it does not take all the trials before three have died.
    """
    source = f"""
x = uniform(0.0, 1.0)
import os, time
from benchmarks.processes import worker_of
def worker():  # asked anew each time: what the set-up made in the first leg is put back in the next
    return str(worker_of(os.getpid()))
try:
    os.write(os.open({str(tmp_path / "broken")!r}, os.O_WRONLY | os.O_CREAT | os.O_EXCL), worker().encode())
except FileExistsError:
    pass
for epoch in trial.steps():
    if open({str(tmp_path / "broken")!r}).read() == worker():
        os.abort()
    time.sleep(0.3)
    trial.report(score=x)
"""
    scheduler = Scheduler(kind="all", last=2)
    return spec_of(source, tmp_path, space=SPACE, scheduler=scheduler, trials=12, max_restarts=6)


def test_a_worker_on_which_three_trials_die_alike_is_set_aside_and_the_search_goes_on(
    store: Store, tmp_path: Path
) -> None:
    spec = breaking(tmp_path)
    start(store, spec)
    with engine(store):
        assert ended(store, spec) == "completed"
        (aside,) = [line for line in read_journal(store.journal_path) if line["kind"] == "SetAside"]
        closed = until(
            lambda: [
                slot for slot in json.loads((store.root / "cluster.json").read_text())["slots"] if "closed" in slot
            ],
            what="the slot shown as closed",
        )
    assert "3 trials of different configuration died there in the same way (signal)" in aside["reason"]
    assert [(slot["worker"], slot["closed"]) for slot in closed] == [(aside["worker"], aside["reason"])]
    with Series.read(store.experiment(spec.id).series) as series:
        assert {trial["state"] for trial in series.trials()} == {"completed"}
        later = [leg for leg in series.legs() if leg["attempt"] > 1 and leg["outcome"] == "completed"]
    assert len(later) >= 3
    assert "is no longer used" in store.engine_log.read_text()


def test_a_worker_that_was_set_aside_is_used_again_where_a_trial_needs_its_slot(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = breaking(tmp_path)
    whole = gang(tmp_path, 2, scheduler=Scheduler(kind="all", last=2), trials=1)
    with few_cores(tmp_path, monkeypatch, 2), engine(store, workers=2):
        start(store, spec)
        assert ended(store, spec) == "completed"
        start(store, whole)
        assert ended(store, whole) == "completed"
    kinds = [line["kind"] for line in read_journal(store.journal_path)]
    assert [kind for kind in kinds if kind in ("SetAside", "TakenBack")] == ["SetAside", "TakenBack"]
    assert "is used again: a trial needs its slots" in store.engine_log.read_text()


HANGING = """
x = uniform(0.0, 1.0)
import os, time
for epoch in trial.steps():
    if epoch == 2 and not os.path.exists({flag!r}):
        open({flag!r}, "w").close()
        time.sleep(600)
    time.sleep({pause})
    trial.report(score=x + epoch)
"""


def test_a_trial_that_reports_nothing_is_trained_again_from_its_checkpoint(store: Store, tmp_path: Path) -> None:
    source = HANGING.format(flag=str(tmp_path / "hung"), pause=0.01)
    scheduler = Scheduler(kind="all", last=4)
    spec = spec_of(source, tmp_path, space=SPACE, scheduler=scheduler, trials=1, hang_s=5.0, save_steps=1)
    start(store, spec)
    with engine(store, workers=1):
        assert ended(store, spec) == "completed"
    (died,) = [line for line in lines(store, spec, "LegLeft") if line["outcome"] == "died"]
    assert died["cause"] == "hang"
    assert "no report for" in died["reason"]
    with Series.read(store.experiment(spec.id).series) as series:
        assert [leg["start"] for leg in series.legs()] == [0, 2]


def test_time_in_which_everything_sleeps_is_no_hang(store: Store, tmp_path: Path) -> None:
    source = HANGING.format(flag=str(tmp_path), pause=0.3)  # its flag exists: it never hangs
    scheduler = Scheduler(kind="all", last=8)
    spec = spec_of(source, tmp_path, space=SPACE, scheduler=scheduler, trials=1, hang_s=2.0)
    start(store, spec)
    with engine(store, workers=1) as process:
        until(lambda: running.state(store, spec) and outcome(store, spec)["points"], what="a first report")
        everything = [process.pid, *running.processes_below(process.pid)]
        for pid in everything:
            os.kill(pid, signal.SIGSTOP)
        time.sleep(4.0)  # what is tested is that this time does not count
        for pid in everything:
            os.kill(pid, signal.SIGCONT)
        assert ended(store, spec) == "completed"
    assert not [line for line in lines(store, spec, "LegLeft") if line["outcome"] == "died"]
