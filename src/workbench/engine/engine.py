"""The engine: one process for one store. Law: it alone writes journals; requests are files, answers journal lines."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable, Coroutine
from datetime import UTC, datetime
from functools import partial
from typing import Any

from workbench.cluster.backend import Backend
from workbench.engine.asking.answers import Answers
from workbench.engine.asking.book import Book, refusal
from workbench.engine.asking.doorbell import ringing
from workbench.engine.ending import as_far_as_it_goes
from workbench.engine.listed import listed, named
from workbench.engine.looks import Looks
from workbench.engine.loop import ExperimentLoop
from workbench.engine.slots import Slots
from workbench.engine.telling.courier import Courier
from workbench.engine.telling.mirrors import Mirrors
from workbench.engine.tending import folders, heard, installed
from workbench.engine.tending.disk import Disk
from workbench.engine.tending.flushing import Flushing
from workbench.engine.tending.lost import Mender
from workbench.engine.tending.reopening import Reopening
from workbench.engine.tending.room import Rooms
from workbench.engine.tending.upkeep import Upkeep
from workbench.engine.tending.warming import Warming
from workbench.errors import StoreError, WorkbenchError
from workbench.records import ENDED, Spec
from workbench.store import Store, requests
from workbench.store.keeping.usage import trials_of
from workbench.store.lists.catalog import Catalog
from workbench.store.owner import private
from workbench.store.owner.adoption import check_let_go, is_held
from workbench.store.owner.lease import EngineLease
from workbench.store.owner.trust import check_trusted, is_foreign
from workbench.store.recalled import check_spec

log = logging.getLogger("workbench.engine")

#: Seconds between looks at the requests: where the kernel tells of new ones and nothing runs, and otherwise.
RESTING_POLL_S, POLL_S = 2.0, 0.5
#: Seconds between heartbeats of the lease, checks of time limits and of the catalog.
BEAT_S = 1.0
#: Seconds between heartbeats while nothing runs: an idle engine is to cost nothing.
RESTING_BEAT_S = 4.0
#: Seconds for which an engine that leaves waits for notifications that are being sent.
TELLING_S = 5


class Engine:
    """Runs the experiments of one store on one backend, until nothing is left to do for ``idle_s`` seconds."""

    def __init__(self, store: Store, lease: EngineLease, make_backend: Callable[[Any], Backend], idle_s: float) -> None:
        self.store, self._lease, self._idle_s = store, lease, idle_s
        self._wake = asyncio.Event()
        self.book = Book(store, self._wake.set)
        self.loops: dict[str, ExperimentLoop] = {}
        self.slots = Slots(store, make_backend, self.loops, self.book, self._wake.set, self.broke)
        self.backend = self.slots.backend
        self.catalog = Catalog(store)
        self._last_busy = time.monotonic()
        self._stop = asyncio.Event()
        #: Set while an experiment is open: what is done many times a second rests meanwhile.
        self._at_work = asyncio.Event()
        #: Set when something was asked or has changed: the catalog may have to be written.
        self._stirred = asyncio.Event()
        self._open: asyncio.Task[None] | None = None
        self._tasks: set[asyncio.Task[Any]] = set()
        self._warming = Warming(store, self.backend, self._opened)
        self.disk = Disk()
        self._flushing = Flushing(self.loops, self.disk, self.broke)
        self._reopening = Reopening(store, self.catalog, self.book, self.disk, self.begin, self._is_gone)
        self.courier = Courier(store, self._heard_of_storage)
        self.mirrors = Mirrors(store, lambda key, word: self._note_word(key, mirror=word))
        self._loop: asyncio.AbstractEventLoop | None = None
        self.upkeep = Upkeep(self)
        self.mender = Mender(self)
        self.rooms = Rooms(store, self.upkeep.said, self.loops, self.upkeep.make_room)
        self._answers = Answers(self)
        self._looks = Looks(store, lease, self.slots, self._at_work)
        self.trouble: str | None = None
        #: Its store was removed under it: it must not write into one that was made there since.
        self.is_orphan = False

    # -- living -----------------------------------------------------------------------------------------------------

    async def run(self, *, ahead: bool = False) -> None:
        """Until idle or told to end. Experiments that were under way go on. ahead: get ready for the next one."""
        jobs = (
            self._flushing.keep,
            self._beating,
            self._looks.keep,
            partial(heard.keep, self.backend, self.loops, self._at_work),
            self.upkeep.keep_clean,
            self.rooms.keep,
            self.mender.begin,
            self.slots.leases.keep,
            partial(installed.watch, self.loops, self._at_work),
            partial(folders.watch, self.loops, self._at_work, self.backend),
        )
        keepers = [asyncio.create_task(self._kept(job)) for job in jobs]
        self._loop = asyncio.get_running_loop()
        self._open = asyncio.create_task(self._open_backend())
        try:
            if self.backend.was_found:  # what trains there is known before anything is started again
                await asyncio.wait({self._open})
            with self.slots.adopting():
                self._recover()
            if ahead:
                self.later(self._warming.warm_newest())
            await self._serve(keepers)
        finally:
            for keeper in keepers:
                keeper.cancel()
            await self._shut()

    async def _serve(self, keepers: list[asyncio.Task[None]]) -> None:
        with ringing(self.store.requests, self._wake.set) as ask_for_word:
            while not self._stop.is_set():
                rings = ask_for_word()  # before the look, so that what comes during it is told
                self._take_requests()
                self._reopening.look()
                self.slots.check()
                await self._drop_finished()
                if self._is_idle() and self._leave():
                    break
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._wake.wait(), self._look_after_s(rings))
                    self._stirred.set()
                self._wake.clear()
                for loop in list(self.loops.values()):
                    if loop.trouble is not None:
                        self.broke(loop.spec.id, loop.trouble)
                for keeper in keepers:
                    if keeper.done() and keeper.exception() is not None:
                        raise keeper.exception() or AssertionError

    def _look_after_s(self, rings: bool) -> float:
        """Seconds until the requests are looked at again, unless something wakes the engine."""
        if self._at_work.is_set() or not rings:
            rest = POLL_S
        else:
            rest = min(RESTING_POLL_S, max(0.05, self._last_busy + self._idle_s - time.monotonic()))
        return min(rest, requests.next_due(self.store) or rest)

    def end(self) -> None:
        """Leave soon; experiments under way go on with the next engine."""
        self._stop.set()
        self._wake.set()

    async def _kept(self, job: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Do ``job`` until it ends; where it fails inside, say so, and begin it again."""
        said = ""
        while True:
            try:
                return await job()
            except Exception as error:
                if repr(error) != said:
                    said = repr(error)
                    log.exception("the engine's %s failed, and is restarted", getattr(job, "__name__", "look"))
            await asyncio.sleep(BEAT_S)

    def broke(self, experiment: str, error: BaseException) -> None:
        """Something in an experiment's loop went wrong: end that experiment as failed, and go on with the others."""
        loop = self.loops.pop(experiment, None)
        if loop is None:
            return
        log.error("%s failed inside", loop.spec.label, exc_info=error)
        why = self._failed_inside(error)
        is_over = loop.finished.is_set()
        self.slots.part(loop, why)
        loop.give_up(why)
        if not is_over:
            fields = {"state": loop.state, "reason": why, "ended": loop.life.ended, "verify": None, "tells": False}
            self._put_line(loop.spec, fields)
        private.forget(self.store.root, experiment, ended=loop.life.ended)
        self._wake.set()
        asyncio.get_running_loop().call_soon(self.slots.rebalance)

    def _failed_inside(self, error: BaseException) -> str:
        return f"Workbench failed inside: {error!r}"[:500] + f"; {self.store.engine_log.name} says where"

    async def _open_backend(self) -> None:
        try:
            await self.backend.open()
        except Exception as error:
            if isinstance(error, WorkbenchError):
                self.trouble = str(error)
                log.error("%s", error)
            else:
                self.trouble = self._failed_inside(error)
                log.exception("the cluster could not be opened")
            for loop in self.loops.values():
                loop.fail(self.trouble)
            return
        if self.backend.note is not None:
            self.slots.note(self.backend.note)
        self.slots.slots_changed()

    def _is_idle(self) -> bool:
        resting = {key for key, loop in self.loops.items() if loop.rests}
        is_busy = len(resting) < len(self.loops) or self.courier.is_busy or self.mirrors.is_busy(resting)
        if is_busy or self.book.open or self._reopening.held_up or not self.mender.has_looked:
            self._last_busy = time.monotonic()
        elif self.trouble is not None:
            return True  # the next engine may find a better cluster
        return time.monotonic() - self._last_busy >= self._idle_s

    def _leave(self) -> bool:
        """Mark the lease closing, look at the requests once more, and go unless there is one.

        If the lease cannot be written it stays, since its clients could not know that it is about to go.
        """
        if self._is_removed():
            return True
        try:
            self._lease.closing()
            if requests.next_due(self.store) is None:
                return True
        except StoreError as error:
            log.warning("the engine stays: %s", error)
        with contextlib.suppress(StoreError):  # the next heartbeat says so
            self._lease.running()
        return False

    async def _shut(self) -> None:
        for _ in range(TELLING_S * 100):
            if not any(loop.is_telling for loop in self.loops.values()):
                break
            await asyncio.sleep(0.01)  # else the next engine would not know, and tell it again
        for loop in self.loops.values():
            as_far_as_it_goes(loop.abandon)
        if self._open is not None:
            self._open.cancel()
            with contextlib.suppress(asyncio.CancelledError, Exception):
                await self._open
        await self.backend.close()
        await asyncio.to_thread(self.courier.close)
        await asyncio.to_thread(self.mirrors.close)
        if not self._is_removed():
            await asyncio.to_thread(self.upkeep.leave)
            as_far_as_it_goes(self.catalog.close)
            self.book.close()

    def _recover(self) -> None:
        self.upkeep.recover_returned()
        rebuilt = set(self.catalog.rebuild_if_needed())  # facts that their journals do not have are lost
        self.upkeep.recover()
        over = {e["id"]: e.get("ended") for e in self.catalog.experiments() if e["state"] in ENDED}
        private.forget_ended(self.store.root, over)
        for entry in self.catalog.experiments():
            if is_foreign(self.store, entry["id"]) or is_held(self.store, entry["id"]):
                continue  # whatever it says is left to do
            if entry["state"] not in ENDED or entry.get("verify") == "waiting" or entry.get("tells"):
                self._reopening.go_on(entry["id"])
                continue
            if self.upkeep.is_restless(entry["id"]):
                self.later(self._rest(entry["id"]))
            if entry["id"] in rebuilt or entry.get("storage") or entry.get("mirror"):
                with contextlib.suppress(WorkbenchError):
                    spec = self.store.read_spec(entry["id"])
                    self.send_all(spec)
                    if entry["id"] in rebuilt or entry.get("mirror"):
                        self.mirrors.take(spec)

    def _is_gone(self, experiment: str) -> bool:
        """Whether an experiment need not be opened again: it is open, or was deleted."""
        return experiment in self.loops or experiment in self.upkeep.said.deleted

    async def _drop_finished(self) -> None:
        for key, loop in list(self.loops.items()):
            if loop.is_over and loop.is_closed:
                await loop.closed()
                del self.loops[key]
                self._note_work()
                private.forget(self.store.root, key, ended=loop.life.ended)
                self.slots.rebalance()
                self.later(self._leave_whole(key))

    async def _leave_whole(self, experiment: str) -> None:
        """Restore what the series of an ended experiment lost after its last flush, and pack its files."""
        self.upkeep.restless.add(experiment)  # an engine that leaves meanwhile packs them
        try:
            await self.mender.mend(deep=False, only=experiment)
        finally:
            await self._rest(experiment)

    async def _rest(self, experiment: str) -> None:
        """Have an ended experiment lie in few files; what is asked about it meanwhile waits."""
        await self.upkeep.rest(experiment)
        self._wake.set()

    # -- requests -----------------------------------------------------------------------------------------------------

    def _take_requests(self) -> None:
        if self._is_removed():
            return
        refused: list[requests.Refused] = []
        try:
            asked = requests.pending(self.store, refused, self.book.open)
        except OSError as error:
            self.disk.tell("what was asked", error)
            return
        self.disk.tell("what was asked", None)
        for bad in refused:
            log.warning("a request is rejected: %s: %s", bad.path, bad.why)
            answer: Any = {"request": bad.id, "accepted": False, "error": bad.why, "type": "BadInput"}
            self.book.journal.append({"kind": "answer", **answer})
        if refused:
            self.book.write()
        for number, request in asked:
            loop = self.loops.get(str(request.get("experiment")))
            if loop is not None and loop.is_over:
                continue  # its files are being closed; it is taken when they are
            if number in self.book.open or str(request.get("experiment")) in self.upkeep.busy:
                continue
            try:
                if not requests.take(self.store, number):
                    continue  # it was withdrawn
                answer = self._answers.to(number, request)
            except Exception as error:
                answer = refusal(error)
            if isinstance(answer, dict):
                self.book.answer(number, answer)
            else:
                self.book.open.add(number)
                self.later(self.book.answer_later(number, answer))

    def begin(self, experiment: str) -> None:
        """Go on with an experiment from its journal, or start it.

        Raises Untrusted for one from elsewhere, and for one that is held.
        """
        spec = check_spec(self.store.read_spec(experiment))
        check_trusted(self.store, experiment)
        check_let_go(self.store, experiment, spec.label)
        loop = self.loops[experiment] = ExperimentLoop(self.store, spec, self.slots, self, now)
        try:
            loop.open()
        except BaseException:
            self._drop_begun(loop)
            raise
        loop.series.on_news = partial(asyncio.get_running_loop().call_soon_threadsafe, self._flushing.news.set)
        self._flushing.news.set()
        self.send_all(spec)
        self.mirrors.take(spec)
        self._note_work()
        self.slots.welcome(loop)
        self.changed(loop)
        self.rooms.look_soon()
        if not loop.finished.is_set():
            self.later(self._warm_up(loop))
        self.slots.slots_changed()

    def _note_work(self) -> None:
        if self.loops:
            self._at_work.set()
        else:
            self._at_work.clear()

    def _drop_begun(self, loop: ExperimentLoop) -> None:
        """Let go of an experiment that could not be opened: nothing of it may be taken for running."""
        del self.loops[loop.spec.id]
        self.slots.forget(loop)
        as_far_as_it_goes(loop.abandon)

    async def _warm_up(self, loop: ExperimentLoop) -> None:
        """Have the training environment imported on every worker while the experiment is being set up."""
        trouble = await self._warming.warm(loop.installed.training())
        if trouble is not None:
            loop.fail(trouble)

    async def _opened(self) -> str | None:
        if self._open is not None:
            await asyncio.wait({self._open})
            if self._open.cancelled():  # the engine leaves before its cluster was there
                raise asyncio.CancelledError
        return self.trouble

    # -- upkeep -----------------------------------------------------------------------------------------------------

    def changed(self, loop: ExperimentLoop) -> None:
        """Put the experiment's line into the catalog."""
        spec = loop.spec
        fields = {**listed(loop), "storage": self.courier.word(spec.id), "mirror": self.mirrors.word(spec.id)}
        if loop.finished.is_set():
            self._wake.set()
        self._put_line(spec, fields)

    def _put_line(self, spec: Spec, fields: dict[str, Any]) -> None:
        """Put ``fields`` into the catalog. A person may have given the experiment another name since it began."""
        self.catalog.upsert_experiment(spec.id, fields if self.catalog.knows(spec.id) else {**named(spec), **fields})

    def saved(self, loop: ExperimentLoop, trial: int, *, passing: bool) -> None:
        """Have the new checkpoint copied to the experiment's storage."""
        if passing:
            self.courier.take_passing(loop.spec, trial)
        else:
            self.courier.take(loop.spec, [trial])

    def storage_trouble(self, loop: ExperimentLoop) -> str | None:
        """Since when the experiment's storage is not available, and why; None if it is."""
        return self.courier.trouble(loop.spec.id)

    def send_all(self, spec: Spec) -> None:
        """See to the checkpoints of all trials of ``spec``."""
        if spec.storage:
            self.courier.take(spec, trials_of(self.store.experiment(spec.id)))

    def _heard_of_storage(self, experiment: str, word: str | None) -> None:
        """The courier's thread tells how a storage is."""
        if self._loop is not None:
            with contextlib.suppress(RuntimeError):  # the engine has left meanwhile
                self._loop.call_soon_threadsafe(lambda: self._note_word(experiment, storage=word))

    def _note_word(self, experiment: str, **word: str | None) -> None:
        if not self._is_removed() and self.catalog.get(experiment) is not None:
            self.catalog.upsert_experiment(experiment, word)
        self._wake.set()

    async def clean(self, loop: ExperimentLoop) -> None:
        """Remove checkpoints that the rule of ``loop`` does not keep."""
        await self.upkeep.clean(loop)

    def written(self) -> None:
        """A checkpoint takes room on the disk."""
        self.rooms.heard()

    def later(self, coroutine: Any) -> None:
        """See to it that ``coroutine`` is carried out."""
        task = asyncio.get_running_loop().create_task(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and task.exception() is not None:
            log.error("a task of the engine has failed", exc_info=task.exception())

    async def _beating(self) -> None:
        while True:
            if self._is_removed():
                return
            try:
                self._lease.beat()
                self.disk.tell("the heartbeat", None)
            except StoreError as error:  # the holder of the lock is the engine anyway
                self.disk.tell("the heartbeat", error)
            self.book.write()
            for running in list(self.loops.values()):
                try:
                    running.check_time()
                except Exception as error:
                    self.broke(running.spec.id, error)
                    continue
                if running.series.broken:
                    self._flushing.news.set()
                if not running.finished.is_set():  # it may have been extended since its mirrors were done
                    self.mirrors.take(running.spec)
            self.mirrors.look()
            self.slots.beat()
            await self.disk.written("the catalog", self.catalog.flush)
            if not (self._at_work.is_set() or self.mirrors.is_busy()):
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._stirred.wait(), RESTING_BEAT_S - BEAT_S)
                self._stirred.clear()
            await asyncio.sleep(BEAT_S)

    def _is_removed(self) -> bool:
        """Whether the store was removed under this engine, which then ends and touches nothing at its path."""
        if not self.is_orphan and not self._lease.is_ours:
            log.error("the store at %s is gone or was replaced: this engine ends", self.store.root)
            self.is_orphan = True
            self.end()
        return self.is_orphan


def now() -> str:
    """The wall time in UTC, for people."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")
