"""A service for the engine: the unit's text as systemd reads it, and what is said where there is no systemd."""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from cli.stored import Typed, Written

from workbench.cli.commands.service import unit_name, unit_path, unit_text
from workbench.engine import scope
from workbench.store import Store

#: Stands for systemctl and busctl where the machine has no session: it notes what it was asked.
STAND_IN = '#!/bin/sh\necho "$0 $@" >> {log}\nexit {code}\n'


@pytest.fixture
def systemd(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """``systemd(code)`` puts programs into the path that answer so; what they were asked."""

    def make(code: int) -> Path:
        folder, log = tmp_path / "bin", tmp_path / "asked"
        folder.mkdir(exist_ok=True)
        for name in ("systemctl", "busctl"):
            (folder / name).write_text(STAND_IN.format(log=log, code=code))
            (folder / name).chmod(0o700)
        monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
        return log

    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    return make


def options(**given: object) -> argparse.Namespace:
    return argparse.Namespace(**{"cluster": None, "workers": None, "idle": None, "dashboard": False, **given})


def test_the_unit_is_written_enabled_and_taken_back(written: Written, type_: Typed, systemd) -> None:
    log = systemd(0)
    found = type_("engine", "--install-service", "--workers", "3")
    assert found.code == 0, found.err
    path, name = unit_path(written.store), unit_name(written.store)
    assert str(path) in found.out
    assert "enable-linger" in found.out
    text = path.read_text()
    assert (
        f'ExecStart="{sys.executable}" "-P" "-m" "workbench.engine" "--store" "{written.store.root}" "--workers" "3"'
        in text
    )
    assert "Restart=on-failure" in text
    asked = log.read_text()
    assert "--user daemon-reload" in asked
    assert f"--user enable {name}" in asked
    found = type_("engine", "--remove-service")
    assert found.code == 0
    assert not path.exists()
    assert f"--user disable {name}" in log.read_text()
    assert "no service is installed" in type_("engine", "--remove-service").err


def test_without_a_session_of_systemd_nothing_is_written_and_it_is_said_what_else_helps(
    written: Written, type_: Typed, systemd, monkeypatch: pytest.MonkeyPatch
) -> None:
    systemd(1)
    found = type_("engine", "--install-service")
    assert found.code == 4
    assert "systemd has no session for you here" in found.err
    assert "@reboot" in found.err
    monkeypatch.setenv("PATH", "/nowhere")
    assert "there is no systemd on this machine" in type_("engine", "--install-service").err
    assert not unit_path(written.store).exists()


def test_one_thing_is_asked_of_an_engine_at_a_time(type_: Typed) -> None:
    for words in ([], ["start", "--install-service"], ["--install-service", "--remove-service"]):
        found = type_("engine", *words)
        assert found.code == 2
        assert "expected one of status, start, stop, run, --install-service or --remove-service" in found.err


# Only systemd itself can tell; the unit's text is compared above, on every machine.
@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd is not installed")
def test_systemd_reads_the_unit_as_it_is_meant(tmp_path: Path) -> None:
    store = Store(tmp_path / 'a store, 100% "mine" $HOME').create()
    unit = tmp_path / unit_name(store)
    unit.write_text(unit_text(store, options(workers=2, idle=30.0)))
    environ = {**os.environ, "XDG_RUNTIME_DIR": str(tmp_path)}
    said = subprocess.run(
        ["systemd-analyze", "--user", "verify", str(unit)], capture_output=True, text=True, env=environ, check=False
    )
    about = [line for line in (said.stdout + said.stderr).splitlines() if unit.name in line]
    assert not about


def test_an_engine_that_was_started_aside_asks_for_a_scope_of_its_own(tmp_path: Path, systemd) -> None:
    log = systemd(0)
    program = "from workbench.engine.scope import leave_group; leave_group()"
    environ = {**os.environ, "XDG_RUNTIME_DIR": str(tmp_path)}
    foreground = subprocess.run([sys.executable, "-c", program], env=environ, check=True)
    assert foreground.returncode == 0
    assert not log.exists()
    service = {**environ, scope.SERVICE: "1"}
    subprocess.run([sys.executable, "-c", program], env=service, start_new_session=True, check=True)
    assert not log.exists()
    process = subprocess.Popen([sys.executable, "-c", program], env=environ, start_new_session=True)
    assert process.wait(20) == 0
    assert log.read_text().split("busctl ")[1].split() == " ".join(scope.command("engine", process.pid)[1:]).split()


def test_an_engine_stays_where_it_is_if_that_is_refused_and_asks_again_if_there_is_no_answer(
    tmp_path: Path, systemd
) -> None:
    log = systemd(1)
    program = "from workbench.engine.scope import leave_group; print(leave_group())"
    environ = {**os.environ, "XDG_RUNTIME_DIR": str(tmp_path)}

    def told() -> str:
        words = [sys.executable, "-c", program]
        return subprocess.run(
            words, env=environ, start_new_session=True, capture_output=True, text=True, check=True, timeout=20
        ).stdout.strip()

    assert told() == "True"
    assert log.read_text().count("busctl ") == 1
    (tmp_path / "bin" / "busctl").write_text("#!/bin/sh\nexec tail -f /dev/null\n")
    assert told() == "False"
