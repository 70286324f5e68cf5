"""What the server does without being asked: it tells pages what changed, and keeps engines and itself alive while
experiments run. Law: it looks at files; it decides nothing about an experiment.
"""

from __future__ import annotations

import asyncio
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from tornado.ioloop import PeriodicCallback
from traitlets import Bool
from traitlets.config import LoggingConfigurable

from workbench.engine.ask import Tending, ensure_engine
from workbench.errors import WorkbenchError
from workbench.records import ENDED
from workbench.store import Store
from workbench.store.catalog import read_catalog
from workbench.store.lease import read_engine
from workbench_ext.server import actions
from workbench_ext.server.changes import Changes
from workbench_ext.server.experiments import is_readonly

if TYPE_CHECKING:
    from jupyter_server.serverapp import ServerApp

#: Names what is emitted. A name only: nobody ever fetches it.
SCHEMA_ID = "urn:workbench:events:changed:v1"
SCHEMA = {
    "$id": SCHEMA_ID,
    "version": "1",
    "title": "Something in Workbench's store changed",
    "personal-data": True,
    "description": "Fetch what is new by your cursors. Nothing is lost with an event that was missed.",
    "type": "object",
    "required": ["store", "experiments", "catalog"],
    "additionalProperties": False,
    "properties": {
        "store": {"type": "string", "description": "The store's folder."},
        "experiments": {"type": "array", "items": {"type": "string"}, "description": "Ids of what changed."},
        "catalog": {"type": "boolean", "description": "Whether the list, its requests or its engine changed."},
    },
}
#: Seconds between looks while a page is open, and between looks at engines.
LOOK_S, TEND_S = 0.2, 0.5
#: A page asks every few seconds; this long after the last one nobody is told anything.
ATTENDED_S = 30.0
#: Seconds for which a request may wait before an engine that left is missed; and between two engines for it.
OVERDUE_S, AGAIN_S = 2.0, 10.0


class Workbench(LoggingConfigurable):
    """Workbench's part of a Jupyter server: ``c.Workbench.tend = False`` in its configuration, for example."""

    tend = Bool(
        True,
        help="Start an engine where one was killed, and for experiments that were under way when the server starts.",
    ).tag(config=True)

    def __init__(self, server_app: ServerApp) -> None:
        super().__init__(parent=server_app)
        self._settings: dict[str, Any] = server_app.web_app.settings
        assert server_app.event_logger is not None  # the server makes it before it loads extensions
        self._events = server_app.event_logger
        self._events.register_event_schema(SCHEMA)
        self._changes = Changes()
        self._alive = False
        self._tending: tuple[Store, Tending] | None = None
        self._tend_next = self._start_next = 0.0
        self._overdue_since: float | None = None
        self._is_first = True
        self._callback = PeriodicCallback(self._look, LOOK_S * 1000)

    def start(self) -> None:
        """Look from now on, as long as the server's loop runs."""
        self._callback.start()

    async def _look(self) -> None:
        store = Store.find(cwd=self._settings["workbench_root"])
        now = time.monotonic()
        try:
            if now >= self._tend_next:
                self._tend_next = now + TEND_S
                if await asyncio.to_thread(self._tended, store):
                    # Whatever culls idle servers spares one in which experiments run.
                    self._settings["last_activity_times"]["workbench"] = datetime.now(UTC)
            if now - self._settings.get("workbench_asked", -ATTENDED_S) < ATTENDED_S:
                changed = await asyncio.to_thread(self._changes.look, store, self._alive)
                if changed is not None:
                    data = {"store": str(store.root), "experiments": [*changed.experiments], "catalog": changed.catalog}
                    self._events.emit(schema_id=SCHEMA_ID, data=data)
        except (OSError, WorkbenchError) as error:  # a store that comes and goes is looked at again
            self.log.debug("Workbench's store could not be looked at: %s", error)

    def _tended(self, store: Store) -> bool:
        """Whether experiments run. An engine that is missing is started."""
        first, self._is_first = self._is_first, False
        if not store.exists:
            self._alive = False
            return False
        info = read_engine(store)
        self._alive = info is not None and info.alive
        # One that is paused needs no engine, unless it is to go on by itself when there is room.
        rows = (row for row in read_catalog(store) if row["state"] != "paused" or row.get("pause") == "room")
        states = {row["state"] for row in rows} - ENDED
        if not self._alive and self.tend and not is_readonly(store):
            overdue = self._is_overdue(store)
            if info is not None and (states or overdue):
                self._replace(store)
            elif (states and first) or overdue:
                # It left in good order: somebody ended it, which holds until the server starts or something is asked.
                self._start(store)
        return self._alive and bool(states)

    def _replace(self, store: Store) -> None:
        """An engine was killed: another one takes its place, ever later where one after the other dies."""
        if self._tending is None or self._tending[0] != store:
            self._tending = (store, Tending(store))
            self.log.warning("Workbench's engine in %s was killed: another one takes its place.", store.root)
        self._tending[1]()

    def _start(self, store: Store) -> None:
        if time.monotonic() >= self._start_next:
            self._start_next = time.monotonic() + AGAIN_S
            ensure_engine(store)

    def _is_overdue(self, store: Store) -> bool:
        """Whether a request has been waiting for longer than an engine takes to come."""
        if not actions.due(store):
            self._overdue_since = None
            return False
        now = time.monotonic()
        self._overdue_since = self._overdue_since or now
        return now - self._overdue_since > OVERDUE_S
