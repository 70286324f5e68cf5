"""Workers that are not used because trials died on them. Law: no experiment goes without a slot for the sake of it."""

from __future__ import annotations

from collections.abc import Callable

from workbench.cluster.backend import Backend
from workbench.engine.asking.book import Book
from workbench.engine.judging.suspects import Suspects, Way, Who


class Blamed:
    """Takes workers out of use on which three trials died in the same way, and back where their slots are needed."""

    def __init__(self, backend: Backend, book: Book, needed: Callable[[], int]) -> None:
        """needed: how many slots a trial of the experiments under way needs at once, at most."""
        self._backend, self._book, self._needed = backend, book, needed
        self._suspects = Suspects()
        #: Workers that are not used any more because trials died on them, and why.
        self._out_of_use: dict[str, str] = {}

    def well(self, worker: str) -> None:
        """A leg succeeded on ``worker``."""
        self._suspects.well(worker)

    def died(self, worker: str, who: Who, way: Way) -> None:
        """Note a death on a worker. A worker on which three trials died in the same way is not used any more."""
        others = sum(not slot.closed and slot.worker != worker for slot in self._backend.slots)
        why = self._suspects.died(worker, who, way, is_needed=others < self._needed())
        if why is not None:
            self._out_of_use[worker] = why
            self._book.line({"kind": "SetAside", "worker": worker, "reason": why})
            self._backend.close_worker(worker, why)

    def take_back(self) -> None:
        """Use workers again, the newest first, until a trial of each experiment has its slots."""
        while self._out_of_use and sum(not slot.closed for slot in self._backend.slots) < self._needed():
            worker, why = self._out_of_use.popitem()
            self._book.line({"kind": "TakenBack", "worker": worker})
            self._backend.open_worker(worker, why)
