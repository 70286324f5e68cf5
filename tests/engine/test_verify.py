"""Resuming is checked by the engine itself: an honest loop is found exact, one with hidden state is found out."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import running
from running import PLAIN, ended, engine, lines, outcome, spec_of, start, until

from workbench import asked
from workbench.asking import ask
from workbench.errors import BadOption
from workbench.experiment import Experiment
from workbench.records import Goal, Scheduler, Spec
from workbench.records.names import trial_label
from workbench.space import uniform
from workbench.store import Store
from workbench.store.series import Series

SPACE = {"x": uniform(0.0, 1.0)}
SMALL = Scheduler(kind="hyperband", first=1, last=3, eta=3)
#: A generator, which no checkpoint holds, gets into the metric.
HIDDEN = """
x = uniform(0.0, 1.0)
def counted():
    n = 0
    while True:
        n += 1
        yield n
ticks = counted()
for epoch in trial.steps():
    trial.report(score=x + next(ticks))
"""
LONG = """
x = uniform(0.0, 1.0)
import time
for epoch in trial.steps():
    time.sleep(0.3)
    trial.report(score=x * (epoch + 1))
"""
#: Loops that add each step to a file of their own.
FILES = """
x = uniform(0.0, 1.0)
import json, os
name = f"{x}.txt"
for epoch in trial.steps():
    before = json.load(open(name)) if os.path.exists(name) else []
    WRITE
    trial.report(score=x * (epoch + 1))
"""
WRITES = {
    "open": "with open(name, 'w') as file: json.dump([*before, epoch], file)",
    "torch.save": "torch.save([*before, epoch], name)",
    "replaced": "json.dump([*before, epoch], open(name + '.new', 'w')); os.replace(name + '.new', name)",
}


#: It reports nothing while there is a file.
HANGING = """
x = uniform(0.0, 1.0)
import os, time
for epoch in trial.steps():
    while os.path.exists({file!r}):
        time.sleep(0.02)
    trial.report(score=x)
"""


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "store").create()


def verdict(store: Store, spec: Spec) -> Any:
    with Series.read(store.experiment(spec.id).series) as series:
        return series.meta().get("verify")


def test_an_honest_loop_is_exact_and_the_search_knows_nothing_of_the_check(store: Store, tmp_path: Path) -> None:
    spec = spec_of(PLAIN, tmp_path, space=SPACE)
    start(store, spec)
    with engine(store):
        assert ended(store, spec) == "completed"
        found = until(lambda: verdict(store, spec), what="the verdict")
        legs = {(line["trial"], line["attempt"]): line for line in lines(store, spec, "LegStarted")}
        left = (legs[line["trial"], line["attempt"]] for line in lines(store, spec, "LegLeft"))
        first = next(leg for leg in left if leg["start"] > 0)  # either of the two brackets may be the first
        assert found["verdict"] == "identical"
        assert (found["trial"], found["resumed"], found["until"]) == (first["trial"], first["start"], first["until"])
        trained = outcome(store, spec)
        last = max(trained["trials"])
        experiment = Experiment.of(store, spec.id)
        checked = experiment.verify(last)
        assert checked
        assert (checked.kind, checked.details["trial"], checked.details["start"]) == ("identical", last, 0)
        assert "is exact" in experiment._repr_html_()
        assert experiment[last].verdict == checked
        with pytest.raises(BadOption, match="expected a step from 1 to 9"):
            ask(store, asked.Verify(experiment=spec.id, trial=last, step=10))
        until(lambda: lines(store, spec)[-1]["kind"] == "Verified", what="the journal's end")
    assert outcome(store, spec) == trained
    assert len(trained["trials"]) == 17
    assert not (store.experiment(spec.id).folder / "checks").exists()
    with Series.read(store.experiment(spec.id).series) as series:
        assert sum(leg["step"] - leg["start"] for leg in series.legs()) == 69
        assert series.trial(found["trial"])["verify"] == found


def test_one_that_was_never_disturbed_is_what_a_resuming_check_is_held_against(store: Store, tmp_path: Path) -> None:
    # Its best is its first step, whose checkpoint stays.
    growing = Scheduler(kind="all", first=1, last=9)
    spec = spec_of(PLAIN, tmp_path, space=SPACE, scheduler=growing, trials=1, goal=Goal("score", "min"))
    start(store, spec)
    with engine(store):
        assert ended(store, spec) == "completed"
        assert verdict(store, spec) is None
        found = Experiment.of(store, spec.id).verify("t0000", step=9)
    assert (found.kind, found.details["start"], found.details["until"]) == ("identical", 1, 9)
    assert found.words.startswith("resuming t0000 at step 1 is exact")


def test_hidden_state_is_found_out_and_named(store: Store, tmp_path: Path) -> None:
    spec = spec_of(HIDDEN, tmp_path, space=SPACE, scheduler=SMALL)
    start(store, spec)
    with engine(store):
        assert ended(store, spec) == "completed"
        found = until(lambda: verdict(store, spec), what="the verdict")
        reference = f"{spec.id}/{trial_label(found['trial'])}:3"
        words = [sys.executable, "-m", "workbench", "--store", str(store.root), "verify", reference]
        again = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
        assert again.returncode == 1, again
        assert "differs from step 2: score" in again.stdout
    assert (found["verdict"], found["metric"], found["step"], found["before"]) == ("parts", "score", 2, False)
    assert "names left out: ticks (an iterator or generator cannot be saved" in found["words"]
    assert found["b"] == pytest.approx(found["a"] + 1)


def test_a_check_leaves_the_files_of_its_trial_alone(store: Store, tmp_path: Path) -> None:
    specs = {}
    for name, write in WRITES.items():
        (folder := tmp_path / name).mkdir()
        source = FILES.replace("WRITE", write)
        if is_pickled := name == "torch.save":
            source = source.replace("json, os", "os, torch").replace("json.load(open(name))", "torch.load(name)")
        specs[name] = spec_of(
            source, folder, space=SPACE, scheduler=SMALL, name=name.replace(".", "-"),
            preload=("torch",) if is_pickled else (),
        )  # fmt: skip
        start(store, specs[name])
    with engine(store):
        for name, spec in specs.items():
            assert ended(store, spec) == "completed", name
            assert until(lambda spec=spec: verdict(store, spec), what="the verdict")["verdict"] == "identical", name
    import torch  # here, or each engine of this file would have it imported ahead

    for name, spec in specs.items():
        trained = outcome(store, spec)
        steps = {trial: max(row[2] for row in trained["points"] if row[0] == trial) for trial in trained["trials"]}
        for trial, (configuration, *_) in trained["trials"].items():
            file = tmp_path / name / f"{configuration['x']}.txt"
            seen = torch.load(file) if name == "torch.save" else json.loads(file.read_text())
            assert seen == list(range(steps[trial])), f"{name}: t{trial:04d}"


def test_without_verify_nothing_is_checked_and_a_stopped_search_drops_it(store: Store, tmp_path: Path) -> None:
    quiet = spec_of(PLAIN, tmp_path, space=SPACE, scheduler=SMALL, verify=False)
    stopped = spec_of(LONG, tmp_path, space=SPACE, name="long")
    start(store, quiet)
    with engine(store):
        assert ended(store, quiet) == "completed"
        start(store, stopped)
        until(lambda: lines(store, stopped, "VerifyDue"), what="a promotion")
        ask(store, asked.Stop(experiment=stopped.id))
        assert ended(store, stopped) == "stopped"
        assert until(lambda: verdict(store, stopped))["verdict"] == "not checked"
    assert verdict(store, quiet) is None
    assert not lines(store, quiet, "VerifyDue")


def test_a_check_makes_room_at_once_and_survives_its_engine(store: Store, tmp_path: Path) -> None:
    slow = LONG.replace("0.3", "1.0")  # the other search comes while it is checked
    first = spec_of(slow, tmp_path, space=SPACE, scheduler=SMALL, name="first", trials=3)
    second = spec_of(PLAIN, tmp_path, space=SPACE, scheduler=SMALL, name="second", verify=False)
    start(store, first)
    folder = store.experiment(first.id).folder / "checks"
    with engine(store, workers=1) as process:
        assert ended(store, first) == "completed"
        until(folder.exists, what="the check")
        start(store, second)
        assert ended(store, second) == "completed"
        # It was thrown out of the one slot, so it can only come to a verdict afterwards.
        assert verdict(store, first) is None
        until(lambda: [*folder.glob("t*.log.txt"), *folder.glob("t*.zip")], what="the check's second try")
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        with engine(store, workers=1):
            found = until(lambda: verdict(store, first), what="the verdict")
            assert running.state(store, first) == "completed"
    assert found["verdict"] == "identical"


def test_a_check_that_reports_nothing_is_ended_like_a_trial_and_given_up(store: Store, tmp_path: Path) -> None:
    file = tmp_path / "hangs"
    whole = Scheduler(kind="all", first=1, last=3)
    spec = spec_of(HANGING.format(file=str(file)), tmp_path, space=SPACE, scheduler=whole, trials=1, hang_s=1.0)
    start(store, spec)
    with engine(store, workers=1):
        assert ended(store, spec) == "completed"
        file.touch()
        experiment = Experiment.of(store, spec.id)
        found = experiment.verify(0)
        file.unlink()
        again = experiment.verify(0)
    assert (found.kind, again.kind) == ("could not", "identical")
    assert "lost 3 times: no report for " in found.words
