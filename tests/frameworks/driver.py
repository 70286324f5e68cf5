"""A trial's legs as an engine orders them: from level to level, again after a kill, in new processes or in one."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from thorough import IS_THOROUGH
from trial.world import SOURCES, Experiment, Server, points, said

Values = dict[tuple[str, int], str]
#: Legs that are killed at random moments.
KILLS = 8 if IS_THOROUGH else 2


class Driver:
    """Every value that is reported, exactly (as hexadecimal floats), and how the legs went."""

    def __init__(self, server: Server, cell: Experiment, configuration: dict[str, Any] | None = None) -> None:
        self.server, self.cell, self.configuration = server, cell, configuration or {}
        self.values: Values = {}
        self.outcomes: list[str] = []
        self.says: list[str] = []
        #: What the legs have lost, by name.
        self.inexact: set[str] = set()
        #: What the legs resumed from, and what they saved.
        self.began: list[int] = []
        self.saved: set[int] = set()
        #: How many processes trained.
        self.runners = 0
        self._told = 0

    def run(self, *levels: int, kills: list[float] | None = None, in_place: bool = False) -> Driver:
        """Train up to each of ``levels``. kills: seconds after which ``kill -9`` ends a leg, one for each leg."""
        kills = list(kills or [])
        runner = None
        for until in levels:
            while True:
                order = self.cell.order(
                    until,
                    start=max(self._told, max((one for one in self.saved if one <= until), default=0)),
                    levels=levels,
                    told=self._told,
                    known_step=max((step for _, step in self.values), default=0),
                    resume=bool(self.outcomes),
                    may_wait=in_place,
                    configuration=self.configuration,
                )
                if runner is None or not in_place:
                    runner = self.server.runner()
                    self.runners += 1
                timer = threading.Timer(kills.pop(0), _kill, (runner.pid,)) if kills else None
                if timer is not None:
                    timer.start()
                left = self._hear(runner.leg(order))
                if timer is not None:
                    timer.cancel()
                self.outcomes.append(left["outcome"] if left else "killed")
                assert len(self.outcomes) < 50
                if left is not None:
                    break
                runner = None
            if left["outcome"] == "completed":
                break
            self._told = until
        return self

    def _hear(self, heard: list[dict[str, Any]]) -> dict[str, Any] | None:
        for (name, step, _), value in points(heard).items():
            exact = float(value).hex()
            assert self.values.setdefault((name, step), exact) == exact, (name, step)
        self.says += [one["text"] for one in said(heard, "says")]
        self.inexact |= {lost["name"] for one in said(heard, "begun") for lost in one["found"].get("inexact", ())}
        self.began += [one["step"] for one in said(heard, "begun")]
        self.saved |= {one["step"] for one in said(heard, "saved")}
        if not heard or heard[-1]["op"] != "left":
            return None
        assert heard[-1]["error"] is None, heard[-1]["error"]["traceback"]
        return heard[-1]


def _kill(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


_LOADS = """
import sys
from pathlib import Path
from workbench.store import Store
from workbench.trial.export.loading import load
store = Store(Path(sys.argv[1]))
for experiment in sys.argv[2].split(","):
    for step in map(int, sys.argv[4:]):
        loaded = load(store, store.read_spec(experiment), 0, {}, step)
        print("LOADED", eval(sys.argv[3]))
"""


def loaded_alone(made: Sequence[Experiment], shown: str, *steps: int) -> list[str]:
    """What ``shown`` is of the trials of one store that are ``loaded`` at each of these steps. In a process of its own:
    loading runs the code up to its training, and a Trainer leaves more behind than the next test can stand."""
    ids = ",".join(one.spec.id for one in made)
    words = [sys.executable, "-c", _LOADS, str(made[0].store.root), ids, shown, *map(str, steps)]
    cwd = made[0].spec.training.cwd
    done = subprocess.run(words, check=False, capture_output=True, text=True, timeout=100, cwd=cwd)
    assert done.returncode == 0, done.stderr
    return [line.removeprefix("LOADED ") for line in done.stdout.splitlines() if line.startswith("LOADED ")]


def run_alone(text: str, folder: Path) -> list[str]:
    """What ``text`` prints as a script, in ``folder`` and without Workbench; a trial has 3 steps there."""
    script = folder / "script.py"
    script.write_text("from workbench import trial\n" + text)
    variables = {**os.environ, "PYTHONPATH": SOURCES, "WORKBENCH_STEPS": "3"}
    done = subprocess.run(
        [sys.executable, script], cwd=folder, env=variables, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def error_of(server: Server, cell: Experiment, **order: Any) -> str:
    """The message with which the first leg of ``cell`` fails. order: what it is told besides."""
    error = server.runner().leg(cell.order(**{"resume": False, **order}))[-1]["error"]
    assert error is not None, "it did not fail"
    return str(error["message"])


def undisturbed_and_killed(server: Server, make: Any, levels: tuple[int, ...], seed: int) -> tuple[Driver, Driver]:
    """One run in one leg, and one through ``levels`` of whose legs the first ones are killed at random moments.

    make: makes the experiment.
    """
    calm = Driver(server, make())
    begun = time.monotonic()
    calm.run(levels[-1])
    seconds = time.monotonic() - begun
    draw = random.Random(seed)
    wild = Driver(server, make())
    wild.run(*levels, kills=[draw.uniform(0.3, 1.1) * seconds for _ in range(KILLS)])
    return calm, wild


def forked(server: Server, make: Any, parent: Driver, step: int, **configuration: Any) -> Driver:
    """A trial that begins where the parent's trial was at ``step``, with another configuration.

    make: makes an experiment with fields of its spec.
    """
    origin = {"experiment": parent.cell.spec.id, "trial": 0, "step": step, "configuration": parent.configuration}
    driver = Driver(server, make(parent=origin), {**parent.configuration, **configuration})
    driver._told = step
    return driver
