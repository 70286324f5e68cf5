"""Doctor finds what is wrong, in words, changes nothing, and ends with 1 where there is a problem."""

from __future__ import annotations

import errno
import json
import os
import shutil
import socket
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cli.stored import Answering, Typed, Written, typed

from workbench.cli.commands import doctor
from workbench.snapshot.capture import capture
from workbench.store import Store
from workbench.store.files import filesystem
from workbench.store.journal import Journal


def found(type_: Typed) -> tuple[int, dict[str, tuple[str, str]]]:
    said = type_("doctor", "--json")
    return said.code, {f["about"]: (f["level"], f["says"]) for f in said.json["findings"]}


def state_of(store: Store) -> dict[str, Any]:
    """Every file; without SQLite's own, which any reader may make."""
    files = [path for path in store.root.rglob("*") if path.is_file() and not path.name.startswith("series.db-")]
    return {str(path): path.stat().st_mtime_ns for path in files}


def test_a_sound_store_has_no_problem_and_is_not_changed(written: Written, type_: Typed) -> None:
    written.experiment()
    before = state_of(written.store)
    code, lines = found(type_)
    assert code == 0, lines
    assert {level for level, _ in lines.values()} <= {"ok", "warning"}
    assert lines["files"] == ("ok", "1 experiment, all intact")
    assert lines["catalog"] == ("ok", "1 experiment, as the journals say")
    assert "workbench" in lines["versions"][1]
    assert "distributed" in lines["versions"][1]
    assert lines["processes"][0] == "ok"
    assert lines["engine"][1].startswith("none is running")
    assert state_of(written.store) == before


def test_without_a_store_it_looks_at_the_rest(tmp_path: Path) -> None:
    said = typed("doctor")
    assert said.code == 0
    assert "a %%train cell creates it" in said.out
    assert not (tmp_path / ".workbench").exists()
    assert all(line.split()[0] in ("ok", "warning") for line in said.out.splitlines())


def test_a_torn_tail_is_a_warning_and_damage_further_up_a_problem(written: Written, type_: Typed) -> None:
    spec = written.experiment()
    path = written.store.experiment(spec.id).journal
    whole = path.read_bytes()
    path.write_bytes(whole + b'{"n": 9, "ki')
    code, lines = found(type_)
    assert code == 0
    assert lines["journal"][0] == "warning"
    assert "torn" in lines["journal"][1]
    path.write_bytes(b"rubbish\n" + whole)
    code, lines = found(type_)
    assert code == 1
    assert lines["journal"][0] == "problem"


def test_damaged_files_are_named(written: Written, type_: Typed) -> None:
    spec = written.experiment()
    paths = written.store.experiment(spec.id)
    paths.spec.write_text("{")
    paths.series.write_bytes(b"no database at all" * 100)
    written.store.catalog_path.write_text("{")
    written.store.refused_requests.mkdir()
    (written.store.refused_requests / "x.json").write_text("{")
    code, lines = found(type_)
    assert code == 1
    assert lines["spec"][0] == "problem"
    assert str(paths.spec) in lines["spec"][1]
    assert lines["series"][0] == "problem"
    assert lines["catalog"][0] == "warning"
    assert lines["requests"][0] == "warning"
    assert "x.json" in lines["requests"][1]


def test_links_to_data_beside_a_module_are_no_damage_and_one_in_place_of_a_module_is(
    written: Written, type_: Typed, tmp_path: Path
) -> None:
    written.experiment()
    code = written.store.snapshots / ("ab" * 32) / "code"
    code.mkdir(parents=True)
    (code / "model.py").write_text("LAYERS = 3\n")
    for name in ("data.csv", "images"):
        (code / name).symlink_to(tmp_path / name)
    assert "snapshot's code" not in type_("doctor").out
    (code / "other.py").symlink_to(tmp_path / "other.py")
    said = type_("doctor")
    assert (said.code, "other.py is a link, expected a file" in said.out) == (1, True)


def test_captured_values_that_are_gone_are_named(written: Written, type_: Typed) -> None:
    names = {"rows": np.arange(200_000.0), "more": np.arange(300_000.0), "rate": 0.5}
    captured = capture(names, names, written.store).digest
    spec = written.experiment()
    path = written.store.experiment(spec.id).spec
    told = json.loads(path.read_text())
    told["program"]["capture"] = captured
    path.write_text(json.dumps(told))
    assert "blob" not in found(type_)[1]
    lists = json.loads(written.store.get_blob(captured))
    first, second = lists["regions"]
    written.store.blob_path(second).unlink()
    code, lines = found(type_)
    assert code == 1
    where = written.store.blob_path(second)
    says = f"{where} is missing, and digits@1 has captured values in them. Restore them from a copy"
    assert lines["blob"] == ("problem", says)
    written.store.blob_path(first).unlink()
    assert f"{written.store.blob_path(first)} and 1 more are missing" in found(type_)[1]["blob"][1]


def test_a_catalog_that_differs_from_the_journals(written: Written, type_: Typed) -> None:
    spec = written.experiment()
    written.catalog.upsert_experiment(spec.id, {"state": "running"})
    written.catalog.close()
    assert "differs from the journals for digits@1" in found(type_)[1]["catalog"][1]
    written.store.catalog_path.unlink()
    assert "it is missing" in found(type_)[1]["catalog"][1]


def test_requests_that_nobody_takes(written: Written, type_: Typed) -> None:
    from workbench.store import requests

    requests.put(written.store, {"kind": "ping"})
    assert found(type_)[1]["requests"][0] == "warning"


def test_little_space_and_none(written: Written, type_: Typed, monkeypatch: pytest.MonkeyPatch) -> None:
    # The machine's own disk: filling it would stop every other test.
    monkeypatch.setattr(doctor, "space_left", lambda _: 10**9)
    assert found(type_)[1]["space"][0] == "warning"
    monkeypatch.setattr(doctor, "space_left", lambda _: 10**6)
    code, lines = found(type_)
    assert (code, lines["space"][0]) == (1, "problem")
    assert lines["space"][1].startswith("1 MB left")


def test_a_network_file_system_is_a_warning(written: Written, type_: Typed, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(filesystem, "kind", lambda *_: "nfs4")
    assert found(type_)[1]["file system"][0] == "warning"


def test_a_store_that_cannot_be_written(written: Written, type_: Typed, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr(doctor, "_try_writing", refuse)
    code, lines = found(type_)
    assert code == 1
    assert "Read-only file system" in lines["store"][1]


def test_others_who_may_look_in(written: Written, type_: Typed) -> None:
    os.chmod(written.store.root, 0o755)
    assert "other users of this machine can read" in found(type_)[1]["store"][1]


def test_the_engine_and_its_log(written: Written, type_: Typed, answering: Answering) -> None:
    written.store.engine_log.write_text("… INFO a\n… ERROR workbench.engine: no Dask scheduler answers\n… INFO b\n")
    code, lines = found(type_)
    assert code == 1, "the answering engine names an address at which nobody is"
    assert lines["engine"][0] == "ok"
    assert f"process {os.getpid()}" in lines["engine"][1]
    assert "no Dask scheduler answers" in lines["engine log"][1]
    assert lines["cluster"][0] == "problem"


def test_a_silent_engine_hangs(written: Written, type_: Typed, monkeypatch: pytest.MonkeyPatch) -> None:
    with Answering(written.store):
        monkeypatch.setattr(doctor, "SILENT_S", -1.0)
        assert "it hangs" in found(type_)[1]["engine"][1]


def test_an_engine_whose_heartbeat_the_full_disk_does_not_take_is_not_said_to_hang(
    written: Written, type_: Typed, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(place: Path) -> None:  # a real full disk needs a file system of its own
        raise OSError(errno.ENOSPC, "No space left on device")

    with Answering(written.store):
        monkeypatch.setattr(doctor, "SILENT_S", -1.0)  # any engine is silent for that long
        monkeypatch.setattr(doctor, "_try_writing", full)
        lines = found(type_)[1]
    assert lines["store"][0] == "problem"
    assert lines["engine"][0] == "warning"
    assert lines["engine"][1].endswith("it cannot write to the store either. It continues when it can")


def test_the_cluster_of_the_environment(written: Written, type_: Typed, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        monkeypatch.setenv("WORKBENCH_CLUSTER", f"tcp://127.0.0.1:{listening.getsockname()[1]}")
        assert found(type_)[1]["cluster"][0] == "ok"
    code, lines = found(type_)
    assert (code, lines["cluster"][0]) == (1, "problem")
    assert lines["cluster"][1].startswith("WORKBENCH_CLUSTER: nothing answers")


def test_a_journal_that_grows_meanwhile_is_no_damage(written: Written, type_: Typed) -> None:
    spec = written.experiment(state="running", reason="training")
    with Journal.open(written.store.experiment(spec.id).journal) as journal:
        journal.append({"kind": "Began"})
    assert found(type_)[1]["files"][0] == "ok"


def test_an_experiment_whose_files_are_gone(written: Written, type_: Typed) -> None:
    spec = written.experiment()
    shutil.rmtree(written.store.experiment(spec.id).folder)
    assert "whose files are missing: digits@1" in found(type_)[1]["catalog"][1]
