"""Trials on several slots: one training in several processes, all or none, and exact under every fault."""

from __future__ import annotations

import dataclasses
import math
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from contending import long
from contending import steps_of as walked
from gang_world import HASTY, LOOP, gang, losses, pid_of, steps_of
from running import (
    ended,
    engine,
    engine_on_cores,
    lines,
    meta,
    most_at_once,
    outcome,
    spec_of,
    start,
    state,
    until,
)

from workbench.records import ENDED, Scheduler, Spec
from workbench.space import uniform
from workbench.store import Store, requests
from workbench.store.keeping.checkpoints import Checkpoints
from workbench.store.owner.slots import drain, holders, use_again
from workbench.store.series import Series


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    """A store whose engine has four workers."""
    with engine_on_cores(tmp_path_factory.mktemp("shared"), cores=2, workers=4) as found:
        yield found


def calm(tmp_path: Path, store: Store, spec: Spec) -> dict[str, Any]:
    """What the search finds if nothing disturbs it."""
    alone = dataclasses.replace(spec, id=f"{spec.id}c", name=f"{spec.name}-calm")
    start(store, alone)
    assert ended(store, alone) == "completed"
    return outcome(store, alone)


@pytest.mark.parametrize("strategy", ["replicate", "fsdp"])
def test_a_pause_and_a_killed_engine_change_nothing(tmp_path: Path, runtime: None, strategy: str) -> None:
    store = Store(tmp_path / "store").create()
    spec = gang(tmp_path, 2, pause=0.1, dropout=0.2, trials=3, strategy=strategy)
    with engine(store, workers=2) as process:
        expected = calm(tmp_path, store, spec)
        (tmp_path / "steps").unlink()
        start(store, spec)
        until(lambda: len(steps_of(tmp_path)) > 3, what="the first steps")
        requests.put(store, {"kind": "pause", "experiment": spec.id})
        until(lambda: state(store, spec) == "paused", what="the pause")
        before = len(steps_of(tmp_path))
        requests.put(store, {"kind": "resume", "experiment": spec.id})
        until(lambda: len(steps_of(tmp_path)) > before + 3, what="steps after the pause")
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        pids = {step[3] for step in steps_of(tmp_path)[-2:]}
    with engine(store, workers=2):
        assert ended(store, spec) == "completed"
        found = until(lambda: meta(store, spec).get("verify"), what="the check of the first promotion")
    assert outcome(store, spec) == expected
    assert found["verdict"] == "identical", found
    after = steps_of(tmp_path)
    assert pids <= {step[3] for step in after}


def test_gangs_and_single_trials_take_turns_and_neither_result_changes(tmp_path: Path, runtime: None) -> None:
    store = Store(tmp_path / "store").create()
    whole: dict[str, Any] = {"scheduler": Scheduler(kind="all", first=60, last=60), "verify": False, "pause": 0.05}
    two, one = gang(tmp_path, 2, "two", trials=1, **whole), gang(tmp_path, 1, "one", trials=2, **whole)
    with engine(store, workers=2, program=("-c", HASTY)):
        expected = [calm(tmp_path, store, spec) for spec in (two, one)]
        (tmp_path / "steps").unlink()
        start(store, one)
        until(lambda: len(steps_of(tmp_path)) > 3, what="the single trials")
        start(store, two)
        assert [ended(store, spec) for spec in (two, one)] == ["completed"] * 2
    assert [outcome(store, spec) for spec in (two, one)] == expected
    assert lines(store, one, "RoomAsked"), "the single trials made room"
    assert most_at_once([tuple(step[:3]) for step in steps_of(tmp_path)]) <= 2, "two slots"


@pytest.mark.timeout(300)
def test_a_gang_gets_its_turn_where_another_engine_and_a_search_of_its_own_want_every_slot(
    tmp_path: Path, runtime: None
) -> None:
    one, two = (Store(tmp_path / name).create() for name in ("one", "two"))
    others = [(one, long(tmp_path, "single", 40, trials=200)), (two, long(tmp_path, "beside", 40, trials=200))]
    whole = Scheduler(kind="all", first=20, last=20)
    spec = gang(tmp_path, 4, pause=0.05, scheduler=whole, trials=1, verify=False)
    with engine(one, workers=4, program=("-c", HASTY)), engine(two, workers=4, program=("-c", HASTY)):
        for store, other in others:
            start(store, other)
        until(lambda: {step[0] for step in walked(tmp_path)} == {"single", "beside"}, what="a step of both")
        start(two, spec)
        assert ended(two, spec, 200) == "completed"
        assert not {state(store, other) for store, other in others} & set(ENDED)


def test_curves_are_those_of_one_process_and_no_rank_trains_alone(tmp_path: Path, store: Store) -> None:
    whole = Scheduler(kind="all", first=4, last=4)
    specs = [gang(tmp_path, slots, f"of{slots}", scheduler=whole, trials=2) for slots in (1, 2, 4)]
    for spec in specs:
        start(store, spec)
    assert [ended(store, spec) for spec in specs] == ["completed"] * 3
    one, *others = (losses(store, spec) for spec in specs)
    assert len(one) == 8
    for other in others:
        assert other.keys() == one.keys()
        # Sums in another order: single precision.
        assert all(math.isclose(value, one[key], rel_tol=1e-4) for key, value in other.items()), (one, other)
    ranks = {step[0] for step in steps_of(tmp_path)}
    assert {f"of4 {trial} {rank}" for trial in (0, 1) for rank in range(4)} <= ranks
    assert len([one for one in ranks if one.startswith("of2")]) == 4


def test_a_killed_rank_costs_its_gang_a_retry_and_no_result(tmp_path: Path, store: Store) -> None:
    whole = Scheduler(kind="all", first=40, last=40)
    spec = gang(tmp_path, 2, "killed", pause=0.1, dropout=0.2, scheduler=whole, trials=1, verify=False, save_steps=1)
    expected = calm(tmp_path, store, spec)
    (tmp_path / "steps").unlink()
    start(store, spec)
    passing = Checkpoints(store.experiment(spec.id).trial(0).passing)
    for rank in (1, 0):
        newest = max(passing.steps(), default=0)
        until(lambda newest=newest: max(passing.steps(), default=0) > newest, what="a checkpoint")
        pid = pid_of(tmp_path, rank)
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
        until(lambda rank=rank: len(lines(store, spec, "Lost")) > 1 - rank, what=f"the loss of rank {rank}")
    assert ended(store, spec) == "completed"
    assert outcome(store, spec) == expected
    reasons = [line["reason"] for line in lines(store, spec, "Lost")]
    assert "rank 1" in reasons[0], reasons
    with Series.read(store.experiment(spec.id).series) as series:
        starts = [leg["start"] for leg in series.legs()]
    assert starts[0] == 0, starts
    assert all(begun > 0 for begun in starts[1:]), "it goes on from a checkpoint"


def test_the_slots_that_a_gang_needs_stay_in_use_whatever_dies_in_them(tmp_path: Path, store: Store) -> None:
    dying = """
    if os.environ["RANK"] == "1" and not os.path.exists(f"died {trial.number}"):
        open(f"died {trial.number}", "w").close()
        os.kill(os.getpid(), 9)
"""
    whole = Scheduler(kind="all", first=2, last=2)
    spec = gang(tmp_path, 4, "dying", then=dying, scheduler=whole, trials=4, verify=False)
    start(store, spec)
    assert ended(store, spec) == "completed"
    assert len(lines(store, spec, "Lost")) == 4


def test_what_several_ranks_cannot_train_is_refused_by_name(tmp_path: Path, store: Store) -> None:
    own_steps = LOOP.replace("for epoch in trial.steps():", "for epoch in range(3):").replace(
        "seen=seen)", "seen=seen, step=epoch + 1)"
    )
    streamed = LOOP.replace(
        "loader = DataLoader(TensorDataset(x, y), batch_size=24, shuffle=True)",
        "class Rows(torch.utils.data.IterableDataset):\n    def __iter__(self):\n        return zip(x, y)\n"
        "loader = DataLoader(Rows(), batch_size=24)",
    )
    kwargs: dict[str, Any] = {"pause": 0, "dropout": 0, "log": str(tmp_path / "steps")}
    specs = [
        dataclasses.replace(spec, program=dataclasses.replace(spec.program, source=text.format(name="x", **kwargs)))
        for text, spec in ((own_steps, gang(tmp_path, 2, "own")), (streamed, gang(tmp_path, 2, "streamed")))
    ]
    large = gang(tmp_path, 5, "large")
    for spec in (*specs, large):
        start(store, spec)
    assert [ended(store, spec) for spec in (*specs, large)] == ["failed"] * 3
    own, rows, too_large = (meta(store, spec)["reason"] for spec in (*specs, large))
    assert "this loop counts its own steps, and --slots 2 gives it 2 processes" in own
    assert "loader" in rows
    assert "IterableDataset" in rows or "Rows" in rows
    assert "--slots 5: each trial needs 5 slots at once, and this cluster has 4" in too_large


def test_a_drained_slot_moves_the_gang_and_a_lost_worker_costs_a_retry(tmp_path: Path, store: Store) -> None:
    whole = Scheduler(kind="all", first=20, last=20)
    spec = gang(tmp_path, 2, "drained", pause=0.1, dropout=0.2, scheduler=whole, trials=1, verify=False)
    expected = calm(tmp_path, store, spec)
    (tmp_path / "steps").unlink()
    start(store, spec)
    until(lambda: len(steps_of(tmp_path)) > 4, what="some steps")
    (held, *_) = [one.slot for one in holders() if one.experiment == spec.label]
    drain(held)
    asked = until(lambda: lines(store, spec, "RoomAsked"), what="the request to make room")
    assert asked[0]["reason"] == f"made room: {held} is drained"
    before = len(steps_of(tmp_path))
    until(lambda: len(steps_of(tmp_path)) > before + 4, what="steps in other slots")
    there = [one for one in holders() if one.experiment == spec.label]
    assert held not in {one.slot for one in there}
    assert len(there) == 2
    use_again(held)
    os.kill(there[1].pid, signal.SIGKILL)
    assert ended(store, spec) == "completed"
    assert outcome(store, spec) == expected
    assert len(lines(store, spec, "Lost")) == 1


def test_code_that_manages_its_ranks_finds_torchruns_variables(tmp_path: Path, store: Store) -> None:
    source = """
x = uniform(0.0, 1.0)
import os
import torch
import torch.distributed as dist
dist.init_process_group("gloo")
total = torch.zeros(1)
for epoch in trial.steps():
    mine = torch.full((1,), float(dist.get_rank() + 1))
    dist.all_reduce(mine)
    total += mine
    if dist.get_rank() == 0:
        trial.report(score=float(total), size=int(os.environ["WORLD_SIZE"]))
"""
    whole = Scheduler(kind="all", first=3, last=3)
    space = {"x": uniform(0.0, 1.0)}
    spec = spec_of(
        source, tmp_path, name="torchrun", space=space, slots=2, preload=("torch",), scheduler=whole, trials=1
    )
    start(store, spec)
    assert ended(store, spec) == "completed"
    with Series.read(store.experiment(spec.id).series) as series:
        rows = {(row[2], row[4]) for row in series.points(names=["score"])}
    assert rows == {(step, 3.0 * step) for step in range(1, 4)}
