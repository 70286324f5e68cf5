"""Starts the forkserver of what will be trained first while the cluster starts. Law: workers would start the same; it
fails silently.

Its imports (torch) take longer than the cluster. Workers find it (:mod:`workbench.trial.process.meeting`).
"""

from __future__ import annotations

import contextlib
import os
import threading
import time

from workbench.errors import WorkbenchError
from workbench.records import Training
from workbench.store import Store, requests

#: Seconds after which only workers keep it, unless they have started another one, and between two looks at that.
HELD_S, LOOK_S = 120.0, 1.0


def begin(store: Store, workers: int | None, leaving: threading.Thread | None) -> None:
    """Start it in the background. workers: as the own cluster of ``store`` gets them. leaving: the thread that moves
    this process into its systemd scope, where what it starts afterwards will be."""
    threading.Thread(target=_begin, args=(store, workers, leaving), name="workbench-early", daemon=True).start()


def _begin(store: Store, workers: int | None, leaving: threading.Thread | None) -> None:
    if leaving is not None:
        leaving.join()
    # Imported here: the engine itself begins with other modules, at the same time.
    from workbench.cluster import devices
    from workbench.cluster.workers.forking.held import held
    from workbench.cluster.workers.forking.trainings import Trainings
    from workbench.trial.process.meeting import Meeting

    with contextlib.suppress(WorkbenchError, OSError):
        training, plan = _asked_for(store), devices.plan(workers)
        if training is None or plan.trains_on_gpus:
            return
        known = Trainings(has_devices=False, hides=devices.hides(plan, workers)).of(training)
        key = repr(known.key)
        meeting = Meeting(str(store.root), key)
        kept = held(known, key, meeting.meet())
        until = time.monotonic() + HELD_S
        while kept is not None and time.monotonic() < until and meeting.newest(is_ready=True) <= kept.number:
            time.sleep(LOOK_S)
        if kept is not None:
            kept.end()


def _asked_for(store: Store) -> Training | None:
    """The training environment of the first experiment that this user asks to start."""
    from workbench.store.owner.trust import is_foreign

    for _, request in requests.peek(store):
        experiment = request.get("experiment")
        if request.get("kind") == "start" and isinstance(experiment, str) and not is_foreign(store, experiment):
            training = store.read_spec(experiment).training
            # Where a spec does not say all variables, the others are those of each worker.
            return training if training.is_whole and os.path.exists(training.python) else None
    return None
