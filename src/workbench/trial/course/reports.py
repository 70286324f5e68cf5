"""What a trial's training code reports and logs, by step, on its way to the engine. Law: it decides nothing."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

from workbench.trial.api import metrics
from workbench.trial.media.keeping import Media
from workbench.trial.process.runner import Link

#: The name under which figures are counted that are shown and not logged. No metric has it.
_SHOWN = "figures shown"


class Reports:
    """The reports of one trial in this process."""

    def __init__(self, link: Link, trial: int, media: Media) -> None:
        """media: takes what is logged besides numbers."""
        self._link, self._trial, self._media = link, trial, media
        #: Values reported, by step.
        self.history: dict[int, dict[str, float]] = {}
        #: How often each name was logged within the current step.
        self.logged: dict[str, int] = {}
        self._is_first = True

    def take(
        self,
        values: Mapping[str, Any],
        step: int,
        reduced: Callable[[Mapping[str, float]], Mapping[str, float]] | None = None,
    ) -> None:
        """Take the values reported at ``step``.

        reduced: makes the values of all ranks from those of this one, if there are several.
        """
        if reduced is not None:
            values = reduced({name: metrics.number(one, name, self._trial, step) for name, one in values.items()})
        row = self.history.get(step)
        if row is None:
            row = self.history[step] = {}
        now, points = time.time(), []
        for name, value in values.items():
            if type(value) is not float:
                value = metrics.number(value, name, self._trial, step)
            row[name] = value
            points.append((name, step, 0, value, now))
        self._link.report(points)
        if self._is_first:
            # The other trials wait for the first report of a search.
            self._is_first = False
            self._link.flush()

    def log(self, values: Mapping[str, Any], step: int) -> None:
        """Take what was logged within ``step``: numbers become points, everything else a file."""
        now, points = time.time(), []
        for name, value in values.items():
            if not isinstance(value, int | float):
                if self._media.keep(step, name, value):
                    continue
                value = metrics.number(value, name, self._trial, step)
            index = self.logged[name] = self.logged.get(name, 0) + 1
            points.append((name, step, index, float(value), now))
        self._link.report(points)

    def show(self, figure: Any, step: int) -> None:
        """Keep a Matplotlib figure that was shown within ``step``."""
        # Counted as points are, so that a step that is trained again replaces its figures.
        number = self.logged[_SHOWN] = self.logged.get(_SHOWN, 0) + 1
        self._media.show(step, number, figure)

    def send(self, step: int) -> None:
        """Send again what was reported at ``step``."""
        now = time.time()
        self._link.report([(name, step, 0, value, now) for name, value in self.history.get(step, {}).items()])

    def latest(self) -> dict[str, float]:
        """The latest value of each metric."""
        found: dict[str, float] = {}
        for _, values in sorted(self.history.items()):
            found.update(values)
        return found
