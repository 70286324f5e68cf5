"""One store that the server keeps an eye on: what changed in it, and its engine. Law: it looks at files; it decides
nothing about an experiment.
"""

from __future__ import annotations

import time
from logging import Logger

from workbench.engine.asking.ask import Tending, ensure_engine
from workbench.errors import WorkbenchError
from workbench.records import ENDED, UNREADABLE
from workbench.store import Store
from workbench.store.lists.catalog import read_catalog
from workbench.store.owner.lease import read_engine
from workbench.store.owner.ownership import ownership
from workbench_ext.server import actions
from workbench_ext.server.experiments import is_readonly
from workbench_ext.server.watching.changes import Changed, Changes

#: Seconds between looks at the files of a store that a page shows, and of one in which experiments run besides: a point
#: is to be on the page at once. A look is some stat calls, 0.1 ms.
TURN_S, LIVE_S = 0.2, 0.02
#: Seconds between looks at the engine of a store in which experiments are under way or which a page shows, and of
#: the others.
TEND_S, SELDOM_S = 0.5, 5.0
#: Seconds for which a request may wait before an engine that left is missed; and between two engines for it.
OVERDUE_S, AGAIN_S = 2.0, 10.0


class Tended:
    """A store, looked at again and again. ``tend``: an engine that is missing may be started in it."""

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
        """Whether it is time to look. ``attended``: a page shows the store."""
        # Half a turn early is in time: turns come at the shorter interval, and not to the millisecond.
        is_due = attended and time.monotonic() >= self._look_next - LIVE_S / 2
        return is_due or self._is_engine_due(attended)

    def _is_engine_due(self, attended: bool) -> bool:
        now = time.monotonic()
        return now >= self._tend_next or (attended and now + TEND_S < self._tend_next)

    def look(self, attended: bool) -> Changed | None:
        """What changed since the last look, where a page shows the store (``attended``); None where nothing did."""
        self._look_next = time.monotonic() + (LIVE_S if self.is_busy else TURN_S)
        try:
            if self._is_engine_due(attended):
                under_way = self._look_at_engine()
                self._tend_next = time.monotonic() + (TEND_S if attended or under_way else SELDOM_S)
            return self.changes.look(self.store, self._alive) if attended else None
        except (OSError, WorkbenchError) as error:  # a store that comes and goes is looked at again
            self._log.debug("Workbench's store %s could not be read: %s", self.store.root, error)
            return None

    def _look_at_engine(self) -> bool:
        """Whether experiments are under way. An engine that is missing is started."""
        first, self.is_first = self.is_first, False
        self._alive = self.is_busy = False
        if not self.store.exists:
            return False
        info = read_engine(self.store)
        self._alive = info is not None and info.alive
        # One that is paused needs no engine, unless it is to go on by itself when there is room.
        rows = (row for row in read_catalog(self.store) if row["state"] != "paused" or row.get("pause") == "room")
        states = {row["state"] for row in rows} - ENDED - {UNREADABLE}
        if not self._alive and self._tend and self._may_be_tended():
            overdue = self._is_overdue()
            if info is not None and (states or overdue):
                self._replace()
            elif (states and first) or overdue:
                # It left in good order: somebody ended it, which holds until the server starts or something is asked.
                self._start()
        self.is_busy = self._alive and bool(states)
        return self._alive or bool(states) or self._overdue_since is not None

    def _may_be_tended(self) -> bool:
        """Whether an engine may begin here: one trains what the store says, so the store must be this person's."""
        return not is_readonly(self.store) and ownership(self.store).is_ours

    def _replace(self) -> None:
        """An engine was killed: another one takes its place, ever later where one after the other dies."""
        if self._tending is None:
            self._tending = Tending(self.store)
            self._log.warning("Workbench's engine in %s was killed: another one takes its place.", self.store.root)
        self._tending()

    def _start(self) -> None:
        if time.monotonic() >= self._start_next:
            self._start_next = time.monotonic() + AGAIN_S
            ensure_engine(self.store)

    def _is_overdue(self) -> bool:
        """Whether a request has been waiting for longer than an engine takes to come."""
        if not actions.due(self.store):
            self._overdue_since = None
            return False
        now = time.monotonic()
        self._overdue_since = self._overdue_since or now
        return now - self._overdue_since > OVERDUE_S
