"""The engine by hand: one for each store, a second one refused with who holds it, and what is under way goes on."""

from __future__ import annotations

import importlib.util
import os
import signal
import socket
import subprocess
import sys

import pytest
from cli.stored import Answering, Typed, Written, until

from workbench.cli.commands import engines
from workbench.store import requests
from workbench.store.owner.cluster import write_cluster
from workbench.store.owner.lease import read_engine

NOW = "2026-01-01T00:00:00.000+00:00"


def test_the_status_says_who_and_since_when(written: Written, type_: Typed) -> None:
    written.experiment(state="running", reason="training")
    found = type_("engine", "status")
    assert found.code == 4
    assert "no engine runs in" in found.out
    assert "digits@1 waits for one." in found.out
    with Answering(written.store):
        found = type_("engine", "status")
        assert found.code == 0
        assert f"the engine is process {os.getpid()} on {socket.gethostname()}" in found.out
        assert "its cluster is at tcp://127.0.0.1:1." in found.out
        assert "under way: digits@1." in found.out
        data = type_("engine", "status", "--json").json
        assert (data["alive"], data["engine"]["pid"], data["under_way"]) == (True, os.getpid(), ["digits@1"])


def test_the_status_says_who_holds_the_slots_of_the_machine(written: Written, type_: Typed) -> None:
    held = {"slot": "cpu1", "store": "/other", "experiment": "letters@2", "pid": 7, "since": NOW}
    with Answering(written.store):
        info = read_engine(written.store)
        assert info is not None
        facts = {"at": NOW, "workers": [], "slots": [], "memory": None}
        write_cluster(written.store, info, facts)  # as an earlier engine does
        assert "cpu1" not in type_("engine", "status").out
        write_cluster(written.store, info, {**facts, "held": [held], "dashboard": "http://127.0.0.1:9/status"})
        found = type_("engine", "status").out
        assert "slot cpu1: /other (letters@2), process 7, " in found
        assert "Dask's pages are at http://127.0.0.1:9/status." in found
        assert type_("engine", "status", "--json").json["held"] == [held]


def test_pages_that_cannot_be_are_refused_before_anything_starts(
    written: Written, type_: Typed, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = type_("engine", "start", "--dashboard", "--cluster", "tcp://127.0.0.1:1")
    assert (found.code, "for a cluster of this machine" in found.err) == (2, True)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    found = type_("engine", "start", "--dashboard")
    assert (found.code, "-m pip install bokeh" in found.err) == (2, True)
    assert "applies only to engine start" in type_("engine", "status", "--dashboard").err
    assert read_engine(written.store) is None


@pytest.mark.parametrize("action", ["start", "run"])
def test_a_second_engine_is_refused_and_told_who_holds_it(type_: Typed, answering: Answering, action: str) -> None:
    found = type_("engine", action)
    assert found.code == 4
    assert f"process {os.getpid()}" in found.err
    assert "has one engine" in found.err


def test_an_engine_is_told_to_end(written: Written, type_: Typed, answering: Answering) -> None:
    written.experiment(state="running", reason="training")
    found = type_("engine", "stop")
    assert found.code == 0
    assert found.out == "the engine has ended; digits@1 will continue with the next one.\n"
    assert [asked["kind"] for asked in answering.asked] == ["end"]
    assert type_("engine", "stop").out.startswith("no engine runs")
    assert not requests.pending(written.store)


def test_a_cluster_that_nobody_answers_at_is_refused_before_anything_starts(written: Written, type_: Typed) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound and not listening: connections are refused
        found = type_("engine", "start", "--cluster", f"tcp://127.0.0.1:{taken.getsockname()[1]}")
    assert found.code == 4
    assert "nothing answers at tcp://127.0.0.1" in found.err
    assert read_engine(written.store) is None
    assert type_("engine", "start", "--cluster", "nonsense").code == 2
    assert type_("engine", "start", "--cluster", "tcp://h:1", "--workers", "2").code == 2
    assert "applies only to engine start" in type_("engine", "status", "--workers", "2").err


def test_a_real_engine_starts_and_ends(written: Written, type_: Typed) -> None:
    found = type_("engine", "start", "--workers", "1", "--idle", "60", "--json")
    assert found.code == 0, found.err
    pid = found.json["engine"]["pid"]
    try:
        info = read_engine(written.store)
        assert info is not None
        assert (info.alive, info.pid) == (True, pid)
        assert os.getsid(pid) == pid
        assert type_("engine", "start").code == 4
        assert type_("engine", "stop").code == 0
        assert read_engine(written.store) is None
    finally:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        os.waitpid(pid, 0)


def test_a_real_engine_in_the_foreground_ends_by_ctrl_c(written: Written) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "workbench", "--store", str(written.store.root), "engine", "run", "--workers", "1"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        until(lambda: (info := read_engine(written.store)) is not None and info.alive, 60)
        os.killpg(process.pid, signal.SIGINT)  # as a terminal does; it may still be importing
        _, err = process.communicate(timeout=60)
    finally:
        process.kill()
        process.wait()
    assert process.returncode in (0, 130)
    assert "Traceback" not in err
    assert read_engine(written.store) is None


async def test_a_notebook_is_told_to_start_one_instead(type_: Typed) -> None:
    found = type_("engine", "run")
    assert found.code == 2
    assert "%workbench engine start" in found.err


def test_an_engine_that_cannot_begin_says_why(written: Written, type_: Typed, monkeypatch: pytest.MonkeyPatch) -> None:
    command = [sys.executable, "-c", "raise SystemExit('the disk is on fire')"]
    monkeypatch.setattr(engines, "_command", lambda *_: command)
    found = type_("engine", "start")
    assert found.code == 4
    assert found.err == "the engine ended at once (exit code 1): the disk is on fire\n"


def test_settings_that_are_no_numbers(type_: Typed, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORKBENCH_IDLE", "soon")
    found = type_("engine", "start")
    assert found.code == 2
    assert found.err.startswith("WORKBENCH_IDLE=soon: expected seconds")
