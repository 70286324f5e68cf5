"""Disks and addresses that cannot be used: refused before anything starts, or told in the very words of the engine."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from mounts import NAMESPACE, may_mount

from workbench.errors import NoAnswer, TrialFailed

TESTS = Path(__file__).parents[1]
CELL = """%%train digits --goal max val_acc --steps 1-9 {line}
lr = uniform(0, 1)
for epoch in trial.steps():
    trial.report(val_acc=lr)
"""


@pytest.mark.parametrize(
    ("what", "kind", "parts"),
    [
        ("too_big", "StoreFull", ["no space is left to write", "/blobs/", "--store or WORKBENCH_HOME"]),
        ("full", "StoreFull", ["no space is left to write", "Free some space there", "--store or WORKBENCH_HOME"]),
        ("no_store", "StoreReadOnly", ["cannot be written (Read-only file system)", "--store or WORKBENCH_HOME"]),
        ("read_only", "StoreReadOnly", ["cannot be written (Read-only file system)", "write permission"]),
        ("limited", "StoreFull", ["no space is left to write", "(File too large)", "is untouched"]),
    ],
)
def test_a_store_that_cannot_take_an_experiment(tmp_path, what, kind, parts):
    if what != "limited" and not may_mount():
        pytest.skip("this machine lets nobody mount a file system; `limited` stands in for it")
    folder = tmp_path / "disk"
    folder.mkdir()
    done = subprocess.run(
        [
            *([] if what == "limited" else NAMESPACE),
            sys.executable,
            TESTS / "bad_input" / "small_disk.py",
            what,
            folder,
        ],
        env={**os.environ, "PYTHONPATH": os.pathsep.join((str(TESTS), str(TESTS.parent / "src")))},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=100,
    )
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout.splitlines()[-1])
    assert said["kind"] == kind
    for part in (str(folder), *parts):
        assert part in said["message"]
    assert said["shown"].strip() == f"{kind}: {said['message']}"
    assert said["left"] == []


def free_port():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return taken.getsockname()[1]


def test_a_dask_address_that_nobody_answers(person, monkeypatch):
    address = f"tcp://127.0.0.1:{free_port()}"
    parts = [
        f"nothing answers at {address} (Connection refused)",
        "that `dask scheduler` prints",
        "leave the address out",
    ]
    said = person.cell(CELL.format(line=f"--cluster {address}"))
    assert type(said.error) is NoAnswer
    assert all(part in str(said.error) for part in parts)
    assert said.shown.strip() == f"NoAnswer: {said.error}"
    assert person.started_nothing()
    command = person.command("engine", "start", "--cluster", address)
    assert command.error == 4
    assert all(part in command.shown for part in parts)
    monkeypatch.setenv("WORKBENCH_CLUSTER", address)
    said = person.cell(CELL.format(line=""))
    assert type(said.error) is NoAnswer
    assert person.started_nothing()


def test_an_address_where_something_else_answers_is_told_by_the_engine(person, monkeypatch):
    """Only the engine speaks Dask: the experiment fails in its words."""
    monkeypatch.setenv("WORKBENCH_IDLE", "0.1")
    with socket.create_server(("127.0.0.1", 0)) as door:

        def hang_up():
            try:
                while True:
                    door.accept()[0].close()
            except OSError:
                return

        threading.Thread(target=hang_up, daemon=True).start()
        address = f"tcp://127.0.0.1:{door.getsockname()[1]}"
        said = person.cell(CELL.format(line=f"--cluster {address} --wait"))
        door.shutdown(socket.SHUT_RDWR)
    # The next cell is not sent there.
    assert "WORKBENCH_CLUSTER" not in os.environ
    assert type(said.error) is TrialFailed
    for part in ("digits@1 failed: no Dask scheduler answers at", address, "that `dask scheduler` prints", "Start it"):
        assert part in str(said.error)
    assert "Traceback" not in said.shown
