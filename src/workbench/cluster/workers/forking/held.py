"""Keeps a forkserver alive for workers. Law: the process that holds it forks nothing from it; without any connection
it ends.

A kernel does so before its first train cell, and an engine while its cluster starts.
"""

from __future__ import annotations

import contextlib
import socket
import subprocess
import threading
from collections.abc import Callable, Iterable
from typing import Any

from workbench.cluster.workers.forking.learned import Learned
from workbench.cluster.workers.forking.starting import begun
from workbench.cluster.workers.forking.trainings import Known
from workbench.messages import Join, Ready, Soon, Unfit
from workbench.trial.process.meeting import Met
from workbench.trial.process.wire import Connection, encode


class Held:
    """A connection that keeps a forkserver alive. key, number: as :class:`Meeting` has them."""

    def __init__(
        self,
        key: str,
        number: int,
        connection: Connection,
        learned: Learned,
        preload: Iterable[str] = (),
        process: subprocess.Popen[bytes] | None = None,
    ) -> None:
        """preload, process: what it imports and its process, if it was started here."""
        self.key, self.number, self._connection, self._learned = key, number, connection, learned
        #: What it imports, as far as is known.
        self.preload = frozenset(preload)
        self.is_ready, self.is_alive = False, True
        self._process = process

    @property
    def pid(self) -> int | None:
        """Its process, if it was started here."""
        return None if self._process is None else self._process.pid

    def watch(self, changed: Callable[[], object] = bool) -> None:
        """Hear, in threads, whether it is ready and when it ends; ``changed`` is called then."""
        threading.Thread(target=self._read, args=(changed,), name="workbench-kept", daemon=True).start()
        if self._process is not None:
            threading.Thread(target=self._process.wait, name="workbench-forkserver", daemon=True).start()

    def say_soon(self) -> None:
        """Legs will come: workers look now at what they look at before a leg. Where it does not hear, they do so
        later."""
        if self.is_ready and self.is_alive:
            with contextlib.suppress(OSError):
                self._connection.socket.send(encode(Soon()), socket.MSG_DONTWAIT)

    def end(self) -> None:
        """Close the connection. Without workers the forkserver ends."""
        with contextlib.suppress(OSError):
            self._connection.socket.shutdown(socket.SHUT_RDWR)  # which ends the reader

    def _read(self, changed: Callable[[], object]) -> None:
        with contextlib.suppress(OSError):
            while (message := self._connection.receive()) is not None:
                if isinstance(message, Ready):
                    self.preload |= set(message.preload)
                    self.is_ready = True
                    changed()
                elif isinstance(message, Unfit):  # the next one does not import it
                    self._learned.refuse(message.package)
        self.is_alive = False
        self._connection.close()
        changed()


def held(known: Known, key: str, met: Met) -> Held | None:
    """Hold the forkserver that was met, or a new one, in the environment ``known``. It starts no thread.

    Raises ClusterError or OSError.
    """
    training = known.training
    learned = Learned((training.python, *known.path))
    if met.connection is not None:
        joined = Connection(met.connection)
        joined.send(Join())
        return Held(key, met.number, joined, learned)
    if met.listener is None:
        return None
    packages = {name.partition(".")[0] for name in training.preload}
    modules = learned.wanted(training.cwd, packages)
    silent: dict[str, Any] = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    process, ours, hello = begun(known, training.preload, modules, met.listener, **silent)
    started = Connection(ours)
    started.send(hello)
    return Held(key, met.number, started, learned, training.preload, process)
