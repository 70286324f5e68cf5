"""The server's background work: it finds stores, tells pages about changes, and keeps engines and itself alive while
experiments run. Law: it looks at files; it decides nothing about an experiment."""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
import time
from collections.abc import Coroutine
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from tornado.ioloop import PeriodicCallback
from traitlets import Bool, Int, List, Unicode
from traitlets.config import LoggingConfigurable

from workbench_ext.server.base import Refused
from workbench_ext.server.below import MOST_DEPTH
from workbench_ext.server.stores import Known, Stores
from workbench_ext.server.watching.tended import LIVE_S, TURN_S, Tended

if TYPE_CHECKING:
    from jupyter_server.serverapp import ServerApp

#: The name of the events' schema. It is only a name: no program fetches it.
SCHEMA_ID = "urn:workbench:events:changed:v2"
SCHEMA = {
    "$id": SCHEMA_ID,
    "version": "2",
    "title": "Something in a store of Workbench changed",
    "personal-data": True,
    "description": "Fetch what is new by your cursors. A missed event loses nothing.",
    "type": "object",
    "required": ["store", "experiments", "catalog"],
    "additionalProperties": False,
    "properties": {
        "store": {"type": "string", "description": "The store's id, as the list of stores names it."},
        "experiments": {"type": "array", "items": {"type": "string"}, "description": "Ids of what changed."},
        "catalog": {"type": "boolean", "description": "Whether the list, its requests or its engine changed."},
    },
}
#: Seconds between two lists of the existing stores.
LIST_S = 5.0
#: Folders of further stores, separated like PATH, in addition to the configured ones.
STORES_VARIABLE = "WORKBENCH_STORES"


class Workbench(LoggingConfigurable):
    """Workbench's part of a Jupyter server. Configured with ``c.Workbench.tend = False``, for example."""

    tend = Bool(
        True,
        help="Start an engine where one was killed, and for experiments that were running when the server starts.",
    ).tag(config=True)
    store_folders = List(
        Unicode(),
        help="Folders of further stores to show, such as '/data/team/.workbench'; they may lie anywhere. "
        "WORKBENCH_STORES names more, separated like PATH.",
    ).tag(config=True)
    look_depth = Int(
        MOST_DEPTH,
        min=0,
        help="Levels of folders below the server's root folder that are looked through for stores. With 0, those "
        "beside open notebooks and configured ones are shown besides the root folder's.",
    ).tag(config=True)

    def __init__(self, server_app: ServerApp) -> None:
        super().__init__(parent=server_app)
        self._settings: dict[str, Any] = server_app.web_app.settings
        assert server_app.event_logger is not None  # the server creates it before it loads extensions
        self._events = server_app.event_logger
        self._events.register_event_schema(SCHEMA)
        self._sessions = server_app.session_manager
        more = [folder for folder in os.environ.get(STORES_VARIABLE, "").split(os.pathsep) if folder]
        hidden = bool(getattr(server_app.contents_manager, "allow_hidden", False))
        self.stores = Stores(server_app.root_dir, [*self.store_folders, *more], self.look_depth, hidden)
        #: The state of each store, by id.
        self.tended: dict[str, Tended] = {}
        #: Ids of stores that are being looked at. A disk that hangs only blocks its own stores.
        self._under_way: set[str] = set()
        self._list_next = 0.0
        self._met = 0
        self._is_listing = False
        self._tasks: set[asyncio.Task[None]] = set()
        self._finding: threading.Thread | None = None
        self._callback = PeriodicCallback(self._turn, TURN_S * 1000)

    def start(self) -> None:
        """Look from now on, as long as the server's loop runs."""
        self._callback.start()

    def _turn(self) -> None:
        now = time.monotonic()
        live = False
        if (now >= self._list_next or self._met != self.stores.count) and not self._is_listing:
            self._list_next = now + LIST_S
            self._begin(self._list())
        for key, tended in self.tended.items():
            attended = self.stores.is_attended(key)
            live |= attended and tended.is_busy
            if key not in self._under_way and tended.is_due(attended):
                self._under_way.add(key)
                self._begin(self._look(key, tended, attended))
        # A point should be on the page at once. If nothing runs, or no page shows the store, looks are rare again.
        self._callback.callback_time = (LIVE_S if live else TURN_S) * 1000

    def _begin(self, task: Coroutine[Any, Any, None]) -> None:
        begun = asyncio.create_task(task)
        self._tasks.add(begun)  # the loop itself holds a task weakly
        begun.add_done_callback(self._tasks.discard)

    async def _list(self) -> None:
        """Find the stores next to notebooks that have a kernel, and list all existing ones."""
        self._is_listing = True
        try:
            paths = await self._open_notebooks()
            self._met = self.stores.count
            known = await asyncio.to_thread(self._listed, paths)
            self.tended = {one.id: self.tended.get(one.id) or Tended(one.store, self.tend, self.log) for one in known}
        finally:
            self._is_listing = False
        if self._finding is None or not self._finding.is_alive():
            self._finding = threading.Thread(target=self.stores.look_if_due, name="workbench-stores", daemon=True)
            self._finding.start()

    def _listed(self, paths: list[str]) -> list[Known]:
        for path in paths:
            with contextlib.suppress(Refused, OSError):  # it has a kernel but is not a notebook
                self.stores.beside(path)
        return self.stores.all()

    async def _open_notebooks(self) -> list[str]:
        """Paths of the notebooks that have a kernel, relative to the contents API's root."""
        try:
            return [str(session["path"]) for session in await self._sessions.list_sessions()]
        except Exception as error:  # an unreachable kernel gateway must not keep stores from being shown
            self.log.debug("Workbench could not ask for the notebooks that are open: %s", error)
            return []

    async def _look(self, key: str, tended: Tended, attended: bool) -> None:
        try:
            changed = await asyncio.to_thread(tended.look, attended)
        finally:
            self._under_way.discard(key)
        if tended.is_busy:
            # Programs that cull idle servers must spare one in which experiments run.
            self._settings["last_activity_times"]["workbench"] = datetime.now(UTC)
        if changed is not None:
            data = {"store": key, "experiments": [*changed.experiments], "catalog": changed.catalog}
            self._events.emit(schema_id=SCHEMA_ID, data=data)
