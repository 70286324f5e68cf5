"""One trial is paused, stopped and resumed while the others go on; its results are those of a calm search."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from running import SLOW, alive, ended, engine, lines, meta, outcome, spec_of, start, state, until

from workbench import asked
from workbench.asking import ask
from workbench.cli.verbs import main
from workbench.errors import BadOption, NotFound, Paused
from workbench.experiment import Experiment
from workbench.records import Scheduler, Spec
from workbench.space import uniform
from workbench.store import Store
from workbench.store.keeping.checkpoints import Checkpoints
from workbench.store.lists.catalog import read_catalog
from workbench.store.lists.summary import entry_of
from workbench.store.series import Series

SPACE = {"x": uniform(0.0, 1.0)}
HYPERBAND = {"space": SPACE, "scheduler": Scheduler(kind="hyperband", first=1, last=9, eta=3), "verify": False}
#: The trial that is promoted from every rung: it is not stopped while it is paused.
BEST = 3
#: This trial trains long enough for a pause to reach it on a busy machine.
LONG = SLOW.replace("0.05", "0.4 if trial.number == {number} else 0.05")
#: Every trial to its end.
ALL = {"space": SPACE, "scheduler": Scheduler(kind="all", first=1, last=9, eta=3), "trials": 2, "verify": False}


def row(store: Store, spec: Spec, number: int) -> dict[str, Any]:
    with Series.read(store.experiment(spec.id).series) as series:
        return series.trial(number)


def legs(store: Store, spec: Spec) -> list[dict[str, Any]]:
    with Series.read(store.experiment(spec.id).series) as series:
        return series.legs()


def trains(store: Store, spec: Spec, number: int) -> bool:
    return store.experiment(spec.id).series.exists() and any(
        leg["trial"] == number and leg.get("began") for leg in legs(store, spec)
    )


def test_a_search_rests_when_only_a_paused_trial_is_left_and_a_new_engine_remembers_it(tmp_path: Path) -> None:
    store = Store(tmp_path / "store").create()
    calm = spec_of(SLOW, tmp_path, name="calm", **HYPERBAND)
    spec = spec_of(LONG.format(number=BEST), tmp_path, **HYPERBAND)
    label = f"{spec.label}/t0003"
    with engine(store):
        start(store, calm)
        assert ended(store, calm) == "completed"
        start(store, spec)
        experiment = Experiment.of(store, spec.id)
        until(lambda: trains(store, spec, BEST), what="the trial's first leg")
        experiment[BEST].pause()
        until(lambda: row(store, spec, BEST)["held"], 20, "the pause")
        with pytest.raises(NotFound, match="no trial 99"):
            experiment.pause(99)
        until(lambda: state(store, spec) == "paused", what="the rest")
        found = meta(store, spec)
        assert found["reason"] == "t0003 is paused, and nothing else is left to train; resume it to continue"
        assert found["pause"]["cause"] == "trials"
        assert found["slots"]["used"] == 0
        assert not alive([leg["pid"] for leg in legs(store, spec) if leg.get("pid") and leg.get("outcome") is None])
        with pytest.raises(Paused, match="t0003 is paused"):
            experiment.wait(timeout=20)
        before = len(lines(store, spec))
    # The journal alone says so too, and the next engine starts nothing.
    assert {key: entry_of(store, spec.id)[key] for key in ("state", "pause")} == {"state": "paused", "pause": "trials"}
    with engine(store):
        ask(store, asked.Ping())
        until(lambda: state(store, spec) == "paused", what="the rest")
        assert row(store, spec, BEST)["held"]
        assert [line["kind"] for line in lines(store, spec)[before:] if line["kind"] == "Run"] == []
        assert main(["resume", label, "--store", str(store.root)]) == 0
        assert ended(store, spec) == "completed"
        assert not row(store, spec, BEST)["held"]
        with pytest.raises(BadOption, match="t0003 cannot be resumed: its experiment is completed"):
            ask(store, asked.Resume(spec.id, BEST))
    assert outcome(store, spec) == outcome(store, calm)


def test_a_paused_trial_keeps_its_checkpoint_and_goes_on_exactly(tmp_path: Path) -> None:
    store = Store(tmp_path / "store").create()
    calm = spec_of(SLOW, tmp_path, name="calm", **ALL)
    spec = spec_of(LONG.format(number=0), tmp_path, **ALL)
    with engine(store):
        start(store, calm)
        assert ended(store, calm) == "completed"
        start(store, spec)
        experiment = Experiment.of(store, spec.id)
        until(lambda: trains(store, spec, 0) and row(store, spec, 0)["step"] >= 3, what="three steps")
        experiment.pause(0)
        until(lambda: row(store, spec, 0)["held"] and row(store, spec, 0)["state"] == "paused", 20, "the pause")
        until(lambda: row(store, spec, 1)["state"] == "completed", what="the other trial")
        at = row(store, spec, 0)["step"]
        assert 3 <= at < 9
        ask(store, asked.Gc())
        assert max(Checkpoints(store.experiment(spec.id).trial(0)).steps()) == at
        # As a whole, too: only the paused trial is left.
        experiment.resume()
        assert ended(store, spec) == "completed"
        assert [leg["start"] for leg in legs(store, spec) if leg["trial"] == 0] == [0, at]
    assert outcome(store, spec) == outcome(store, calm)


def test_a_stopped_trial_is_resumed_and_ends_with_the_results_of_one_that_was_never_stopped(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store = Store(tmp_path / "store").create()
    settings = {**HYPERBAND, "scheduler": Scheduler(kind="hyperband", first=3, last=27, eta=3)}
    whole = spec_of(
        SLOW, tmp_path, name="whole", **{**ALL, "scheduler": Scheduler(kind="all", first=3, last=27, eta=3)}
    )
    spec = spec_of(SLOW, tmp_path, **settings)
    with engine(store):
        start(store, whole)
        assert ended(store, whole) == "completed"
        start(store, spec)
        until(lambda: trains(store, spec, 0) and row(store, spec, 0)["step"] >= 1, what="a step")
        assert main(["stop", f"{spec.label}/t0000", "--store", str(store.root)]) == 0
        until(lambda: row(store, spec, 0)["state"] == "stopped", 20, "the stop")
        assert row(store, spec, 0)["asked"]
        capsys.readouterr()
        assert main(["resume", f"{spec.label}/t0000", "--json", "--store", str(store.root)]) == 0
        told = json.loads(capsys.readouterr().out)
        assert (told["trial"], told["asked"]) == ("t0000", "resume")
        assert ended(store, spec) == "completed"
    found = row(store, spec, 0)
    assert (found["state"], found["step"], found["asked"]) == ("completed", 27, False)
    points = [point for point in outcome(store, spec)["points"] if point[0] == 0]
    assert points == [point for point in outcome(store, whole)["points"] if point[0] == 0]
    assert [line["step"] for line in lines(store, spec, "Reached") if line["trial"] == 0] == [3, 9]
    assert next(one for one in read_catalog(store) if one["id"] == spec.id)["state"] == "completed"


def test_what_cannot_be_paused_or_resumed_is_refused_and_says_why(tmp_path: Path) -> None:
    store = Store(tmp_path / "store").create()
    spec = spec_of(SLOW.replace("0.05", "0.3 if trial.number else 0.0"), tmp_path, **{**ALL, "trials": 6})
    with engine(store):
        start(store, spec)
        experiment = Experiment.of(store, spec.id)
        settled = lambda: [line["trial"] for line in lines(store, spec, "Settle") if line["state"] == "completed"]  # noqa: E731
        done = until(settled, what="the first end")[0]
        with pytest.raises(BadOption, match="is completed; expected a trial that has not ended"):
            experiment.pause(done)
        with pytest.raises(BadOption, match="expected a trial that a person has paused or stopped"):
            experiment.resume(done)
        experiment.pause()
        until(lambda: state(store, spec) == "paused", what="the pause")
        left = lambda: [line["trial"] for line in lines(store, spec, "Settle") if line["state"] == "paused"]  # noqa: E731
        held = until(left, what="a trial that has left")[0]
        experiment.pause(held)
        with pytest.raises(
            BadOption, match=r"is paused as a whole \(asked to pause\)\. Resume it first: workbench resume"
        ):
            experiment.resume(held)
        experiment.stop()
        ended(store, spec)
