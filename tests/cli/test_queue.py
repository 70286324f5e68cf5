"""`workbench queue`: who trains in which slot of this machine, who waits, and why, in all stores of a user."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from cli.stored import Said, typed
from running import ended, engine, engine_process, few_cores, processes_below, spec_of, start, until

from workbench.records import Scheduler, Spec
from workbench.space import uniform
from workbench.store import Store
from workbench.store.owner.runtime import folder, place
from workbench.store.owner.slots import take

#: Each trial takes a step, and trains on until the file ``go`` appears.
HELD = """
x = uniform(0.0, 1.0)
import pathlib, time
for epoch in trial.steps():
    while epoch and not pathlib.Path("go").exists():
        time.sleep(0.01)
    trial.report(score=x)
"""
NOW = "2026-01-01T00:00:00.000+00:00"

Locked = Callable[..., Path]


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """A runtime folder of its own, and two cores (one, where there is but one): the names of their slots."""
    with few_cores(tmp_path, monkeypatch, 2) as names:
        yield names


@pytest.fixture
def locked(machine: list[str]) -> Iterator[Locked]:
    """Write a file into a folder of the runtime folder, and hold its lock, as a live process does."""
    with contextlib.ExitStack() as stack:

        def lock(inside: str, name: str | bytes, content: object) -> Path:
            path = Path(os.fsdecode(os.path.join(os.fsencode(folder(inside)), os.fsencode(name))))
            file = stack.enter_context(open(path, "wb", buffering=0))
            file.write(content if isinstance(content, bytes) else json.dumps(content).encode())
            fcntl.flock(file, fcntl.LOCK_EX)
            return path

        yield lock


def search(tmp_path: Path, name: str, trials: int) -> tuple[Store, Spec]:
    """A search of its own store, whose trials train until the file ``go`` appears."""
    whole = Scheduler(kind="all", first=2, last=2)
    space = {"x": uniform(0.0, 1.0)}
    spec = spec_of(HELD, tmp_path, name=name, space=space, scheduler=whole, trials=trials, verify=False)
    return Store(tmp_path / name / ".workbench"), spec


def row(text: str, beginning: str) -> list[str]:
    """The words of the line that begins so."""
    (found,) = [line.split() for line in text.splitlines() if line.startswith(beginning)]
    return found


def queue_when(condition: Callable[[Any], Any], what: str) -> Any:
    """The queue as JSON, once it fulfils ``condition``."""
    return until(lambda: (found := typed("queue", "--json").json) and condition(found) and found, what=what)


def test_two_searches_the_holder_and_the_one_that_waits(tmp_path: Path, machine: list[str]) -> None:
    count = len(machine)
    a, long = search(tmp_path, "long", trials=count)
    b, short = search(tmp_path, "short", trials=1)
    with engine(a, workers=count), engine(b, workers=count):
        start(a, long)
        queue_when(lambda found: len(found["slots"]) == count, "the slots of the first")
        start(b, short)
        found = queue_when(
            lambda found: (
                [one["experiments"] for one in found["waiting"]] == [["short@1"]]
                and all(one["trial"] for one in found["slots"])
            ),
            "a wait",
        )
        assert [one["slot"] for one in found["slots"]] == machine
        assert {(one["store"], one["experiment"], one["has_engine"]) for one in found["slots"]} == {
            (str(a.root), "long@1", True)
        }
        assert {one["trial"] for one in found["slots"]} == {f"t{number:04}" for number in range(count)}
        assert len({one["pid"] for one in found["slots"]}) == count
        assert found["free"] == []
        (waits,) = found["waiting"]
        are = "is" if count == 1 else "are"
        why = f"waits for a slot: {count} of {count} {are} held by {{}}/long (long@1)"
        assert waits["since"] > found["slots"][0]["since"]
        assert {name: waits[name] for name in ("store", "experiments", "held", "lacks", "wants", "why")} == {
            "store": str(b.root), "experiments": ["short@1"], "held": 0, "lacks": 1, "wants": machine,
            "why": why.format(tmp_path),
        }  # fmt: skip

        # As a person types it, in a folder without a store.
        env = {**os.environ, "HOME": str(tmp_path)}
        shown = subprocess.run(
            [sys.executable, "-m", "workbench", "queue"], cwd="/", env=env, capture_output=True, text=True, check=True
        ).stdout
        trials = {one["slot"]: one["trial"] for one in found["slots"]}
        for name in machine:
            cells = row(shown, name)
            assert cells[:4] == [name, "~/long", "long@1", trials[name]]
            assert cells[-1] == "ago"
        assert "no slot is free." in shown
        cells = row(shown, "~/short")
        assert cells[:4] == ["~/short", "short@1", "0", "slots"]
        assert cells[-count:] == [f"{name}," for name in machine[:-1]] + machine[-1:]
        assert why.format("~") in [line.strip() for line in shown.splitlines()]

        (tmp_path / "go").touch()
        assert ended(b, short) == ended(a, long) == "completed"
        queue_when(lambda found: found["free"] == machine and not found["waiting"], "free slots")


def test_a_machine_without_engines_is_free_in_one_line(machine: list[str]) -> None:
    words = f"{len(machine)} core{'s' * (len(machine) != 1)} ({', '.join(machine)})"
    assert typed("queue") == Said(0, f"all slots of this machine are free: {words}.\n", "")
    assert typed("queue", "--json").json == {
        "schema": 1,
        "slots": [],
        "free": machine,
        "drained": [],
        "waiting": [],
        "outside": [],
        "lacks": [],
        "divided": [],
        "clusters": [],
    }


def test_a_killed_engine_is_said_and_a_killed_holder_is_gone(tmp_path: Path, machine: list[str]) -> None:
    store, spec = search(tmp_path, "one", trials=1)
    store.create()
    process = engine_process(store, workers=1)
    try:
        start(store, spec)
        (held,) = queue_when(lambda found: any(one["trial"] for one in found["slots"]), "a trial")["slots"]
        family = processes_below(process.pid)
        process.kill()
        process.wait()
        found = queue_when(lambda found: not any(one["has_engine"] for one in found["slots"]), "the engine's end")
        assert [(one["slot"], one["trial"], one["pid"]) for one in found["slots"]] == [
            (held["slot"], None, held["pid"])
        ]
        words = f"{tmp_path}/one: its engine is gone; its trials train for "
        assert words in typed("queue").out
        os.kill(held["pid"], signal.SIGKILL)
        queue_when(lambda found: found["free"] == machine and not found["slots"], "a free slot")
        assert typed("queue").out.startswith("all slots of this machine are free: ")
    finally:
        for pid in [process.pid, *processes_below(process.pid), *family]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        process.wait()


@pytest.mark.parametrize(
    "content",
    [
        *(b"", b"no JSON", b"\xff\xfe", [1, 2], "text", b"[" * 16000),
        {"store": ["/a"], "experiment": {"a": 1}, "pid": "7", "since": 3, "slot": "cpu9", "more": None},
        {"store": "/\0", "experiment": "", "pid": True, "since": "yesterday"},
        {"store": "../..", "experiment": None, "pid": -1, "since": "9999-99-99"},
        {"store": "/a\x1b[2J\n/.workbench", "experiment": "\x1b[31m\x07@1", "pid": 2**70, "since": "\x1b"},
    ],
)
def test_a_slot_whose_file_says_anything_is_held_and_breaks_nothing(
    content: object, machine: list[str], locked: Locked
) -> None:
    locked("slots", machine[0], content)
    locked("claims", "one", {"lacks": 1, "store": "/b", "held": 0, "since": NOW, "wants": machine[:1]})
    shown, found = typed("queue"), typed("queue", "--json")
    assert (shown.code, shown.err, found.code) == (0, "", 0)
    assert shown.out.replace("\n", "").isprintable()
    assert row(shown.out, machine[0])
    assert "  waits for a slot: 1 of 1 is held by " in shown.out
    (held,) = found.json["slots"]
    assert (held["slot"], held["trial"], held["has_engine"]) == (machine[0], None, False)
    assert found.json["free"] == machine[1:]
    for name, kinds in (("store", str), ("experiment", str), ("pid", int), ("since", str)):
        assert held[name] is None or isinstance(held[name], kinds)


@pytest.mark.parametrize(
    "content",
    [
        *(b"", b"no JSON", b"\xff\xfe", [1, 2], {}, {"store": "/a"}),
        b"[" * 16000,
        {"store": "\x1b[31m", "held": -3, "since": "\x07", "wants": [None, 1, "cpu0\x1b"], "lacks": 1},
        {"store": ["a"], "held": "1", "since": {}, "wants": {"cpu0": 1}, "lacks": "2"},
        {"store": "a", "held": 1, "since": NOW, "wants": 3, "lacks": 1},
        {"store": "a", "held": float("inf"), "since": NOW, "wants": [], "lacks": 1},
        {"store": "a", "held": 1, "since": NOW, "wants": [], "lacks": 1, "experiments": ["\x1b[2J@1"]},
    ],
)
def test_a_waiting_file_that_says_anything_breaks_nothing(content: object, machine: list[str], locked: Locked) -> None:
    locked("claims", "one", content)
    shown, found = typed("queue"), typed("queue", "--json")
    assert (shown.code, shown.err, found.code) == (0, "", 0)
    assert shown.out.replace("\n", "").isprintable()
    assert found.json["free"] == machine
    assert all(one["held"] >= 0 and all(type(name) is str for name in one["wants"]) for one in found.json["waiting"])


def test_a_slot_with_a_strange_name_and_files_without_a_lock(machine: list[str], locked: Locked) -> None:
    locked("slots", b"gpu-\xff\x1b[31m", {"store": "/a", "pid": 1, "since": NOW})
    (folder("slots") / machine[0]).write_text(json.dumps({"store": "/dead", "pid": 1, "since": NOW}))
    (folder("claims") / "dead").write_text(
        json.dumps({"lacks": 1, "store": "/dead", "held": 0, "since": NOW, "wants": machine})
    )
    (folder("slots") / "more0").symlink_to("/dev/zero")
    os.mkfifo(folder("slots") / "more1")
    shown = typed("queue")
    assert shown.code == 0
    assert shown.out.replace("\n", "").isprintable()
    assert "/dead" not in shown.out
    assert "waiting" not in shown.out
    assert typed("queue", "--json").json["free"] == machine


def test_the_words_of_a_damaged_store_hide_no_slot(tmp_path: Path, machine: list[str], locked: Locked) -> None:
    store = Store(tmp_path / "store").create()
    store.cluster_json.write_bytes(b"[" * 100)
    store.catalog_path.write_bytes(b"\xff")
    store.engine_json.write_text("[]")
    locked("slots", machine[0], {"store": str(store.root), "experiment": "a@1", "pid": 1, "since": NOW})
    locked("claims", "one", {"lacks": 1, "store": str(store.root), "held": 1, "since": NOW, "wants": machine})
    (held,) = typed("queue", "--json").json["slots"]
    assert (held["store"], held["experiment"], held["trial"]) == (str(store.root), "a@1", None)
    assert row(typed("queue").out, machine[0])[1:3] == [str(store.root), "a@1"]


def test_those_who_wait_come_in_the_order_in_which_they_get_a_slot(machine: list[str], locked: Locked) -> None:
    wants = [*(f"cpu{number}" for number in range(12)), "gpu-GPU-8d1f"]
    for name, held, priority, debt, minute in (("more", 1, 0, 2.5, 0), ("late", 0, 0, 0, 2), ("early", 0, 0, 0, 1),
                                               ("urgent", 2, 1, 9.0, 3)):  # fmt: skip
        since = f"2026-01-01T00:0{minute}:00.000+00:00"
        facts = {"held": held, "priority": priority, "debt": debt, "since": since, "wants": wants, "lacks": 1}
        locked("claims", name, {"store": f"/{name}/.workbench", **facts})
    found = typed("queue", "--json").json["waiting"]
    assert [one["store"] for one in found] == [f"/{name}/.workbench" for name in ("urgent", "early", "late", "more")]
    assert found[0]["wants"] == wants, "by number"
    shown = typed("queue").out
    assert row(shown, "/early")[-2:] == ["cpu0–cpu11,", "gpu-GPU-8d1f"]
    assert row(shown, "/more")[2:4] == ["1", "slot"]


def test_a_search_alone_waits_for_none_but_itself_and_two_of_one_engine_wait(
    machine: list[str], locked: Locked
) -> None:
    for name, experiments in (("alone", ["one@1"]), ("both", ["one@1", "two@1"])):
        facts = {"held": len(machine), "since": NOW, "wants": [], "lacks": 1, "experiments": experiments}
        locked("claims", name, {"store": f"/{name}/.workbench", **facts})
    assert [one["experiments"] for one in typed("queue", "--json").json["waiting"]] == [["one@1", "two@1"]]


def test_free_slots_are_counted_beside_those_that_are_held(machine: list[str]) -> None:
    lease = take(machine[:1], "/nlp/.workbench")
    assert lease is not None
    try:
        lease.trains("bert@1")
        shown = typed("queue").out
    finally:
        lease.release()
    assert row(shown, machine[0])[:4] == [machine[0], "/nlp", "bert@1", "–"]
    if len(machine) == 2:
        assert f"free: 1 of 2 cores ({machine[1]}).\n" in shown
    assert typed("queue", "--json").json["free"] == machine


def test_a_folder_that_cannot_be_trusted_is_named(machine: list[str]) -> None:
    place().mkdir()
    place().chmod(0o777)
    found = typed("queue")
    assert (found.code, found.out) == (5, "")
    assert found.err.startswith(f"{place()} is open to other users")
    assert f"chmod 700 {place()}" in found.err
