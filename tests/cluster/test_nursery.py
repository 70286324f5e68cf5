"""The process from which workers are forked: what it leaves on the disk, and what it imports."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import psutil

from workbench.store.owner import runtime

BEGIN = """
import sys, tempfile
before = tempfile.gettempdir()
from workbench.cluster.workers import nursery
nursery.begin()
assert tempfile.gettempdir() == before
import multiprocessing, os
from multiprocessing import forkserver, util
first = multiprocessing.get_context("forkserver").Process(target=os.getpid)
first.start()
first.join()  # it forks, so it has begun
print(forkserver._forkserver._forkserver_pid, util.get_temp_dir(), flush=True)
sys.stdin.read()
"""


def test_its_socket_lies_in_a_private_folder_that_goes_though_its_owner_is_killed() -> None:
    process = subprocess.Popen([sys.executable, "-c", BEGIN], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    pid, place = process.stdout.readline().split()
    folder = Path(place)
    assert folder.name.startswith("workbench-cluster-")
    assert folder.stat().st_mode & 0o077 == 0
    nursery = psutil.Process(int(pid))
    assert nursery.cmdline()[1:3] == ["multiprocessing.forkserver", "workbench.cluster.workers.worker"]
    process.kill()
    process.communicate()
    nursery.wait(20)  # its owner is gone
    runtime.sweep()
    assert not folder.exists()


def test_it_is_a_fork_that_holds_nothing_of_its_owner(tmp_path: Path) -> None:
    """A lock, a socket or a file that it held would be held for as long as a worker lives."""
    held = tmp_path / "held"
    words = [sys.executable, "-c", f"held = open({str(held)!r}, 'w')\n" + BEGIN]
    process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    nursery = psutil.Process(int(process.stdout.readline().split()[0]))
    try:
        assert str(held) in {one.path for one in psutil.Process(process.pid).open_files()}
        assert str(held) not in {one.path for one in nursery.open_files()}
        # As a new process it would have imported Dask itself, which takes half a second of a core.
        times = nursery.cpu_times()
        assert times.user + times.system < 0.2
    finally:
        process.kill()
        process.communicate()
        nursery.wait(20)


def test_it_ends_without_a_word_and_leaves_nothing() -> None:
    words = [sys.executable, "-c", BEGIN]
    done = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60, check=True)
    assert done.stderr == ""
    assert not Path(done.stdout.split()[1]).exists()
