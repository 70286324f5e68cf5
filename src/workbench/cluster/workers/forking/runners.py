"""Runners, as a Dask worker sees them. Law: all on the worker's event loop; nothing here blocks.

A runner is a forked child of a forkserver, in which training code executes. The worker talks to both in length-prefixed
JSON (``trial.wire``), since their Pythons may differ from its own.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from workbench.cluster.workers.log import LogWriter
from workbench.errors import ClusterError
from workbench.messages import Awake, Exit, Fork, GoOn, Kill, LegOrder, Message, StopOrder
from workbench.trial.process import wire
from workbench.trial.process.runner import WHERE

if TYPE_CHECKING:
    from workbench.cluster.workers.forking.forkserver import Forkserver

log = logging.getLogger("workbench.cluster")

#: Bytes read at once from a socket or an output pipe.
CHUNK = 1 << 16
#: Seconds that a runner gets to write the stacks of its threads.
WHERE_S = 0.3


class Channel:
    """One end of a socket on the event loop: whole messages in, whole messages out."""

    def __init__(self, sock: socket.socket, taker: Callable[[Message], None], gone: Callable[[], None]) -> None:
        sock.setblocking(False)
        self._sock = sock
        self._loop = asyncio.get_running_loop()
        self._taker = taker
        self._gone = gone
        self._frames = wire.Frames()
        self._unsent = bytearray()
        self._loop.add_reader(sock, self._readable)

    def send(self, message: Message, fds: tuple[int, ...] = ()) -> None:
        """Send at once; what the socket does not accept yet is sent later."""
        if self._sock.fileno() < 0:
            return
        data = wire.encode(message)
        if self._unsent:
            if fds:
                raise ClusterError("a descriptor cannot be sent while the channel is full. Start the trial again.")
            self._unsent += data
            return
        try:
            sent = socket.send_fds(self._sock, [data], list(fds)) if fds else self._sock.send(data)
        except BlockingIOError:
            sent = 0
        except OSError:
            self.close()
            return
        if sent < len(data):
            self._unsent += data[sent:]
            self._loop.add_writer(self._sock, self._writable)

    def close(self) -> None:
        """Close this end; ``gone`` is called once, soon after."""
        if self._sock.fileno() < 0:
            return
        self._loop.remove_reader(self._sock)
        self._loop.remove_writer(self._sock)
        self._sock.close()
        self._loop.call_soon(self._gone)

    def _writable(self) -> None:
        try:
            del self._unsent[: self._sock.send(self._unsent)]
        except BlockingIOError:
            return
        except OSError:
            self.close()
            return
        if not self._unsent:
            self._loop.remove_writer(self._sock)

    def _readable(self) -> None:
        try:
            data = self._sock.recv(CHUNK)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self.close()
            return
        self._frames.feed(data)
        try:
            while (message := self._frames.next()) is not None:
                self._taker(message)
        except wire.BrokenWire as error:
            log.warning("a process of training sent what cannot be read (%s): it is ended", error)
            self.close()
        except Exception:  # what follows in this chunk would wait for ever, the end of its leg perhaps
            log.exception("what a process of training sent could not be taken: it is ended")
            self.close()


class Runner:
    """One forked child, while it lives. ``exited`` is set when the forkserver has reaped it."""

    def __init__(self, parent: Forkserver, number: int, cover: Sequence[tuple[str, str]] = ()) -> None:
        self._parent = parent
        self.number = number
        self.pid: int | None = None
        self.status: int | None = None
        self.signal: int | None = None
        #: Why it could not be started, in the system's words; empty if it was.
        self.why_not = ""
        self.exited = asyncio.Event()
        self._taker: Callable[[Message | None], None] | None = None
        self._log: LogWriter | None = None
        #: What it prints while it writes its stacks.
        self._traced: bytearray | None = None
        #: The experiment whose legs it may train; a runner never serves two.
        self.experiment: str | None = None
        #: When it was last given back (the loop's time).
        self.idle_since = 0.0

        ours, theirs = socket.socketpair()
        self._output, their_output = os.pipe()
        os.set_blocking(self._output, False)
        self._channel = Channel(ours, self._take, self._closed)
        parent.channel.send(Fork(number, list(cover)), (theirs.fileno(), their_output))
        theirs.close()
        os.close(their_output)
        asyncio.get_running_loop().add_reader(self._output, self._printed)

    def begin(self, leg: LegOrder, log: LogWriter, taker: Callable[[Message | None], None]) -> None:
        """Train ``leg``; ``taker`` gets each message, and None if the runner ends before it has sent ``left``."""
        self._log, self._taker = log, taker
        self._channel.send(leg)
        self._tell_late(taker)

    def listen(self, taker: Callable[[Message | None], None]) -> None:
        """Its leg has ended, and its log is complete up to here: ``taker`` gets what it still sends, as by begin."""
        self._printed()
        self._taker = taker
        if self._log is not None:
            self._log.close()  # it opens again with more output
        self._tell_late(taker)

    def _tell_late(self, taker: Callable[[Message | None], None]) -> None:
        """It may have ended between two takers: then there is no other word of it."""
        if self.exited.is_set():
            asyncio.get_running_loop().call_soon(taker, None)

    def stop(self, reason: str, keep: bool, notice: bool = False) -> None:
        """Ask it to leave at its next turn or report. notice: the machine is about to shut down."""
        self._channel.send(StopOrder(reason, keep, notice))

    def go_on(self, level: int) -> None:
        """Tell its leg that the search has not stopped it at this level."""
        self._channel.send(GoOn(level))

    async def where(self) -> str:
        """Have it write the stacks of its threads into its log, and return what it wrote. It may be busy in C."""
        if self.pid is None or self.exited.is_set():
            return ""
        self._traced = bytearray()
        os.kill(self.pid, WHERE)
        await asyncio.sleep(WHERE_S)
        self._printed()
        traced, self._traced = self._traced, None
        return traced.decode("utf-8", errors="replace")

    def kill(self) -> None:
        """End its whole process group now."""
        self._parent.channel.send(Kill(self.number))

    def dismiss(self) -> None:
        """Ask it to end."""
        self._channel.send(Exit())

    def end_of_leg(self) -> None:
        """Write the rest of the pipe to the log, and close the log."""
        self._printed()
        self._taker = None
        if self._log is not None:
            self._log.close()
            self._log = None

    def show_output(self) -> None:
        """Write an unfinished output line to the file, for users who follow the log."""
        if self._log is not None:
            self._log.show()

    def reaped(self, status: int | None, signal: int | None, why_not: str = "") -> None:
        """Called when the forkserver reports that the process is gone, or why it could not be started."""
        self.status, self.signal, self.why_not = status, signal, why_not
        self._printed()
        self._close_output()
        self._channel.close()
        self.exited.set()
        if self._taker is not None:
            self._taker(None)

    def _take(self, message: Message) -> None:
        if isinstance(message, Awake):
            self.pid = message.pid
        elif self._taker is not None:
            self._taker(message)

    def _closed(self) -> None:
        # The process may briefly live on without its socket (or have closed it by mistake); it is no longer useful.
        if self.exited.is_set():
            return
        if self._parent.is_alive:
            self.kill()
        else:  # it was never forked, and nothing will say so
            self.reaped(None, 9)

    def _printed(self) -> None:
        while self._output >= 0:
            try:
                data = os.read(self._output, CHUNK)
            except BlockingIOError:
                return
            if not data:
                self._close_output()
                return
            if self._log is not None:
                self._log.feed(data)
            if self._traced is not None:
                self._traced += data
            if len(data) < CHUNK:
                return

    def _close_output(self) -> None:
        if self._output >= 0:
            asyncio.get_running_loop().remove_reader(self._output)
            os.close(self._output)
            self._output = -1
