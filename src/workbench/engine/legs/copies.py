"""Copies of checkpoints in the experiment's storage, and removal of unneeded ones. Law: the engine around the loop does
the work."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from workbench.engine.legs.leg import Leg
from workbench.store.keeping.passing import drop_passing

if TYPE_CHECKING:
    from workbench.engine.loop import ExperimentLoop


class Copies:
    """Has new checkpoints copied, and those between levels removed once they are not needed."""

    def __init__(self, loop: ExperimentLoop) -> None:
        self._loop, self._around, self._spec = loop, loop.around, loop.spec

    def saved(self, leg: Leg, *, passing: bool) -> None:
        """``leg`` has written a checkpoint. passing: it lies between levels, where there may be one a second."""
        self._around.written()
        if self._spec.storage:
            self._around.saved(self._loop, leg.trial, passing=passing)
            trouble = self._around.storage_trouble(self._loop)
            if trouble is not None:
                leg.detail["storage"] = trouble
            else:
                leg.detail.pop("storage", None)

    def stopped(self, trial: int) -> None:
        """A leg was stopped. Its trial may be paused for long, so its newest checkpoint is copied now."""
        if self._spec.storage and trial in self._loop.legbook.passing:
            self._around.saved(self._loop, trial, passing=False)

    def over(self, trial: int) -> None:
        """A trial has ended: a checkpoint between levels, left by a stopped leg, is not needed."""
        if trial in self._loop.legbook.passing:
            self._loop.legbook.passing.discard(trial)
            asyncio.get_running_loop().run_in_executor(None, self._drop, trial)

    def _drop(self, trial: int) -> None:
        drop_passing(self._loop.paths.trial(trial))
        if self._spec.storage:
            self._around.saved(self._loop, trial, passing=False)
