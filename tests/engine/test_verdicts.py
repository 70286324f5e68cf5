"""A rule that stops most trials at a rung is waited for there: no stopped trial takes a step too many."""

from __future__ import annotations

import os
import signal
from pathlib import Path

from running import ended, engine, lines, spec_of, start, until

from workbench.records import Scheduler, Spec
from workbench.space import uniform
from workbench.store import Store
from workbench.store.series import Series

#: Steps without work, which would be over long before an order to stop arrives.
SHORT = """
x = uniform(0.0, 1.0)
for epoch in trial.steps():
    trial.report(score=x * (epoch + 1))
"""
OWN = """
x = uniform(0.0, 1.0)
for step in range(1, trial.max_steps + 1):
    if not trial.report(score=x * step, step=step):
        break
"""
#: Each step is noted in a file as well, where it is seen without the engine.
NOTED = """
x = uniform(0.0, 1.0)
import time
for epoch in trial.steps():
    time.sleep(0.02)
    with open("noted", "a") as file:
        file.write(f"{epoch + 1}\\n")
    trial.report(score=x * (epoch + 1))
"""
STOPS = Scheduler(kind="asha", mode="stop", first=1, last=27, eta=3)


def beyond(store: Store, spec: Spec) -> dict[int, int]:
    """By trial that the search stopped: the steps that it took after the rung where it was stopped."""
    with Series.read(store.experiment(spec.id).series) as series:
        stopped = {row["number"]: row["level"] for row in series.trials() if row["state"] == "stopped"}
        steps = [(trial, step) for trial, name, step, *_ in series.points() if name == "score"]
    return {trial: max(step for one, step in steps if one == trial) - level for trial, level in stopped.items()}


def test_no_trial_runs_past_the_rung_where_it_is_stopped(tmp_path: Path) -> None:
    store = Store(tmp_path / "store").create()
    with engine(store):
        for name, code in (("steps", SHORT), ("own", OWN)):
            spec = spec_of(
                code, tmp_path, space={"x": uniform(0.0, 1.0)}, scheduler=STOPS, trials=30, seed=5, name=name
            )
            start(store, spec)
            assert ended(store, spec) == "completed"
            found = beyond(store, spec)
            assert len(found) > 15, name
            assert set(found.values()) == {0}, name


def test_training_goes_on_if_no_verdict_comes(tmp_path: Path) -> None:
    store = Store(tmp_path / "store").create()
    spec = spec_of(NOTED, tmp_path, space={"x": uniform(0.0, 1.0)}, scheduler=STOPS, trials=6, seed=5)
    noted = tmp_path / "noted"
    start(store, spec)
    with engine(store) as process:
        until(lambda: lines(store, spec, "LegStarted"), what="a leg")
        until(noted.exists, what="its first step")
        os.kill(process.pid, signal.SIGSTOP)
        try:
            until(lambda: "27" in noted.read_text().split(), what="a whole trial without an engine")
        finally:
            os.kill(process.pid, signal.SIGCONT)
        assert ended(store, spec) == "completed"
