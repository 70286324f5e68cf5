"""``trial`` outside of Workbench. Law: the same code runs; it takes all steps, prints reports, and saves nothing."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from workbench.records import Configuration
from workbench.trial.api import metrics
from workbench.trial.api.trial import LegLeft, Trial
from workbench.trial.media.keeping import Media

#: The environment variable with the number of steps outside of Workbench.
STEPS_VARIABLE = "WORKBENCH_STEPS"
STEPS = 10


class LocalCourse:
    """A trial without a leg: turns are counted, values printed.

    own_steps: steps after which a loop that counts its own is told to end; None: it has its own end. is_short: it is
    left if it continues nevertheless.
    """

    may_resume = False
    place = None

    def __init__(self, max_steps: int, folder: Path, *, own_steps: int | None = None, is_short: bool = False) -> None:
        self.step = -1
        self._max_steps = max_steps
        self._media = Media(folder)
        #: Figures shown, by step.
        self._shown: dict[int, int] = {}
        self._own_steps, self._is_short = own_steps, is_short
        #: When each turn began, and the last one ended (monotonic seconds).
        self.turns: list[float] = []
        #: Values reported, by step.
        self.history: dict[int, dict[str, float]] = {}

    def turn(self, frame: Any) -> int:
        self.step += 1
        self.turns.append(time.monotonic())
        if self.step >= self._max_steps:
            raise StopIteration
        return self.step

    def turns_left(self) -> int:
        return self._max_steps - max(0, self.step)

    def report(self, values: Mapping[str, Any], step: int | None) -> bool:
        last = self._max_steps if step is None else self._own_steps
        step = self._current() if step is None else step
        found = {name: metrics.number(value, name, 0, step) for name, value in values.items()}
        self.history.setdefault(step, {}).update(found)
        print(f"step {step}: " + ", ".join(f"{name} {value:.6g}" for name, value in found.items()))  # noqa: T201
        if self._is_short and step > self._max_steps:
            raise LegLeft("completed")
        return last is None or step < last

    def log(self, values: Mapping[str, Any]) -> None:
        for name, value in values.items():
            if not isinstance(value, int | float):
                self._media.keep(self._current(), name, value)

    def batches(self, loader: Any) -> Any:
        return loader

    def track(self, objects: Mapping[str, Any]) -> None:
        """Nothing is saved."""

    def data(self, path: Path) -> None:
        """Nothing is recorded."""

    def save(self, folder: Path, step: int | None) -> None:
        """Nothing is saved."""

    def restore(self) -> Path | None:
        return None

    def is_due(self, step: int) -> bool:
        return False

    def write(self, step: int, write: Callable[[Path], None]) -> None:
        """Nothing is saved."""

    def trains(self, repeats: bool = False) -> None:
        """Nothing needs to be done."""

    def show(self, figure: Any) -> None:
        step = self._current()
        number = self._shown[step] = self._shown.get(step, 0) + 1
        self._media.show(step, number, figure)

    def _current(self) -> int:
        return min(self.step + 1, self._max_steps)


def local_trial(
    configuration: Configuration | None = None,
    *,
    max_steps: int | None = None,
    seed: int = 0,
    folder: Path | None = None,
) -> Trial:
    """A trial that takes all its steps here: ``max_steps``, or WORKBENCH_STEPS, or ten."""
    told = os.environ.get(STEPS_VARIABLE) if max_steps is None else str(max_steps)
    own_steps = int(told) if told else None
    steps = own_steps or STEPS
    place = folder or Path.cwd() / "trial-files"
    return Trial(LocalCourse(steps, place, own_steps=own_steps), 0, configuration or {}, steps, seed, place)
