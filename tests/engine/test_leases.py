"""Two engines on one machine: together they train in no more slots than there are, and both go on."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from running import (
    alive,
    ended,
    engine,
    engine_process,
    few_cores,
    meta,
    most_at_once,
    processes_below,
    spec_of,
    start,
    until,
)

from workbench.records import Scheduler, Spec
from workbench.space import uniform
from workbench.store import Store
from workbench.store.owner.cluster import read_cluster
from workbench.store.owner.runtime import place
from workbench.store.owner.slots import holders, waiters
from workbench.store.series import Series

#: Each turn writes when it began and ended, with the store it belongs to.
TIMED = """
x = uniform(0.0, 1.0)
import json, os, time
for epoch in trial.steps():
    begun = time.monotonic()
    time.sleep({turn})
    with open({log!r}, "a") as file:
        file.write(json.dumps([{name!r}, begun, time.monotonic()]) + "\\n")
    trial.report(score=x)
"""


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """A runtime folder of its own, and two cores (one, where there is but one)."""
    with few_cores(tmp_path, monkeypatch, 2) as names:
        yield len(names)


def search(tmp_path: Path, name: str, trials: int, turn: float = 0.1) -> tuple[Store, Spec]:
    """A search of its own store whose turns are written to a log that all share."""
    source = TIMED.format(turn=turn, log=str(tmp_path / "turns"), name=name)
    whole = Scheduler(kind="all", first=3, last=3)
    space = {"x": uniform(0.0, 1.0)}
    spec = spec_of(source, tmp_path, name=name, space=space, scheduler=whole, trials=trials, verify=False)
    return Store(tmp_path / name / ".workbench"), spec


def turns(tmp_path: Path) -> list[tuple[str, float, float]]:
    """The turns so far: whose, begun, ended."""
    path = tmp_path / "turns"
    return [tuple(json.loads(line)) for line in path.read_text().splitlines()] if path.exists() else []


def test_two_searches_share_the_machine_and_the_last_one_has_all_of_it(tmp_path: Path, machine: int) -> None:
    a, long = search(tmp_path, "long", trials=30)
    b, short = search(tmp_path, "short", trials=6)
    with engine(a, workers=machine), engine(b, workers=machine):
        for store in (a, b):
            until(lambda store=store: read_cluster(store)["workers"], what=f"a cluster of {store.root}")
        assert not holders(), "an idle engine holds no slot"
        start(a, long)
        until(lambda: len(turns(tmp_path)) > 2, what="the first search")
        start(b, short)
        seen = until(lambda: waits(b, short), what="the reason for which the second waits")
        assert seen.startswith(f"waits for a slot: {machine} of {machine} are held by {a.root} (long@1)"), seen
        shown = until(lambda: read_cluster(b)["held"], what="the holders of slots")
        # By now the second may have got its first slot.
        assert str(a.root) in {one["store"] for one in shown} <= {str(a.root), str(b.root)}
        assert ended(b, short) == "completed"
        done = turns(tmp_path)
        assert ended(a, long) == "completed"
        until(lambda: not holders(), what="two idle engines without a slot")
        assert not waiters()
    found = turns(tmp_path)
    assert most_at_once(found) == machine, "together they train in all slots, and in no more"
    second = [begun for name, begun, _ in found if name == "short"]
    between = [name for name, begun, _ in done if begun > second[0]]
    assert "long" in between, "the first search went on while the second trained"
    assert sum(name == "long" for name, _, _ in done) < 90, "the second ended before the first"
    assert most_at_once(found[len(done) + 2 :]) == machine, "what was left had the whole machine"


def test_a_killed_session_gives_its_slots_at_once(tmp_path: Path, machine: int) -> None:
    a, endless = search(tmp_path, "endless", trials=1000, turn=0.5)
    b, short = search(tmp_path, "short", trials=2, turn=0.01)
    with engine(b, workers=machine):
        a.create()
        process = engine_process(a, workers=machine)
        try:
            until(lambda: read_cluster(b)["workers"], what="the second cluster")
            start(a, endless)
            until(lambda: len(holders()) == machine, what="the slots of the first")
            start(b, short)
            until(lambda: waits(b, short), what="the reason for which the second waits")
            os.kill(process.pid, signal.SIGSTOP)  # it gives nothing back any more
            family = [process.pid, *processes_below(process.pid)]
        finally:
            for pid in [process.pid, *processes_below(process.pid)]:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            process.wait()
        killed = time.monotonic()
        until(lambda: not any(one.store == str(a.root) for one in holders()), what="the slots of the killed one")
        assert time.monotonic() - killed < 10.0  # a frozen session is given a minute
        assert ended(b, short) == "completed"
    until(lambda: not alive(family), what="the end of all that was killed")
    assert (place() / "slots" / "cpu0").parent.is_dir(), "the files stay, and mean nothing"


def test_a_folder_that_cannot_be_trusted_is_named_and_every_engine_has_its_own_slots(
    tmp_path: Path, machine: int
) -> None:
    place().mkdir()
    place().chmod(0o777)
    store, spec = search(tmp_path, "alone", trials=2, turn=0.01)
    with engine(store, workers=machine):
        start(store, spec)
        assert ended(store, spec) == "completed"
    said = " ".join(meta(store, spec)["says"])
    assert f"slots are not shared with your other engines on this machine: {place()} is open to other users" in said
    assert f"chmod 700 {place()}" in said


def waits(store: Store, spec: Spec) -> str | None:
    """Why the experiment waits, where it says so; its trials say the same, and none is called running."""
    if not store.experiment(spec.id).series.exists():
        return None
    told: dict[str, Any] = meta(store, spec)
    if told.get("state") != "waiting" or "held by" not in told["reason"]:
        return None
    with Series.read(store.experiment(spec.id).series) as series:
        states = {row["state"] for row in series.trials()}
    assert states <= {"waiting"}, states
    return str(told["reason"])


def test_a_lease_that_a_killed_engine_left_with_nothing_to_train_is_given_back(tmp_path: Path, machine: int) -> None:
    store, spec = search(tmp_path, "last", 1)
    with engine(store, workers=1) as process:
        start(store, spec)
        assert ended(store, spec) == "completed"
        process.kill()
        process.wait()
        assert holders(), "its worker has the slot still, for a moment in which another leg might come"
        with engine(store, workers=1):
            until(lambda: not holders(), 20, "an idle engine without a slot")
