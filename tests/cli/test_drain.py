"""`workbench drain`: a slot is taken out of use under a running search, and nothing of it is lost."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from cli.stored import typed
from running import ended, engine, few_cores, lines, meta, outcome, spec_of, start, until

from workbench.records import Scheduler, Spec
from workbench.space import uniform
from workbench.store import Store
from workbench.store.owner.slots import drained, holders, take

LONG = """
x = uniform(0.0, 1.0)
import random, time
total = 0.0
for epoch in trial.steps():
    time.sleep(0.02)
    total = 0.9 * total + x * random.random()
    trial.report(score=total, noise=random.random())
"""


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """A runtime folder of its own, and two cores: the names of their slots."""
    with few_cores(tmp_path, monkeypatch, 2) as names:
        if len(names) < 2:
            pytest.skip("one core")
        yield names


def search(tmp_path: Path, name: str) -> Spec:
    whole = Scheduler(kind="all", first=200, last=200)
    space = {"x": uniform(0.0, 1.0)}
    return spec_of(LONG, tmp_path, name=name, space=space, scheduler=whole, trials=2, verify=False)


def test_trials_leave_a_drained_slot_and_continue_elsewhere(tmp_path: Path, machine: list[str]) -> None:
    store, spec, calm = Store(tmp_path / "store").create(), search(tmp_path, "moved"), search(tmp_path, "calm")
    first, second = machine
    with engine(store, workers=2):
        start(store, calm)
        assert ended(store, calm) == "completed"
        start(store, spec)
        until(lambda: len(holders()) == 2 and len(lines(store, spec, "LegStarted")) == 2, what="both slots")
        told = typed("drain", first)
        assert told.code == 0
        assert told.out.splitlines()[-1] == (
            f"{first} is free. `workbench drain {first} --undo` lets trials use it again."
        )
        assert [one.slot for one in holders()] == [second]
        (asked,) = lines(store, spec, "RoomAsked")
        assert asked["reason"] == f"made room: {first} is drained"
        assert f"drained: {first}. " in typed("queue").out
        assert typed("queue", "--json").json["drained"] == [first]

        # Both are drained: the search waits, and says for what.
        typed("drain", second)
        words = f"waits for a slot: {first}, {second} are drained"
        until(lambda: meta(store, spec).get("reason") == words, what="the reason for which it waits")
        assert not holders()
        assert typed("drain", first, "--undo").out == f"{first} is used again.\n"
        until(lambda: [one.slot for one in holders()] == [first], what="the slot that is used again")
        assert ended(store, spec) == "completed"
        assert drained() == {second}
    assert outcome(store, spec) == outcome(store, calm)


def test_a_slot_that_is_not_there_is_refused_and_a_drained_one_is_not_given_out(machine: list[str]) -> None:
    refused = typed("drain", "gpu7")
    assert refused.code == 3
    assert "slot 'gpu7' is not on this machine. Its slots: " in refused.err
    found = typed("drain", machine[0], "--json").json
    assert (found["slot"], found["drained"], found["free"]) == (machine[0], True, True)
    assert take(machine[:1], "/a") is None
    assert typed("queue").out.startswith(f"free: 1 of 2 cores ({machine[1]}).\n")
    typed("drain", machine[0], "--undo")
    lease = take(machine[:1], "/a")
    assert lease is not None
    assert typed("drain", machine[0], "--no-wait").out.startswith(f"{machine[0]} is not free yet. ")
    lease.release()


@pytest.mark.parametrize("bad", ["../cpu0", "", "."])
def test_a_slot_is_a_name_and_no_path(bad: str, machine: list[str]) -> None:
    assert typed("drain", bad).code != 0
    assert not drained()
