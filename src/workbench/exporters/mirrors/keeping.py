"""Mirrors of experiments in other programs, each written by a process of its own. Law: training never waits for one.

A process that dies is restarted, with increasing delays. The next one writes what is missing: the progress is saved
beside the experiment.
"""

from __future__ import annotations

import contextlib
import logging
import os
import subprocess
import sys
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass

from workbench import interpreter
from workbench.errors import StoreError
from workbench.exporters.mirrors.progress import place, progress
from workbench.records import Spec
from workbench.store import Store
from workbench.store.files.atomic import make_folder
from workbench.store.lists.mirrors import MIRRORING, Mirror

log = logging.getLogger("workbench.engine")

#: The module that such a process runs.
FOLLOWING = "workbench.exporters.mirrors.following"
#: Seconds before a process that died is restarted, and the maximum between two starts.
FIRST_S, MOST_S = 1.0, 60.0
#: A restarted process counts as running after this many seconds.
STEADY_S = 5.0
#: Seconds that an engine waits for them when it ends.
LEAVING_S = 5.0


@dataclass(slots=True)
class _Going:
    """One mirror's process."""

    spec: Spec
    mirror: Mirror
    process: subprocess.Popen[bytes] | None = None
    not_before: float = 0.0
    pause: float = FIRST_S
    begun: float = 0.0
    trouble: str | None = None


class Mirrors:
    """Manages the processes. tell: gets an experiment's id and its mirrors' state in words; None once all is done."""

    def __init__(self, store: Store, tell: Callable[[str, str | None], None]) -> None:
        self._store, self._tell = store, tell
        self._going: dict[tuple[str, str], _Going] = {}

    def take(self, spec: Spec) -> None:
        """Mirror the experiment where its spec says. Does nothing for one without mirrors."""
        for one in map(Mirror.of, spec.mirror):
            self._going.setdefault((spec.id, one.kind), _Going(spec, one))

    def look(self) -> None:
        """Called about once a second: start what is not running, and read the state of each."""
        for key, going in list(self._going.items()):
            before = going.trouble
            if going.process is not None and going.process.poll() is not None:
                self._ended(key, going)
            if key in self._going:
                if going.process is None and time.monotonic() >= going.not_before:
                    self._start(going)
                if going.process is not None:
                    word = progress(self._store, *key).word
                    lives = time.monotonic() - going.begun >= STEADY_S
                    going.trouble = word or (None if lives else going.trouble)
                    going.pause = FIRST_S if lives else going.pause
            if going.trouble and before is None:
                log.warning("%s of %s, training goes on: %s", going.mirror.kind, going.spec.label, going.trouble)
            elif going.trouble is None and before is not None:
                log.info("%s of %s goes on", going.mirror.kind, going.spec.label)
            if going.trouble != before or key not in self._going:
                self._tell(key[0], self.word(key[0]))

    def word(self, experiment: str) -> str | None:
        """The state of the experiment's mirrors; None if everything is written."""
        mine = [going for key, going in self._going.items() if key[0] == experiment]
        troubles = [f"{going.mirror.kind} {going.trouble}" for going in mine if going.trouble]
        return "; ".join(troubles) or (MIRRORING if mine else None)

    def forget(self, experiment: str) -> None:
        """Stop mirroring an experiment that is being deleted."""
        for key in [key for key in self._going if key[0] == experiment]:
            going = self._going.pop(key)
            self._let_go(going)
            if going.process is not None:
                # It must not recreate the experiment's folder when it saves its progress.
                going.process.kill()
                going.process.wait()

    def is_busy(self, resting: Collection[str] = ()) -> bool:
        """Whether data is being written that will soon be complete. resting: experiments that produce no data now."""
        return any(going.trouble is None for key, going in self._going.items() if key[0] not in resting)

    def close(self) -> None:
        """Let all of them finish their current work, and end. It blocks."""
        for going in self._going.values():
            self._let_go(going)
        deadline = time.monotonic() + LEAVING_S
        for going in self._going.values():
            if going.process is not None:
                try:
                    going.process.wait(max(0.0, deadline - time.monotonic()))
                except subprocess.TimeoutExpired:
                    going.process.kill()
                    going.process.wait()

    def _start(self, going: _Going) -> None:
        spec, kind = going.spec, going.mirror.kind
        path = place(self._store, spec.id, kind)
        going.begun = time.monotonic()
        # The user installs the notebook's packages in the training environment.
        python = spec.training.python if os.access(spec.training.python, os.X_OK) else sys.executable
        try:
            make_folder(path.parent)
            with open(path.with_suffix(".log"), "ab") as output:
                going.process = subprocess.Popen(
                    interpreter.command(FOLLOWING, str(self._store.root), spec.id, kind, python=python),
                    stdin=subprocess.PIPE,
                    stdout=output,
                    stderr=output,
                    env=interpreter.surroundings({**os.environ, "OMP_NUM_THREADS": "1"}, self._store.root),
                    start_new_session=True,
                )
        except (OSError, StoreError) as error:
            self._later(going, f"cannot be started: {error}")

    def _ended(self, key: tuple[str, str], going: _Going) -> None:
        assert going.process is not None
        self._let_go(going)
        code, going.process = going.process.returncode, None
        if code == 0 and progress(self._store, *key).is_done:
            del self._going[key]
            going.trouble = None
        else:
            log_file = place(self._store, *key).with_suffix(".log")
            self._later(going, f"its process ended with {code}, see {log_file}")

    def _later(self, going: _Going, why: str) -> None:
        going.trouble = going.trouble or why
        going.not_before = time.monotonic() + going.pause
        going.pause = min(2 * going.pause, MOST_S)

    @staticmethod
    def _let_go(going: _Going) -> None:
        if going.process is not None and going.process.stdin is not None:
            with contextlib.suppress(OSError):
                going.process.stdin.close()
