"""The forkserver that a kernel starts before its first train cell, and keeps when an engine ends.

Law: it imports what the kernel has imported, once for all workers of the folder's store; it fails silently: without it
a leg waits for these imports.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from workbench.errors import WorkbenchError

if TYPE_CHECKING:
    from workbench.cluster.workers.forking.held import Held
    from workbench.cluster.workers.forking.trainings import Known

#: Seconds between looks at whether workers have started another one.
LOOK_S = 30.0
#: Seconds without a cell after which it is not kept any more: it holds some 300 MB.
KEPT_S = 3600.0
#: After so many that ended before they could fork, no more are started.
MOST_FAILED = 4


class Keeper:
    """One kernel's. It works in a thread of its own, after each cell."""

    #: This process's: if the extension is loaded again, the next one begins before the last one has ended.
    _living: ClassVar[set[Keeper]] = set()

    def __init__(self) -> None:
        self._living.add(self)
        self._woken, self._is_over = threading.Event(), False
        #: Whether a cell is being executed: it may be importing; and whether one has ended since the last look.
        self._is_busy = self._has_ended = False
        self._held: Held | None = None
        #: The one before, until this one is ready: an engine that starts meanwhile uses it.
        self._former: Held | None = None
        self._used = time.monotonic()
        #: How many ended before they could fork.
        self._failed = 0
        #: What the training environment depends on, and that environment.
        self._around: tuple[object, Known | None] = (None, None)
        threading.Thread(target=self._keep, name="workbench-keeper", daemon=True).start()

    def watch(self, events: Any) -> None:
        """Look after each cell."""
        events.register("pre_run_cell", self._cell_begins)
        events.register("post_run_cell", self._cell_ended)

    def unwatch(self, events: Any) -> None:
        """Keep nothing any more."""
        for event, hook in (("pre_run_cell", self._cell_begins), ("post_run_cell", self._cell_ended)):
            with contextlib.suppress(ValueError):
                events.unregister(event, hook)
        self._is_over = True
        self._woken.set()

    def _cell_begins(self, *_: Any) -> None:
        self._is_busy = True

    def _cell_ended(self, *_: Any) -> None:
        self._used, self._is_busy, self._has_ended = time.monotonic(), False, True
        self._woken.set()

    def _legs_come(self) -> None:
        held = self._held  # the other thread may let go of it
        if held is not None:
            held.say_soon()

    def _keep(self) -> None:
        from workbench.launch import EXPECTING

        EXPECTING.add(self._legs_come)
        while not self._is_over:
            self._woken.wait(LOOK_S)
            self._woken.clear()
            if not self._is_busy:
                has_ended, self._has_ended = self._has_ended, False
                with contextlib.suppress(OSError, WorkbenchError, ImportError):
                    self._look(has_ended)
        from workbench.nursery import KEPT

        EXPECTING.discard(self._legs_come)
        self._hold(None)
        self._living.discard(self)
        if not self._living:
            KEPT.let_go()

    def _look(self, has_ended: bool) -> None:
        """has_ended: whether a cell has ended since the last look."""
        from workbench.asking import keep_nursery
        from workbench.nursery import KEPT
        from workbench.store import Store

        if time.monotonic() - self._used > KEPT_S:
            self._hold(None)
            KEPT.let_go()
            return
        self._let_go()
        keep_nursery(Store.find(None))
        around = (len(sys.modules), dict(os.environ), [*sys.path], os.getcwd())
        if self._around[0] != around:
            self._around = around, _known()
        known = self._around[1]
        if known is None:
            return
        from workbench.cluster.workers.forking.held import held as hold
        from workbench.engine import scope
        from workbench.trial.process.meeting import SCOPE, Meeting, group_of

        key, held, preload = repr(known.key), self._held, frozenset(known.training.preload)
        # A session's end must not end what trains: such a forkserver is in a scope of its own, as engines are.
        leaves = scope.answers()
        meeting, after = Meeting(str(Store.find(None).root), key, SCOPE if leaves else None), 0
        if held is not None and held.key == key and held.is_alive:
            lacks = has_ended and bool(held.preload) and not preload <= held.preload
            if not lacks and meeting.newest() <= held.number:
                return
            after = held.number
        if held is not None and not held.is_alive and not held.is_ready:
            self._failed += 1
        if self._failed < MOST_FAILED and (has_ended or meeting.newest() > after):
            new = hold(known, key, meeting.meet(after))
            if new is not None:
                new.watch(self._woken.set)  # the one before is let go when this one is ready
            if leaves and new is not None and new.pid is not None:
                scope.ask("forkserver", new.pid)
                if group_of(Path(f"/proc/{new.pid}/cgroup").read_text()) != SCOPE:
                    new.end()
                    return
            self._hold(new or held)

    def _hold(self, held: Held | None) -> None:
        former, self._held = self._held, held
        if former is not None and former is not held:
            if self._former is not None:
                self._former.end()
            self._former = former
        self._let_go()

    def _let_go(self) -> None:
        """End the one before, once it is not needed any more."""
        if self._former is None:
            return
        if self._held is not None and not self._held.is_alive and not self._held.is_ready and self._former.is_alive:
            self._held, self._former = self._former, None
        elif self._held is None or self._held.is_ready or not self._held.is_alive:
            self._former.end()
            self._former = None


def _known() -> Known | None:
    """The training environment of this kernel now; None while nothing is imported that takes long, or where no worker
    would use it."""
    from workbench.cluster import devices
    from workbench.cluster.workers.forking.trainings import Trainings
    from workbench.launch import training_here
    from workbench.snapshot.surroundings.around import Around

    named = os.environ.get("WORKBENCH_WORKERS", "")
    workers = int(named) if named.isdecimal() else None
    plan = devices.plan(workers)
    if os.environ.get("WORKBENCH_CLUSTER") or plan.trains_on_gpus:
        return None
    training = training_here(None, (), Around.here())
    if not training.preload:
        return None
    return Trainings(has_devices=False, hides=devices.hides(plan, workers)).of(training)
