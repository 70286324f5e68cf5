"""Gets workers ready for a training environment before its first leg. Law: each one once; nothing is trained."""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Awaitable, Callable

from workbench.cluster.backend import Backend
from workbench.errors import ClusterError, WorkbenchError
from workbench.records import Training
from workbench.store import Store
from workbench.store.owner.trust import is_foreign

log = logging.getLogger("workbench.engine")

#: The newest experiments among which the environment of the next one is sought.
NEWEST = 20


class Warming:
    """The training environments for which the workers were made ready."""

    def __init__(self, store: Store, backend: Backend, opened: Callable[[], Awaitable[str | None]]) -> None:
        """opened: waits until the backend is open; the problem if it could not be opened."""
        self._store, self._backend, self._opened = store, backend, opened
        self._done: set[str] = set()

    async def warm(self, training: Training) -> str | None:
        """Have this environment imported on every worker. Returns what is wrong with it, or None."""
        trouble = await self._opened()
        key = repr(training)
        if trouble is not None or key in self._done:
            return trouble
        self._done.add(key)
        try:
            await self._backend.warm(training)
        except ClusterError as error:
            self._done.discard(key)
            return str(error)
        return None

    async def warm_newest(self) -> None:
        """The same for the environment of the newest experiment: the next one probably has the same."""
        training = self._newest()
        if training is not None and (why := await self.warm(training)):
            log.info("what was trained last is not made ready: %s", why)

    def _newest(self) -> Training | None:
        """The training environment of the newest experiment that may be trained here."""
        for experiment in sorted(self._store.experiment_ids(), reverse=True)[:NEWEST]:
            with contextlib.suppress(WorkbenchError, OSError):
                training = self._store.read_spec(experiment).training
                if os.path.exists(training.python) and not is_foreign(self._store, experiment):
                    return training
        return None
