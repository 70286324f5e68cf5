"""`workbench queue`: to whom free slots are promised, what measures decided, and the clusters that engines are attached
to."""

from __future__ import annotations

import json
import os
import signal
import time
from pathlib import Path
from typing import Any

import pytest
from cli.stored import typed
from cli.test_queue import Locked, locked, machine, queue_when, search
from running import dask_cluster, ended, engine, start, until

from workbench.store import Store
from workbench.store.owner.promised import clock
from workbench.store.owner.slots import now

__all__ = ["locked", "machine"]


def test_a_waiting_search_says_which_free_slots_are_promised_to_whom_and_since_when(
    tmp_path: Path, machine: list[str], locked: Locked
) -> None:
    since = now()
    kept: list[dict[str, Any]] = [
        {"slots": 1, "store": f"{tmp_path}/nlp/.workbench", "experiment": "bert@1", "user": "", "since": since},
        {"slots": 1, "store": "", "experiment": None, "user": "alice", "since": since},
    ]
    claim = {"store": f"{tmp_path}/vision/.workbench", "held": 0, "since": since, "wants": machine, "lacks": 4}
    locked("claims", "one", {**claim, "unit": 4, "experiments": ["resnet@1"], "promised": kept})
    (waits,) = typed("queue", "--json").json["waiting"]
    assert waits["promised"] == [
        {"place": f"{tmp_path}/nlp", "experiment": "bert@1", "user": None, "slots": 1, "since": since},
        {"place": "alice", "experiment": None, "user": "alice", "slots": 1, "since": since},
    ]
    at = clock(since)
    words = (
        f"waits for 4 slots: {len(machine)} free, 1 promised to {tmp_path}/nlp (bert@1) since {at}, "
        f"1 promised to alice since {at}"
    )
    assert waits["why"] == words
    assert words in [line.strip() for line in typed("queue").out.splitlines()]


@pytest.mark.parametrize("promised", [3, [1], [{"slots": "many"}], [{}], {"a": 1}, [{"slots": -1, "since": 7}]])
def test_odd_promises_of_a_claim_break_nothing(machine: list[str], locked: Locked, promised: object) -> None:
    locked(
        "claims", "one", {"store": "/b", "held": 0, "since": now(), "wants": machine, "lacks": 1, "promised": promised}
    )
    assert typed("queue").code == 0
    json.dumps(typed("queue", "--json").json)


def test_a_cluster_that_engines_are_attached_to_has_its_section(tmp_path: Path, machine: list[str]) -> None:
    a, long = search(tmp_path, "long", trials=2)
    b, short = search(tmp_path, "short", trials=1)
    with (
        dask_cluster(tmp_path, workers=2) as (address, (scheduler, *_)),
        engine(a, WORKBENCH_CLUSTER=address),
        engine(b, WORKBENCH_CLUSTER=address),
    ):
        start(a, long)
        seen = lambda found: found["clusters"] and len(found["clusters"][0]["slots"]) == 2  # noqa: E731
        queue_when(seen, "the slots of the first")
        start(b, short)
        found = queue_when(
            lambda found: (
                seen(found)
                and found["clusters"][0]["waiting"]
                and all(one["trial"] for one in found["clusters"][0]["slots"])
            ),
            "a wait on the cluster",
        )
        assert found["slots"] == [], "no slot of this machine is held"
        (cluster,) = found["clusters"]
        assert cluster["address"] == address
        assert sorted(cluster["stores"]) == sorted([str(a.root), str(b.root)])
        assert (cluster["trouble"], cluster["free"]) == (None, [])
        assert {(one["store"], one["experiment"]) for one in cluster["slots"]} == {(str(a.root), "long@1")}
        assert {one["trial"] for one in cluster["slots"]} == {"t0000", "t0001"}
        (waits,) = cluster["waiting"]
        assert (waits["store"], waits["experiments"], waits["lacks"]) == (str(b.root), ["short@1"], 1)
        assert waits["why"] == f"waits for a slot: 2 of 2 are held by {tmp_path}/long (long@1)"
        shown = typed("queue").out
        assert f"cluster at {address}, used by {tmp_path}/long, {tmp_path}/short" in shown
        assert "0 of 2 slots are free." in shown
        assert waits["why"] in shown

        os.kill(scheduler.pid, signal.SIGSTOP)
        try:
            begun = time.monotonic()
            found = typed("queue", "--json").json
            assert time.monotonic() - begun < 4
            assert "does not answer within 2 s" in found["clusters"][0]["trouble"]
        finally:
            os.kill(scheduler.pid, signal.SIGCONT)
        until(lambda: typed("queue", "--json").json["clusters"][0]["trouble"] is None, what="an answer")
        (tmp_path / "go").touch()
        assert ended(a, long) == ended(b, short) == "completed"
    assert Store(a.root).root == a.root
    assert queue_when(lambda found: not found["clusters"], "the engines' end")["clusters"] == []
