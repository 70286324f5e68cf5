"""What is not as it should be stands in the last line: failures, what was resumed inexactly, the check of resuming."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from running import PLAIN, ended, engine, spec_of, start, until

from workbench.experiment import Experiment
from workbench.live.plain import Progress
from workbench.records import ENDED, Scheduler, Spec
from workbench.space import uniform
from workbench.standing import Best
from workbench.status.board import Board
from workbench.status.figure import heading
from workbench.store import Store
from workbench.store.lists.catalog import read_catalog
from workbench_ext.server import experiments, pages

SPACE = {"x": uniform(0.0, 1.0)}
SMALL = Scheduler(kind="hyperband", first=1, last=3, eta=3)

INEXACT = """
x = uniform(0.0, 1.0)
def counted():
    n = 0
    while True:
        n += 1
        yield n
it, bar = counted(), (0.5 for _ in range(100))
for epoch in trial.steps():
    trial.report(score=x * next(it) + next(bar))
"""
FAILING = """
x = uniform(0.0, 1.0)
for epoch in trial.steps():
    if trial.number in (1, 2, 4):
        raise ZeroDivisionError(f"division of {trial.number} by zero")
    if trial.number == 5:
        raise KeyError("lr")
    trial.report(score=x)
"""
PROMOTED = """
x = uniform(0.0, 1.0)
for epoch in trial.steps():
    if epoch == 1:
        raise ValueError("the second step is too much")
    trial.report(score=x)
"""


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "store").create()


def is_over(row: Any) -> bool:
    return row["state"] in ENDED and row.get("verify") != "waiting"


def finished(store: Store, spec: Spec) -> list[str]:
    """Train it, and what a cell said line by line, until its last line stood."""
    said: list[str] = []
    start(store, spec)
    with engine(store):
        ended(store, spec)
        board = Board(store, spec.id)
        lines = Progress(board, said.append)
        until(lambda: lines.look() or board.is_settled, what="the last line")
        lines.look()
        board.close()
        # An engine that is ended before leaves the check's result to the next one; a row from before the search's end
        # knows of no check yet.
        until(lambda: all(map(is_over, read_catalog(store))), what="the catalog")
    return said


def board_of(store: Store, spec: Spec) -> Board:
    board = Board(store, spec.id)
    board.look()
    return board


def cli(store: Store, *words: str) -> str:
    line = [sys.executable, "-m", "workbench", "--store", str(store.root), *words]
    return subprocess.run(line, capture_output=True, text=True, timeout=60, check=True).stdout


def line(store: Store, spec: Spec) -> Any:
    return experiments.experiment(store, spec.id)["experiment"]


def test_what_was_resumed_inexactly_is_said_by_every_face(store: Store, tmp_path: Path) -> None:
    spec = spec_of(INEXACT, tmp_path, space=SPACE, scheduler=SMALL)
    last = finished(store, spec)[-1]
    board = board_of(store, spec)
    lost = {number: row["inexact"] for number, row in board.trials.items() if row.get("inexact")}
    resumed = {leg["trial"] for leg in board.series.legs() if leg["start"]}  # type: ignore[union-attr]
    assert set(lost) == resumed
    words = f"resumed inexactly: it, bar ({len(lost)} trial{'s' * (len(lost) > 1)})"
    assert f"; {words}; resume checked: differs from step 2: score" in last
    assert words in board.notes
    assert words in heading(board)[1]
    told = cli(store, "show", spec.id)
    assert f"{words}; resume checked: differs from step 2: score" in told
    assert "resumed inexactly: it, bar" in told.partition("trial ")[2]
    assert words in cli(store, "ls")
    one = next(iter(lost))
    assert "inexactly: it (an iterator or generator cannot be saved" in cli(store, "show", f"{spec.id}/t{one:04}")
    table = Experiment.of(store, spec.id).trials
    assert set(table[table["inexact"] == "it, bar"].index) == {f"t{number:04}" for number in lost}
    assert line(store, spec)["outcome"]["inexact"] == words
    assert pages.page(store, spec.id, one)["inexact"].startswith("it (an iterator or generator")
    never = next(number for number in board.trials if number not in lost)
    assert pages.page(store, spec.id, never)["inexact"] == ""


def test_where_resuming_was_exact_the_last_line_says_so(store: Store, tmp_path: Path) -> None:
    spec = spec_of(PLAIN, tmp_path, space=SPACE, scheduler=SMALL)
    assert finished(store, spec)[-1].endswith("; resume checked: identical")
    assert "resume checked: identical" in cli(store, "show", spec.id)
    assert "inexact" not in Experiment.of(store, spec.id).trials
    until(lambda: line(store, spec)["outcome"]["checked"] == "resume checked: identical", what="the catalog")
    assert not any(line(store, spec)["outcome"][name] for name in ("failed", "inexact", "promoted"))


def test_where_nothing_is_seeded_the_last_line_says_that_nothing_was_checked(store: Store, tmp_path: Path) -> None:
    spec = spec_of(PLAIN, tmp_path, space=SPACE, scheduler=SMALL, deterministic="off")
    assert finished(store, spec)[-1].endswith("; resume not checked: --deterministic off seeds nothing")


def test_failures_are_counted_and_the_commonest_is_named(store: Store, tmp_path: Path) -> None:
    every = Scheduler(kind="all", first=1, last=1)
    spec = spec_of(FAILING, tmp_path, space=SPACE, scheduler=every, trials=6)
    last = finished(store, spec)[-1]
    why = "4 failed (3 of them: ZeroDivisionError: division of 1 by zero (line 5))"
    assert f"{spec.label} completed: 6 trials, {why}, in " in last
    assert ", best score 0." in last
    assert why in board_of(store, spec).notes
    assert why in cli(store, "show", spec.id)
    assert f"6/6, {why}" in cli(store, "ls")
    assert line(store, spec)["outcome"]["failed"] == why


def test_where_all_promoted_trials_failed_the_best_is_that_of_the_others(store: Store, tmp_path: Path) -> None:
    wide = Scheduler(kind="asha", first=1, last=3, eta=3)
    spec = spec_of(PROMOTED, tmp_path, space=SPACE, scheduler=wide, trials=6)
    last = finished(store, spec)[-1]
    board = board_of(store, spec)
    failed = {number for number, row in board.trials.items() if row["state"] == "failed"}
    best = max((row["value"], number) for number, row in board.trials.items() if number not in failed)
    assert failed
    assert board.status.best == Best(best[1], best[0])
    all_of = "the one promoted trial failed" if len(failed) == 1 else f"all {len(failed)} promoted trials failed"
    assert f", best of the trials that did not fail, at step 1: score 0.{str(best[0])[2:6]}"[:-1] in last
    assert f"; {all_of}" in last
    assert f"best of the trials that did not fail, at step 1; {all_of}" in cli(store, "show", spec.id)
    assert line(store, spec)["outcome"]["promoted"].endswith(all_of)
    assert line(store, spec)["best"]["trial"] == f"t{best[1]:04}"
    assert f"by t{best[1]:04} at step 1" in board.meta["reason"]


def test_an_engine_that_begins_again_knows_what_went_wrong(store: Store, tmp_path: Path) -> None:
    spec = spec_of(FAILING, tmp_path, space=SPACE, scheduler=Scheduler(kind="all", first=1, last=1), trials=6)
    said = finished(store, spec)[-1]
    before = line(store, spec)["outcome"]
    with engine(store):
        until(lambda: line(store, spec)["state"] == "completed", what="the engine")
        assert line(store, spec)["outcome"] == before
    assert finished_line(store, spec) == said


def finished_line(store: Store, spec: Spec) -> str:
    from workbench.status.board import sentence

    return sentence(board_of(store, spec))
