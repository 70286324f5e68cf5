"""Trials whose leg was interrupted: they resume before new places are filled. Law: a queue; the machine decides."""

from __future__ import annotations

from collections import deque

from workbench.records import ENDED
from workbench.search.trials import Trial

__all__ = ["Interrupted"]


class Interrupted:
    """Trials in the order in which they were interrupted.

    One that has ended meanwhile is skipped, unless it continues after all; one that a person holds keeps its turn.
    """

    def __init__(self) -> None:
        self._trials: deque[Trial] = deque()

    def add(self, trial: Trial, until: int) -> None:
        """Queue a trial whose leg goes to ``until``, if it is not queued already."""
        trial.until = until
        if trial not in self._trials:
            self._trials.append(trial)

    def take(self) -> Trial | None:
        """The first that may run now, taken from the queue."""
        while self._trials and self._trials[0].state in ENDED:
            self._trials.popleft()
        for at, trial in enumerate(self._trials):
            if not trial.held and trial.state not in ENDED:
                del self._trials[at]
                return trial
        return None

    def __bool__(self) -> bool:
        """Whether a trial of it will still run."""
        return any(trial.state not in ENDED for trial in self._trials)
