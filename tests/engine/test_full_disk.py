"""The engine writes in many places; where none of them takes anything, it waits, says so, and goes on afterwards."""

from __future__ import annotations

from pathlib import Path

import pytest
from mounts import may_mount, with_a_disk_of_its_own


def test_an_engine_survives_a_full_disk_and_answers_when_there_is_room(tmp_path: Path) -> None:
    if not may_mount():
        # Only a disk of its own can be full for an engine and not for the tests.
        pytest.skip("this machine lets nobody mount a file system")
    done = with_a_disk_of_its_own(Path(__file__).with_name("full_disk.py"), tmp_path)
    assert done.stdout == "ok\n", done.stderr
