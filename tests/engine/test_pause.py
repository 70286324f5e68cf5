"""A paused experiment holds no slot and no process, and goes on as though it had never been paused."""

from __future__ import annotations

import time
from pathlib import Path

from running import SLOW, alive, ended, engine, lines, outcome, spec_of, start, state, until

from workbench import asked
from workbench.asking import ask
from workbench.experiment import Experiment
from workbench.records import Scheduler, Spec
from workbench.space import uniform
from workbench.store import Store
from workbench.store.lists.catalog import read_catalog
from workbench.store.series import Series

SETTINGS = {"space": {"x": uniform(0.0, 1.0)}, "scheduler": Scheduler(kind="hyperband", first=1, last=9, eta=3)}


def runners(store: Store, spec: Spec) -> list[int]:
    with Series.read(store.experiment(spec.id).series) as series:
        return [leg["pid"] for leg in series.legs() if leg.get("pid")]


def used_slots(store: Store, spec: Spec) -> int:
    with Series.read(store.experiment(spec.id).series) as series:
        return int(series.meta()["slots"]["used"])


def test_pausing_leaves_nothing_behind_and_resuming_is_exact(tmp_path: Path) -> None:
    store = Store(tmp_path / "store").create()
    calm = spec_of(SLOW, tmp_path, name="calm", verify=False, **SETTINGS)
    spec = spec_of(SLOW.replace("0.05", "0.2"), tmp_path, **SETTINGS)  # long enough for both pauses
    with engine(store):
        start(store, calm)
        assert ended(store, calm) == "completed"
        start(store, spec)
        experiment = Experiment.of(store, spec.id)
        for legs in (3, 20):  # in the first rung, and among promotions
            until(lambda legs=legs: len(lines(store, spec, "LegStarted")) >= legs, what=f"{legs} legs")
            ask(store, asked.Rename(experiment=spec.id, name=f"renamed-{legs}"))
            experiment.pause()
            until(lambda: not alive(runners(store, spec)), 20, "the end of every runner")
            # The engine hears of each end a moment later than this process, and writes it down then.
            until(lambda: used_slots(store, spec) == 0, 20, "that no slot is used")
            assert state(store, spec) == "paused"
            with Series.read(store.experiment(spec.id).series) as series:
                assert "running" not in {trial["state"] for trial in series.trials()}
            experiment.resume()
        assert ended(store, spec) == "completed"
    assert outcome(store, spec) == outcome(store, calm)
    # What a person called it while it trained outlasts each change of its state.
    row = next(row for row in read_catalog(store) if row["id"] == spec.id)
    assert (row["name"], row["state"]) == ("renamed-20", "completed")


#: Seconds that the first step takes, and seconds that a pause waits for a step: too few for the first one.
FIRST_S, WAIT_S = 8.0, 1.0
LONG = """
import random, time
total = 0.0
for epoch in trial.steps():
    time.sleep(FIRST_S if epoch == 0 else 0.0)
    total = 0.9 * total + random.random()
    trial.report(score=total, noise=random.random())
"""
HASTY = f"""
import sys
from workbench.engine import __main__
from workbench.engine.judging import patience
patience.TURN_S = {WAIT_S}
sys.exit(__main__.main(sys.argv[1:]))
"""


def test_a_step_that_nobody_waits_for_is_trained_again_and_it_is_said(tmp_path: Path) -> None:
    """No checkpoint lies in the first step of a first leg: pausing early in it costs the step, and later waits."""
    store = Store(tmp_path / "store").create()
    settings = {"scheduler": Scheduler(kind="all", first=3, last=3), "trials": 1, "verify": False}
    calm = spec_of(LONG.replace("FIRST_S", "0.0"), tmp_path, name="calm", **settings)
    spec = spec_of(LONG.replace("FIRST_S", str(FIRST_S)), tmp_path, **settings)
    with engine(store, program=["-c", HASTY]):
        start(store, calm)
        assert ended(store, calm) == "completed"
        start(store, spec)
        experiment = Experiment.of(store, spec.id)
        for wait_s in (0.0, FIRST_S - 2.8):
            until(lambda ago_s=wait_s: trains(store, spec, ago_s), what="the training")
            experiment.pause()
            until(lambda: not alive(runners(store, spec)), 20, "the end of every runner")
            until(lambda: state(store, spec) == "paused", what="the pause")
            with Series.read(store.experiment(spec.id).series) as series:
                trial = until(lambda series=series: (t := series.trial(0))["state"] == "paused" and t, 5, "its state")
            if wait_s == 0.0:
                assert "its step did not end after 1 s more" in trial["reason"]
                assert "continues from its beginning" in trial["reason"]
                assert not lines(store, spec, "Saved")
            else:
                assert "not over" not in trial["reason"]
                assert [line["step"] for line in lines(store, spec, "Saved")] == [1]
            experiment.resume()
        assert ended(store, spec) == "completed"
    assert outcome(store, spec) == outcome(store, calm)


def trains(store: Store, spec: Spec, since_s: float) -> bool:
    """Whether a leg that lives has trained for so many seconds."""
    if not store.experiment(spec.id).series.exists():
        return False
    with Series.read(store.experiment(spec.id).series) as series:
        legs = [leg for leg in series.legs() if leg.get("began") and not leg.get("ended") and alive([leg["pid"]])]
    return any(leg["began"] + since_s <= time.time() for leg in legs)


def test_a_stop_does_not_wait_for_the_pause_before_it(tmp_path: Path) -> None:
    """A pause waits until the step ends, which takes an hour here; a stop does not wait for a step."""
    store = Store(tmp_path / "store").create()
    spec = spec_of(LONG.replace("FIRST_S", "3600.0"), tmp_path, trials=1, verify=False)
    with engine(store):
        start(store, spec)
        experiment = Experiment.of(store, spec.id)
        until(lambda: trains(store, spec, 0.0), what="the training")
        experiment.pause()
        until(lambda: lines(store, spec, "Stop"), what="the order to pause")
        experiment.stop()
        assert ended(store, spec, 15) == "stopped"
        until(lambda: not alive(runners(store, spec)), 5, "the end of every runner")
    assert [line["then"] for line in lines(store, spec, "Stop")] == ["paused", "stopped"]
    (left,) = lines(store, spec, "LegLeft")
    assert (left["outcome"], left["reason"]) == ("stopped", "requested by you")
