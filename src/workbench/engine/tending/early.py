"""Starts the forkserver of what will be trained first, while the engine imports Dask or its cluster starts. Law:
workers would start the same; it fails silently.

Its imports (torch) take longer than the cluster. Workers find it (:mod:`workbench.trial.process.meeting`).
"""

from __future__ import annotations

import contextlib
import os
import time
from typing import TYPE_CHECKING

from workbench.errors import WorkbenchError
from workbench.records import Training
from workbench.store import Store, requests

if TYPE_CHECKING:
    from workbench.cluster.workers.forking.held import Held
    from workbench.trial.process.meeting import Meeting

#: Seconds after which only workers keep it, unless they have started another one, and between two looks at that.
HELD_S, LOOK_S = 120.0, 1.0


class Early:
    """It is started by :meth:`begin` and held by :meth:`hold`."""

    def __init__(self, store: Store, workers: int | None) -> None:
        """workers: as the own cluster of ``store`` gets them."""
        self._store, self._workers = store, workers
        self._kept: tuple[Held, Meeting] | None = None

    def begin(self) -> None:
        """Start it, without a thread, unless the machine has GPUs: to find out about them takes long."""
        from workbench.cluster import devices

        if not devices.has_any():
            self._begin()

    def hold(self) -> None:
        """Hold it until workers do; and start it first, where :meth:`begin` did not."""
        if self._kept is None:
            self._begin()
        if self._kept is None:
            return
        kept, meeting = self._kept
        kept.watch()
        until = time.monotonic() + HELD_S
        while time.monotonic() < until and meeting.newest(is_ready=True) <= kept.number:
            time.sleep(LOOK_S)
        kept.end()

    def _begin(self) -> None:
        # Imported here: an engine that is refused needs none of it.
        from workbench.cluster import devices
        from workbench.cluster.workers.forking.held import held
        from workbench.cluster.workers.forking.trainings import Trainings
        from workbench.trial.process.meeting import Meeting

        with contextlib.suppress(WorkbenchError, OSError):
            training = self._asked_for()
            if training is None or (plan := devices.plan(self._workers)).trains_on_gpus:
                return
            known = Trainings(has_devices=False, hides=devices.hides(plan, self._workers)).of(training)
            key = repr(known.key)
            meeting = Meeting(str(self._store.root), key)
            if (found := held(known, key, meeting.meet())) is not None:
                self._kept = found, meeting

    def _asked_for(self) -> Training | None:
        """The training environment of the first experiment that this user asks to start."""
        from workbench.store.owner.trust import is_foreign

        for _, request in requests.peek(self._store):
            experiment = request.get("experiment")
            if request.get("kind") != "start" or not isinstance(experiment, str):
                continue
            if not is_foreign(self._store, experiment):
                training = self._store.read_spec(experiment).training
                # Where a spec does not say all variables, the others are those of each worker.
                return training if training.is_whole and os.path.exists(training.python) else None
        return None
