"""Loops that count for themselves, in real searches: promotions, kills, checks, extensions, forks and replays."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pytest
from running import ended, engine, lines, spec_of, start, until

from workbench.experiment import Experiment
from workbench.records import Scheduler, Spec
from workbench.space import uniform
from workbench.store import Store, requests
from workbench.store.series import Series
from workbench.trial.api.own import SAVES_NOTHING

SPACE = {"x": uniform(0.0, 1.0)}
LOOP = """
x = uniform(0.0, 1.0)
import json, os, pathlib

class Trainer:
    def __init__(self):
        self.folder = pathlib.Path("own") / f"{os.getpid()}-{trial.number}"
        self.folder.mkdir(parents=True, exist_ok=True)
        saved = trial.restore() if SAVES else None
        self.done, self.total = json.loads((saved / "s.json").read_text()) if saved else (0, 0.0)

    def fit(self):
        while self.done < trial.max_steps:
            self.done += 1
            self.total = 0.9 * self.total + x
            self.die("first")
            (self.folder / "s.json").write_text(json.dumps([self.done, self.total]))
            if SAVES:
                trial.save(self.folder, step=self.done)
            self.die("between")
            if self.done % REPORTS == 0 and not trial.report(step=self.done, score=self.total):
                break
            self.die("late")

    def die(self, place):
        told = pathlib.Path(f"kill-{trial.number}-{self.done}-{place}")
        if told.exists():
            told.unlink()
            os.kill(os.getpid(), 9)

Trainer().fit()
"""
ASHA = Scheduler("asha", 1, 9, 3)


def source(*, saves: bool = True, reports: int = 1) -> str:
    return LOOP.replace("SAVES", str(saves)).replace("REPORTS", str(reports))


def expected(x: float, steps: int) -> list[float]:
    return list(itertools.accumulate(range(steps), lambda total, _: 0.9 * total + x, initial=0.0))[1:]


def shown(store: Store, spec: Spec) -> tuple[dict[int, dict[str, Any]], list[dict[str, Any]], dict[str, Any], Any]:
    with Series.read(store.experiment(spec.id).series) as series:
        rows = {row["number"]: row for row in series.trials()}
        return rows, series.legs(), series.meta(), series.points(names=["score"])


def check_reports(store: Store, spec: Spec, every: int = 1) -> None:
    rows, _, _, points = shown(store, spec)
    found: dict[int, list[tuple[int, float]]] = {}
    for trial, _, step, _, value, _ in points:
        found.setdefault(trial, []).append((step, value))
    assert found.keys() == rows.keys()
    for number, told in found.items():
        values = expected(rows[number]["configuration"]["x"], 40)
        steps = range(every, told[-1][0] + 1, every)
        assert told == [(step, values[step - 1]) for step in steps]


#: Where a trial's process is killed: the trial, the step, and between which two lines.
KILLS = {
    *((trial, 1 + trial % 2, ("first", "between", "late")[trial % 3]) for trial in range(9)),
    *((trial, 3, "between") for trial in range(9)),
    *((trial, 6, "late") for trial in range(9)),
}


@pytest.mark.parametrize(("saves", "reports"), [(True, 1), (True, 2), (False, 1)])
def test_every_report_is_the_undisturbed_ones_through_promotions_and_kills(
    tmp_path: Path, saves: bool, reports: int
) -> None:
    store = Store(tmp_path / "store").create()
    spec = spec_of(source(saves=saves, reports=reports), tmp_path, space=SPACE, scheduler=ASHA, trials=9, seed=1)
    for trial, step, place in KILLS:
        if saves or step < 3:
            (tmp_path / f"kill-{trial}-{step}-{place}").touch()
    start(store, spec)
    with engine(store):
        assert ended(store, spec) == "completed"
    check_reports(store, spec, reports)
    rows, legs, meta, _ = shown(store, spec)
    assert {row["state"] for row in rows.values()} == {"completed", "stopped"}
    assert [leg["outcome"] for leg in legs].count("died") >= (9 if saves else 5)
    resumed = [leg for leg in legs if leg["start"] and leg["outcome"] != "died"]
    assert bool(resumed) == saves, "without a checkpoint each leg begins at the beginning"
    assert meta.get("says", []) == ([] if saves else [SAVES_NOTHING])
    board = Experiment.of(store, spec.id)._look()
    assert (SAVES_NOTHING in board.notes) == (not saves)
    verdict = meta.get("verify")
    assert verdict is None or verdict["verdict"] == "identical", verdict
    told = [(line["trial"], line["step"]) for line in lines(store, spec, "Reached")]
    assert len(told) == len(set(told)), "each level is told once"


def test_a_promotion_is_checked_extended_and_goes_on(tmp_path: Path) -> None:
    store = Store(tmp_path / "store").create()
    spec = spec_of(source(), tmp_path, space=SPACE, scheduler=ASHA, trials=9, seed=1)
    start(store, spec)
    with engine(store):
        assert ended(store, spec) == "completed"
        until(lambda: shown(store, spec)[2].get("verify"), what="the check")
        assert shown(store, spec)[2]["verify"]["verdict"] == "identical"
        requests.put(store, {"kind": "extend", "experiment": spec.id, "last": 27, "reason": "more"})
        until(lambda: lines(store, spec, "Extended"), what="the extension")
        assert ended(store, spec) == "completed"
        check_reports(store, spec)
        experiment = Experiment.of(store, spec.id)
        assert experiment.best.step == 27
        # A fork goes on from what was saved.
        forked = experiment.best.fork(name="forked", max_steps=30, x=0.5)
        until(lambda: forked.is_ended, what="the fork")
        assert forked.state == "completed"
        begun = [leg["start"] for leg in shown(store, forked.spec)[1]]
        assert begun == [27]
        assert [step for _, _, step, _, _, _ in shown(store, forked.spec)[3]] == [28, 29, 30]
