"""Where the next engine finds its store's cluster, and that a record whose process is gone is worth nothing."""

from __future__ import annotations

import dataclasses
import os
import stat
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from workbench.store.owner import own_cluster, private
from workbench.store.owner.lease import boot_id
from workbench.store.owner.own_cluster import OwnCluster


@pytest.fixture
def record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> OwnCluster:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    ticks = own_cluster.ticks_of(os.getpid())
    assert ticks is not None
    return OwnCluster(
        store=str(tmp_path / "store"), pid=os.getpid(), ticks=ticks, boot_id=boot_id(), protocol=3, version="1",
        wanted=2, slots=1, has_devices=False, address="tls://127.0.0.1:1", security={"tls_client_key": "secret"},
        grace_s=60.0,
    )  # fmt: skip


def test_a_record_is_found_by_its_store_alone_and_only_its_owner_reads_it(record: OwnCluster, tmp_path: Path) -> None:
    own_cluster.write(record)
    assert own_cluster.read(Path(record.store)) == record
    assert own_cluster.read(tmp_path / "another") is None
    (path,) = (private.folder() / "clusters").iterdir()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


@pytest.mark.parametrize("change", [{"ticks": 1}, {"boot_id": "another"}, {"pid": 2**22 + 1}])
def test_a_process_of_another_time_is_no_cluster(record: OwnCluster, change: dict[str, object]) -> None:
    own_cluster.write(dataclasses.replace(record, **change))
    assert own_cluster.read(Path(record.store)) is None


@pytest.mark.parametrize("text", ["", "{", "[]", '{"store": 1}', "null"])
def test_what_cannot_be_read_is_no_cluster(record: OwnCluster, text: str) -> None:
    own_cluster.write(record)
    (path,) = (private.folder() / "clusters").iterdir()
    path.write_text(text)
    assert own_cluster.read(Path(record.store)) is None


def test_a_cluster_takes_away_its_own_record_alone(record: OwnCluster) -> None:
    own_cluster.write(record)
    other = dataclasses.replace(record, ticks=record.ticks + 1)
    own_cluster.remove(other)
    assert own_cluster.is_written(record)
    assert not own_cluster.is_written(other)
    own_cluster.remove(record)
    assert own_cluster.read(Path(record.store)) is None


def test_how_long_trials_train_on_is_said_in_seconds(record: OwnCluster) -> None:
    store = Path(record.store)
    assert own_cluster.trains_on(store) == ""
    own_cluster.write(record)
    assert "train for 60 s more" in own_cluster.trains_on(store)
    gone = (datetime.now(UTC) - timedelta(seconds=20)).isoformat()
    own_cluster.write(dataclasses.replace(record, lost=gone))
    assert "train for 40 s more" in own_cluster.trains_on(store)
    own_cluster.write(dataclasses.replace(record, grace_s=0.0))
    assert own_cluster.trains_on(store) == ""


def test_a_process_that_has_ended_is_gone_before_it_is_waited_for() -> None:
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    assert own_cluster.ticks_of(process.pid) is not None
    process.kill()
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    assert own_cluster.ticks_of(process.pid) is None
    process.communicate()
