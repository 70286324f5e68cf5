"""A leg that only checks another: it trains beside the trial's own legs, and detects what no checkpoint holds.

Law: it writes nothing of the trial, and changes no file that is there.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

from workbench.errors import BadInput
from workbench.messages import FromLeg, StopOrder
from workbench.store.files.inside import make_inside
from workbench.store.keeping.checkpoints import Checkpoint, Checkpoints, Folder
from workbench.store.layout import TrialPaths
from workbench.store.owner.runtime import ours
from workbench.trial.course.apart import PASSED, Apart, Unseen, is_written
from workbench.trial.course.vault import Small, StoreVault, Write, beginning
from workbench.trial.process.runner import Link, Point

#: The most names that are listed.
MOST_NAMES = 8


class CheckVault:
    """Resumes from the trial's checkpoint at ``start``; keeps its own elsewhere, or none if they would be large."""

    def __init__(self, trial: TrialPaths, aside: TrialPaths, start: int, keeps: bool) -> None:
        self._start = start
        self._trial, self._setup = Checkpoints(trial), Checkpoints(trial.setup)
        self.skipped: list[Any] = []
        self.is_passing = False
        self._aside = StoreVault(aside, 1) if keeps else None

    def newest(self, at_most: int) -> tuple[int, Folder] | None:
        found = self._trial.at(self._start)
        return found.step, found.folder

    def keep_setup(self, write: Write, small: Small = None) -> None:
        """Does nothing: the trial has its own."""

    def setup(self) -> Folder | None:
        return None if self._start else beginning(self._setup)

    def earlier(self) -> list[Checkpoint]:
        return []

    def keep(self, step: int, write: Write, *, small: Small = None, passing: bool = False, inside: int = 0) -> int:
        return 0 if self._aside is None or passing else self._aside.keep(step, write, small=small)

    def drop_passing(self) -> None:
        """Does nothing: none is kept."""

    def stage(self, step: int, write: Write) -> Path:
        return Path() if self._aside is None else self._aside.stage(step, write)

    def show(self, step: int, aside: Path, write: Write) -> int:
        return 0 if self._aside is None else self._aside.show(step, aside, write)

    def discard(self, aside: Path) -> None:
        if self._aside is not None:
            self._aside.discard(aside)


class Watch:
    """Keeps the files that are there, and records which of them the training code writes: no checkpoint holds them.

    It hooks into the interpreter permanently, so use it only in a process that ends with its leg.
    """

    def __init__(self, link: Link, store: Path, own: TrialPaths, unseen: Unseen) -> None:
        """own: the paths of the check itself. unseen: for what is read only for a copy."""
        self._link = link
        make_inside(own.copies)
        self._apart = Apart(str(own.copies), _refuse, (str(store), str(own.files)), unseen).hook()
        self._ours = ours()
        self._passed = (str(store), *PASSED)
        self._files: dict[str, None] = {}
        sys.addaudithook(self._heard)

    def report(self, points: Sequence[Point]) -> None:
        self._link.report(points)

    def send(self, message: FromLeg) -> None:
        self._link.send(message)

    def flush(self) -> None:
        self._link.flush()

    def stop(self) -> StopOrder | None:
        return self._link.stop()

    def verdict(self, step: int, patience_s: float) -> None:
        """Does nothing: the search knows of no check."""

    def touched(self) -> dict[str, list[str]]:
        """The files that were changed: ``files`` by path."""
        return {"files": [*dict.fromkeys([*self._apart.copied, *self._files])][:MOST_NAMES]}

    def _heard(self, event: str, arguments: Any) -> None:
        if event != "open" or len(self._files) >= MOST_NAMES:
            return
        path, mode, flags = arguments
        if not is_written(mode, flags) or not isinstance(path, str | bytes | os.PathLike):
            return
        name = os.path.abspath(os.fsdecode(path))
        if not name.startswith(self._passed) and "__pycache__" not in name and not self._ours.match(name):
            self._files[name] = None


def _refuse(why: str) -> NoReturn:
    raise BadInput(f"a check changes no file that is there, and this training code would: {why}")
