"""Searches whose set-up makes something else each time: promoted trials go on with what was made the first time."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from running import ended, engine, spec_of, start, until

from workbench import asked
from workbench.asking import ask
from workbench.errors import BadOption
from workbench.experiment import Experiment
from workbench.records import Scheduler, Spec
from workbench.space import uniform
from workbench.store import Store
from workbench.store.series import Series

SPACE = {"x": uniform(0.0, 1.0)}
SPLIT = """
x = uniform(0.0, 1.0)
import os, time
import numpy as np
perm = np.random.default_rng({seed}).permutation(200)
train, val = perm[:150], perm[150:]
for epoch in trial.steps():
    trial.report(score=x * (epoch + 1), train=float(train[:9] @ np.arange(9)), val=float(val[0]))
"""


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "store").create()


def splits(store: Store, spec: Spec) -> dict[int, set[Any]]:
    """By trial, what its steps reported of the split."""
    found: dict[tuple[int, int], dict[str, float]] = {}
    # A point: trial, name, step, index, value, time.
    with Series.read(store.experiment(spec.id).series) as series:
        for trial, name, step, _, value, _ in series.points():
            found.setdefault((trial, step), {})[name] = value
    shown: dict[int, set[Any]] = {}
    for (trial, _), row in found.items():
        shown.setdefault(trial, set()).add((row["train"], row["val"]))
    return shown


@pytest.mark.parametrize("seed", ["time.time_ns()", "int.from_bytes(os.urandom(4), 'big')", ""])
@pytest.mark.parametrize("kind", ["asha", "hyperband"])
def test_a_promoted_trial_keeps_its_split(store: Store, tmp_path: Path, seed: str, kind: Any) -> None:
    scheduler = Scheduler(kind=kind, first=1, last=9, eta=3)
    spec = spec_of(SPLIT.format(seed=seed), tmp_path, space=SPACE, scheduler=scheduler, trials=12)
    start(store, spec)
    with engine(store):
        assert ended(store, spec) == "completed"
        experiment = Experiment.of(store, spec.id)
        found = until(lambda: Series.read(store.experiment(spec.id).series).meta().get("verify"), what="the verdict")
        assert (found["verdict"], found["state"]) == ("identical", "identical"), found["words"]
        with Series.read(store.experiment(spec.id).series) as series:
            late = max(row["number"] for row in series.trials() if row["state"] == "completed")
        assert experiment.verify(late)
        if seed:
            with pytest.raises(BadOption, match="began before it was known that its set-up makes perm"):
                ask(store, asked.Verify(experiment=spec.id, trial=0, step=1))
    by_trial = splits(store, spec)
    assert all(len(shown) == 1 for shown in by_trial.values()), by_trial
    assert len({next(iter(shown)) for shown in by_trial.values()}) == len(by_trial)
    names = json.loads(store.experiment(spec.id).setup.read_text())["names"]
    assert ("perm" in names) == bool(seed)


def test_where_a_file_grew_during_the_search_promotions_fail_by_name(store: Store, tmp_path: Path) -> None:
    source = """
x = uniform(0.0, 1.0)
rows = [float(line) for line in open("data.csv")]
for epoch in trial.steps():
    trial.report(score=x + sum(rows))
    if trial.number == 0 and epoch == 0 and len(rows) == 2:
        open("data.csv", "a").write("3\\n")
"""
    (tmp_path / "data.csv").write_text("1\n2\n")
    spec = spec_of(source, tmp_path, space=SPACE, scheduler=Scheduler(kind="hyperband", first=1, last=3, eta=3))
    start(store, spec)
    with engine(store, workers=1):
        assert ended(store, spec) in ("completed", "failed")
    with Series.read(store.experiment(spec.id).series) as series:
        failed = [row for row in series.trials() if row["state"] == "failed"]
        points = series.points(names=["score"])
    sums = {trial: set() for trial, *_ in points}
    for trial, _, _, _, value, _ in points:
        sums[trial].add(round(value) // 3)
    assert all(len(one) == 1 for one in sums.values())  # no trial was trained on two versions of the file
    for row in failed:
        assert "rows" in row["error"]["message"]
        assert "data.csv changed" in row["error"]["message"]
