"""Slots of this machine: held by the kernel's locks, whatever the files say."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from workbench.errors import StoreError
from workbench.store.owner import runtime
from workbench.store.owner.slots import Claiming, claimants, cores, holders, take, waiters


@pytest.fixture(autouse=True)
def _machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))


def test_a_slot_has_one_holder_until_it_is_given_back() -> None:
    first = take(["cpu0", "cpu1"], "/a")
    second = take(["cpu0", "cpu1"], "/b")
    assert first is not None
    assert second is not None
    assert take(["cpu0", "cpu1"], "/c") is None
    second.trains("digits@2")
    assert [(one.slot, str(one), one.pid) for one in holders()] == [
        ("cpu0", "/a", os.getpid()),
        ("cpu1", "/b (digits@2)", os.getpid()),
    ]
    first.release()
    first.release()
    assert [one.slot for one in holders()] == ["cpu1"]
    third = take(["cpu0"], "/c")
    assert third is not None
    third.release()
    second.release()


def test_a_killed_process_holds_nothing_and_what_its_file_says_counts_no_more() -> None:
    code = """
import sys, time
from workbench.store.owner.slots import Claiming, take
lease, mark = take(["gpu-GPU-1"], "/killed"), Claiming("/killed")
mark.tell(1, ["gpu-GPU-2"], lacks=1)
print("held", flush=True)
time.sleep(60)
"""
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    assert [str(one) for one in holders()] == ["/killed"]
    assert [(one.held, one.wants) for one in waiters()] == [(1, {"gpu-GPU-2"})]
    process.kill()
    process.wait()
    process.stdout.close()
    assert "/killed" in (runtime.place() / "slots" / "gpu-GPU-1").read_text()
    assert holders() == []
    assert waiters() == []
    lease = take(["gpu-GPU-1"], "/b")
    assert lease is not None
    lease.release()


def test_those_who_wait_longest_come_first_and_leave_no_file() -> None:
    first, second, third = Claiming("/a"), Claiming("/b"), Claiming("/c")
    first.since, second.since = "2026-01-01T00:00:00", "2026-01-01T00:00:01"
    second.tell(0, ["cpu0"], lacks=2)
    first.tell(1, ["cpu0"], lacks=1)
    third.tell(3, [])
    assert [one.store for one in waiters()] == ["/a", "/b"]
    assert [one.store for one in claimants(besides=first)] == ["/b", "/c"]
    for one in (first, second, third):
        one.release()
    assert not list((runtime.place() / "claims").iterdir())


@pytest.mark.parametrize(
    "facts",
    [{"weight": 0.0}, {"weight": float("nan")}, {"debt": float("inf")}, {"priority": "high"}, {"experiments": None}],
)
def test_a_claim_that_makes_no_sense_is_left_out(facts: dict[str, Any]) -> None:
    claim, other = Claiming("/a"), Claiming("/b")
    other.tell(1, ["cpu0"], lacks=1)
    claim.tell(1, ["cpu0"], **{"lacks": 1, "weight": 1.0, "debt": 0.0, "priority": 0, "experiments": ("a@1",), **facts})
    assert [one.store for one in claimants()] == ["/b"]
    claim.release()
    other.release()


def test_more_workers_than_cores_have_slots_beyond_them() -> None:
    own = sorted(os.sched_getaffinity(0))
    assert cores() == cores(1) == [f"cpu{number}" for number in own]
    assert cores(len(own) + 2)[-2:] == ["more0", "more1"]


@pytest.mark.parametrize("bad", ["../cpu0", "", ".hidden"])
def test_a_slot_is_a_name_and_no_path(bad: str) -> None:
    with pytest.raises(ValueError, match="expected a name"):
        take([bad], "/a")


@pytest.mark.parametrize("what", ["link", "file", "open"])
def test_a_folder_that_another_person_could_have_made_is_refused_by_name(tmp_path: Path, what: str) -> None:
    place = runtime.place()
    if what == "link":
        (tmp_path / "elsewhere").mkdir(mode=0o700)
        place.symlink_to(tmp_path / "elsewhere")
    elif what == "file":
        place.write_text("")
    else:
        place.mkdir()
        place.chmod(0o755)
    with pytest.raises(StoreError, match=f"{place} is "):
        take(["cpu0"], "/a")


def test_the_folder_of_another_person_is_not_the_runtime_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if os.geteuid() == 0:  # as under sudo
        os.chown(tmp_path, 65534, 65534)
    else:
        monkeypatch.setenv("XDG_RUNTIME_DIR", "/root")
    assert not runtime.place().is_relative_to(tmp_path)


def test_temporary_folders_go_with_the_last_process_that_holds_them(tmp_path: Path) -> None:
    code = """
import sys, os
from workbench.store.owner import runtime
path = runtime.temporary("probe")
(path / "inner").mkdir()
print(path, flush=True)
sys.stdin.read()
if sys.argv[1:]:
    os.kill(os.getpid(), 9)
"""
    holding = """
import sys
from pathlib import Path
from typing import Any
from workbench.store.owner import runtime
runtime.hold(Path(sys.argv[1]) / "inner")
print("holds", flush=True)
sys.stdin.read()
"""
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    maker = subprocess.Popen([sys.executable, "-c", code, "killed"], **pipes)
    path = Path(maker.stdout.readline().strip())
    assert path.stat().st_mode & 0o777 == 0o700
    holder = subprocess.Popen([sys.executable, "-c", holding, str(path)], **pipes)
    assert holder.stdout.readline() == "holds\n"
    maker.communicate()
    runtime.sweep()
    assert path.exists(), "a process that holds it lives"
    holder.communicate()
    assert not path.exists(), "the last one takes it along"
    killed = subprocess.Popen([sys.executable, "-c", code, "killed"], **pipes)
    path = Path(killed.stdout.readline().strip())
    killed.communicate()
    assert path.exists()
    ended = subprocess.Popen([sys.executable, "-c", code], **pipes)
    other = Path(ended.stdout.readline().strip())
    assert not path.exists(), "what a killed process left is removed by the next one"
    ended.communicate()
    assert not other.exists()


def test_a_temporary_folder_that_is_gone_leaves_nothing_behind(tmp_path: Path) -> None:
    marks = runtime.place() / "temporary"
    removed = runtime.temporary("probe")
    assert (marks / removed.name).exists()
    runtime.remove(removed)
    assert not removed.exists()
    assert not (marks / removed.name).exists()
    # As where a process removed its folder itself, and was killed.
    code = """
import os, shutil
from workbench.store.owner import runtime
path = runtime.temporary("probe")
shutil.rmtree(path)
print(path.name, flush=True)
os.kill(os.getpid(), 9)
"""
    killed = subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, check=False)
    left = marks / killed.stdout.strip()
    assert left.exists()
    runtime.sweep()
    assert not left.exists()


def test_what_this_program_keeps_is_no_data_and_a_folder_with_a_like_name_is() -> None:
    path = runtime.temporary("dask")
    ours = runtime.ours()
    assert ours.match(str(path / "worker" / "file"))
    assert ours.match(str(runtime.place() / "slots" / "cpu0"))
    assert not ours.match(f"{path.parent}/workbench-data/train.csv")
    assert not ours.match(f"{path.parent}/workbench.csv")
