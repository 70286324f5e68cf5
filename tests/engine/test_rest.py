"""An engine without work: it sleeps, and is awake in the moment something is asked."""

from __future__ import annotations

import time
from pathlib import Path

from running import PLAIN, ended, engine, processes_below, spec_of, start, until

from workbench.records import Scheduler
from workbench.space import uniform
from workbench.store import Store, requests
from workbench.store.journal import read as read_journal
from workbench.store.lists.catalog import read_catalog
from workbench.store.owner.cluster import read_cluster

#: Seconds for which an idle engine is watched.
WATCHED_S = 6.0


def wakes(pids: list[int]) -> int:
    """How often the threads of these processes went to sleep, which they do once for each time they are awake."""
    count = 0
    for pid in pids:
        for status in Path(f"/proc/{pid}/task").glob("*/status"):
            line = next(line for line in status.read_text().splitlines() if line.startswith("voluntary"))
            count += int(line.split()[1])
    return count


def test_an_idle_engine_sleeps_and_answers_at_once(tmp_path: Path) -> None:
    store = Store(tmp_path / "store").create()
    one = Scheduler("all", 1, 1)
    spec = spec_of(PLAIN, tmp_path, space={"x": uniform(0, 1)}, scheduler=one, trials=2)
    with engine(store) as process:
        start(store, spec)
        assert ended(store, spec) == "completed"
        until(lambda: [line["state"] for line in read_catalog(store)] == ["completed"], what="its line")
        until(lambda: not any(slot["trial"] for slot in read_cluster(store)["slots"]), what="free slots")
        time.sleep(2)  # its files are being closed; no event tells when that is over
        pids = [process.pid, *processes_below(process.pid)]
        before = wakes(pids)
        time.sleep(WATCHED_S)
        # Some nine a second in the engine and three in each worker; before it rested these were 250.
        assert (wakes(pids) - before) / WATCHED_S < 50

        begun = time.monotonic()
        for _ in range(8):
            asked = requests.put(store, {"kind": "ping"})
            until(lambda asked=asked: asked in answered(store), what="an answer")
        # Looking for requests now and then would take a second for each.
        assert time.monotonic() - begun < 4


def answered(store: Store) -> set[str]:
    return {line["request"] for line in read_journal(store.journal_path) if line["kind"] == "answer"}
