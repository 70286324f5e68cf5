"""Trials whose set-up takes long: shown as setting up, ended at their limit, resumed after a kill; real processes."""

from __future__ import annotations

import os
import signal
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from running import ended, engine, engine_pid, lines, meta, spec_of, start, until

from workbench.experiment import Experiment
from workbench.launch import measured
from workbench.records import ENDED, Scheduler, Spec
from workbench.space import uniform
from workbench.store import Store
from workbench.store.series import Series

SPACE = {"x": uniform(0.0, 1.0)}
ONE = Scheduler(kind="all", last=3)
#: The set-up waits until a file exists; a hang in C that holds the interpreter is ``{wait}``.
SETUP = """
x = uniform(0.0, 1.0)
import os, time
def download():
    while not os.path.exists({flag!r}):
        {wait}
download()
for epoch in trial.steps():
    time.sleep({pause})
    trial.report(score=x + epoch)
"""


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "store").create()


def source(flag: Path, wait: str = "time.sleep(0.05)", pause: float = 0.01) -> str:
    return SETUP.format(flag=str(flag), wait=wait, pause=pause)


def rows(store: Store, spec: Spec) -> list[dict[str, Any]]:
    path = store.experiment(spec.id).series
    if not path.exists():
        return []
    with Series.read(path) as series:
        return series.trials()


def states(store: Store, spec: Spec) -> list[str]:
    return [row["state"] for row in rows(store, spec)]


def test_a_long_set_up_is_shown_since_it_started_and_only_as_long_as_it_lasts(store: Store, tmp_path: Path) -> None:
    flag = tmp_path / "there"
    spec = spec_of(source(flag, pause=0.5), tmp_path, space=SPACE, scheduler=ONE, trials=3, probe=False)
    before = datetime.now(UTC)
    start(store, spec)
    with engine(store, workers=2):
        # A third trial waits for a slot: that is not setting up.
        until(lambda: sorted(states(store, spec)).count("setting up") == 2, what="two trials setting up")
        shown = {row["state"]: row for row in rows(store, spec)}
        assert set(shown) <= {"setting up", "waiting"}
        since = datetime.fromisoformat(shown["setting up"]["since"])
        assert 1.5 < (datetime.now(UTC) - since).total_seconds() < (datetime.now(UTC) - before).total_seconds()
        until(lambda: meta(store, spec)["counts"].get("setting up") == 2, what="their count")
        experiment = Experiment.of(store, spec.id)
        assert list(experiment.trials["state"]).count("setting up") == 2
        flag.touch()
        until(lambda: "running" in states(store, spec), what="a first step")
        until(lambda: "setting up" not in meta(store, spec)["counts"], what="the count without them")
        assert ended(store, spec) == "completed"
    assert all(row["since"] is None for row in rows(store, spec) if "since" in row)
    # Nothing of it is journaled: a trial costs what it did.
    assert "setting up" not in store.experiment(spec.id).journal.read_text()


def test_a_set_up_that_is_over_soon_is_never_shown(store: Store, tmp_path: Path) -> None:
    flag = tmp_path / "there"
    flag.touch()
    spec = spec_of(source(flag, pause=1.0), tmp_path, space=SPACE, scheduler=ONE, trials=2)
    seen: set[str] = set()
    start(store, spec)
    with engine(store, workers=1):

        def is_over() -> bool:
            # The first trial may wait for the imports of its forkserver.
            seen.update(row["state"] for row in rows(store, spec) if row["number"] == 1)
            return bool(seen & ENDED)

        until(is_over, what="its end")
    assert "setting up" not in seen
    assert "running" in seen


@pytest.mark.parametrize("wait", ["time.sleep(0.05)", "sum(range(10**12))"])
def test_a_set_up_over_its_limit_fails_and_says_where_it_was(store: Store, tmp_path: Path, wait: str) -> None:
    code = source(tmp_path / "never", wait)
    spec = spec_of(code, tmp_path, space=SPACE, scheduler=ONE, trials=1, setup_limit_s=1.5)
    start(store, spec)
    with engine(store, workers=1):
        assert ended(store, spec) == "failed"
    left = lines(store, spec, "LegLeft")
    assert [(line["outcome"], line["cause"]) for line in left] == [("failed", "setup")] * 2
    (row,) = rows(store, spec)
    assert row["state"] == "failed"
    assert "its set-up took longer than 1.5 s (--setup-limit)" in row["reason"]
    assert "the second time in a row at step 0, so it is not retried" in row["reason"]
    assert "in download" in row["error"]
    assert "in download" in Experiment.of(store, spec.id)["t0000"].log


def test_steps_may_take_longer_than_the_set_up_and_a_late_promotion_has_the_same_limit(
    store: Store, tmp_path: Path
) -> None:
    flag = tmp_path / "there"
    flag.touch()
    scheduler = Scheduler("hyperband", 1, 3, 3)
    spec = spec_of(source(flag, pause=2.5), tmp_path, space=SPACE, scheduler=scheduler, setup_limit_s=2.0)
    start(store, spec)
    with engine(store):
        assert ended(store, spec) == "completed"
    assert not [line for line in lines(store, spec, "LegLeft") if line["outcome"] in ("failed", "died")]


def test_what_a_version_took_is_in_the_plan_of_the_next(store: Store, tmp_path: Path) -> None:
    flag = tmp_path / "there"
    flag.touch()
    code = source(flag, pause=0.1).replace("download()\nfor", "download()\ntime.sleep(0.5)\nfor")
    spec = spec_of(code, tmp_path, space=SPACE, scheduler=Scheduler("hyperband", 1, 3, 3))
    assert measured(store, spec.name) is None
    start(store, spec)
    with engine(store):
        assert ended(store, spec) == "completed"
    found = measured(store, spec.name)
    assert found is not None
    assert (found.source, measured(store, "other")) == ("probe@1 took", None)
    assert 0.5 < found.setup_s < 2.5
    assert 0.1 < found.step_s < 0.6
    plan = Experiment.of(store, spec.id).plan()
    assert plan.cost is not None
    assert (plan.cost.times, plan.cost.setups) == (found, plan.legs)
    assert "--scheduler asha --mode stop --trials" in plan.cost.advice


def test_a_limit_that_a_trial_exceeds_once_costs_it_one_restart(store: Store, tmp_path: Path) -> None:
    code = source(tmp_path / "there", f"open({str(tmp_path / 'there')!r}, 'w').close(); time.sleep(600)")
    spec = spec_of(code, tmp_path, space=SPACE, scheduler=ONE, trials=1, setup_limit_s=1.5)
    start(store, spec)
    with engine(store, workers=1):
        assert ended(store, spec) == "completed"
    assert [line["outcome"] for line in lines(store, spec, "LegLeft")] == ["failed", "completed"]


def test_a_kill_of_the_engine_during_the_set_up_starts_it_again_and_nothing_stays_setting_up(
    store: Store, tmp_path: Path
) -> None:
    flag = tmp_path / "there"
    spec = spec_of(source(flag), tmp_path, space=SPACE, scheduler=ONE, trials=1)
    start(store, spec)
    with engine(store, workers=1):
        until(lambda: states(store, spec) == ["setting up"], what="its setting up")
        os.kill(engine_pid(store) or 0, signal.SIGKILL)
        until(lambda: engine_pid(store) is None, what="the engine's death")
        from workbench.status import Around

        assert Around.of(store).trial(rows(store, spec)[0])["state"] == "waiting"
    with engine(store, workers=1):
        until(lambda: states(store, spec) == ["setting up"], what="its setting up again")
        flag.touch()
        assert ended(store, spec) == "completed"
    (row,) = rows(store, spec)
    assert (row["state"], row["since"]) == ("completed", None)


def test_a_kill_of_the_trial_during_its_set_up_is_its_own_failure(store: Store, tmp_path: Path) -> None:
    flag, pid = tmp_path / "there", tmp_path / "pid"
    code = source(flag).replace("download()\nfor", f"open({str(pid)!r}, 'w').write(str(os.getpid()))\ndownload()\nfor")
    spec = spec_of(code, tmp_path, space=SPACE, scheduler=ONE, trials=1)
    start(store, spec)
    with engine(store, workers=1):
        until(lambda: states(store, spec) == ["setting up"], what="its setting up")
        os.kill(int(until(lambda: pid.exists() and pid.read_text(), what="its process")), signal.SIGKILL)
        until(lambda: len(lines(store, spec, "LegStarted")) == 2, what="its second leg")
        flag.touch()
        assert ended(store, spec) == "completed"
    assert [line["outcome"] for line in lines(store, spec, "LegLeft")] == ["died", "completed"]
