"""``--slots auto``: how many trials share a slot follows from what the first one was measured to need."""

from __future__ import annotations

import dataclasses
import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from grouped import ENTERING, limited
from hypothesis import given
from hypothesis import strategies as st
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
    until,
)

from workbench.cluster.backend import Slot, Survivor
from workbench.cluster.workers.unheard import Unheard
from workbench.engine.legs.dividing import Need, amount, needed, parts, words
from workbench.engine.legs.leg import Leg
from workbench.engine.legs.legbook import LegBook
from workbench.engine.legs.orders import leg_order
from workbench.facts import CapacityChanged, Lost, Run
from workbench.messages import Begun, Left, Level, Measured, Points
from workbench.records import Scheduler, Searcher, Spec
from workbench.records.names import trial_label
from workbench.replay.again import replay
from workbench.search import Search
from workbench.space import choice, uniform
from workbench.store import Store, requests
from workbench.store.series import Series

GB = 10**9


# -- how many ----------------------------------------------------------------------------------------------------------


def measured(**fields: Any) -> Measured:
    known = {"step": 1, "memory": GB, "machine": 64 * GB, "busy": 0.1, "cores": 4}
    return Measured(**{**known, **fields})


@pytest.mark.parametrize(
    ("need", "expected"),
    [
        (Need(busy=0.95, cores=1), 1),
        (Need(busy=0.41, cores=1), 1),
        (Need(busy=0.4, cores=1), 2),
        (Need(busy=0.2, cores=1), 4),
        (Need(busy=0.001, cores=1), 16),
        (Need(busy=3.0, cores=1), 1),
        (Need(busy=0.95, cores=8), 6),
        (Need(device=2_500 * 10**6, device_total=24 * GB), 8),
        (Need(device=13 * GB, device_total=24 * GB), 1),
        (Need(device=30 * GB, device_total=24 * GB), 1),
        (Need(device=GB, device_total=80 * GB, busy=0.9, cores=4), 3),
        (Need(memory=3 * GB, memory_total=12 * GB, busy=0.05, cores=1), 2),
        (Need(device=GB, device_total=24 * GB, memory=6 * GB, memory_total=20 * GB), 2),
        (Need(), 1),
    ],
)
def test_the_scarcest_decides_and_what_is_not_known_does_not(need: Need, expected: int) -> None:
    assert parts(need) == expected


sizes = st.integers(0, 100 * GB)


@given(device=sizes, memory=sizes, busy=st.floats(0, 8), total=sizes, cores=st.integers(1, 64))
def test_so_many_fit_into_a_slot(device: int, memory: int, busy: float, total: int, cores: int) -> None:
    need = Need(device, 80 * GB, memory, total, busy, float(cores))
    count = parts(need)
    assert 1 <= count <= 16
    if count > 1:
        assert count * device <= 80 * GB
        assert count * memory <= total or not total
        assert count * busy <= cores
    assert words(need, count).startswith(f"{count} trial")


def test_memory_and_cores_of_a_machine_are_divided_among_its_slots() -> None:
    assert needed(measured(), 2) == Need(0, 0, GB, 16 * GB, 0.1, 1.0), "cores that other engines may have are slots too"
    gpu = measured(has_device=True, device=2 * GB, context=GB // 2, device_total=24 * GB)
    assert needed(gpu, 2) == Need(2_500 * 10**6, 24 * GB, GB, 32 * GB, 0.1, 2.0)


def test_the_highest_peak_counts_and_the_processor_time_of_the_first_trial() -> None:
    first = needed(measured(), 2)
    assert needed(measured(memory=3 * GB, busy=0.9), 2, first) == dataclasses.replace(first, memory=3 * GB)
    assert needed(measured(memory=GB // 2, busy=0.0), 2, first) == first
    assert needed(measured(memory=None, machine=None), 2, first) == first


def test_the_user_reads_what_decided() -> None:
    need = Need(2_100 * 10**6, 24 * GB, GB, 12 * GB, 0.2, 1)
    assert words(need, parts(need)) == "4 trials in each slot: one computes 20% of the time"
    assert words(Need(5 * GB, 24 * GB), 4) == "4 trials in each slot: one needs 5 of 24 GB"
    assert words(Need(busy=0.97, cores=1), 1) == "1 trial in each slot: it computes 97% of the time"
    assert words(Need(), 1) == "1 trial in each slot: what it needs cannot be measured here"


# -- the leg book ------------------------------------------------------------------------------------------------------


def packing(tmp_path: Path, steps: int = 6, trials: int = 8, source: str = "", **more: Any) -> Spec:
    fields: dict[str, Any] = {"scheduler": Scheduler(kind="all", first=steps, last=steps), "verify": False} | more
    return spec_of(source, tmp_path, space={"x": uniform(0.0, 1.0)}, trials=trials, **{"packs": True, **fields})


class Told:
    """A leg book, and what its legs say."""

    def __init__(self, spec: Spec) -> None:
        self.book, self.lines, self.now = LegBook(spec), [], 0.0

    def order(self, trial: int, *, waits: bool = False) -> Leg:
        leg = self.book.ordered(Run(trial, 0, 6, "starts"))
        if not waits:
            leg.slot, leg.there = Slot("tcp://one", 0, []), 1
        return leg

    def hear(self, leg: Leg, *messages: Any) -> Any:
        for message in messages:
            self.now += 1.0
            heard = self.book.hear(leg, message, self.now)
            self.lines += heard.lines
        return heard


CALM = measured(machine=16 * GB, cores=1, busy=0.2)
OUT_OF_MEMORY = Left(
    outcome="failed", step=2, cause="cuda_out_of_memory",
    error={"type": "OutOfMemoryError", "message": "CUDA out of memory", "cause": "cuda_out_of_memory",
           "device_memory": {"total": 24 * GB, "ours": 6 * GB, "others": 0, "allowed": 6 * GB}},
)  # fmt: skip


def test_the_others_start_when_it_is_known_how_many_share_a_slot(tmp_path: Path) -> None:
    told = Told(packing(tmp_path))
    leg = told.order(0)
    assert leg.parts == 1
    heard = told.hear(leg, Begun(step=0), Points([["score", 1, 0, 0.5, 0.0]]))
    assert (heard.probed, told.book.probed) == (False, False)
    heard = told.hear(leg, CALM)
    assert (heard.probed, told.book.probed) == (True, True)
    assert heard.divided == "4 trials in each slot: one computes 20% of the time"
    assert (told.order(1).parts, leg.parts) == (4, 1)


def test_a_leg_that_is_not_measured_holds_nobody_up(tmp_path: Path) -> None:
    told = Told(packing(tmp_path))
    leg = told.order(0)
    assert told.hear(leg, Begun(step=0), Points([["score", 1, 0, 0.5, 0.0]]), Level(1, {"score": 0.5})).probed
    assert told.order(1).parts == 1


def test_a_trial_that_needs_more_lowers_the_number_for_new_legs_only(tmp_path: Path) -> None:
    told = Told(packing(tmp_path))
    first = told.order(0)
    told.hear(first, Begun(step=0), CALM)
    second, third = told.order(1), told.order(2, waits=True)
    heard = told.hear(second, Begun(step=0), measured(machine=16 * GB, cores=1, memory=5 * GB))
    assert heard.divided == "2 trials in each slot: one needs 5 of 16 GB"
    assert (second.parts, third.parts, told.order(3).parts) == (4, 2, 2)
    assert not told.hear(second, measured(machine=16 * GB, cores=1, memory=GB)).divided, "it never rises"
    assert told.order(4).parts == 2
    again = LegBook(packing(tmp_path))
    for line in told.lines:
        again.recall(line)
    assert (again.per_slot, again.need) == (2, told.book.need), "the next engine knows it"


def test_a_trial_without_memory_in_its_part_is_tried_in_a_whole_slot(tmp_path: Path) -> None:
    told = Told(packing(tmp_path))
    told.hear(told.order(0), Begun(step=0), CALM)
    leg = told.order(1)
    assert leg.parts == 4
    heard = told.hear(leg, Begun(step=0), OUT_OF_MEMORY)
    (lost,) = heard.facts
    assert isinstance(lost, Lost)
    assert lost.reason.endswith("beside others; it is tried once more, in a whole slot")
    again = told.order(1)
    assert (again.parts, again.alone, told.order(2).parts) == (1, False, 4)
    recalled = LegBook(packing(tmp_path))
    for line in told.lines:
        recalled.recall(line)
    assert recalled.ordered(Run(1, 0, 6, "starts")).parts == 1
    (failed,) = told.hear(again, Begun(step=0), OUT_OF_MEMORY).facts
    assert type(failed).__name__ == "Failed", "in a whole slot it would fail again"


def test_a_leg_that_a_new_engine_finds_has_the_part_that_it_was_given(tmp_path: Path) -> None:
    spec = packing(tmp_path)
    told = Told(spec)
    told.hear(told.order(0), Begun(step=0), CALM)
    assert told.book.per_slot == 4
    store, search = Store(tmp_path / "store"), Search.of(spec)
    search.handle(CapacityChanged(2))
    found = []
    for trial, parts_given in ((0, 1), (1, 4)):
        leg = told.order(trial)
        leg.parts = parts_given
        worker = Unheard()
        worker.begin(leg_order(store, spec, search, leg, spec.training, 0, may_wait=False))
        (story,) = worker.told()
        adopted = told.book.adopted(Run(trial, 0, 6, "starts"), Survivor(story, Slot("tcp://one", 0, [])), {}, {}, 0.0)
        found.append(adopted.parts)
    assert found == [1, 4], "the first trial still has its whole slot"


# -- real engines ------------------------------------------------------------------------------------------------------

#: Waits, or computes, for a part of each step, as long as a file says so. Draws numbers, so that results tell a wrong
#: resume. From the second trial on, ``together`` trials wait for each other: they cannot train one after another.
LOOP = """
x = uniform(0.0, 1.0)
import json, os, random, time
from pathlib import Path
total, place = 0.0, Path({folder!r})
(place / f"{name}-{{trial.number}}-here").touch()
while trial.number and len(list(place.glob("{name}-*-here"))) < {together}:
    time.sleep(0.01)
for epoch in trial.steps():
    begun = time.monotonic()
    end = time.process_time() + {computes}
    while time.process_time() < end:
        pass
    time.sleep({waits})
    total = 0.9 * total + x * random.random()
    with open(place / "steps", "a") as file:
        file.write(json.dumps([trial.number, begun, time.monotonic(), os.getpid()]) + "\\n")
    trial.report(score=total, noise=random.random())
"""


def search(
    tmp_path: Path, *, waits: float = 0.0, computes: float = 0.0, together: int = 0, name: str = "auto", **more: Any
) -> Spec:
    source = LOOP.format(folder=str(tmp_path), name=name, waits=waits, computes=computes, together=together)
    return packing(tmp_path, source=source, name=name, **more)


def whole(tmp_path: Path, store: Store, spec: Spec) -> dict[str, Any]:
    """What the search finds with whole slots."""
    alone = dataclasses.replace(spec, id=f"{spec.id}c", name=f"{spec.name}-calm", packs=False)
    start(store, alone)
    assert ended(store, alone) == "completed"
    (tmp_path / "steps").unlink()
    for one in tmp_path.glob("*-here"):
        one.unlink()
    return outcome(store, alone)


def steps_of(tmp_path: Path) -> list[list[Any]]:
    path = tmp_path / "steps"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def spans(found: list[list[Any]]) -> list[tuple[str, float, float]]:
    """The time of each trial but the first, from its first step to its last."""
    each: dict[int, tuple[str, float, float]] = {}
    for trial, begun, end, _ in found:
        before = each.get(trial, ("", begun, end))
        each[trial] = ("", min(before[1], begun), max(before[2], end))
    return [span for trial, span in each.items() if trial]


def legs_of(store: Store, spec: Spec) -> list[dict[str, Any]]:
    with Series.read(store.experiment(spec.id).series) as series:
        return series.legs()


#: Holds the memory that its configuration says, in steps that last long enough for it to be measured.
HOLDING = """
mb = choice(64, 900)
import time
held = b"x" * (mb << 20)
for epoch in trial.steps():
    time.sleep(0.5)
    trial.report(score=float(mb))
"""


def test_a_later_trial_that_needs_more_memory_lowers_the_number(tmp_path: Path, runtime: None) -> None:
    store = Store(tmp_path / "store").create()
    fields = {"scheduler": Scheduler(kind="all", first=2, last=2), "searcher": Searcher("grid"), "verify": False}
    spec = spec_of(HOLDING, tmp_path, space={"mb": choice(64, 900)}, packs=True, **fields)
    with limited(4 << 30) as group:
        with engine(store, workers=1, program=["-c", ENTERING, str(group / "cgroup.procs")]):
            start(store, spec)
            assert ended(store, spec) == "completed"
        first, second = lines(store, spec, "SlotsDivided")
        # A slot has half of the group's memory.
        assert first["memory_total"] == second["memory_total"] == 2 << 30
        assert 64 << 20 < first["memory"] < 900 << 20 < second["memory"]
        assert (first["parts"] > 1, second["parts"]) == (True, 1)
        assert second["why"] == f"1 trial in each slot: it needs {amount(second['memory'])} of 2.1 GB"
    assert {leg["trial"]: leg.get("parts") for leg in legs_of(store, spec)} == {0: None, 1: first["parts"]}


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    """A store whose engine has two workers."""
    with engine_on_cores(tmp_path_factory.mktemp("shared"), cores=2, workers=2) as found:
        yield found


def test_the_engine_after_a_killed_one_keeps_the_number(tmp_path: Path, runtime: None) -> None:
    store = Store(tmp_path / "store").create()
    spec = search(tmp_path, waits=0.3, steps=8, trials=6)
    process = engine_process(store, workers=1)
    try:
        expected = whole(tmp_path, store, dataclasses.replace(search(tmp_path, steps=8, trials=6), name="other"))
        start(store, spec)
        until(lambda: len({step[0] for step in steps_of(tmp_path)} - {0}) >= 3, what="steps of trials beside others")
    finally:
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
    before = {step[0]: step[3] for step in steps_of(tmp_path)}
    with engine(store, workers=1):
        assert ended(store, spec) == "completed"
    assert outcome(store, spec) == expected
    assert len(lines(store, spec, "SlotsDivided")) == 1
    assert {trial: {step[3] for step in steps_of(tmp_path) if step[0] == trial} for trial in before} == {
        trial: {pid} for trial, pid in before.items()
    }, "each goes on in its process"
    parted = lines(store, spec, "SlotsDivided")[0]["parts"]
    assert {leg.get("parts") for leg in legs_of(store, spec) if leg["trial"]} == {parted}


def test_trials_that_wait_share_a_slot_and_find_what_whole_slots_find(tmp_path: Path, store: Store) -> None:
    fields = {"steps": 3, "trials": 6, "name": "wait"}
    expected = whole(tmp_path, store, search(tmp_path, **fields))
    meeting = search(tmp_path, waits=0.3, together=4, **fields)
    start(store, meeting)
    assert ended(store, meeting) == "completed"
    (line,) = lines(store, meeting, "SlotsDivided")
    assert line["parts"] >= 3, line
    assert line["why"] in meta(store, meeting)["says"]
    assert outcome(store, meeting) == expected
    assert most_at_once(spans(steps_of(tmp_path))) >= 3
    legs = {leg["trial"]: leg.get("parts") for leg in legs_of(store, meeting)}
    assert legs == {0: None, **dict.fromkeys(range(1, 6), line["parts"])}


def test_trials_that_compute_have_a_slot_each(tmp_path: Path, store: Store) -> None:
    spec = search(tmp_path, computes=0.2, steps=2, trials=4, name="compute", parallel=1)
    start(store, spec)
    assert ended(store, spec) == "completed"
    (line,) = lines(store, spec, "SlotsDivided")
    assert line["parts"] == 1, line
    assert line["why"].startswith("1 trial in each slot: it computes ")
    assert most_at_once(spans(steps_of(tmp_path))) == 1
    assert {leg.get("parts") for leg in legs_of(store, spec)} == {None}


def test_a_trial_that_shared_its_slot_is_replayed_to_the_bit(tmp_path: Path, store: Store) -> None:
    spec = search(tmp_path, waits=0.2, steps=3, trials=3, name="shared", parallel=1)
    start(store, spec)
    assert ended(store, spec) == "completed"
    again = replay(store, f"{spec.label}/{trial_label(1)}").spec
    requests.put(store, {"kind": "start", "experiment": again.id})
    assert ended(store, again) == "completed"
    assert {leg.get("parts") for leg in legs_of(store, spec) if leg["trial"] == 1} == {
        lines(store, spec, "SlotsDivided")[0]["parts"]
    }
    trained = [row[1:] for row in outcome(store, spec)["points"] if row[0] == 1]
    assert len(trained) == 6
    assert [row[1:] for row in outcome(store, again)["points"]] == trained
