"""What viewers are told of the cluster: workers, slots and who holds them, memory; and requests that wait."""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import running
from running import ended, engine, spec_of, start, until

from workbench.records import Scheduler
from workbench.space import uniform
from workbench.store import Store, requests
from workbench.store.journal import read as read_journal
from workbench.store.owner.cluster import read_cluster

#: One turn that lasts until a file appears, and holds 64 MB.
HELD = """
x = uniform(0.0, 1.0)
import pathlib, time
held = bytearray(64 << 20)
for epoch in trial.steps():
    while not pathlib.Path("go").exists():
        time.sleep(0.01)
    trial.report(score=x)
"""


def test_viewers_see_who_holds_which_slot_and_what_the_machines_have(tmp_path: Path) -> None:
    store = Store(tmp_path / "store").create()
    spec = spec_of(HELD, tmp_path, space={"x": uniform(0, 1)}, scheduler=Scheduler("all", 1, 1), trials=1)
    assert read_cluster(store)["workers"] == []
    with engine(store) as process:
        start(store, spec)

        def training() -> dict[str, Any] | None:
            found = read_cluster(store)
            held = [slot for slot in found["slots"] if slot["since"]]
            return found if held and any(worker["memory"] > 64 << 20 for worker in found["workers"]) else None

        found = until(training, what="a slot that is held")
        assert found["engine"]["alive"]
        assert found["engine"]["pid"] == process.pid
        assert len(found["workers"]) == len(found["slots"]) == 2
        (held,) = [slot for slot in found["slots"] if slot["trial"]]
        assert (held["experiment"], held["trial"]) == ("probe@1", "t0000")
        assert datetime.fromisoformat(held["since"]) <= datetime.now(UTC)
        (busy,) = [worker for worker in found["workers"] if worker["used"]]
        assert busy["address"] == held["worker"]
        assert busy["slots"] == 1
        assert busy["gpu"] == [] or busy["gpu"][0]["total"] > 0
        memory = found["memory"]
        assert memory["total"] > memory["used"] > memory["others"] >= 0
        assert sum(worker["memory"] for worker in found["workers"]) <= memory["used"] - memory["others"]
        (tmp_path / "go").touch()
        assert ended(store, spec) == "completed"
        until(lambda: not any(slot["trial"] for slot in read_cluster(store)["slots"]), what="free slots")
        before = store.cluster_json.stat().st_mtime_ns
        until(lambda: store.cluster_json.stat().st_mtime_ns != before, 15, "news although nothing changes")
    gone = read_cluster(store)
    assert (gone["workers"], gone["slots"], gone["engine"]["alive"]) == ([], [], False)
    assert not [name for name in os.listdir(store.root) if name.endswith(".writing")]


def test_a_request_that_waits_keeps_the_engine_and_one_taken_back_is_never_answered(tmp_path: Path) -> None:
    store = Store(tmp_path / "store").create()
    waits = (datetime.now(UTC) + timedelta(seconds=3)).isoformat()
    kept, back = (requests.put(store, {"kind": "ping", "not_before": waits}) for _ in range(2))
    with engine(store, workers=1, idle=0.2) as process:
        until(lambda: running.engine_pid(store), what="the engine")
        assert requests.withdraw(store, back) == "withdrawn"
        assert process.wait(30) == 0
    answers = [line for line in read_journal(store.journal_path) if line["kind"] == "answer"]
    assert [line["request"] for line in answers] == [kept]
    assert answers[0]["at"] >= waits[:23]
