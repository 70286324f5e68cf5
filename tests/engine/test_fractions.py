"""Trials that have a part of a slot: several train in one slot at the same time, and no result changes by that."""

from __future__ import annotations

import dataclasses
import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from gang_world import HASTY
from running import (
    ended,
    engine,
    engine_on_cores,
    engine_process,
    lines,
    meta,
    most_at_once,
    outcome,
    spec_of,
    start,
    state,
    until,
)

from workbench.records import Scheduler, Spec
from workbench.space import uniform
from workbench.store import Store, requests
from workbench.store.owner.slots import drain, holders, use_again
from workbench.store.series import Series

#: Draws numbers at each step, so that a resumed trial differs if anything of its state is lost. Before its first step
#: it waits until as many trials of its experiment as ``together`` have come as far: they cannot one after another.
#: A step takes a while, so that trials train at the same time; while a file "calm" exists, it takes none.
LOOP = """
x = uniform(0.0, 1.0)
import json, os, random, time
from pathlib import Path
total, place = 0.0, Path({folder!r})
(place / f"{name}-{{trial.number}}-here").touch()
while len(list(place.glob("{name}-*-here"))) < {together}:
    time.sleep(0.01)
for epoch in trial.steps():
    begun = time.monotonic()
    time.sleep(0.001 if (place / "calm").exists() else {pause})
    total = 0.9 * total + x * random.random()
    with open(place / "steps", "a") as file:
        step = [{name!r}, begun, time.monotonic(), os.getpid(), trial.number]
        file.write(json.dumps(step) + "\\n")
    trial.report(score=total, noise=random.random())
"""


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    """A store whose engine has two workers."""
    with engine_on_cores(tmp_path_factory.mktemp("shared"), cores=2, workers=2) as found:
        yield found


def parts(
    tmp_path: Path, slots: float, trials: int, steps: int = 6, name: str = "parts", *, pause: float = 0.02,
    together: int = 0, **more: Any,
) -> Spec:  # fmt: skip
    source = LOOP.format(folder=str(tmp_path), name=name, pause=pause, together=together)
    fields: dict[str, Any] = {"scheduler": Scheduler(kind="all", first=steps, last=steps), "verify": False} | more
    space = {"x": uniform(0.0, 1.0)}
    return spec_of(source, tmp_path, name=name, space=space, slots=slots, trials=trials, probe=False, **fields)


def steps_of(tmp_path: Path, name: str = "") -> list[Any]:
    """The steps so far, of one search or of all: its name; when it began and ended; its process, its trial."""
    path = tmp_path / "steps"
    every = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    return [step for step in every if name in ("", step[0])]


def calm(tmp_path: Path, store: Store, spec: Spec) -> dict[str, Any]:
    """What the search finds with whole slots, if nothing disturbs it."""
    alone = dataclasses.replace(spec, id=f"{spec.id}c", name=f"{spec.name}-calm", slots=1)
    (tmp_path / "calm").touch()
    start(store, alone)
    assert ended(store, alone) == "completed"
    (tmp_path / "calm").unlink()
    (tmp_path / "steps").unlink()
    # With these marks there, the trials of the next search would not wait for each other.
    for mark in tmp_path.glob("*-here"):
        mark.unlink()
    return outcome(store, alone)


def spans(found: list[Any]) -> list[tuple[str, float, float]]:
    """The time of each trial, from its first step to its last."""
    each: dict[Any, tuple[str, float, float]] = {}
    for name, begun, end, _, trial in found:
        before = each.get((name, trial), (name, begun, end))
        each[name, trial] = (name, min(before[1], begun), max(before[2], end))
    return list(each.values())


def legs_of(store: Store, spec: Spec) -> list[dict[str, Any]]:
    with Series.read(store.experiment(spec.id).series) as series:
        return series.legs()


def test_a_killed_engine_is_followed_by_one_that_takes_all_of_them_over(tmp_path: Path, runtime: None) -> None:
    store = Store(tmp_path / "store").create()
    spec = parts(tmp_path, 0.5, 8, 40, pause=0.05)
    process = engine_process(store, workers=2)
    try:
        expected = calm(tmp_path, store, spec)
        start(store, spec)
        until(lambda: len({step[4] for step in steps_of(tmp_path)}) == 4, what="steps of four trials")
    finally:
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
    before = {step[4]: step[3] for step in steps_of(tmp_path)}
    with engine(store, workers=2):
        assert ended(store, spec) == "completed"
    assert outcome(store, spec) == expected
    assert len(before) == 4
    assert {trial: {step[3] for step in steps_of(tmp_path) if step[4] == trial} for trial in before} == {
        trial: {pid} for trial, pid in before.items()
    }, "each goes on in its process"
    assert most_at_once(spans(steps_of(tmp_path))) == 4


def test_a_search_of_parts_and_one_of_whole_slots_share_by_slots(tmp_path: Path, runtime: None) -> None:
    store = Store(tmp_path / "store").create()
    quarter = parts(tmp_path, 0.25, 8, 150, "quarter", pause=0.15)
    whole = parts(tmp_path, 1, 2, 30, "whole", pause=0.05)
    with engine(store, workers=2, program=("-c", HASTY)):
        expected = [calm(tmp_path, store, spec) for spec in (quarter, whole)]
        start(store, quarter)
        until(lambda: len({step[4] for step in steps_of(tmp_path, "quarter")}) == 8, what="steps of eight trials")
        start(store, whole)
        assert ended(store, whole) == "completed"
        (tmp_path / "calm").touch()
        assert ended(store, quarter) == "completed"
    assert [outcome(store, spec) for spec in (quarter, whole)] == expected
    # All four of one slot made room together, and the others trained on.
    asked = lines(store, quarter, "RoomAsked")
    assert {line["reason"] for line in asked} == {"made room for whole@1"}
    assert len({line["trial"] for line in asked[:4]}) == 4
    found = steps_of(tmp_path, "whole")
    both = min(step[1] for step in found), max(step[2] for step in found)
    beside = [step for step in steps_of(tmp_path, "quarter") if both[0] < step[1] and step[2] < both[1]]
    assert len({step[4] for step in beside}) >= 4
    for step in found:  # a slot has trials of one of them at a time
        there = [one for one in beside if one[1] < step[2] and step[1] < one[2]]
        assert most_at_once([("quarter", *one[1:3]) for one in there]) <= 4, (step, there)


def test_two_slots_train_four_halves_at_once_and_find_what_whole_slots_find(tmp_path: Path, store: Store) -> None:
    spec = parts(tmp_path, 0.5, 8, name="halves")
    expected = calm(tmp_path, store, spec)
    meeting = dataclasses.replace(parts(tmp_path, 0.5, 8, name="halves", together=4), id=spec.id)
    start(store, meeting)
    assert ended(store, meeting) == "completed"
    assert outcome(store, meeting) == expected
    assert most_at_once(spans(steps_of(tmp_path))) == 4
    assert len({leg["slot"] for leg in legs_of(store, meeting)}) == 2
    assert {leg["parts"] for leg in legs_of(store, meeting)} == {2}


def test_sixteen_trials_train_in_one_slot_at_once(tmp_path: Path, store: Store) -> None:
    """More than Dask gives a worker threads for."""
    spec = parts(tmp_path, 1 / 16, 16, name="sixteen", parallel=1, together=16)
    start(store, spec)
    assert ended(store, spec) == "completed"
    assert most_at_once(spans(steps_of(tmp_path))) == 16


def test_parallel_counts_slots_and_not_trials(tmp_path: Path, store: Store) -> None:
    spec = parts(tmp_path, 0.5, 6, name="parallel", parallel=1, together=2)
    start(store, spec)
    assert ended(store, spec) == "completed"
    assert most_at_once(spans(steps_of(tmp_path))) == 2
    assert len({leg["slot"] for leg in legs_of(store, spec)}) == 1


def test_a_killed_trial_leaves_the_others_of_its_slot_alone(tmp_path: Path, store: Store) -> None:
    spec = parts(tmp_path, 0.25, 4, 40, "trial", parallel=1, pause=0.05, checkpoint_s=0.05)
    expected = calm(tmp_path, store, spec)
    start(store, spec)
    until(lambda: len({step[4] for step in steps_of(tmp_path) if step[2]}) == 4, what="steps of all")
    pids = {step[4]: step[3] for step in steps_of(tmp_path)}
    os.kill(pids[2], signal.SIGKILL)
    until(lambda: lines(store, spec, "Lost"), what="the loss")
    assert ended(store, spec) == "completed"
    assert outcome(store, spec) == expected
    assert [line["trial"] for line in lines(store, spec, "Lost")] == [2]
    assert {trial: len({step[3] for step in steps_of(tmp_path) if step[4] == trial}) for trial in range(4)} == {
        0: 1, 1: 1, 2: 2, 3: 1
    }  # fmt: skip


def test_a_killed_worker_costs_all_trials_of_its_slot_a_retry_and_no_result(tmp_path: Path, store: Store) -> None:
    spec = parts(tmp_path, 0.25, 4, 40, "worker", parallel=1, pause=0.05, checkpoint_s=0.05)
    expected = calm(tmp_path, store, spec)
    start(store, spec)
    until(lambda: len({step[4] for step in steps_of(tmp_path)}) == 4, what="steps of all")
    (pid,) = {holder.pid for holder in holders() if holder.experiment == spec.label}
    os.kill(pid, signal.SIGKILL)
    until(lambda: len(lines(store, spec, "Lost")) == 4, what="the loss of all")
    assert ended(store, spec) == "completed"
    assert outcome(store, spec) == expected
    assert not lines(store, spec, "SetAside")


def test_a_pause_a_drain_and_an_end_of_the_drain_change_nothing(tmp_path: Path, store: Store) -> None:
    spec = parts(tmp_path, 0.5, 6, 30, "drained", pause=0.05)
    expected = calm(tmp_path, store, spec)
    start(store, spec)
    until(lambda: len({step[4] for step in steps_of(tmp_path)}) == 4, what="steps of four trials")
    name = holders()[0].slot
    drain(name)
    until(lambda: name not in {holder.slot for holder in holders()}, what="the drained slot being empty")
    made = {line["trial"] for line in lines(store, spec, "RoomAsked")}
    assert len(made) == 2, "both that trained there"
    use_again(name)
    requests.put(store, {"kind": "pause", "experiment": spec.id})
    until(lambda: state(store, spec) == "paused", what="the pause")
    until(lambda: not meta(store, spec)["slots"]["used"], what="empty slots")
    requests.put(store, {"kind": "resume", "experiment": spec.id})
    assert ended(store, spec) == "completed"
    assert outcome(store, spec) == expected


def test_the_first_promotion_is_checked_and_the_same(tmp_path: Path, store: Store) -> None:
    rungs = Scheduler(kind="hyperband", first=1, last=9, eta=3)
    spec = parts(tmp_path, 0.5, 9, name="promoted", scheduler=rungs, verify=True)
    expected = calm(tmp_path, store, spec)
    start(store, spec)
    assert ended(store, spec) == "completed"
    found = until(lambda: meta(store, spec).get("verify"), what="the check of the first promotion")
    assert outcome(store, spec) == expected
    assert found["verdict"] == "identical", found
