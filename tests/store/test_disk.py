"""Disks that are full or cannot be written: real ones, each in a child process, small file systems in its namespace."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from mounts import NAMESPACE, may_mount

from workbench.store.owner.ownership import ADOPT

ENVIRONMENT = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2] / "src"), "PYTHONWARNINGS": "error"}


def run(what, folder, prefix=()):
    command = [*prefix, sys.executable, str(Path(__file__).with_name("disk.py")), what, str(folder)]
    # It is the disk that refuses, not the owner: the same store by two doors, and with another account's list.
    stores = [f"{door}/.workbench" for door in (Path(folder), Path(folder).with_name("door"))]
    done = subprocess.run(
        command, env={**ENVIRONMENT, ADOPT: ":".join(stores)}, capture_output=True, text=True, check=False
    )
    assert done.stdout == "ok\n", done.stderr


@pytest.fixture
def disk(tmp_path):
    if not may_mount():
        pytest.skip("this machine lets nobody mount a file system; `limited` and `forbidden` below stand in for it")
    folder = tmp_path / "disk"
    folder.mkdir()
    return folder


def test_a_full_disk_loses_nothing_and_work_goes_on_when_there_is_room(disk):
    run("full", disk, NAMESPACE)


def test_a_store_on_a_read_only_disk_is_read_in_every_way(disk):
    run("readonly", disk, NAMESPACE)


def test_files_that_may_not_grow_lose_nothing_and_work_goes_on_when_they_may(tmp_path):
    run("limited", tmp_path)


def test_a_store_without_permission_to_write_is_read_in_every_way(tmp_path):
    if os.getuid() == 0:
        # For whom permissions hold: root gives its rights up, and must reach the folder without them.
        import tempfile

        with tempfile.TemporaryDirectory() as folder:
            os.chmod(folder, 0o755)
            run("forbidden", folder)
    else:
        run("forbidden", tmp_path)
