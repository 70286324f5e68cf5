"""Which part of a training loop is measured. Law: after the first step, for some steps or seconds, whichever end first.

The first step is slow for reasons of its own: memory is taken, workers start, kernels are chosen. Steps of minutes are
cut at a batch, because a profiler keeps every operation in memory.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from time import perf_counter
from typing import Any

from workbench.trial.api.local import LocalCourse
from workbench.trial.api.trial import LegLeft

#: Seconds of warm-up after which measuring starts at the next batch, and of measuring after which it ends at one.
WARM_S, MOST_S = 5.0, 10.0


class Window:
    """Opens and closes once: ``opens`` and ``closes`` are called, and then the training code is left."""

    def __init__(self, steps: int, *, is_warm: bool, opens: Callable[[], None], closes: Callable[[], None]) -> None:
        """steps: how many are measured. is_warm: nothing is left for a warm-up."""
        self._steps, self._is_warm, self._opens, self._closes = steps, is_warm, opens, closes
        self._thread = threading.get_ident()
        #: When training began, the window opened, and it closed (``time.perf_counter``).
        self._began: float | None = None
        self.opened: float | None = None
        self.closed: float | None = None
        #: Whole steps and optimizer steps that were measured, and steps before.
        self.steps = self.updates = self.before = 0

    def step(self) -> None:
        """A step begins, or a loop that counts its own has ended one. Raises LegLeft once all are measured."""
        if self.opened is not None:
            self.steps += 1
            self._leave_after(self.steps >= self._steps)
            return
        if self._began is not None:
            self.before += 1
        self._begin()
        if self._is_warm or self.before:
            self._open()

    def update(self, *_: Any) -> None:
        """An optimizer has taken a step."""
        if threading.get_ident() != self._thread:
            return
        self._begin()
        self.updates += self.opened is not None
        self.batch()

    def batch(self) -> None:
        """A batch is requested, or was trained. Requests of a set-up come before training has begun."""
        now = perf_counter()
        if self.opened is not None:
            self._leave_after(now - self.opened >= MOST_S)
        elif self._began is not None and (self._is_warm or now - self._began >= WARM_S):
            self._open()

    def close(self) -> None:
        """The training code has ended, or is left."""
        if self.opened is not None and self.closed is None:
            self.closed = perf_counter()
            self._closes()

    def _begin(self) -> None:
        if self._began is None:
            self._began = perf_counter()

    def _open(self) -> None:
        self._opens()
        self.opened = perf_counter()

    def _leave_after(self, is_enough: bool) -> None:
        if is_enough:
            self.close()
            raise LegLeft("completed")


class ProfileCourse(LocalCourse):
    """The course of a trial that is measured: it prints and keeps nothing."""

    def __init__(self, window: Window, max_steps: int, folder: Path) -> None:
        super().__init__(max_steps, folder)
        self._window = window

    def turn(self, frame: Any) -> int:
        """The next step."""
        try:
            step = super().turn(frame)
        except StopIteration:
            self._window.step()
            self._window.close()  # what follows the loop is not a step
            raise
        self._window.step()
        return step

    def report(self, values: Mapping[str, Any], step: int | None) -> bool:
        """Count a step of a loop that counts its own; True until it has taken all of them."""
        if step is None:
            return True
        self._window.step()
        return step < self._max_steps

    def log(self, values: Mapping[str, Any]) -> None:
        """Nothing is kept."""

    def show(self, figure: Any) -> None:
        """Nothing is kept."""
