"""Searches that need the same slots: each has its share, trials make room by a checkpoint, and no result changes."""

from __future__ import annotations

import dataclasses
import os
import signal
import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from contending import NEAR_S, Step, farthest, long, steps_of
from gang_world import HASTY
from running import (
    end_found,
    ended,
    engine,
    engine_process,
    few_cores,
    lines,
    most_at_once,
    outcome,
    spec_of,
    start,
    until,
)

from workbench.records import Scheduler, Spec
from workbench.space import uniform
from workbench.store import Store
from workbench.store.series import Series


@pytest.fixture
def runtime(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A runtime folder of its own, and one core."""
    with few_cores(tmp_path, monkeypatch, 1):
        yield


def alone(tmp_path: Path, store: Store, *specs: Spec) -> list[Any]:
    """What these searches find if each trains alone."""
    found = []
    for spec in specs:
        calm = dataclasses.replace(spec, id=f"{spec.id}c", name=f"{spec.name}-calm")
        start(store, calm)
        assert ended(store, calm) == "completed"
        found.append(outcome(store, calm))
    (tmp_path / "steps").unlink()
    return found


def turns(found: list[Step]) -> int:
    """How often the slot changed hands."""
    ordered = sorted(found, key=lambda step: step[1])
    return sum(one[0] != other[0] for one, other in pairwise(ordered))


def test_two_searches_of_one_engine_take_turns_in_one_slot(tmp_path: Path, runtime: None) -> None:
    store = Store(tmp_path / "store").create()
    first, second = long(tmp_path, "first", 160), long(tmp_path, "second", 140)
    with engine(store, workers=1, program=("-c", HASTY)):
        calm = alone(tmp_path, store, first, second)
        start(store, first)
        until(lambda: len(steps_of(tmp_path)) > 3, what="the first search")
        start(store, second)
        assert [ended(store, one) for one in (first, second)] == ["completed"] * 2
    assert [outcome(store, first), outcome(store, second)] == calm
    found = steps_of(tmp_path)
    assert turns(found) >= 3, "first, second, first, second"
    assert all(one[2] <= other[1] for one, other in pairwise(sorted(found, key=lambda step: step[1]))), "one slot"
    (asked, *_) = lines(store, first, "RoomAsked")
    assert asked["reason"] == "made room for second@1"
    (stop, *_) = lines(store, first, "Stop")
    assert (stop["then"], stop["reason"]) == ("paused", "made room for second@1")


def steps_beside(folder: Path, light: Store, heavy: Store, one: Spec, three: Spec, workers: int) -> list[Step]:
    """The steps of ``one`` and ``three``, searches of two engines, from when ``three`` is started until it ends."""
    hasty: dict[str, Any] = {"workers": workers, "program": ("-c", HASTY)}
    with engine(light, **hasty), engine(heavy, **hasty):
        start(light, one)
        until(lambda: len(steps_of(folder)) > 3, what="the first search")
        asked = time.monotonic()
        start(heavy, three)
        assert ended(heavy, three) == "completed"
        return [step for step in steps_of(folder) if step[1] >= asked]


def test_two_engines_share_a_slot_by_weight(tmp_path: Path, runtime: None) -> None:
    light, heavy = Store(tmp_path / "light").create(), Store(tmp_path / "heavy").create()
    one, three = long(tmp_path, "one", 900), long(tmp_path, "three", 300, weight=3.0)
    both = steps_beside(tmp_path, light, heavy, one, three, workers=1)
    assert farthest(both, "three", due=0.75) < NEAR_S
    assert turns(both) >= 3
    assert lines(light, one, "RoomAsked")[0]["reason"] == f"made room for {heavy.root} (three@1)"
    assert f"made room for {light.root} (one@1)" in {line["reason"] for line in lines(heavy, three, "RoomAsked")}


def test_two_engines_that_could_both_use_all_slots_share_them_by_weight(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    light, heavy = Store(tmp_path / "light").create(), Store(tmp_path / "heavy").create()
    one, three = long(tmp_path, "one", 900, 2), long(tmp_path, "three", 280, 2, weight=3.0)
    with few_cores(tmp_path, monkeypatch, 2):
        both = steps_beside(tmp_path, light, heavy, one, three, workers=2)
    assert farthest(both, "three", due=0.75) < NEAR_S


def test_a_higher_priority_comes_first_and_a_killed_engine_forgets_nothing(tmp_path: Path, runtime: None) -> None:
    store = Store(tmp_path / "store").create()
    low, high = long(tmp_path, "low", 80), long(tmp_path, "high", 60, priority=1)
    with engine(store, workers=1, program=("-c", HASTY)) as process:
        calm = alone(tmp_path, store, low, high)
        start(store, low)
        until(lambda: len(steps_of(tmp_path)) > 3, what="the search of low priority")
        start(store, high)
        until(lambda: lines(store, low, "RoomAsked"), what="room")
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        again = engine_process(store, workers=1, program=("-c", HASTY))
        try:
            assert ended(store, high) == "completed"
            with Series.read(store.experiment(low.id).series) as series:
                (trial,) = series.trials()
            assert trial["state"] != "completed", "it waits while the other trains"
            assert ended(store, low) == "completed"
        finally:
            again.kill()
            again.wait()
            end_found(store.root)
    assert [outcome(store, low), outcome(store, high)] == calm
    found = sorted(steps_of(tmp_path), key=lambda step: step[1])
    highs = [at for at, step in enumerate(found) if step[0] == "high"]
    between = [step for step in found[highs[0] : highs[-1]] if step[0] == "low"]
    assert len(between) <= 1, "no step of the other in between"


#: One trial of the second rung trains long while all others wait for it, or rather for the rung to be full.
RUNGS = """
x = uniform(0.0, 1.0)
import os, time
for epoch in trial.steps():
    while epoch >= 1 and not os.path.exists({gate!r}):
        time.sleep(0.02)
    trial.report(score=x)
"""


def test_a_search_that_waits_at_a_rung_lends_its_slots(tmp_path: Path, runtime: None) -> None:
    store, gate = Store(tmp_path / "store").create(), tmp_path / "gate"
    rungs = spec_of(
        RUNGS.format(gate=str(gate)), tmp_path, name="rungs", space={"x": uniform(0.0, 1.0)}, trials=3, verify=False,
        scheduler=Scheduler(kind="hyperband", first=1, last=3, eta=3),
    )  # fmt: skip
    other = long(tmp_path, "other", 40, trials=8)
    with engine(store, workers=3):
        start(store, rungs)
        until(lambda: len(lines(store, rungs, "Reached")) >= 3, what="the first rung")
        start(store, other)
        # A third of the machine is what the one trial needs; its search's share would be half of it.
        until(lambda: most_at_once(steps_of(tmp_path)) == 2, what="two slots of three")
        time_lent = time.monotonic()
        gate.touch()
        assert ended(store, rungs) == "completed"
        assert time.monotonic() - time_lent < 20
        assert ended(store, other) == "completed"
