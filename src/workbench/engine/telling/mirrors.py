"""Mirrors of experiments in other programs, kept by an exporter. Law: nothing waits for a mirror, and an experiment
trains even if no exporter is installed."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection

from workbench import exporter
from workbench.exporter import Keeper
from workbench.records import Spec
from workbench.store import Store
from workbench.store.lists.mirrors import Mirror

log = logging.getLogger("workbench.engine")

#: Seconds before a missing exporter is looked for again: the user may have installed it.
AGAIN_S = 60.0


class Mirrors:
    """The exporter's keeper, loaded when the first experiment with mirrors is taken.

    tell: called with an experiment's id and its mirrors' state in words; None once all is written.
    """

    def __init__(self, store: Store, tell: Callable[[str, str | None], None]) -> None:
        self._store, self._tell = store, tell
        self._keeper: Keeper | None = None
        #: Experiments that wait for an exporter, why there is none, and the experiments for which that was reported.
        self._waiting: dict[str, Spec] = {}
        self._lack = ""
        self._told: set[str] = set()
        self._not_before = 0.0

    def take(self, spec: Spec) -> None:
        """Have the experiment written to the mirrors of its spec. Does nothing for one without mirrors."""
        if not spec.mirror:
            return
        if self._keeper is None:
            self._waiting.setdefault(spec.id, spec)
            self._find()
        else:
            self._keeper.take(spec)

    def look(self) -> None:
        """Called about once a second: start waiting mirrors, and report their state."""
        if self._waiting:
            self._find()
        for key in self._waiting.keys() - self._told:
            log.warning("mirrors of %s, training goes on: %s", self._waiting[key].label, self._lack)
            self._tell(key, self.word(key))
            self._told.add(key)
        if self._keeper is not None:
            self._keeper.look()

    def word(self, experiment: str) -> str | None:
        """The state of the experiment's mirrors; None if all is written."""
        if experiment in self._waiting:
            kinds = ", ".join(one.kind for one in map(Mirror.of, self._waiting[experiment].mirror))
            return f"{kinds} waits: {self._lack}"
        return None if self._keeper is None else self._keeper.word(experiment)

    def forget(self, experiment: str) -> None:
        """The experiment is being deleted."""
        self._waiting.pop(experiment, None)
        if self._keeper is not None:
            self._keeper.forget(experiment)

    def is_busy(self, resting: Collection[str] = ()) -> bool:
        """Whether a write is under way that will soon finish. resting: experiments that produce nothing new."""
        return self._keeper is not None and self._keeper.is_busy(resting)

    def close(self) -> None:
        """Close all mirrors after their current writes. It blocks."""
        if self._keeper is not None:
            self._keeper.close()

    def _find(self) -> None:
        if time.monotonic() < self._not_before:
            return
        try:
            self._keeper = exporter.mirroring().keeper(self._store, self._tell)
        except Exception as error:  # no exporter, or an error in a third-party one
            self._lack = str(error)
            self._not_before = time.monotonic() + AGAIN_S
            return
        while self._waiting:
            key, spec = self._waiting.popitem()
            self._keeper.take(spec)
            if key in self._told:
                self._tell(key, self._keeper.word(key))
