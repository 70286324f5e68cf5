"""A trial's checkpoints as its leg uses them, and the thread that brings them to the disk while training goes on."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

from workbench.errors import StoreError
from workbench.store.checkpoints import Checkpoints
from workbench.store.layout import TrialPaths

#: Seconds between two visits to the disk, so that a thousand short legs do not wait for each other's.
SETTLE_S = 1.0


class Settler:
    """Brings checkpoints to the disk, aside of training. A power cut before that costs the step, not the trial."""

    def __init__(self) -> None:
        self._waiting: dict[int, Checkpoints] = {}
        self._some = threading.Event()
        self._thread: threading.Thread | None = None

    def take(self, checkpoints: Checkpoints) -> None:
        """See to what ``checkpoints`` has published."""
        self._waiting[id(checkpoints)] = checkpoints
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name="workbench-settle", daemon=True)
            self._thread.start()
        self._some.set()

    def _work(self) -> None:
        pause = threading.Event()
        while True:
            self._some.wait()
            pause.wait(SETTLE_S)
            self._some.clear()
            while self._waiting:
                _, checkpoints = self._waiting.popitem()
                try:
                    checkpoints.settle()
                except StoreError:
                    pass  # the disk is full or gone: whoever writes next says so


class StoreVault:
    """The checkpoints of one trial in the store, written by one attempt."""

    def __init__(self, trial: TrialPaths, attempt: int, settler: Settler | None = None) -> None:
        self._checkpoints = Checkpoints(trial)
        self._attempt = attempt
        self._settler = settler

    def newest(self, at_most: int) -> tuple[int, Path] | None:
        found = self._checkpoints.newest(at_most)
        return None if found is None else (found.step, found.folder)

    def keep(self, step: int, write: Callable[[Path], None]) -> int:
        aside = self._checkpoints.begin(step, self._attempt)
        try:
            write(aside)
            manifest = self._checkpoints.publish(aside, step, self._attempt)
        except BaseException:
            self._checkpoints.discard(aside)
            raise
        if self._settler is not None:
            self._settler.take(self._checkpoints)
        return manifest.size

    def remove(self, step: int) -> None:
        self._checkpoints.remove(step)
