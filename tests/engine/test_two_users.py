"""Two users of one machine, with real engines: they share its slots by the administrator's weights."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from running import few_cores, processes_below, until
from users import ALICE, BOB, common, home, only_root, python

from workbench.store import Store
from workbench.store.owner import machine as machines
from workbench.store.owner.claimed import survey
from workbench.store.owner.machine import Machine, prepare

pytestmark = only_root

#: Makes a store with an endless search of short trials, and becomes its engine.
ENGINE = """
import os, sys
from pathlib import Path
from running import spec_of, start
from workbench.records import Scheduler
from workbench.space import uniform
from workbench.store import Store
folder, name, weight, priority = Path(sys.argv[1]), sys.argv[2], float(sys.argv[3]), int(sys.argv[4])
source = '''
x = uniform(0.0, 1.0)
import time
for epoch in trial.steps():
    time.sleep(0.1)
    trial.report(score=x)
'''
whole = Scheduler(kind="all", first=3, last=3)
store = Store(folder / name / ".workbench")
spec = spec_of(source, folder, name=name, space={"x": uniform(0.0, 1.0)}, scheduler=whole, trials=5000, verify=False,
               weight=weight, priority=priority)
start(store, spec)
log = os.open(store.engine_log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
os.dup2(log, 1), os.dup2(log, 2)
os.execv(sys.executable, [sys.executable, "-m", "workbench.engine", "--store", str(store.root), "--workers", "2"])
"""


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Machine]:
    """A shared machine with two slots."""
    with few_cores(tmp_path, monkeypatch, 2) as names, common() as folder:
        if len(names) < 2:
            pytest.skip("one core")
        monkeypatch.setenv(machines.VARIABLE, str(folder / "machine"))
        yield prepare(folder / "machine", names)


class Users:
    """Engines of users, and what they started."""

    def __init__(self, machine: Machine) -> None:
        self.machine, self.folder = machine, machine.place.parent
        self._homes: dict[int, dict[str, str]] = {}
        self._engines: list[tuple[int, subprocess.Popen[bytes]]] = []

    def start(self, user: int, name: str, weight: float = 1.0, priority: int = 0) -> Store:
        """An engine of ``user`` with an endless search."""
        if user not in self._homes:
            self._homes[user] = home(self.folder, user)
        variables = {**self._homes[user], machines.VARIABLE: str(self.machine.place)}
        root = variables["HOME"]
        command = python(user, ENGINE, root, name, str(weight), str(priority), variables=variables)
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, start_new_session=True, cwd="/")
        self._engines.append((user, process))
        return Store(Path(root) / name / ".workbench")

    def kill(self, user: int | None = None) -> None:
        """Kill all processes of ``user``, or of all."""
        for whose, process in self._engines:
            if user in (None, whose):
                for pid in [process.pid, *processes_below(process.pid)]:
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGKILL)
                process.wait()

    def held(self) -> Counter[int]:
        """How many slots each user holds now: the kernel's word."""
        return Counter(user for user in survey(self.machine).held.values() if user is not None)

    def shares(self, seconds: float) -> dict[int, float]:
        """The part of the slot-seconds that each user had."""
        had: Counter[int] = Counter()
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            had.update(self.held())
            time.sleep(0.02)  # a sample
        return {user: count / had.total() for user, count in had.items()}

    def queue(self, user: int) -> dict[str, Any]:
        """What `workbench queue` shows to ``user``."""
        variables = {**self._homes[user], machines.VARIABLE: str(self.machine.place)}
        script = "import runpy; runpy.run_module('workbench', run_name='__main__')"
        command = python(user, script, "queue", "--json", variables=variables)
        told = subprocess.run(command, capture_output=True, text=True, check=True, cwd="/").stdout
        found: dict[str, Any] = json.loads(told)
        return found

    def claims(self, user: int) -> int:
        """How many engines of ``user`` claim slots."""
        return sum(one.user == user for one in survey(self.machine).claims)


@pytest.fixture
def users(machine: Machine) -> Iterator[Users]:
    found = Users(machine)
    try:
        yield found
    finally:
        found.kill()


def in_words(queue: dict[str, Any]) -> str:
    """Why a search of this user waits, if one does and the other user has a slot."""
    others = [one for one in queue["slots"] if one["user"] is not None]
    assert all(one["store"] is None and one["experiment"] is None for one in others)
    whys = [one["why"] for one in queue["waiting"] if one["user"] is None]
    return whys[0] if others and whys else ""


def test_users_share_by_weight_whatever_their_engines_are_and_a_killed_one_frees_its_slots(users: Users) -> None:
    users.start(ALICE, "only")
    until(lambda: users.held()[ALICE] == 2, what="all slots for the only user")
    for number in range(3):  # of a high priority and weight, which count among the engines of this user only
        users.start(BOB, f"many{number}", weight=100.0, priority=10 if number else 0)
    until(lambda: users.claims(BOB) == 3 and users.held()[BOB], what="three engines of the other user")
    equal = users.shares(30.0)
    assert equal[ALICE] == pytest.approx(0.5, abs=0.05)
    assert equal[BOB] == pytest.approx(0.5, abs=0.05)

    shown = until(lambda: in_words(users.queue(BOB)), what="a search that waits for the other user")
    assert f"by uid {ALICE}" in shown
    for path in users.machine.place.rglob("*"):
        assert not path.is_file() or b"many" not in path.read_bytes(), "others see no names of experiments"

    (users.machine.place / machines.WEIGHTS).write_text(f'"{ALICE}" = 2.0\n')
    users.shares(5.0)
    weighted = users.shares(45.0)
    assert weighted[ALICE] == pytest.approx(2 / 3, abs=0.05)
    assert weighted[BOB] == pytest.approx(1 / 3, abs=0.05)

    users.kill(BOB)
    killed = time.monotonic()
    until(lambda: users.held() == {ALICE: 2}, what="the slots of the killed engines")
    assert time.monotonic() - killed < 3.0
    assert users.claims(BOB) == 0
