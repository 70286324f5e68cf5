"""Real searches in which training diverges: a result like any other, that ranks last and ends nothing."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from pathlib import Path

import pytest
from running import copied, ended, engine, lines, outcome, spec_of, start, until

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


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    """A store whose engine runs."""
    found = Store(tmp_path_factory.mktemp("shared") / "store").create()
    with engine(found):
        yield found


@pytest.mark.parametrize("rule", RULES)
def test_two_diverging_first_trials_end_neither_themselves_nor_the_search(
    store: Store, tmp_path: Path, rule: str
) -> None:
    trials = None if rule == "hyperband" else 9
    spec = spec_of(LOOP, tmp_path, space=SPACE, scheduler=RULES[rule], goal=GOAL, trials=trials, seed=3, name=rule)
    start(store, spec)
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
    rebuilt = copied(store, spec, tmp_path / "rebuilt")
    Catalog.rebuild(rebuilt)
    assert read_catalog(rebuilt)[0]["best"] == {"trial": best, "value": meta["best"]["value"]}


def test_a_search_in_which_all_diverge_ends_with_no_finite_value(store: Store, tmp_path: Path) -> None:
    nothing = "for epoch in trial.steps():\n    trial.report(loss=float('nan'))\n"
    spec = spec_of("x = uniform(0.0, 1.0)\n" + nothing, tmp_path, space=SPACE, goal=GOAL, name="all")
    alone = spec_of(nothing, tmp_path, goal=GOAL, scheduler=Scheduler("all", 3, 3), name="alone", trials=1)
    start(store, spec)
    start(store, alone)
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


def extended(store: Store, spec: Spec) -> str:
    assert ended(store, spec) == "completed"
    requests.put(store, {"kind": "extend", "experiment": spec.id, "last": 27, "reason": "more"})
    until(lambda: lines(store, spec, "Extended"), what="the extension")
    assert ended(store, spec) == "completed"
    return repr(outcome(store, spec))


def test_an_engine_that_is_killed_decides_the_same_afterwards(store: Store, tmp_path: Path) -> None:
    slow = LOOP.replace("    bad =", "    import time; time.sleep(0.03)\n    bad =")
    fields = {"space": SPACE, "goal": GOAL, "scheduler": RULES["hyperband"], "seed": 3}
    calm = spec_of(LOOP, tmp_path, name="calm", **fields)
    start(store, calm)
    expected = extended(store, calm)
    killed, spec = Store(tmp_path / "store").create(), spec_of(slow, tmp_path, **fields)
    start(killed, spec)
    with engine(killed) as process:
        until(lambda: len(lines(killed, spec, "Reached")) >= 6, what="levels")
        process.kill()
        process.wait()
    with engine(killed):
        assert extended(killed, spec) == expected
