"""Experiments that an engine before left under way. Law: each goes on, waits for the disk, or is listed by name."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

from workbench.engine.asking.book import Book
from workbench.engine.tending.disk import Disk
from workbench.errors import NewerSchema, NotFound, WorkbenchError
from workbench.records import UNREADABLE
from workbench.store import Store
from workbench.store.lists.catalog import Catalog
from workbench.store.lists.summary import unreadable

log = logging.getLogger("workbench.engine")

#: Seconds between attempts to open experiments that the disk holds up.
HELD_UP_S = 2.0


class Reopening:
    """Opens experiments again with ``begin``. is_gone: whether one is open already, or was deleted."""

    def __init__(
        self,
        store: Store,
        catalog: Catalog,
        book: Book,
        disk: Disk,
        begin: Callable[[str], None],
        is_gone: Callable[[str], bool],
    ) -> None:
        self._store, self._catalog, self._book, self._disk = store, catalog, book, disk
        self._begin, self._is_gone = begin, is_gone
        #: Experiments that could not be opened yet, because of the disk.
        self.held_up: set[str] = set()
        self._next_try = 0.0

    def go_on(self, experiment: str) -> None:
        """Continue an experiment that was under way: now, or when the disk takes what must be written."""
        try:
            self._begin(experiment)
        except OSError as error:
            if error.errno is not None:
                self.held_up.add(experiment)
                self._disk.tell(f"experiment {experiment}", error)
                return
            if isinstance(error, NewerSchema):
                self._refuse(experiment, error)
            else:
                self._skip(experiment, str(error))
        except NotFound as error:
            self._skip(experiment, str(error))
        except WorkbenchError as error:
            self._refuse(experiment, error)
        except Exception as error:
            log.exception("experiment %s cannot go on", experiment)
            self._skip(experiment, f"it cannot be started: {error!r}"[:500])
        self.held_up.discard(experiment)

    def look(self) -> None:
        """Now and then, try those again that the disk held up."""
        clock = time.monotonic()
        if not self.held_up or clock < self._next_try:
            return
        self._next_try = clock + HELD_UP_S
        for experiment in list(self.held_up):
            if self._is_gone(experiment):
                self.held_up.discard(experiment)
            else:
                self.go_on(experiment)

    def _refuse(self, experiment: str, error: Exception) -> None:
        log.error("experiment %s cannot go on: %s", experiment, error)
        self._book.line({"kind": "Refused", "experiment": experiment, "error": str(error)})

    def _skip(self, experiment: str, why: str) -> None:
        """Leave an experiment alone whose files are not valid; lists show it as unreadable."""
        known = self._catalog.get(experiment) or {}
        if (known.get("state"), known.get("reason")) == (UNREADABLE, why):
            return
        log.error("experiment %s is skipped: %s", experiment, why)
        entry = {**unreadable(self._store, experiment, why), **known, "state": UNREADABLE, "reason": why}
        self._catalog.upsert_experiment(experiment, entry)
        self._book.line({"kind": "Unreadable", "experiment": experiment, "error": why})
