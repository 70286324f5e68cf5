"""Trials on between so many slots: how many they take, and that results stay those of any number, up to rounding."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import math
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from gang_world import HASTY, gang, losses, pid_of, steps_of
from hypothesis import given
from hypothesis import strategies as st
from running import PROGRAM, SLOW, end, engine, lines, meta, spec_of, start, state, until
from running import ended as ended_of

from workbench.cluster.backend import Slot
from workbench.engine.legs.leg import Leg
from workbench.engine.legs.placing import Waiting, share, size
from workbench.records import Scheduler, Spec
from workbench.records.sizes import at, trained
from workbench.records.sizes import until as until_step
from workbench.replay.again import replay
from workbench.space import uniform
from workbench.store import Store, requests
from workbench.store.keeping.checkpoints import Checkpoints
from workbench.store.series import Series

#: The largest relative difference between curves on different numbers of slots: sums in another order, in single
#: precision.
TOLERANCE = 1e-4


def between(tmp_path: Path, least: int, most: int, name: str = "range", **more: Any) -> Spec:
    return gang(tmp_path, most, name, slots_least=least, **more)


def ended(store: Store, spec: Spec) -> str:
    return ended_of(store, spec, 240.0)


def sizes_of(store: Store, spec: Spec) -> list[int]:
    """The slots of its legs that have begun, in order."""
    return [line["slots"] for line in lines(store, spec, "LegSized")]


def assert_close(found: dict[Any, float], wanted: dict[Any, float]) -> None:
    assert found.keys() == wanted.keys()
    assert all(math.isclose(value, wanted[key], rel_tol=TOLERANCE) for key, value in found.items()), (found, wanted)


# -- how many slots ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("room", "legs", "expected"),
    [
        (8, 1, [8]),
        (8, 4, [2, 2, 2, 2]),
        (8, 3, [3, 3, 2]),
        (8, 2, [4, 4]),
        (7, 2, [4, 3]),
        (20, 2, [8, 8]),
        (3, 1, [3]),
        (1, 1, [2]),
        (0, 2, [2, 2]),
    ],
)
def test_more_trials_at_the_least_size_come_before_fewer_at_larger_ones(room, legs, expected):
    found = []
    for left in range(legs, 0, -1):
        found.append(size(room, left, 2, 8))
        room -= found[-1]
    assert found == expected


@given(room=st.integers(0, 40), legs=st.integers(1, 10), least=st.integers(1, 5), more=st.integers(0, 8))
def test_legs_fill_the_share_and_leave_the_least_to_those_behind_them(room, legs, least, more):
    most, left, sizes = least + more, room, []
    for count in range(legs, 0, -1):
        sizes.append(size(left, count, least, most))
        left -= sizes[-1]
    assert all(least <= one <= most for one in sizes)
    if room >= legs * least:
        assert sum(sizes) == min(room, legs * most)
        assert max(sizes) - min(sizes) <= 1, "none is larger at the cost of another"


def slots(*workers: str) -> list[Slot]:
    return [Slot(f"tcp://{worker}", at, []) for at, worker in enumerate(workers)]


def placed(there: list[Slot], least: int, most: int, *, until: float = 0.0, **more: Any) -> list[int] | str:
    one = Waiting(Leg(0, 1, 0, 9, "go", "k", **more), 1, least, most, until)
    found = share(there, [one], lambda slot: len(slot.legs), (), lambda _: False, 1.0)
    if found.placements:
        return [there.index(slot) for slot in found.placements[0][1]]
    return "later" if found.later else "blocked"


def test_a_leg_takes_what_is_free_up_to_its_most_and_waits_for_its_least():
    assert placed(slots("a:1", "a:2", "a:3", "a:4"), 2, 4) == [0, 1, 2, 3]
    assert placed(slots("a:1", "a:2", "a:3", "a:4"), 2, 3) == [0, 1, 2]
    assert placed(slots("a:1", "a:2", "a:3"), 2, 8) == [0, 1, 2]
    assert placed(slots("a:1"), 2, 8) == "blocked"
    assert placed(slots("a:1", "a:2"), 2, 4, until=2.0) == "later", "more are just coming"
    assert placed(slots("a:1", "a:2"), 2, 4, until=0.5) == [0, 1]
    assert placed(slots("a:1", "a:2"), 2, 2, until=2.0) == [0, 1]


def test_one_machine_that_has_enough_comes_before_several():
    there = slots("a:1", "b:1", "b:2", "b:3")
    assert placed(there, 2, 3) == [1, 2, 3]
    assert placed(there, 2, 8) == [0, 1, 2, 3], "as many as are free"
    assert placed(there, 1, 2, avoid="tcp://b:1") == [2, 3]


@pytest.mark.parametrize(
    ("legs", "expected"),
    [
        ([(0, 9, 4)], ((0, 4),)),
        ([(0, 3, 4), (3, 9, 4)], ((0, 4),)),
        ([(0, 5, 4), (3, 9, 2)], ((0, 4), (3, 2))),
        ([(0, 5, 4), (3, 4, 2), (3, 9, 3)], ((0, 4), (3, 3))),
        ([(0, 5, 4), (5, 5, 2), (5, 9, 4)], ((0, 4),)),
        ([(0, 5, 4), (0, 9, 2)], ((0, 2),)),
        ([(6, 9, 4), (9, None, 2)], ((6, 4), (9, 2))),
        ([], ()),
    ],
)
def test_what_a_lost_leg_trained_beyond_its_checkpoint_does_not_count(legs, expected):
    rows = [{"start": begin, "step": step, "began": 1.0, "mates": ["x"] * (count - 1)} for begin, step, count in legs]
    assert trained(rows) == expected


def test_a_leg_without_a_first_message_trained_nothing():
    assert trained([{"start": 0, "mates": ["x"]}, {"start": 0, "step": 4, "slots": 3}]) == ((0, 3),)


def test_a_trial_that_is_trained_again_changes_its_size_at_the_same_steps():
    recorded = ((2, 4), (5, 2), (7, 3))
    assert [at(recorded, step) for step in range(9)] == [4, 4, 4, 4, 4, 2, 2, 3, 3]
    assert [until_step(recorded, step, 9) for step in range(9)] == [5, 5, 5, 5, 5, 7, 7, 9, 9]
    assert until_step(recorded, 2, 5) == 5
    assert until_step(recorded, 2, 4) == 4
    assert until_step((), 0, 9) == 9


# -- real gangs --------------------------------------------------------------------------------------------------------


def paused_and_resumed(store: Store, spec: Spec, tmp_path: Path, before: Any = None) -> None:
    """Pause after some more steps; do something; resume."""
    count = len(steps_of(tmp_path))
    until(lambda: len(steps_of(tmp_path)) > count + 2, what="some steps")
    requests.put(store, {"kind": "pause", "experiment": spec.id})
    until(lambda: state(store, spec) == "paused", what="the pause")
    before()
    requests.put(store, {"kind": "resume", "experiment": spec.id})


@pytest.mark.parametrize("strategy", ["replicate", "fsdp"])
@pytest.mark.parametrize(("least", "most"), [(2, 4), (1, 2)])
def test_a_trial_goes_on_with_what_is_free_from_a_checkpoint_of_any_size(
    tmp_path: Path, runtime: None, least: int, most: int, strategy: str
) -> None:
    store = Store(tmp_path / "store").create()
    whole: dict[str, Any] = {"scheduler": Scheduler(kind="all", first=24, last=24), "trials": 1, "pause": 0.15}
    spec = between(tmp_path, least, most, **whole, verify=False, strategy=strategy)
    fixed = gang(tmp_path, 1 if least == 1 else 2, "fixed", **{**whole, "pause": 0.0}, verify=False)
    held = most - least
    other = spec_of(
        SLOW,
        tmp_path, name="other", space={"x": uniform(0.0, 1.0)}, scheduler=Scheduler(kind="all", first=900, last=900),
        trials=held, parallel=held,
    )  # fmt: skip

    def hold() -> None:
        start(store, other)
        until(lambda: state(store, other) == "running" and _held(store, other) == held, what="the other search")

    def let_go() -> None:
        requests.put(store, {"kind": "stop", "experiment": other.id})
        ended(store, other)

    with engine(store, workers=most):
        start(store, spec)
        paused_and_resumed(store, spec, tmp_path, hold)
        until(lambda: len(sizes_of(store, spec)) == 2, what="the second leg")
        paused_and_resumed(store, spec, tmp_path, let_go)
        assert ended(store, spec) == "completed"
        start(store, fixed)
        assert ended(store, fixed) == "completed"
    assert sizes_of(store, spec) == [most, least, most]
    assert_close(losses(store, spec), losses(store, fixed))


def _held(store: Store, spec: Spec) -> int:
    with Series.read(store.experiment(spec.id).series) as series:
        return sum(leg.get("began") is not None and leg.get("outcome") is None for leg in series.legs())


@contextlib.contextmanager
def attached(folder: Path, workers: int) -> Iterator[tuple[str, list[subprocess.Popen[bytes]]]]:
    """A Dask scheduler and workers that nothing starts again; yields the address and the workers."""
    found, log = folder / "scheduler.json", open(folder / "dask.log", "ab")
    head = ["scheduler", "--host", "127.0.0.1", "--port", "0", "--no-dashboard", "--scheduler-file", str(found)]
    hand = ["worker", "--no-nanny", "--nthreads", "1", "--no-dashboard", "--scheduler-file", str(found)]
    processes = [
        subprocess.Popen([sys.executable, "-m", f"distributed.cli.dask_{part}", *rest], stdout=log, stderr=log)
        for part, *rest in (head, *[hand] * workers)
    ]
    try:
        until(lambda: found.exists() and found.read_text().strip(), what="a Dask scheduler")
        yield json.loads(found.read_text())["address"], processes[1:]
    finally:
        for process in reversed(processes):
            process.kill()
            process.wait(30)
        log.close()


def test_a_worker_lost_for_good_costs_slots_and_no_result_and_a_replay_repeats_the_sizes(
    tmp_path: Path, runtime: None
) -> None:
    store = Store(tmp_path / "store").create()
    whole: dict[str, Any] = {"scheduler": Scheduler(kind="all", first=40, last=40), "trials": 1, "verify": False}
    spec = between(tmp_path, 2, 4, pause=0.1, save_steps=3, **whole)
    fixed = gang(tmp_path, 2, "fixed", **whole)
    passing = Checkpoints(store.experiment(spec.id).trial(0).passing)
    with attached(tmp_path, 4) as (address, workers), on(store, address):
        start(store, spec)
        until(lambda: max(passing.steps(), default=0) > 3, what="a checkpoint")
        workers[2].send_signal(signal.SIGKILL)
        until(lambda: len(sizes_of(store, spec)) == 2, what="the next leg")
        newest = max(passing.steps(), default=0)
        until(lambda: max(passing.steps(), default=0) > newest, what="another checkpoint")
        workers[1].send_signal(signal.SIGKILL)
        assert ended(store, spec) == "completed"
        start(store, fixed)
        assert ended(store, fixed) == "completed"
    assert sizes_of(store, spec) == [4, 3, 2]
    with Series.read(store.experiment(spec.id).series) as series:
        starts = [leg["start"] for leg in series.legs() if leg.get("began")]
        recorded = trained(series.legs())
    assert starts[0] == 0
    assert 0 < starts[1] < starts[2], "from the newest checkpoint"
    assert_close(losses(store, spec), losses(store, fixed))
    with engine(store, workers=4):
        made = replay(store, f"{spec.label}/t0000")
        requests.put(store, {"kind": "start", "experiment": made.spec.id})
        assert ended(store, made.spec) == "completed"
        assert sizes_of(store, made.spec) == [4, 3, 2]
        with Series.read(store.experiment(made.spec.id).series) as series:
            assert trained(series.legs()) == recorded
        assert losses(store, made.spec) == losses(store, spec), "the same bits"


@contextlib.contextmanager
def on(store: Store, address: str) -> Iterator[None]:
    """An engine on the Dask cluster at this address."""
    with open(store.engine_log, "ab") as log:
        command = [sys.executable, *PROGRAM, "--store", str(store.root), "--cluster", address, "--idle", "600"]
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)
    try:
        yield
    finally:
        end(process)


def test_a_killed_rank_restarts_its_gang_at_once(tmp_path: Path, runtime: None) -> None:
    store = Store(tmp_path / "store").create()
    whole = Scheduler(kind="all", first=24, last=24)
    spec = between(tmp_path, 1, 3, pause=0.1, scheduler=whole, trials=1, verify=False, save_steps=1)
    passing = Checkpoints(store.experiment(spec.id).trial(0).passing)
    with engine(store, workers=3):
        start(store, spec)
        until(lambda: max(passing.steps(), default=0) > 3, what="a checkpoint")
        pid = pid_of(tmp_path, 1)
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
        assert ended(store, spec) == "completed"
    assert sizes_of(store, spec) == [3, 3], "only its process was lost"


def test_the_trial_that_is_tried_alone_leaves_room_and_the_others_share_it(tmp_path: Path, runtime: None) -> None:
    store = Store(tmp_path / "store").create()
    whole: dict[str, Any] = {"scheduler": Scheduler(kind="all", first=12, last=12), "pause": 0.1}
    three, two = (between(tmp_path, 1, 4, f"of{trials}", trials=trials, **whole) for trials in (3, 2))
    with engine(store, workers=4):
        for spec in (three, two):
            start(store, spec)
            assert ended(store, spec) == "completed"
    assert sizes_of(store, three)[0] == sizes_of(store, two)[0] == 1
    assert sorted(sizes_of(store, three)) == [1, 1, 2]
    assert sorted(sizes_of(store, two)) == [1, 3]


def test_a_search_with_rungs_finds_what_it_finds_on_any_number_of_slots(tmp_path: Path, runtime: None) -> None:
    store = Store(tmp_path / "store").create()
    spec, fixed = between(tmp_path, 1, 3), gang(tmp_path, 2, "fixed", verify=False)
    with engine(store, workers=3):
        for one in (spec, fixed):
            start(store, one)
            assert ended(store, one) == "completed"
        found = until(lambda: meta(store, spec).get("verify"), what="what is known of the check")
    assert_close(losses(store, spec), losses(store, fixed))
    with Series.read(store.experiment(spec.id).series) as series:
        legs = [leg for leg in series.legs(found["trial"]) if leg["start"] < found["until"]]
    is_same = len(dict(map(reversed, trained(legs)))) == 1
    assert found["verdict"] == ("identical" if is_same else "not checked"), found


def test_another_search_makes_a_large_trial_smaller(tmp_path: Path, runtime: None) -> None:
    store = Store(tmp_path / "store").create()
    # Long enough for any set-up, for as long as which a trial may stay.
    whole: dict[str, Any] = {"scheduler": Scheduler(kind="all", first=5000, last=5000), "verify": False, "pause": 0.05}
    large = between(tmp_path, 1, 2, "large", trials=1, **whole)
    small = gang(tmp_path, 1, "small", trials=1, **whole)
    with engine(store, workers=2, program=("-c", HASTY)):
        start(store, large)
        until(lambda: len(steps_of(tmp_path)) > 6, what="some steps")
        start(store, small)
        until(lambda: len(sizes_of(store, large)) == 2, 120.0, "the smaller leg")
        until(lambda: any(step[0].startswith("small") for step in steps_of(tmp_path)), what="the other search's steps")
    assert sizes_of(store, large) == [2, 1]
    (asked,) = lines(store, large, "RoomAsked")
    assert "small@1" in asked["reason"]


def test_code_that_manages_its_ranks_is_refused(tmp_path: Path, runtime: None) -> None:
    store = Store(tmp_path / "store").create()
    source = """
x = uniform(0.0, 1.0)
import torch
import torch.distributed as dist
dist.init_process_group("gloo")
for epoch in trial.steps():
    trial.report(score=x)
"""
    whole = Scheduler(kind="all", first=3, last=3)
    spec = spec_of(source, tmp_path, space={"x": uniform(0.0, 1.0)}, slots=2, slots_least=1, preload=("torch",),
                   scheduler=whole, trials=1)  # fmt: skip
    alone = dataclasses.replace(between(tmp_path, 3, 4, "large"), verify=False)
    with engine(store, workers=2):
        for one in (spec, alone):
            start(store, one)
            assert ended(store, one) == "failed"
    (failed,) = lines(store, spec, "Failed")
    assert "line 5 uses dist.init_process_group, and code that manages its ranks" in failed["reason"]
    assert "--slots 3-4: each trial needs 3 slots at once, and this cluster has 2" in meta(store, alone)["reason"]


def test_a_killed_engine_finds_its_gangs_again_and_knows_their_sizes(tmp_path: Path, runtime: None) -> None:
    store = Store(tmp_path / "store").create()
    whole: dict[str, Any] = {"scheduler": Scheduler(kind="all", first=30, last=30), "trials": 1, "verify": False}
    spec, fixed = between(tmp_path, 1, 2, pause=0.1, **whole), gang(tmp_path, 2, "fixed", **whole)
    with engine(store, workers=2) as process:
        start(store, spec)
        until(lambda: len(steps_of(tmp_path)) > 6, what="some steps")
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
    with engine(store, workers=2):
        assert ended(store, spec) == "completed"
        start(store, fixed)
        assert ended(store, fixed) == "completed"
    assert set(sizes_of(store, spec)) == {2}
    assert_close(losses(store, spec), losses(store, fixed))
    Series.read(path := store.experiment(spec.id).series).close()
    for file in path.parent.glob(f"{path.name}*"):
        file.unlink()
    with engine(store, workers=2):
        made = until(lambda: _rebuilt(store, spec), what="the curves, from the journal")
        assert trained(made) == ((0, 2),)


def _rebuilt(store: Store, spec: Spec) -> list[dict[str, Any]]:
    path = store.experiment(spec.id).series
    if not path.exists():
        return []
    with Series.read(path) as series:
        return series.legs(0)
