"""Forkservers and runners, as a Dask worker sees them. Law: all on the worker's event loop; nothing here blocks.

A forkserver is a process of the training environment's Python that has already imported torch. A runner is its forked
child, in which training code executes. The worker talks to both in length-prefixed JSON (``trial.wire``), since their
Pythons may differ from its own.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import os
import socket
import subprocess
from collections.abc import Callable, Mapping, Sequence

from workbench import interpreter, messages
from workbench.cluster.workers.imported import Imported
from workbench.cluster.workers.log import LogWriter
from workbench.cluster.workers.trainings import Known
from workbench.errors import ClusterError, VersionsDiffer
from workbench.messages import Awake, Exit, Exited, Fork, Forked, GoOn, Hello, Kill, LegOrder, Message, Ready, StopOrder
from workbench.records import PROTOCOL, Training
from workbench.trial.process import forkserver, surroundings, wire

log = logging.getLogger("workbench.cluster")

#: Seconds that a forkserver may take to import its modules (torch from a cold network disk takes long).
READY_S = 120.0
#: Bytes read at once from a socket or an output pipe.
CHUNK = 1 << 16


class ForkserverKilled(ClusterError):
    """It was killed before it was ready, which says nothing about its environment."""


class Unfit(ClusterError):
    """A package that it should import ahead leaves more behind than its modules; the message says what."""

    def __init__(self, package: str, why: str) -> None:
        super().__init__(why)
        self.package = package


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


class Runner:
    """One forked child, while it lives. ``exited`` is set when the forkserver has reaped it."""

    def __init__(self, parent: Forkserver, number: int, cover: Sequence[tuple[str, str]] = ()) -> None:
        self._parent = parent
        self.number = number
        self.pid: int | None = None
        self.status: int | None = None
        self.signal: int | None = None
        self.exited = asyncio.Event()
        self._taker: Callable[[Message | None], None] | None = None
        self._log: LogWriter | None = None
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

    def listen(self, taker: Callable[[Message | None], None]) -> None:
        """Its leg has ended, and its log is complete up to here: ``taker`` gets what it still sends."""
        self._printed()
        self._taker = taker
        if self._log is not None:
            self._log.close()  # it opens again with more output

    def stop(self, reason: str, keep: bool, notice: bool = False) -> None:
        """Ask it to leave at its next turn or report. notice: the machine is about to shut down."""
        self._channel.send(StopOrder(reason, keep, notice))

    def go_on(self, level: int) -> None:
        """Tell its leg that the search has not stopped it at this level."""
        self._channel.send(GoOn(level))

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

    def reaped(self, status: int | None, signal: int | None) -> None:
        """Called when the forkserver reports that the process is gone."""
        self.status, self.signal = status, signal
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
        if not self.exited.is_set():
            self.kill()

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
            if len(data) < CHUNK:
                return

    def _close_output(self) -> None:
        if self._output >= 0:
            asyncio.get_running_loop().remove_reader(self._output)
            os.close(self._output)
            self._output = -1


class Forkserver:
    """One training environment's forkserver on this machine, and its runners.

    variables: the environment in which it is started; each runner sets its own changes. path: the folders of its
    packages. preload, learned: modules that it imports ahead, named by the user and learned.
    """

    def __init__(
        self,
        training: Training,
        variables: Mapping[str, str],
        *,
        path: tuple[str, ...],
        preload: tuple[str, ...],
        learned: tuple[str, ...],
    ) -> None:
        self.training, self.preload, self.learned = training, preload, learned
        self._variables = variables
        #: Variables that its imports have read: a runner must have the same values.
        self._looks_up: list[str] = []
        self.versions: dict[str, str | None] = {}
        self._ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        #: Seconds that it took to be ready; infinite until then.
        self.start_s = math.inf
        self._began = asyncio.get_running_loop().time()
        self._runners: dict[int, Runner] = {}
        self._count = 0
        #: By experiment: clean runners after short legs. And one runner forked ahead, for any experiment.
        self._idle: dict[str, list[Runner]] = {}
        self._spares: list[Runner] = []
        self._imported = Imported(path)
        self.is_alive = True
        first, rest = surroundings.divided(variables)
        rest |= {name: first[name] for name in (interpreter.PATH,) if name in first}
        try:
            self._process, ours = forkserver.launch(training.python, interpreter.surroundings(first, training.cwd))
        except OSError as error:
            raise ClusterError(
                f"the training environment's Python {training.python} cannot be started here ({error}). "
                "Install it on every machine at the same path, or start JupyterLab's kernel from one that is."
            ) from error
        self.channel = Channel(ours, self._take, self._closed)
        self.channel.send(
            Hello(
                preload=list(preload),
                learned=list(learned),
                secrets=list(training.secrets),
                env=rest,
                cwd=training.cwd,
                path=list(path),
                threads=training.threads,
            )
        )

    @property
    def is_ready(self) -> bool:
        """Whether it can fork."""
        return self._ready.done() and self._ready.exception() is None

    @property
    def is_current(self) -> bool:
        """Whether it is alive, and its imports still match the files on disk."""
        return self.is_alive and not self._imported.has_changed(asyncio.get_running_loop().time())

    @property
    def settles_in(self) -> float:
        """Seconds for which its packages may still be being installed; 0 if they are not."""
        return self._imported.settles_in() if self.is_alive else 0.0

    @property
    def is_busy(self) -> bool:
        """Whether a leg is under way in one of its runners, or may start in one at any moment."""
        waiting = {runner.number for runners in (self._spares, *self._idle.values()) for runner in runners}
        return self.is_alive and (not self._ready.done() or bool(self._runners.keys() - waiting))

    def fits(self, known: Known) -> bool:
        """Whether a runner for ``known`` would import the same: variables that imports have read have the same
        values."""
        return all(
            self._variables.get(name) == known.variables.get(name)
            and (name in self.training.secrets or name not in known.training.secrets)
            for name in self._looks_up
        )

    async def ready(self, training: Training) -> None:
        """Wait until it can fork for ``training``. Raises ClusterError, Unfit or VersionsDiffer, which say what to
        do."""
        try:
            await asyncio.wait_for(asyncio.shield(self._ready), READY_S)
        except TimeoutError:
            raise ClusterError(
                f"{self.training.python} did not import {', '.join(self.preload) or 'workbench'} within "
                f"{READY_S:.0f} s. Try `{self.training.python} -c 'import workbench'` there."
            ) from None
        different = {
            name: (wanted, self.versions.get(name))
            for name, wanted in training.versions.items()
            if self.versions.get(name) != wanted and (name != "torch" or "torch" in training.preload)
        }
        if different:
            told = ", ".join(f"{name} {found} instead of {wanted}" for name, (wanted, found) in different.items())
            raise VersionsDiffer(
                f"{self.training.python} on {socket.gethostname()} has {told}. Expected the versions of the notebook's "
                "kernel. Install the same versions on every machine."
            )

    async def runner(self, experiment: str, cover: Sequence[tuple[str, str]] = ()) -> Runner:
        """A runner for one leg: a clean one of this experiment, the spare, or a new one.

        cover: files that copies replace; a runner with such files is a new one, for this leg only.
        """
        if cover:
            runner = self._fork(cover)
            runner.experiment = experiment
            return runner
        idle = self._idle.get(experiment, [])
        while idle:
            runner = idle.pop()
            if not runner.exited.is_set():
                return runner
        while self._spares:
            runner = self._spares.pop()
            if not runner.exited.is_set():
                runner.experiment = experiment
                return runner
        runner = self._fork()
        runner.experiment = experiment
        return runner

    def fork_ahead(self) -> None:
        """Keep one runner ready, so that the next leg need not wait for a fork."""
        self._spares = [runner for runner in self._spares if not runner.exited.is_set()]
        if self.is_alive and not self._spares:
            self._spares.append(self._fork())

    def give_back(self, runner: Runner) -> None:
        """Take back the clean ``runner``; the next leg of its experiment may use it."""
        assert runner.experiment is not None
        runner.idle_since = asyncio.get_running_loop().time()
        self._idle.setdefault(runner.experiment, []).append(runner)

    def retire(self) -> None:
        """A successor takes its place: waiting runners end, and training ones continue."""
        for runner in (*self._spares, *(runner for runners in self._idle.values() for runner in runners)):
            runner.dismiss()
        self._spares, self._idle = [], {}

    def tidy(self, idle_s: float) -> None:
        """End runners that were unused for ``idle_s`` seconds: an idle experiment holds no memory."""
        now = asyncio.get_running_loop().time()
        for experiment, runners in list(self._idle.items()):
            for runner in [r for r in runners if now - r.idle_since > idle_s]:
                runner.dismiss()
                runners.remove(runner)
            if not runners:
                del self._idle[experiment]
        for runner in self._runners.values():
            runner.show_output()

    def close(self) -> None:
        """End it. It kills its runners' process groups when its socket closes."""
        self.channel.close()

    def _fork(self, cover: Sequence[tuple[str, str]] = ()) -> Runner:
        self._count += 1
        runner = Runner(self, self._count, cover)
        self._runners[runner.number] = runner
        return runner

    def _take(self, message: Message) -> None:
        match message:
            case Ready():
                self._prepared(message)
            case messages.Unfit():
                self._fail(Unfit(message.package, message.why))
            case Forked() if message.id in self._runners:
                self._runners[message.id].pid = message.pid
            case Exited() if message.id in self._runners:
                self._runners.pop(message.id).reaped(message.status, message.signal)

    def _prepared(self, message: Ready) -> None:
        self.versions, self._looks_up = message.versions, message.looks_up
        self._imported.note(message.files)
        if message.protocol != PROTOCOL:
            self._fail(
                VersionsDiffer(
                    f"the training environment's Workbench has protocol {message.protocol}, this worker's {PROTOCOL}. "
                    "Install the same Workbench version in both."
                )
            )
        elif not self._ready.done():
            self.start_s = asyncio.get_running_loop().time() - self._began
            self._ready.set_result(None)

    def _closed(self) -> None:
        self.is_alive = False
        self._fail(self._death())
        for runner in list(self._runners.values()):
            # The kernel sends the children of a killed forkserver SIGKILL.
            runner.reaped(None, 9)
        self._runners.clear()
        asyncio.get_running_loop().call_later(2.0, self._process.poll)

    def _death(self) -> ClusterError:
        status = None
        with contextlib.suppress(OSError, subprocess.TimeoutExpired):
            status = self._process.wait(1.0)  # its end of the socket is closed, so it is about to end
        if status is not None and status < 0:
            return ForkserverKilled(f"{self.training.python} was killed by signal {-status} before it could train.")
        return ClusterError(
            f"{self.training.python} ended before it could train: `workbench` (and "
            f"{', '.join(self.preload) or 'nothing else'}) must be importable there. "
            f"Try `{self.training.python} -c 'import workbench'` there."
        )

    def _fail(self, error: ClusterError) -> None:
        if not self._ready.done():
            self._ready.set_exception(error)
            self._ready.exception()  # marks it as retrieved: there may be no waiter
