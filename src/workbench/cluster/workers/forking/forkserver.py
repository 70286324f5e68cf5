"""A forkserver, as a Dask worker sees it. Law: all on the worker's event loop; nothing here blocks.

It is a process of the training environment's Python that has already imported torch. This worker has started it, or
another one of the machine.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import os
import socket
import subprocess
from collections.abc import Collection, Sequence

from workbench import messages
from workbench.cluster.workers.forking.imported import Imported
from workbench.cluster.workers.forking.runners import Channel, Runner
from workbench.cluster.workers.forking.starting import begun
from workbench.cluster.workers.forking.trainings import Known
from workbench.errors import ClusterError, VersionsDiffer
from workbench.messages import Exited, Forked, Join, Message, Ready, Soon
from workbench.records import PROTOCOL, Training
from workbench.trial.process import surroundings
from workbench.trial.process.meeting import Met

#: Seconds that a forkserver may take to import its modules (torch from a cold network disk takes long).
READY_S = 120.0
#: Those that were started here and are not used here any more, until they have ended.
_left: set[subprocess.Popen[bytes]] = set()


class ForkserverKilled(ClusterError):
    """It was killed before it was ready, which says nothing about its environment."""


class Departed(ForkserverKilled):
    """One that another worker had started has ended before it answered: the next one is joined or started instead."""


class Unfit(ClusterError):
    """A package that it should import ahead leaves more behind than its modules; the message says what."""

    def __init__(self, package: str, why: str) -> None:
        super().__init__(why)
        self.package = package


class Forkserver:
    """One training environment's forkserver on this machine, and its runners here.

    known: the environment in which it is started; each runner sets its own changes. preload, learned: modules that it
    imports ahead, named by the user and learned. met: one of another worker, which may have imported others, or where
    others find the one that is started.
    """

    def __init__(self, known: Known, *, preload: tuple[str, ...], learned: tuple[str, ...], met: Met) -> None:
        self.training, self.preload, self.learned = known.training, preload, learned
        #: Whether another worker has started it; and its number among those of its environment.
        self.was_found, self.number = met.connection is not None, met.number
        #: Variables that its imports have read, with values: a runner must have the same.
        self._read: dict[str, str | None] = {}
        self._secrets: Collection[str] = known.training.secrets
        self.versions: dict[str, str | None] = {}
        self._ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        #: Seconds that it took to be ready; infinite until then.
        self.start_s = math.inf
        self._runners: dict[int, Runner] = {}
        self._count = 0
        #: By experiment: clean runners after short legs. And one runner forked ahead, for any experiment.
        self._idle: dict[str, list[Runner]] = {}
        self._spares: list[Runner] = []
        self._imported = Imported(known.path)
        self.is_alive = True
        self._process: subprocess.Popen[bytes] | None = None
        self.channel = self._joined(met.connection) if met.connection is not None else self._started(known, met)

    def _joined(self, connection: socket.socket) -> Channel:
        channel = Channel(connection, self._take, self._closed)
        channel.send(Join())
        return channel

    def _started(self, known: Known, met: Met) -> Channel:
        self._process, ours, hello = begun(known, self.preload, self.learned, met.listener)
        channel = Channel(ours, self._take, self._closed)
        channel.send(hello)
        return channel

    @property
    def is_ready(self) -> bool:
        """Whether it can fork."""
        return self._ready.done() and self._ready.exception() is None

    @property
    def has_forked(self) -> bool:
        """Whether it has made a runner for this worker."""
        return self._count > 0

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
            (surroundings.is_at_load(name) or value == known.variables.get(name))
            and (name in self._secrets or name not in known.training.secrets)
            for name, value in self._read.items()
        )

    async def ready(self, training: Training) -> None:
        """Wait until it can fork for ``training``. Raises ClusterError, Unfit or VersionsDiffer, which say what to
        do."""
        try:
            await asyncio.wait_for(asyncio.shield(self._ready), READY_S)
        except TimeoutError:
            # One that another worker has started may be frozen: then the next one is tried.
            raise (Departed if self.was_found else ClusterError)(
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
        # Not the environment's fault, for which its experiments would fail.
        self._fail(ForkserverKilled(f"{self.training.python} was ended, with its worker, before it could train."))
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
            case Soon():
                self._imported.look(asyncio.get_running_loop().time())
            case Forked() if message.id in self._runners:
                self._runners[message.id].pid = message.pid
            case Exited() if message.id in self._runners:
                self._runners.pop(message.id).reaped(message.status, message.signal, message.why)

    def _prepared(self, message: Ready) -> None:
        self.versions, self._read, self._secrets = message.versions, message.values, message.secrets
        self.preload, self.learned = tuple(message.preload), tuple(message.learned)
        self._imported.note(message.folders, dict(zip(message.files, message.stamps, strict=False)))
        if message.protocol != PROTOCOL:
            self._fail(
                VersionsDiffer(
                    f"the training environment's Workbench has protocol {message.protocol}, this worker's {PROTOCOL}. "
                    "Install the same Workbench version in both."
                )
            )
        elif not self._ready.done():
            self.start_s = message.seconds
            self._ready.set_result(None)

    def _closed(self) -> None:
        self.is_alive = False
        if not self._ready.done():
            self._fail(self._death())
        for runner in list(self._runners.values()):
            # The kernel sends the children of a killed forkserver SIGKILL.
            runner.reaped(None, 9)
        self._runners.clear()
        if self._process is not None:
            _reap(self._process)

    def _death(self) -> ClusterError:
        if self._process is None:
            return Departed(f"the forkserver of {self.training.python} has ended. The trial starts again by itself.")
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


def _reap(process: subprocess.Popen[bytes]) -> None:
    """Reap a forkserver once it has ended: other workers may use it for long."""
    if process.poll() is not None:
        return
    loop, descriptor = asyncio.get_running_loop(), os.pidfd_open(process.pid)
    _left.add(process)

    def ended() -> None:
        loop.remove_reader(descriptor)
        os.close(descriptor)
        process.poll()
        _left.discard(process)

    loop.add_reader(descriptor, ended)
