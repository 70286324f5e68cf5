"""One store that the server watches: its changes, and its engine. Law: it looks at files; it decides nothing about an
experiment."""

from __future__ import annotations

import time
from logging import Logger

from workbench.asking import Tending, ensure_engine
from workbench.errors import WorkbenchError
from workbench.records import ENDED, UNREADABLE
from workbench.status import awaits_person
from workbench.store import Store
from workbench.store.lists.catalog import read_catalog
from workbench.store.owner.lease import read_engine
from workbench.store.owner.ownership import ownership
from workbench_ext.server import actions
from workbench_ext.server.experiments import is_readonly
from workbench_ext.server.watching.changes import Changed, Changes

#: Seconds between looks at the files of a store that a page shows, and of one in which experiments also run: a point
#: should be on the page at once. A look is some stat calls, 0.1 ms.
TURN_S, LIVE_S = 0.2, 0.02
#: Seconds between looks at the engine of a store in which experiments are under way or which a page shows, and of other
#: stores.
TEND_S, SELDOM_S = 0.5, 5.0
#: Seconds that a request may wait before a new engine is started for it; and between two such engines.
OVERDUE_S, AGAIN_S = 2.0, 10.0


class Tended:
    """A store that is looked at again and again. ``tend``: whether a missing engine may be started in it."""

    def __init__(self, store: Store, tend: bool, log: Logger) -> None:
        self.store = store
        #: Whether experiments run in it.
        self.is_busy = False
        self.changes = Changes()
        self.is_first = True
        self._tend = tend
        self._log = log
        self._alive = False
        self._tending: Tending | None = None
        self._look_next = self._tend_next = self._start_next = 0.0
        self._overdue_since: float | None = None

    def is_due(self, attended: bool) -> bool:
        """Whether it is time to look. ``attended``: whether a page shows the store."""
        # Half a turn early counts as in time: turns come at the shorter interval, and not to the millisecond.
        is_due = attended and time.monotonic() >= self._look_next - LIVE_S / 2
        return is_due or self._is_engine_due(attended)

    def _is_engine_due(self, attended: bool) -> bool:
        now = time.monotonic()
        return now >= self._tend_next or (attended and now + TEND_S < self._tend_next)

    def look(self, attended: bool) -> Changed | None:
        """What changed since the last look, if a page shows the store (``attended``); None if nothing did."""
        self._look_next = time.monotonic() + (LIVE_S if self.is_busy else TURN_S)
        try:
            if self._is_engine_due(attended):
                under_way = self._look_at_engine()
                self._tend_next = time.monotonic() + (TEND_S if attended or under_way else SELDOM_S)
            return self.changes.look(self.store, self._alive) if attended else None
        except (OSError, WorkbenchError) as error:  # an unavailable store is tried again
            self._log.debug("Workbench's store %s could not be read: %s", self.store.root, error)
            return None

    def _look_at_engine(self) -> bool:
        """Whether experiments are under way. A missing engine is started."""
        first, self.is_first = self.is_first, False
        self._alive = self.is_busy = False
        if not self.store.exists:
            return False
        info = read_engine(self.store)
        self._alive = info is not None and info.alive
        # A paused experiment needs no engine, unless it will resume by itself.
        rows = (row for row in read_catalog(self.store) if not awaits_person(row))
        states = {row["state"] for row in rows} - ENDED - {UNREADABLE}
        if not self._alive and self._tend and self._may_be_tended():
            overdue = self._is_overdue()
            if info is not None and (states or overdue):
                self._replace()
            elif (states and first) or overdue:
                # The engine ended normally: the user ended it, so start none until the server starts or a request
                # waits.
                self._start()
        self.is_busy = self._alive and bool(states)
        return self._alive or bool(states) or self._overdue_since is not None

    def _may_be_tended(self) -> bool:
        """Whether an engine may start here: an engine trains what the store says, so the store must be this user's."""
        return not is_readonly(self.store) and ownership(self.store).is_ours

    def _replace(self) -> None:
        """Replace a killed engine, with growing delays if one after the other dies."""
        if self._tending is None:
            self._tending = Tending(self.store)
            self._log.warning("Workbench's engine in %s was killed: another one takes its place.", self.store.root)
        self._tending()

    def _start(self) -> None:
        if time.monotonic() >= self._start_next:
            self._start_next = time.monotonic() + AGAIN_S
            ensure_engine(self.store)

    def _is_overdue(self) -> bool:
        """Whether a request has been waiting for longer than an engine takes to start."""
        if not actions.due(self.store):
            self._overdue_since = None
            return False
        now = time.monotonic()
        self._overdue_since = self._overdue_since or now
        return now - self._overdue_since > OVERDUE_S
