"""Real searches in which training diverges: a result like any other, that ranks last and ends nothing."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
from running import ended, engine, lines, outcome, spec_of, start, until

from workbench.experiment import Experiment
from workbench.records import Goal, Scheduler, Spec
from workbench.space import uniform
from workbench.store import Store, requests
from workbench.store.lists.catalog import Catalog, read_catalog
from workbench.store.lists.ladder import ladder
from workbench.store.series import Series

SPACE = {"x": uniform(0.0, 1.0)}
#: The first two trials diverge at once, each other one with x above 0.7 at its third step, the wrong way round.
LOOP = """
x = uniform(0.0, 1.0)
for epoch in trial.steps():
    bad = trial.number < 2 or (x > 0.7 and epoch >= 2)
    trial.report(loss=-float("inf") if bad and trial.number % 2 else float("nan") if bad else x + 1 / (1 + epoch))
"""
GOAL = Goal("loss", "min")
RULES = {
    "hyperband": Scheduler("hyperband", 1, 9, 3),
    "asha": Scheduler("asha", 1, 9, 3),
    "asha-stop": Scheduler("asha", 1, 9, 3, mode="stop"),
    "median": Scheduler("median", 1, 9),
    "all": Scheduler("all", 1, 9),
}


def rows(store, spec):
    with Series.read(store.experiment(spec.id).series) as series:
        return {row["number"]: row for row in series.trials()}, series.meta()


@pytest.mark.parametrize("rule", RULES)
def test_two_diverging_first_trials_end_neither_themselves_nor_the_search(tmp_path: Path, rule: str) -> None:
    store = Store(tmp_path / "store").create()
    trials = None if rule == "hyperband" else 9
    spec = spec_of(LOOP, tmp_path, space=SPACE, scheduler=RULES[rule], goal=GOAL, trials=trials, seed=3)
    start(store, spec)
    with engine(store):
        assert ended(store, spec) == "completed"
        trained, meta = rows(store, spec)
        assert {row["state"] for row in trained.values()} <= {"completed", "stopped"}
        bad = [number for number, row in trained.items() if not math.isfinite(row["value"])]
        assert {0, 1} <= set(bad)
        assert meta["diverged"] == len(bad)
        best = meta["best"]["trial"]
        assert best not in bad
        assert trained[best]["value"] == meta["best"]["value"]
        assert ladder(store, spec.id)["ladder"]["best"]["trial"] == best
        experiment = Experiment.of(store, spec.id)
        assert f", {len(bad)} trials diverged" in repr(experiment)
        assert experiment.best.number == best
        assert not math.isfinite(experiment.trials["loss"]["t0000"])
        # The journal is JSON that any program reads.
        for line in store.experiment(spec.id).journal.read_text().splitlines():
            json.loads(line, parse_constant=lambda word: pytest.fail(f"{word} is not valid JSON"))
        Catalog.rebuild(store)
        assert read_catalog(store)[0]["best"] == {"trial": best, "value": meta["best"]["value"]}


def test_a_search_in_which_all_diverge_ends_with_no_finite_value(tmp_path: Path) -> None:
    store = Store(tmp_path / "store").create()
    nothing = "for epoch in trial.steps():\n    trial.report(loss=float('nan'))\n"
    spec = spec_of("x = uniform(0.0, 1.0)\n" + nothing, tmp_path, space=SPACE, goal=GOAL)
    alone = spec_of(nothing, tmp_path, goal=GOAL, scheduler=Scheduler("all", 3, 3), name="alone", trials=1)
    start(store, spec)
    start(store, alone)
    with engine(store):
        assert ended(store, spec) == ended(store, alone) == "completed"
    trained, meta = rows(store, spec)
    # Nothing is promoted: each trial came to the first level of its bracket, and those that have one only to the end.
    assert {(row["state"], row["step"]) for row in trained.values()} == {
        ("stopped", 1),
        ("stopped", 3),
        ("completed", 9),
    }
    assert meta["best"] is None
    assert meta["reason"].endswith("; no finite loss")
    one, _ = rows(store, alone)
    assert (one[0]["state"], one[0]["step"], one[0]["reason"]) == ("completed", 3, "all 3 steps: loss diverged")
    assert repr(Experiment.of(store, alone.id)).endswith("(1 trial, 1 completed; no finite loss), 1 trial diverged>")


def trained_and_extended(store: Store, spec: Spec, *, kill: bool) -> dict[str, Any]:
    start(store, spec)
    if kill:
        with engine(store) as process:
            until(lambda: len(lines(store, spec, "Reached")) >= 6, what="levels")
            process.kill()
            process.wait()
    with engine(store):
        assert ended(store, spec) == "completed"
        requests.put(store, {"kind": "extend", "experiment": spec.id, "last": 27, "reason": "more"})
        until(lambda: lines(store, spec, "Extended"), what="the extension")
        assert ended(store, spec) == "completed"
    return outcome(store, spec)


def test_an_engine_that_is_killed_decides_the_same_afterwards(tmp_path: Path) -> None:
    slow = LOOP.replace("    bad =", "    import time; time.sleep(0.03)\n    bad =")
    outcomes = []
    for kill in (False, True):
        store = Store(tmp_path / f"store-{kill}").create()
        spec = spec_of(slow, tmp_path, space=SPACE, goal=GOAL, scheduler=RULES["hyperband"], seed=3)
        outcomes.append(repr(trained_and_extended(store, spec, kill=kill)))
    assert outcomes[0] == outcomes[1]
