"""A quota is not exceeded: what runs cleans up, or pauses and says why, and goes on when there is room."""

from __future__ import annotations

from pathlib import Path

import pytest
from mounts import may_mount, with_a_disk_of_its_own
from running import ended, engine, lines, meta, outcome, spec_of, start, state, until

from workbench import asked
from workbench.asking import ask
from workbench.engine.tending.room import Room
from workbench.errors import BadOption, StoreFull
from workbench.records import Keep
from workbench.space import uniform
from workbench.store import Store
from workbench.store.files.atomic import size_of
from workbench.store.lists.said import NO_ROOM, read_bytes

SPACE = {"x": uniform(0.0, 1.0)}
#: Each checkpoint has a megabyte that no other has.
HEAVY = """
x = uniform(0.0, 1.0)
import random, time
total = 0.0
for epoch in trial.steps():
    time.sleep(0.05)
    held = random.randbytes(1_000_000)
    total = 0.9 * total + x + held[0] / 1000
    trial.report(score=total)
"""
QUOTA = 16_000_000


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "store").create()


def test_a_search_pauses_before_its_quota_is_exceeded_and_goes_on_when_it_is_raised(
    store: Store, tmp_path: Path
) -> None:
    calm = spec_of(HEAVY, tmp_path, space=SPACE, seed=5, name="calm", verify=False)
    full = spec_of(HEAVY, tmp_path, space=SPACE, seed=5, name="full", verify=False, keep=Keep.of("all"))
    with engine(store):
        start(store, calm)
        assert ended(store, calm) == "completed"
        before = until(lambda: (size := size_of(store.root)) < 8_000_000 and size, 20, "the work of the rule")
        ask(store, asked.Quota(bytes=QUOTA))
        start(store, full)
        until(lambda: state(store, full) == "paused", what="the pause")
        until(lambda: not meta(store, full)["slots"]["used"], what="free slots")
        reason = meta(store, full)["reason"]
        assert reason.startswith(NO_ROOM)
        assert "of the 16 MB of its quota" in reason
        assert "workbench quota" in reason
        assert before < size_of(store.root) <= QUOTA
        assert lines(store, full, "Saved")
        with pytest.raises(StoreFull, match="resumes by itself"):
            ask(store, asked.Resume(experiment=full.id))
        assert state(store, full) == "paused"
    with engine(store):  # another engine knows why it was paused, and that it may go on by itself
        ask(store, asked.Quota(bytes=100_000_000))
        assert ended(store, full) == "completed"
    told = [line for line in lines(store, full) if line["kind"] in ("PauseAsked", "ResumeAsked", "CapacityChanged")]
    # What was written may have been estimated too high: then it was resumed at the next look, and paused again.
    assert [line["kind"] for line in told if line["kind"] != "CapacityChanged"] == (
        ["PauseAsked", "ResumeAsked"] * len(lines(store, full, "PauseAsked"))
    )
    assert {line["reason"][:7] for line in lines(store, full, "PauseAsked")} == {"no room"}, told
    assert {line["reason"] for line in lines(store, full, "ResumeAsked")} == {"there is room again"}, told
    assert outcome(store, full) == outcome(store, calm)


def test_a_search_pauses_before_its_disk_is_full(tmp_path: Path) -> None:
    if not may_mount():
        pytest.skip("this machine lets nobody mount a file system; a quota, above, stands in for it")
    done = with_a_disk_of_its_own(Path(__file__).with_name("small_disk.py"), tmp_path)
    assert done.stdout == "ok\n", done.stderr


def test_what_a_person_paused_is_not_resumed_by_room(store: Store, tmp_path: Path) -> None:
    spec = spec_of(HEAVY, tmp_path, space=SPACE, verify=False)
    with engine(store, WORKBENCH_QUOTA="2MB"):
        start(store, spec)
        until(lambda: state(store, spec) == "paused", what="the pause")
        ask(store, asked.Pause(experiment=spec.id))
        ask(store, asked.Quota(bytes=0))
        until(lambda: meta(store, spec)["reason"] == "asked to pause", what="the person's pause")
        ask(store, asked.Resume(experiment=spec.id))
        until(lambda: state(store, spec) == "running", what="going on")
        ask(store, asked.Stop(experiment=spec.id))
        assert ended(store, spec) == "stopped"


def test_room_is_told_in_words_and_numbers() -> None:
    assert Room(10, 100, 1000, 50).lacks(80) is None
    assert "takes 10 B of the 80 B" in str(Room(10, 80, 1000, 50).lacks(80))
    assert "1 kB left, of which 50 B are reserved" in str(Room(None, None, 1000, 50).lacks(980))
    assert Room(None, None, None, 50).lacks(10**12) is None


@pytest.mark.parametrize(
    ("text", "size"),
    [("50GB", 50 * 10**9), ("1.5 TiB", 3 * 2**39), ("800000", 800_000), ("2k", 2000), ("7 B", 7), ("1Mb", 10**6)],
)
def test_sizes_are_read_as_people_write_them(text: str, size: int) -> None:
    assert read_bytes(text) == size


@pytest.mark.parametrize("text", ["", "GB", "-1GB", "50 XB", "1e9", "five"])
def test_what_is_no_size_is_refused(text: str) -> None:
    with pytest.raises(BadOption, match="50GB"):
        read_bytes(text)
