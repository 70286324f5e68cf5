"""A runner's main loop: it takes orders from its worker, runs one leg after another, and sends what they report.

Law: training code has the main thread; one other thread sends to the worker and receives from it. When the worker is
gone, the runner ends. Sending never waits for the receiver. A point is sent at once after a rest, frequent points are
sent in batches (``pace.py``), and levels are sent at once.
"""

from __future__ import annotations

import contextlib
import faulthandler
import gc
import io
import math
import os
import select
import signal
import socket
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NoReturn, Protocol

from workbench.messages import Awake, Begun, Exit, FromLeg, GoOn, Left, LegOrder, Message, Points, Saved, StopOrder
from workbench.pace import BATCH_S, Pace
from workbench.trial.process.notice import on_notice
from workbench.trial.process.processes import descendants
from workbench.trial.process.wire import BrokenWire, Connection, encode

#: Maximum points per message, so that no frame grows without bound when the worker is slow.
BATCH = 5000

#: Seconds within which the memory of several very short legs is freed together: it takes half a millisecond.
FREE_EVERY_S = 0.1

#: The signal at which a runner writes the stacks of its threads to its log. Training hardly uses the last one.
WHERE = signal.SIGRTMAX

#: A runner's own streams into its trial's log; none in other processes.
_logs: list[Any] = []

#: Why a leg leaves without an order to stop.
NOTICE = "its machine announced its shutdown (SIGTERM)"

#: name, step, index (0: the step's reported value; 1, 2, …: logged inside it), value, UTC time.
Point = tuple[str, int, int, float, float]


class Link(Protocol):
    """A leg's connection to the outside. The runner's leads to a worker; the inline backend has its own."""

    def report(self, points: Sequence[Point]) -> None:
        """Queue the points of one report; never waits."""

    def send(self, message: FromLeg) -> None:
        """Send a message at once, after the points before it."""

    def flush(self) -> None:
        """Send the waiting points at once."""

    def stop(self) -> StopOrder | None:
        """The order to stop this leg, if one has come."""

    def verdict(self, step: int, patience_s: float) -> None:
        """Wait until the search has decided about the level ``step``; at most ``patience_s`` seconds."""


@dataclass(slots=True)
class _Leg:
    order: LegOrder
    stop: StopOrder | None = None
    #: The newest level at which the search has not stopped it.
    told: int = 0


@dataclass(slots=True)
class _Outbox:
    """What waits for the next batch."""

    points: deque[Point] = field(default_factory=deque)
    #: Frames of earlier points and messages.
    held: bytes = b""
    #: How long the leg has trained and waited for data, as :class:`Points` has it; None while none trains.
    waited: Callable[[], tuple[float, float] | None] | None = None

    @property
    def is_empty(self) -> bool:
        """Whether nothing waits."""
        return not self.points and not self.held

    def frames(self) -> bytes:
        """The frames of all that waits, which is removed."""
        frames, self.held = self.held, b""
        while self.points:
            rows: list[Point] = []
            while self.points and len(rows) < BATCH:
                rows.append(self.points.popleft())
            frames += encode(Points(rows, self.waited() if self.waited is not None else None))
        return frames


class Runner:
    """The runner's end of the connection to its worker."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self._outbox = _Outbox()
        self._flushing = threading.Lock()
        self._looking = threading.Lock()
        #: Legs that are ordered and have not started.
        self._waiting: deque[_Leg] = deque()
        #: The last ordered leg: an order to stop is about this one, even if it has just ended.
        self._newest: _Leg | None = None
        self._running: _Leg | None = None
        self._busy = threading.Event()
        #: The machine's shutdown was announced: no further leg starts here.
        self._is_leaving = False
        #: The other thread may receive an order; a byte here tells the main thread, which may wait for it.
        self._ordered, self._order = os.pipe()
        #: The other thread is idle: only then does a point wake it, since that costs microseconds.
        self._rests = False
        #: It is idle without end: it did not see that a short leg began.
        self._sleeps = False
        #: When memory was last freed (monotonic seconds).
        self._freed = -math.inf
        self._bell = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)

    # -- the leg's side ----------------------------------------------------------------------------------------------

    def watch(self, waited: Callable[[], tuple[float, float] | None] | None) -> None:
        """From now on points travel with what ``waited`` returns; None: nothing trains any more."""
        self._outbox.waited = waited

    def report(self, points: Sequence[Point]) -> None:
        self._outbox.points.extend(points)
        if self._rests:
            self._wake()

    def send(self, message: FromLeg | Awake) -> None:
        frame, leg = encode(message), self._running
        with self._flushing:
            frames = self._outbox.frames() + frame
            if leg is not None and leg.order.is_short and isinstance(message, Begun | Saved):
                self._outbox.held = frames  # the leg's end follows soon, or else the other thread sends it
                if self._sleeps:
                    self._wake()
            else:
                self.connection.send_bytes(frames)

    def _wake(self) -> None:
        self._rests = self._sleeps = False
        os.eventfd_write(self._bell, 1)

    def flush(self) -> None:
        with self._flushing:
            self.connection.send_bytes(self._outbox.frames())

    def stop(self) -> StopOrder | None:
        leg = self._running
        if leg is None:
            return None
        if leg.stop is None:
            # Checked here and not by the other thread, which may wait 5 ms for the interpreter's lock.
            self._look()
        return leg.stop

    def verdict(self, step: int, patience_s: float) -> None:
        leg, until = self._running, time.monotonic() + patience_s
        while leg is not None and leg.stop is None and leg.told < step:
            rest_s = until - time.monotonic()
            if rest_s <= 0:
                return
            self._await_order(rest_s)

    def wait(self, left: Left) -> LegOrder | None:
        """Send ``left``, and wait at its level for the trial's next leg. Returns its order, or None: leave."""
        leg = self._running
        assert leg is not None
        self._rest(left)
        while leg.stop is None:
            # The worker orders only the trial's next leg here, or makes this one leave.
            if (following := self._ordered_leg()) is not None:
                self._running = following
                self._busy.set()
                return following.order
        self._busy.set()
        return None

    # -- the worker's side -------------------------------------------------------------------------------------------

    def serve(self) -> NoReturn:
        """Run legs until the worker says exit."""
        from workbench.trial.process.isolation import keep_code
        from workbench.trial.process.leg import Legs

        keep_code()
        # Before a leg records the signal handlers, and in the main thread.
        on_notice(self._notice)
        threading.Thread(target=self._keep_in_touch, name="workbench-link", daemon=True).start()
        self.send(Awake(os.getpid()))
        legs = Legs(self, own=True)
        # What is here now stays: neither the collector nor a search for what refers to an object need go through it.
        gc.freeze()
        while True:
            leg = self._running = self._next()
            if self._is_leaving and leg.stop is None:
                leg.stop = StopOrder(NOTICE, keep=True, is_notice=True)
            self._busy.set()
            left = legs.run(leg.order)
            self._running = None
            if self._is_leaving:
                left = replace(left, reusable=False, why=NOTICE)
            self._rest(left)
            self._free()

    def _rest(self, left: Left) -> None:
        """Send ``left``: nothing is trained until the next order."""
        _flush_output()
        self._busy.clear()
        self.send(left)

    def _free(self) -> None:
        """Free the last trial's memory while the worker looks for the next one; after a very short leg only if none
        comes at once."""
        due = self._freed + FREE_EVERY_S
        while not self._waiting and (rest_s := due - time.monotonic()) > 0:
            self._await_order(rest_s)
        if time.monotonic() >= due:
            gc.collect()
            self._freed = time.monotonic()

    def _next(self) -> _Leg:
        while (leg := self._ordered_leg()) is None:
            pass
        return leg

    def _ordered_leg(self) -> _Leg | None:
        """The next ordered leg; None if none has come when any order or notice ends the waiting."""
        self._look()
        if not self._waiting:
            self._await_order()
        return self._waiting.popleft() if self._waiting else None

    def _await_order(self, at_most_s: float | None = None) -> None:
        """Wait until an order or a notice has come, or the connection has more to read; then receive it."""
        if self._ordered in select.select([self.connection.fileno(), self._ordered], [], [], at_most_s)[0]:
            os.read(self._ordered, 4096)
        self._look()

    def _look(self) -> None:
        """Receive the orders that have arrived."""
        with self._looking:
            try:
                for message in self.connection.ready():
                    self._take(message)
            except BrokenWire:
                self._gone()
            if self.connection.ended:
                self._gone()

    def _take(self, message: Message) -> None:
        match message:
            case LegOrder():
                self._newest = _Leg(message)
                self._waiting.append(self._newest)
                os.write(self._order, b"1")
            case StopOrder() if self._newest is not None:
                self._newest.stop = message
                os.write(self._order, b"0")
            case GoOn() if self._newest is not None:
                self._newest.told = message.step
                os.write(self._order, b"0")
            case Exit():
                _flush_output()
                self._go(0)

    def _notice(self, number: int, frame: Any) -> None:
        """SIGTERM: the machine shuts down soon. A training leg leaves with a checkpoint; an idle runner ends."""
        self._is_leaving = True
        legs = [leg for leg in (self._running, *self._waiting) if leg is not None]
        for leg in legs:
            leg.stop = leg.stop or StopOrder(NOTICE, keep=True, is_notice=True)
        os.write(self._order, b"0")
        if not legs:
            self._go(128 + number)

    def _keep_in_touch(self) -> None:
        """The other thread: while a leg runs, it sends the points and receives orders."""
        pace, heard = Pace(BATCH_S), [self.connection.fileno(), self._bell]
        while True:
            self._busy.wait()
            wait_s: float | None = pace.wait_s(time.monotonic())
            if not wait_s:
                self._rests = self._sleeps = True  # before the check: what comes after it wakes this thread
                if self._outbox.is_empty:
                    leg = self._running
                    wait_s = BATCH_S if leg is not None and leg.order.is_short else None
                    self._sleeps = wait_s is None
            ready = select.select(heard, [], [], wait_s)[0]
            self._rests = self._sleeps = False
            if self._bell in ready:
                with contextlib.suppress(BlockingIOError):
                    os.eventfd_read(self._bell)
            if heard[0] in ready:
                self._look()
            if not self._outbox.is_empty and not pace.wait_s(time.monotonic()):
                try:
                    self.flush()
                except OSError:
                    self._gone()
                pace.gone(time.monotonic())

    def _gone(self) -> None:
        """The worker is gone: end this process, with all that it holds and has started."""
        self._go(1)

    @staticmethod
    def _go(status: int) -> NoReturn:
        for pid in descendants(os.getpid()):
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        os._exit(status)


def serve(sock: socket.socket) -> NoReturn:
    """Become a runner on ``sock``. Called in the forked child, whose descriptors 1 and 2 already are the pipe."""
    _attach_output()
    faulthandler.enable(sys.__stderr__ or 2)
    faulthandler.register(WHERE, sys.__stderr__ or 2)  # in C: it works while code outside Python holds the interpreter
    Runner(Connection(sock)).serve()


def _attach_output() -> None:
    """Open new text streams on descriptors 0, 1 and 2: the forkserver's may hold bytes of other processes."""

    def text(fd: int) -> Any:
        raw = io.FileIO(fd, "w", closefd=False)
        return io.TextIOWrapper(io.BufferedWriter(raw), "utf-8", "backslashreplace", line_buffering=True)

    streams = {"stdin": open(0, encoding="utf-8", closefd=False), "stdout": text(1), "stderr": text(2)}
    for name, stream in streams.items():
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)
    _logs.extend([streams["stdout"], streams["stderr"]])


def to_log(text: str, *, is_error: bool = False) -> None:
    """Print a line of Workbench's own, or an error of the training code, into the trial's log, and not into what that
    has put in the place of ``sys.stdout``: it may count what it catches."""
    own = _logs or [sys.stdout, sys.stderr]
    with contextlib.suppress(Exception):  # a trial does not fail because of its log
        print(text if is_error else f"[workbench] {text}", file=own[is_error])


def _flush_output() -> None:
    for stream in (sys.stdout, sys.stderr, *_logs):
        with contextlib.suppress(Exception):  # training code may have put anything there
            stream.flush()
