"""A leg that only checks another: it trains beside the trial's own places, and watches what no checkpoint holds.

Law: nothing of the trial is written; what the training code does besides (prints, files) it does.
"""

from __future__ import annotations

import os
import pickle
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from workbench.store.checkpoints import Checkpoint, Checkpoints
from workbench.store.layout import TrialPaths
from workbench.trial.isolation import is_installed
from workbench.trial.runner import Link, Point, StopOrder
from workbench.trial.vault import StoreVault, Write
from workbench.trial.wire import Message

#: Names that are told at most, and bytes up to which a module's value is compared.
MOST_NAMES = 8
MOST_BYTES = 1 << 16


class CheckVault:
    """Resumes from the trial's checkpoint at ``start``; keeps its own aside, or none where they would be large."""

    def __init__(self, trial: TrialPaths, aside: TrialPaths, start: int, keeps: bool) -> None:
        self._start = start
        self._trial = Checkpoints(trial)
        self.skipped: list[Any] = []
        self.is_passing = False
        self._aside = StoreVault(aside, 1) if keeps else None

    def newest(self, at_most: int) -> tuple[int, Path] | None:
        found = self._trial.at(self._start)
        return found.step, found.folder

    def earlier(self) -> list[Checkpoint]:
        return []

    def keep(self, step: int, write: Write, *, passing: bool = False, inside: int = 0) -> int:
        return 0 if self._aside is None or passing else self._aside.keep(step, write)

    def drop_passing(self) -> None:
        """None is kept."""

    def stage(self, step: int, write: Write) -> Path:
        return Path() if self._aside is None else self._aside.stage(step, write)

    def show(self, step: int, aside: Path, write: Write) -> int:
        return 0 if self._aside is None else self._aside.show(step, aside, write)

    def discard(self, aside: Path) -> None:
        if self._aside is not None:
            self._aside.discard(aside)


class Watch:
    """A link that notes, from the end of the set-up on, what the training code changes outside of its own names.

    Globals of the project's modules, and files opened to be written: no checkpoint holds them. It hooks into the
    interpreter for good, so it is for a process that ends with its leg.
    """

    def __init__(self, link: Link, store: Path) -> None:
        self._link = link
        self._passed = (str(store), tempfile.gettempdir() + "/workbench", "/dev/", "/proc/", "/sys/")
        self._files: dict[str, None] = {}
        self._before: dict[str, bytes] = {}
        sys.addaudithook(self._heard)

    def point(self, point: Point) -> None:
        self._link.point(point)

    def send(self, message: Message) -> None:
        if message["op"] == "begun":
            self._before = dict(_globals())
        self._link.send(message)

    def flush(self) -> None:
        self._link.flush()

    def stop(self) -> StopOrder | None:
        return self._link.stop()

    def touched(self) -> dict[str, list[str]]:
        """What was changed: ``modules`` as ``counting.calls``, ``files`` by path."""
        now = dict(_globals())
        changed = [name for name, value in now.items() if self._before.get(name, value) != value]
        return {"modules": changed[:MOST_NAMES], "files": list(self._files)[:MOST_NAMES]}

    def _heard(self, event: str, arguments: Any) -> None:
        if event != "open" or len(self._files) >= MOST_NAMES:
            return
        path, mode, flags = arguments
        writes = (
            any(letter in mode for letter in "wax+")
            if isinstance(mode, str)
            else bool((flags or 0) & (os.O_WRONLY | os.O_RDWR))
        )
        if not writes or not isinstance(path, str | bytes | os.PathLike):
            return
        name = os.path.abspath(os.fsdecode(path))
        if not name.startswith(self._passed) and "__pycache__" not in name:
            self._files[name] = None


def _globals() -> Iterator[tuple[str, bytes]]:
    """The plain values in the project's own modules, as bytes that can be compared."""
    for name, module in list(sys.modules.items()):
        if name == "__main__" or name.partition(".")[0] == "workbench" or is_installed(module):
            continue
        for key, value in list(vars(module).items()):
            if key.startswith("__") or not isinstance(value, int | float | complex | str | bytes | list | dict | set):
                continue
            try:
                data = pickle.dumps(value)
            except Exception:  # noqa: S112 - a list of what cannot be pickled is no counter
                continue
            if len(data) <= MOST_BYTES:
                yield f"{name}.{key}", data
