"""The forkserver that a kernel starts before its first train cell, and keeps when an engine ends.

Law: it imports what the kernel has imported, once for all workers of the folder's store; it fails silently: without it
a leg waits for these imports.
"""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from workbench.errors import WorkbenchError
from workbench.messages import Join, Ready, Unfit

if TYPE_CHECKING:
    from workbench.cluster.workers.forking.learned import Learned
    from workbench.cluster.workers.forking.trainings import Known
    from workbench.trial.process.meeting import Met
    from workbench.trial.process.wire import Connection

#: Seconds between looks at whether workers have started another one.
LOOK_S = 30.0
#: Seconds without a cell after which it is not kept any more: it holds some 300 MB.
KEPT_S = 3600.0
#: After so many that ended before they could fork, no more are started.
MOST_FAILED = 4


class _Held:
    """A connection that keeps a forkserver alive. key, number: as :class:`Meeting` has them."""

    def __init__(self, key: str, number: int, connection: Connection, preload: Iterable[str], learned: Learned) -> None:
        self.key, self.number, self._connection, self._learned = key, number, connection, learned
        #: What it imports, as far as is known.
        self.preload = frozenset(preload)
        self.is_ready, self.is_alive = False, True
        threading.Thread(target=self._read, name="workbench-kept", daemon=True).start()

    def end(self) -> None:
        """Close the connection. Without workers the forkserver ends."""
        with contextlib.suppress(OSError):
            self._connection.socket.shutdown(socket.SHUT_RDWR)  # which ends the reader

    def _read(self) -> None:
        with contextlib.suppress(OSError):
            while (message := self._connection.receive()) is not None:
                if isinstance(message, Ready):
                    self.preload |= set(message.preload)
                    self.is_ready = True
                elif isinstance(message, Unfit):  # the next one does not import it
                    self._learned.refuse(message.package)
        self.is_alive = False
        self._connection.close()


class Keeper:
    """One kernel's. It works in a thread of its own, after each cell."""

    def __init__(self) -> None:
        self._woken, self._is_over = threading.Event(), False
        #: Whether a cell is being executed: it may be importing.
        self._is_busy = False
        self._held: _Held | None = None
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
        self._used, self._is_busy = time.monotonic(), False
        self._woken.set()

    def _keep(self) -> None:
        while not self._is_over:
            has_ended = self._woken.wait(LOOK_S)
            self._woken.clear()
            if not self._is_busy:
                with contextlib.suppress(OSError, WorkbenchError, ImportError):
                    self._look(has_ended)
        self._hold(None)

    def _look(self, has_ended: bool) -> None:
        """has_ended: whether a cell has ended since the last look."""
        if time.monotonic() - self._used > KEPT_S:
            self._hold(None)
            return
        around = (len(sys.modules), dict(os.environ), [*sys.path], os.getcwd())
        if self._around[0] != around:
            self._around = around, _known()
        known = self._around[1]
        if known is None:
            return
        from workbench.store import Store
        from workbench.trial.process.meeting import Meeting

        key, held, preload = repr(known.key), self._held, frozenset(known.training.preload)
        meeting, after = Meeting(str(Store.find(None).root), key), 0
        if held is not None and held.key == key and held.is_alive:
            lacks = has_ended and bool(held.preload) and not preload <= held.preload
            if not lacks and meeting.newest() <= held.number:
                return
            after = held.number
        if held is not None and not held.is_alive and not held.is_ready:
            self._failed += 1
        if self._failed < MOST_FAILED and (has_ended or meeting.newest() > after):
            self._hold(_held(known, key, meeting.meet(after)) or held)

    def _hold(self, held: _Held | None) -> None:
        former, self._held = self._held, held
        if former is not None and former is not held:
            former.end()


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


def _held(known: Known, key: str, met: Met) -> _Held | None:
    """Hold the forkserver that was met, or a new one."""
    from workbench.cluster.workers.forking.learned import Learned
    from workbench.cluster.workers.forking.starting import begun
    from workbench.trial.process.wire import Connection

    training = known.training
    learned = Learned((training.python, *known.path))
    if met.connection is not None:
        joined = Connection(met.connection)
        joined.send(Join())
        return _Held(key, met.number, joined, (), learned)
    if met.listener is None:
        return None
    packages = {name.partition(".")[0] for name in training.preload}
    modules = learned.wanted(training.cwd, packages)
    silent: dict[str, Any] = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    process, ours, hello = begun(known, training.preload, modules, met.listener, **silent)
    threading.Thread(target=process.wait, name="workbench-forkserver", daemon=True).start()
    started = Connection(ours)
    started.send(hello)
    return _Held(key, met.number, started, training.preload, learned)
