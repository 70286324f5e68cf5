"""The store's own journal, written by its engine. Law: a request is removed once its answer is on disk.

While the disk is full, lines and answers wait in memory, in order, and the engine continues. They are written when
there is space.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Coroutine
from typing import Any

from workbench.errors import StoreError, WorkbenchError
from workbench.store import Store, requests
from workbench.store.files.atomic import move_away
from workbench.store.journal import Journal, check_journal, last

log = logging.getLogger("workbench.engine")

Answer = dict[str, Any]


class Book:
    """Lines of the store's journal, including answers. wake: called when a request was handled."""

    def __init__(self, store: Store, wake: Callable[[], None]) -> None:
        self._store, self._wake = store, wake
        self.journal = _opened(store)
        #: Requests that are being carried out, or whose answer is not on disk.
        self.open: set[str] = set()
        #: By request: the number of the line that answers it, while the line waits for the disk.
        self._answers: dict[str, int] = {}
        #: Since when (monotonic seconds) writes fail; None while they succeed.
        self._since: float | None = None

    def line(self, line: dict[str, Any]) -> None:
        """Write ``line`` now, or as soon as the disk accepts it."""
        self.journal.append(line)
        self.write()

    def answer(self, request: str, answer: Answer) -> None:
        """Answer a request. It is removed once the answer is on disk."""
        self.open.add(request)
        self._answers[request] = self.journal.append({"kind": "answer", "request": request, "accepted": True, **answer})
        self.write()

    async def answer_later(self, request: str, work: Coroutine[Any, Any, Answer]) -> None:
        """Answer with the result of ``work``, or with its refusal."""
        try:
            answer = await work
        except Exception as error:
            answer = refusal(error)
        self.answer(request, answer)
        self._wake()

    def write(self) -> None:
        """Write waiting lines to disk. If that fails, the next call tries again."""
        try:
            self.journal.commit()
            for request, n in list(self._answers.items()):
                if n <= self.journal.durable:
                    requests.remove(self._store, request)
                    del self._answers[request]
                    self.open.discard(request)
        except StoreError as error:
            if self._since is None:
                self._since = time.monotonic()
                log.warning("answers wait, and the engine goes on: %s", error)
            return
        if self._since is not None:
            log.warning("what waited for %.0f s is written", time.monotonic() - self._since)
            self._since = None
            self._wake()

    def close(self) -> None:
        """Write waiting lines if the disk accepts them. The next engine answers the remaining requests."""
        self.write()
        try:
            self.journal.close()
        except StoreError as error:
            log.error("%s", error)


def _opened(store: Store) -> Journal:
    """The store's journal. A file that is not a journal is moved away and replaced: experiments have their own
    journals."""
    path = store.journal_path
    try:
        check_journal(path)
        is_journal = not path.exists() or path.stat().st_size == 0 or last(path) is not None
    except StoreError:
        is_journal = False
    if not is_journal:
        moved = move_away(path)
        log.error("%s is not a journal, and lies in %s now; pins, tags, notes and names are lost", path, moved)
    return Journal.open(path)


#: Errors that the request or the disk causes: the request is refused, and the engine continues.
REFUSED = (WorkbenchError, KeyError, TypeError, ValueError, OSError)


def refusal(error: Exception) -> Answer:
    """The answer to a request that is not carried out. Errors of Workbench itself are logged as well."""
    if not isinstance(error, REFUSED):
        log.error("a request has failed", exc_info=error)
        return {"accepted": False, "error": f"Workbench failed inside: {error!r}", "type": "WorkbenchError"}
    if isinstance(error, WorkbenchError):
        return {"accepted": False, "error": str(error), "type": type(error).__name__}
    if isinstance(error, OSError):
        return {"accepted": False, "error": f"the disk: {error}", "type": "StoreError"}
    return {"accepted": False, "error": f"the request is malformed: {error!r}", "type": "BadInput"}
