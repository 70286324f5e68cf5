"""The forkservers of one worker. Law: one for each interpreter and environment, which the machine's workers share; each
runner is told what training needs beyond that.

A forkserver that lacks modules that training imports is replaced by one that has them, and serves until then: when
nothing trains, or once set-ups in fresh processes have cost as much. So is one whose packages were reinstalled. An
unused forkserver ends, but never while a leg is under way in it.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Sequence

from workbench.cluster.workers.forking.forkserver import Departed, Forkserver, Unfit
from workbench.cluster.workers.forking.learned import Learned
from workbench.cluster.workers.forking.runners import Runner
from workbench.cluster.workers.forking.trainings import Known
from workbench.errors import ClusterError
from workbench.trial.process.meeting import Meeting, Met

log = logging.getLogger("workbench.cluster")

#: Seconds after which an unused forkserver ends. It takes seconds to start, and holds much memory.
UNUSED_S = 600.0
#: More forkservers than this are kept only while legs are under way in them.
MOST = 3
#: Seconds after which an unused runner ends.
IDLE_S = 5.0
#: Seconds for which a leg waits for a successor that imports what the leg would import itself.
PATIENCE_S = 5.0
#: Seconds without a leg after which a successor is started that nothing needs at once.
LEISURE_S = 10.0
#: After so many packages were found unfit to be imported ahead, no more are tried.
MOST_UNFIT = 8


class Forkservers:
    """All forkservers, one line for each environment. store: whose workers of this machine share them; None: they are
    this worker's alone."""

    def __init__(self, store: str | None = None) -> None:
        self._store = store
        self._lines: list[_Line] = []
        self._learned: dict[tuple[str, ...], Learned] = {}

    async def ready(self, known: Known) -> Forkserver:
        """The forkserver for legs of ``known``, once it can fork. Raises ClusterError or VersionsDiffer."""
        while True:
            line = self._line(known)
            server = await line.server(known)
            if not server.fits(known):
                continue
            line.want(known, learned=False)
            if set(known.training.preload) <= set(server.preload) or not await line.come():
                return server

    async def runner(
        self, known: Known, experiment: str, cover: Sequence[tuple[str, str]]
    ) -> tuple[Forkserver, Runner]:
        """A runner for one leg of ``experiment``, and its forkserver."""
        await self._line(known).settled(experiment)
        server = await self.ready(known)
        return server, await server.runner(experiment, cover)

    def learn(self, known: Known, modules: Sequence[str]) -> None:
        """A leg has loaded ``modules``: the next forkserver imports them ahead. It starts when nothing trains."""
        if modules and self._memory(known).take(known.training.cwd, modules):
            for line in self._lines:
                line.note(known)

    def spent(self, known: Known, server: Forkserver, experiment: str, seconds: float) -> None:
        """A leg of ``experiment`` left no runner of ``server`` for the next one, which imports the same modules
        again. seconds: what its set-up took.

        Once such set-ups have cost as much as another forkserver does, ``server`` is replaced: together they cost at
        most twice as much as the better choice.
        """
        line = next((line for line in self._lines if line.current is server), None)
        if line is not None:
            line.spent += seconds
            if line.spent >= server.start_s:
                line.waiting.add(experiment)
                line.want(known, learned=True)

    def fork_ahead(self, server: Forkserver) -> None:
        """Keep one runner of ``server`` ready, unless another one has taken its place. Where that fails, the next leg
        forks its own, and hears what is wrong."""
        if self._has(server):
            with contextlib.suppress(OSError, ClusterError):
                server.fork_ahead()

    def give_back(self, server: Forkserver, runner: Runner) -> bool:
        """Take back the clean ``runner``, which may train another leg of its experiment. Returns False if it is no
        longer useful."""
        if self._has(server):
            server.give_back(runner)
            return True
        return False

    def tidy(self) -> None:
        """End what is not used. Called now and then."""
        now = asyncio.get_running_loop().time()
        for line in self._lines:
            line.tidy()
        if self._lines:
            max(self._lines, key=lambda line: line.used).prepare()
        unused = sorted((line for line in self._lines if line.is_free), key=lambda line: line.used)
        beyond = len(self._lines) - MOST
        for place, line in enumerate(unused):
            if place < beyond or now - line.used > UNUSED_S:
                line.close()
                self._lines.remove(line)

    def close(self) -> None:
        """End all of them."""
        for line in self._lines:
            line.close()
        self._lines.clear()

    def _has(self, server: Forkserver) -> bool:
        """Whether no other one has taken its place."""
        return any(line.current is server for line in self._lines)

    def _line(self, known: Known) -> _Line:
        for line in self._lines:
            if line.key == known.key and line.may_fit(known):
                break
        else:
            line = _Line(known, self._memory(known), self._store)
            self._lines.append(line)
        line.used = asyncio.get_running_loop().time()
        return line

    def _memory(self, known: Known) -> Learned:
        key = (known.training.python, *known.path)
        if key not in self._learned:
            self._learned[key] = Learned(key)
        return self._learned[key]


class _Line:
    """A forkserver, its predecessors until their last legs end, and its successor while that starts."""

    def __init__(self, known: Known, learned: Learned, store: str | None) -> None:
        self.key, self._known, self._learned = known.key, known, learned
        self._meeting = None if store is None else Meeting(store, repr(known.key))
        #: Those of other workers with numbers up to this are not what is needed here.
        self._after = 0
        self.current: Forkserver | None = None
        self.used = 0.0
        #: Seconds of set-ups in processes that served one leg of the current forkserver.
        self.spent = 0.0
        #: Experiments whose legs wait for the successor.
        self.waiting: set[str] = set()
        self._coming: asyncio.Task[None] | None = None
        self._former: list[Forkserver] = []
        #: Modules that are imported ahead: those that the user named, and those that were learned.
        self._preload: dict[str, None] = dict.fromkeys(known.training.preload)
        self._names: dict[str, None] = {}
        #: Whether a successor failed to start: the current forkserver stays.
        self._has_failed = False
        #: Packages that are not imported ahead, with reasons.
        self._unfit: dict[str, str] = {}
        self._noted: tuple[Known, int] | None = None
        self.note(known)

    def may_fit(self, known: Known) -> bool:
        """Whether legs of ``known`` may fit here: the variables that its imports read are unknown until it is ready."""
        return self.current is None or not self.current.is_ready or self.current.fits(known)

    @property
    def is_free(self) -> bool:
        """Whether no leg is under way in it, and no successor is starting."""
        servers = [*self._former, *([self.current] if self.current is not None else [])]
        return self._coming is None and not any(server.is_busy for server in servers)

    async def server(self, known: Known) -> Forkserver:
        """The current forkserver, once it is ready."""
        while True:
            if self.current is None or not self.current.is_current:
                if self.current is not None and (wait_s := self.current.settles_in) > 0:
                    await asyncio.sleep(wait_s)
                    continue
                self.note(known)
                self._follow(self._made())
            server = self.current
            assert server is not None
            try:
                await server.ready(known.training)
            except Departed:
                server.close()
                if self.current is server:
                    self.current = None
                continue
            except Unfit as unfit:
                self._refuse(unfit)
                if self.current is server:
                    self.current = None
                continue
            if self.current is server and not self._suits(server):
                server.close()
                self.current = None
                continue
            return server

    async def come(self, at_most_s: float | None = None) -> bool:
        """Wait for the successor. Returns whether there was one and it has come."""
        coming = self._coming
        if coming is None:
            return False
        return bool((await asyncio.wait({coming}, timeout=at_most_s))[0])

    async def settled(self, experiment: str) -> None:
        """Wait for the successor if it has modules that legs of ``experiment`` would otherwise import themselves."""
        while experiment in self.waiting and await self.come(PATIENCE_S):
            pass

    def want(self, known: Known, *, learned: bool) -> None:
        """Start a successor if the current forkserver lacks modules for ``known``: those that the user named, and with
        ``learned`` also those that training was seen to import."""
        self.note(known)
        lacks = self._lacks(self.current) if learned else self._lacks_named(self.current)
        if lacks:
            self._start_successor()
        elif self._coming is None:
            self.waiting.clear()

    def _start_successor(self) -> None:
        if self._coming is None and not self._has_failed:
            self._coming = asyncio.get_running_loop().create_task(self._come())

    def tidy(self) -> None:
        for server in [*self._former]:
            server.tidy(0.0)
            if not server.is_busy or not server.is_alive:
                server.close()
                self._former.remove(server)
        if self.current is not None:
            self.current.tidy(IDLE_S)

    def prepare(self) -> None:
        """Start a successor that has learned more, if nothing trains here."""
        is_unused = self.is_free and asyncio.get_running_loop().time() - self.used > LEISURE_S
        if is_unused and self._lacks(self.current):
            self._start_successor()

    def close(self) -> None:
        if self._coming is not None:
            self._coming.cancel()
        for server in (*self._former, self.current):
            if server is not None:
                server.close()
        self._former, self.current = [], None

    async def _come(self) -> None:
        try:
            while self._lacks(self.current):
                server = self._made()
                try:
                    await server.ready(self._known.training)
                except Departed:
                    server.close()
                    continue
                except Unfit as unfit:
                    self._refuse(unfit)
                    continue
                except BaseException:
                    server.close()
                    raise
                if not self._suits(server) or (server.was_found and self._lacks(server)):
                    server.close()
                    continue
                self._follow(server)
                server.fork_ahead()
        except ClusterError as error:
            log.warning("what training imports is not imported ahead: %s", error)
            self._has_failed = True
        finally:
            self._coming = None
            self.waiting.clear()

    def _follow(self, server: Forkserver) -> None:
        """Let ``server`` fork from now on; its predecessor finishes its legs."""
        if self.current is not None:
            self.current.retire()
            self._former.append(self.current)
        self.current, self.spent = server, 0.0

    def note(self, known: Known) -> None:
        """Take in what ``known`` needs imported ahead, as far as it is known by now."""
        if known.key != self.key:
            return
        mark = (known, self._learned.count)
        if mark == self._noted:
            return
        self._noted = mark
        training = known.training
        self._preload.update(dict.fromkeys(training.preload))
        packages = {name.partition(".")[0] for name in training.preload}
        self._names.update(dict.fromkeys(self._learned.wanted(training.cwd, packages)))

    def _lacks(self, server: Forkserver | None) -> bool:
        lacks_learned = server is not None and server.is_alive and not set(self._wanted()) <= set(server.learned)
        return lacks_learned or self._lacks_named(server)

    def _lacks_named(self, server: Forkserver | None) -> bool:
        return server is not None and server.is_alive and not self._preload.keys() <= set(server.preload)

    def _wanted(self) -> list[str]:
        if len(self._unfit) >= MOST_UNFIT:
            return []
        return [name for name in self._names if name.partition(".")[0] not in self._unfit]

    def _suits(self, server: Forkserver) -> bool:
        """False for one of another worker, not used here yet, that would be another if it were started now and here."""
        is_foreign = server.was_found and not server.has_forked
        return not is_foreign or (server.is_current and server.fits(self._known))

    def _made(self) -> Forkserver:
        """The newest that this line has not had, or another one."""
        met = Met(0) if self._meeting is None else self._meeting.meet(self._after)
        self._after = met.number
        return Forkserver(self._known, preload=tuple(self._preload), learned=tuple(self._wanted()), met=met)

    def _refuse(self, unfit: Unfit) -> None:
        log.info("%s is left to the runners: %s", unfit.package, unfit)
        self._unfit[unfit.package] = str(unfit)
        self._learned.refuse(unfit.package)
