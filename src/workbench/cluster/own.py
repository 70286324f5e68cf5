"""Finds, starts and ends the own cluster of an engine's store.

Law: one cluster for one store. A cluster of another Workbench version, or with another number of slots than requested,
is ended before a new one starts. Importing this module costs nothing: an engine takes its lease before it imports Dask.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import select
import signal
import subprocess
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import BinaryIO, cast

from workbench import interpreter
from workbench.cluster import forked
from workbench.cluster.forked import Forked
from workbench.errors import BadOption, NoAnswer
from workbench.records import PROTOCOL
from workbench.store.owner import own_cluster
from workbench.store.owner.own_cluster import OwnCluster

#: The cluster's program, and what takes it long to import.
_PROGRAM, SERVING = "workbench.cluster.local", "workbench.cluster.serving"
#: Seconds that a cluster survives without an engine, unless WORKBENCH_GRACE is set.
GRACE_S = 60.0
#: Seconds that a cluster may take to start on a busy machine, and to end normally.
START_S, END_S = 120.0, 15.0


def grace_s() -> float:
    """Seconds that a cluster and its trials survive without an engine; 0: it ends with its engine.

    Raises BadOption if WORKBENCH_GRACE is not a number of seconds.
    """
    written = os.environ.get("WORKBENCH_GRACE") or str(GRACE_S)
    with contextlib.suppress(ValueError):
        if 0 <= float(written) <= 86_400:
            return float(written)
    raise BadOption(f"WORKBENCH_GRACE={written}: expected seconds, from 0 to 86400. Change it, or unset it.")


class Own:
    """The cluster of the store at ``root``. :attr:`was_found` tells whether an earlier engine started it."""

    def __init__(self, root: str, workers: int | None, *, dashboard: bool = False) -> None:
        """Find the cluster; :meth:`begin` starts one if there is none. Only the store's engine may do this.

        dashboard: whether Dask's own pages are served.
        """
        self._root, self._workers, self._wants_pages = root, workers, dashboard
        self._process: subprocess.Popen[bytes] | Forked | None = None
        #: From which it tells its record.
        self._tells: BinaryIO | None = None
        self.record = own_cluster.read(Path(root))
        if self.record is not None and not self._fits(self.record):
            _kill(self.record)
            self.record = None
        self.was_found = self.record is not None

    @property
    def processes(self) -> tuple[int, ...]:
        """The process that was started here, if there is one."""
        return () if self._process is None else (self._process.pid,)

    @property
    def workers(self) -> int | None:
        """How many workers were requested; None: as many as the machine can use."""
        return self._workers if self.record is None else self.record.wanted

    def _fits(self, record: OwnCluster) -> bool:
        same = (record.protocol, record.version) == (PROTOCOL, version("workbench"))
        has_pages = record.dashboard is not None or not self._wants_pages
        return same and has_pages and self._workers in (None, record.wanted)

    def begin(self) -> None:
        """Start the cluster, unless there is one; :meth:`ready` waits for its workers.

        It is a fork of this process, if that has imported what it needs and has no Python threads; otherwise a new one.
        """
        if self.record is not None or self._tells is not None:
            return
        words = ["--store", self._root, "--grace", f"{grace_s():g}", "--engine", str(os.getpid())]
        if self._workers is not None:
            words += ["--workers", str(self._workers)]
        if self._wants_pages:
            words += ["--dashboard"]
        env = interpreter.surroundings(os.environ, self._root, Path(self._root).parent)
        if forked.can_run(SERVING):
            reading, writing = os.pipe()
            self._process = forked.run_module(_PROGRAM, *words, stdout=writing, env=env)
            os.close(writing)
            self._tells = open(reading, "rb")
            return
        self._process = subprocess.Popen(
            interpreter.command(_PROGRAM, *words),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            start_new_session=True,
            env=env,
        )
        self._tells = cast(BinaryIO, self._process.stdout)

    async def ready(self) -> OwnCluster:
        """The cluster, once it accepts connections. Raises NoAnswer if it does not start."""
        self.begin()
        if self.record is None:
            assert self._process is not None
            assert self._tells is not None
            line = b""
            with contextlib.suppress(TimeoutError):
                line = await asyncio.wait_for(_line(self._tells.fileno()), START_S)
            self._tells.close()
            self._tells = None
            try:
                self.record = OwnCluster(**json.loads(line))
            except (ValueError, TypeError):
                self._process.kill()
                self._process.wait()
                raise NoAnswer(
                    "the cluster of this machine did not start. Look into the engine's log (engine.log in the store) "
                    "for the reason, or give the address of a cluster with --cluster."
                ) from None
        return self.record

    def watch(self, gone: Callable[[], None]) -> None:
        """Call ``gone`` on the event loop when the cluster's process has ended."""
        assert self.record is not None
        loop = asyncio.get_running_loop()
        try:
            descriptor = os.pidfd_open(self.record.pid)
        except OSError:  # it has ended already
            loop.call_soon(gone)
            return

        def ended() -> None:
            loop.remove_reader(descriptor)
            os.close(descriptor)
            gone()

        loop.add_reader(descriptor, ended)

    async def end(self) -> None:
        """End it and wait until it is gone: normally, or after a while by force."""
        if self.record is None:
            if self._process is not None:
                self._process.kill()
                await asyncio.to_thread(self._process.wait)
            return
        if self.record.is_alive:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.record.pid, signal.SIGTERM)
            await asyncio.to_thread(_await_end, self.record)
        if self._process is not None:
            self._process.poll()
        own_cluster.remove(self.record)

    async def replace(self) -> None:
        """Start another cluster, because this one is gone or does not answer."""
        if self.record is not None:
            await asyncio.to_thread(_kill, self.record)
        if self._process is not None:
            self._process.kill()
            await asyncio.to_thread(self._process.wait)
        self.record, self.was_found, self._tells = None, False, None
        self.begin()


def end_found(root: Path) -> OwnCluster | None:
    """End the cluster that survives without an engine, and all that trains there. Returns its record, or None."""
    record = own_cluster.read(root)
    if record is not None:
        _kill(record)
    return record


async def _line(descriptor: int) -> bytes:
    """Read a pipe up to the end of the line, or to the end of the pipe."""
    loop, told = asyncio.get_running_loop(), bytearray()
    os.set_blocking(descriptor, False)
    while not told.endswith(b"\n"):
        readable: asyncio.Future[None] = loop.create_future()
        loop.add_reader(descriptor, _resolve, readable)
        try:
            await readable
        finally:
            loop.remove_reader(descriptor)
        data = os.read(descriptor, 1 << 16)
        if not data:
            break
        told += data
    return bytes(told)


def _resolve(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


def _kill(record: OwnCluster) -> None:
    if record.is_alive:
        with contextlib.suppress(ProcessLookupError):
            os.kill(record.pid, signal.SIGKILL)
        _gone(record, END_S)
    own_cluster.remove(record)


def _await_end(record: OwnCluster) -> None:
    if not _gone(record, END_S):
        with contextlib.suppress(ProcessLookupError):
            os.kill(record.pid, signal.SIGKILL)
        _gone(record, END_S)


def _gone(record: OwnCluster, seconds: float) -> bool:
    """Wait until the process has ended, at most ``seconds``. Returns whether it has."""
    try:
        descriptor = os.pidfd_open(record.pid)
    except OSError:
        return True
    try:
        return not record.is_alive or bool(select.select([descriptor], [], [], seconds)[0])
    finally:
        os.close(descriptor)
