"""Several seeds and folds of each configuration, on a real engine: killed in the middle, read, loaded, repeated."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from running import ended, engine, lines, outcome, spec_of, start, until

from workbench.experiment import Experiment
from workbench.records import Scheduler
from workbench.records.names import trial_label
from workbench.space import choice, loguniform
from workbench.standing import ranked
from workbench.store import Store

CODE = """
import random, time
lr = loguniform(1e-3, 1.0)
fold = choice("a", "b", repeat=True)
luck = random.random()
for epoch in trial.steps():
    time.sleep(0.02)
    trial.report(score=-abs(lr - 0.1) - 0.1 * (fold == "b") + 0.01 * luck - 1 / (epoch + 1))
"""
SPACE = {"lr": loguniform(1e-3, 1.0), "fold": choice("a", "b", repeat=True)}


def test_a_search_over_seeds_and_folds(tmp_path: Path) -> None:
    store = Store(tmp_path / "store").create()
    about = {"space": SPACE, "scheduler": Scheduler("hyperband", 1, 9, 3), "trials": 9, "seeds_each": 2}
    calm, killed = (spec_of(CODE, tmp_path, name=name, **about) for name in ("calm", "killed"))
    start(store, calm)
    with engine(store):
        assert ended(store, calm) == "completed"
    start(store, killed)
    with engine(store) as process:
        until(lambda: any(line["start"] > 0 for line in lines(store, killed, "LegStarted")), 60, "a promotion")
        process.kill()
        process.wait()
    with engine(store):
        assert ended(store, killed) == "completed"
        assert outcome(store, killed) == outcome(store, calm)

        exp = Experiment.of(store, killed.id)
        rows = exp.trials
        assert len(rows) == 9 * 4
        assert sorted(rows["fold"].value_counts()) == [18, 18]
        top = rows[rows["state"] == "completed"]
        assert list(top["mean"].unique()) == [pytest.approx(top["score"].mean())]
        found = exp.configurations
        assert list(found.columns) == ["step", "mean", "deviation", "trials", "lr"]
        assert found["step"].tolist() == [9, 3, 3, 1, 1, 1, 1, 1, 1]
        first = found.iloc[0]
        assert first["trials"].split() == sorted(top.index)
        assert first["deviation"] == pytest.approx(top["score"].std())
        assert exp.best.label in top.index
        assert sorted(rows.index[:4]) == sorted(top.index)
        # What the rows say of themselves gives the same order, without being told which is the best.
        order = [trial_label(row["number"]) for row in ranked(exp._look().trials.values(), "max")]
        assert order == [*rows.index]
        assert order[0] == exp.best.label
        assert exp.best.value == top["score"].max()
        assert f"mean {first['mean']:.4g} ± " in repr(exp)
        best = exp._look().status.best
        assert best is not None
        assert best.spread is not None
        assert (best.spread.trials, math.isclose(best.spread.mean, first["mean"])) == (4, True)
        assert exp.best.load().luck < 1
        again = exp.replay(exp.best)
        again.wait()
    assert again.verdict == "identical", str(again)
