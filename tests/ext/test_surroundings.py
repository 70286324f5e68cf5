"""The cluster, the disk, the ladder and comparisons, as the panel gets them."""

from __future__ import annotations

import math
import os

import pytest
from cli.stored import Answering

from workbench.store.journal import Journal
from workbench.store.keeping.checkpoints import Checkpoints
from workbench.store.owner.cluster import write_cluster
from workbench.store.owner.lease import read_engine
from workbench.store.series import Series


async def test_the_cluster_is_shown_while_its_engine_lives(ask, written):
    machine = {"address": "tls://127.0.0.1:1", "host": "here", "memory": 3, "cpu": None, "gpu": [], "memory_limit": 9}
    worker = {"name": "w<b>", "slots": 2, "used": 1, **machine}
    slot = {"worker": "w<b>", "slot": 0, "experiment": "digits@1", "trial": "t0001", "since": None}
    memory = {"total": 8, "used": 4, "others": 1}
    with Answering(written.store):
        facts = {"at": "2026-01-01T00:00:00Z", "workers": [worker], "slots": [slot], "memory": memory}
        write_cluster(written.store, read_engine(written.store), facts)
        cluster = await ask("cluster")
    assert (cluster["workers"], cluster["slots"], cluster["memory"]) == ([worker], [slot], memory)
    assert cluster["engine"]["alive"]
    cluster = await ask("cluster")
    assert (cluster["workers"], cluster["slots"], cluster["engine"]["alive"]) == ([], [], False)


async def test_a_damaged_cluster_file_is_passed_over(ask, written):
    with Answering(written.store):
        written.store.cluster_json.write_text("{")
        assert (await ask("cluster"))["workers"] == []


async def test_the_store_says_what_it_takes(ask, written):
    spec = written.experiment()
    written.checkpoint(spec, 1, 3, b"x" * 10_000)
    disk = await ask("store")
    assert disk["root"] == str(written.store.root)
    assert [one["id"] for one in disk["experiments"]] == [spec.id]
    assert disk["bytes"] >= disk["experiments"][0]["bytes"] > 10_000
    assert disk["free"] > 0


async def test_what_cleaning_up_would_free_is_told(ask, written):
    old = 1_000_000_000  # seconds since 1970
    blob = written.store.blob_path(written.store.put_blob(b"y" * 7_000))
    os.utime(blob, (old, old))
    disk = await ask("store")
    assert disk["reclaimable"] == 7_000, "nobody names it, and it is older than a day"
    spec = written.experiment()
    with Journal.open(written.store.experiment(spec.id).journal) as journal:
        journal.append({"kind": "Settle", "trial": 0, "state": "stopped", "reason": "rung 0: it is rank 2 of 2"})
    written.checkpoint(spec, 0, 3, b"x" * 10_000)
    disk = await ask("store")
    assert disk["reclaimable"] == 7_000 + Checkpoints(written.store.experiment(spec.id).trial(0)).size(3)
    assert disk["rule"] == {"experiment": 1, "best": 1, "latest": 1, "stopped": 0}


async def test_an_absent_store_takes_nothing(ask):
    disk = await ask("store")
    assert (disk["bytes"], disk["experiments"]) == (0, [])


async def test_the_ladder_follows_the_journal_by_a_cursor(ask, written):
    spec = written.experiment()
    path = written.store.experiment(spec.id).journal
    with Journal.open(path) as journal:
        journal.append({"kind": "CapacityChanged", "slots": 1})
    whole = await ask("experiments", "digits", "ladder")
    assert [trial["trial"] for trial in whole["ladder"]["trials"]] == [0]
    cursor = whole["ladder"]["n"]
    assert (await ask("experiments", "digits", "ladder", after=cursor))["ladder"]["trials"] == []
    with Journal.open(path) as journal:
        journal.append({"kind": "Lost", "trial": 0, "reason": "killed"})
    new = await ask("experiments", "digits", "ladder", after=cursor)
    assert (new["ladder"]["n"], new["since"]["retries"]) == (cursor + 1, 1)
    assert [trial["trial"] for trial in new["ladder"]["trials"]] == [0]


async def test_two_trials_are_compared(ask, written):
    spec = written.experiment()
    with Series.open(written.store.experiment(spec.id).series) as series:
        series.put_trial(1, value=math.nan)
    found = await ask("compare", a="digits@1/t0000", b="digits@1/t0001")
    assert (found["a"]["trial"], found["b"]["trial"], found["same"]) == (0, 1, False)
    items = {item["name"]: (item["a"], item["b"]) for section in found["sections"] for item in section["items"]}
    assert items["lr"][0] == pytest.approx(0.1) or items["lr"][0] == "0.1"


@pytest.mark.parametrize(
    ("a", "b", "status"),
    [("digits", "", 400), ("nobody", "digits", 404), ("digits/t0099", "digits", 404), ("..", "digits", 404)],
)
async def test_what_cannot_be_compared_is_refused(a, b, status, refused, written):
    written.experiment()
    assert (await refused("compare", a=a, b=b))[0] == status


@pytest.mark.skipif(os.geteuid() == 0, reason="nothing is read-only for root")
async def test_a_store_that_cannot_be_written_is_shown_and_refuses_orders(ask, send, written):
    written.experiment(state="running")
    for folder in (written.store.requests, written.store.root):
        folder.chmod(0o500)
    try:
        assert (await ask("health"))["readonly"]
        assert len((await ask("experiments"))["experiments"]) == 1
        assert (await send("requests", kind="pause", experiment="digits"))[0] == 503
    finally:
        for folder in (written.store.root, written.store.requests):
            folder.chmod(0o700)


async def test_a_store_named_as_read_only_refuses_orders(send, written, monkeypatch):
    """As above, for users who can write everywhere, such as root."""
    written.experiment(state="running")
    monkeypatch.setattr(os, "access", lambda *_, **__: False)
    code, answer = await send("requests", kind="pause", experiment="digits")
    assert code == 503
    assert "cannot be written" in answer["message"]
