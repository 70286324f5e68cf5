"""The engine: one process for one store. Law: it alone writes journals; requests are files, answers journal lines."""

from __future__ import annotations

import asyncio
import contextlib
import heapq
import itertools
import logging
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from workbench.cluster.backend import Backend, Message, Slot
from workbench.engine.leg import Leg
from workbench.engine.loop import ExperimentLoop
from workbench.errors import ClusterError, NotFound, WorkbenchError
from workbench.records import ENDED, PauseAsked, ResumeAsked, StopAsked, checked_name
from workbench.store import Store, requests
from workbench.store.catalog import Catalog
from workbench.store.journal import Journal
from workbench.store.lease import EngineLease

log = logging.getLogger("workbench.engine")

#: Seconds between looks at the requests when no file watch wakes the engine.
POLL_S = 0.5
#: Seconds between writes of points and tables for the viewers.
FLUSH_S = 0.05
#: Seconds between heartbeats of the lease, checks of time limits and of the catalog.
BEAT_S = 1.0


class Engine:
    """Runs the experiments of one store on one backend, until nothing is left to do for ``idle_s`` seconds."""

    def __init__(self, store: Store, lease: EngineLease, make_backend: Callable[[Any], Backend], idle_s: float) -> None:
        self.store, self._lease, self._idle_s = store, lease, idle_s
        self.backend = make_backend(self._heard)
        self.catalog = Catalog(store)
        self.journal = Journal.open(store.journal_path)
        self.loops: dict[str, ExperimentLoop] = {}
        self._by_key: dict[str, tuple[ExperimentLoop, Leg]] = {}
        self._queue: list[tuple[tuple[Any, int], ExperimentLoop, Leg]] = []
        self._count = itertools.count()
        self._last_busy = time.monotonic()
        self._wake = asyncio.Event()
        self._stop = asyncio.Event()
        self._open: asyncio.Task[None] | None = None
        self._tasks: set[asyncio.Task[Any]] = set()
        self._warm: set[str] = set()
        self.trouble: str | None = None
        #: Its store was removed under it: it must not write into one that was made there since.
        self.is_orphan = False

    # -- living -----------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Until idle or told to end. Experiments that were under way go on."""
        keepers = [asyncio.create_task(job()) for job in (self._flushing, self._beating, self._watching)]
        self._open = asyncio.create_task(self._open_backend())
        try:
            self._recover()
            while not self._stop.is_set():
                self._take_requests()
                await self._drop_finished()
                if self._is_idle() and self._leave():
                    break
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._wake.wait(), POLL_S)
                self._wake.clear()
                for loop in self.loops.values():
                    loop.check()
                for keeper in keepers:
                    if keeper.done() and keeper.exception() is not None:
                        raise keeper.exception() or AssertionError
        finally:
            for keeper in keepers:
                keeper.cancel()
            await self._shut()

    def end(self) -> None:
        """Leave soon; experiments under way go on with the next engine."""
        self._stop.set()
        self._wake.set()

    async def _open_backend(self) -> None:
        try:
            await self.backend.open()
        except WorkbenchError as error:
            self.trouble = str(error)
            log.error("%s", error)
            for loop in self.loops.values():
                loop.tell(StopAsked(None, str(error), "failed"))
            return
        self.rebalance()
        self._send_waiting()

    def _is_idle(self) -> bool:
        if self.loops:
            self._last_busy = time.monotonic()
        elif self.trouble is not None:
            return True  # the next engine may find a better cluster
        return time.monotonic() - self._last_busy >= self._idle_s

    def _leave(self) -> bool:
        """Mark the lease closing, look at the requests once more, and go unless there is one."""
        self._lease.closing()
        if requests.pending(self.store):
            self._lease.running()
            return False
        return True

    async def _shut(self) -> None:
        for loop in self.loops.values():
            loop.abandon()
        if self._open is not None:
            self._open.cancel()
            with contextlib.suppress(asyncio.CancelledError, Exception):
                await self._open
        await self.backend.close()
        if not self.is_orphan:
            self.catalog.close()
            self.journal.close()

    def _recover(self) -> None:
        self.catalog.rebuild_if_needed()
        for entry in self.catalog.experiments():
            if entry["state"] not in ENDED:
                try:
                    self._begin(entry["id"])
                except WorkbenchError as error:
                    log.error("experiment %s cannot go on: %s", entry["id"], error)
                    self._line({"kind": "Refused", "experiment": entry["id"], "error": str(error)})

    async def _drop_finished(self) -> None:
        for key, loop in list(self.loops.items()):
            if loop.finished.is_set():
                await loop.closed()
                del self.loops[key]
                self.rebalance()

    # -- requests -----------------------------------------------------------------------------------------------------

    def _take_requests(self) -> None:
        if self._is_removed():
            return
        refused: list[requests.Refused] = []
        asked = requests.pending(self.store, refused)
        for bad in refused:
            self._line({"kind": "answer", "request": bad.id, "accepted": False, "error": bad.why, "type": "BadInput"})
        for number, request in asked:
            try:
                answer = self._answer(request)
                line = {"accepted": True, **answer}
            except WorkbenchError as error:
                line = {"accepted": False, "error": str(error), "type": type(error).__name__}
            except (KeyError, TypeError, ValueError) as error:
                line = {"accepted": False, "error": f"the request is malformed: {error!r}", "type": "BadInput"}
            self._line({"kind": "answer", "request": number, **line})
            requests.remove(self.store, number)

    def _answer(self, request: dict[str, Any]) -> dict[str, Any]:
        kind, experiment = request["kind"], str(request.get("experiment"))
        if kind == "start":
            if self.trouble is not None:
                raise ClusterError(self.trouble)
            if experiment not in self.loops:
                self._begin(experiment)
            return {"experiment": experiment}
        if kind == "ping":
            return {"slots": len(self.backend.slots)}
        if kind == "end":
            self.end()
            return {}
        if kind in ("rename", "tag", "note"):
            return self._label(kind, request)
        loop = self.loops.get(experiment)
        if loop is None:
            state = next((e["state"] for e in self.catalog.experiments() if e["id"] == experiment), None)
            if state is None:
                raise NotFound(f"experiment {experiment!r} is not in this store. `workbench ls` lists what is.")
            return {"experiment": experiment, "state": state}
        by = request.get("reason") or "a person asked"
        match kind:
            case "stop":
                trial = request.get("trial")
                if trial is not None and trial not in loop.search.trials:
                    raise NotFound(
                        f"{loop.spec.label} has no trial {trial}. `workbench show {loop.spec.label}` lists them."
                    )
                loop.tell(StopAsked(trial, by))
            case "pause":
                loop.tell(PauseAsked(by))
            case "resume":
                loop.tell(ResumeAsked(by))
            case _:
                raise NotFound(
                    f"request kind {kind!r} is not known; wanted start, stop, pause, resume, rename, tag or note."
                )
        return {"experiment": experiment}

    def _label(self, kind: str, request: dict[str, Any]) -> dict[str, Any]:
        entry = next((e for e in self.catalog.experiments() if e["id"] == request["experiment"]), None)
        if entry is None:
            raise NotFound(f"experiment {request['experiment']!r} is not in this store. `workbench ls` lists what is.")
        if kind == "rename":
            fields: dict[str, Any] = {"name": checked_name(request["name"])}
        elif kind == "tag":
            fields = {"tags": sorted(str(tag)[:100] for tag in request["tags"])}
        else:
            fields = {"note": str(request["note"])[:10_000]}
        self.journal.append({"kind": kind, "experiment": entry["id"], **fields})
        self.catalog.upsert_experiment(entry["id"], fields)
        return {"experiment": entry["id"], **fields}

    def _begin(self, experiment: str) -> None:
        spec = self.store.read_spec(experiment)
        loop = self.loops[experiment] = ExperimentLoop(self.store, spec, self, now)
        loop.open()
        self.changed(loop)
        self._later(self._warm_up(loop))
        self.rebalance()

    async def _warm_up(self, loop: ExperimentLoop) -> None:
        """Have the training environment imported on every worker while the experiment is being set up."""
        if self._open is not None:
            await asyncio.wait({self._open})
        if self.trouble is not None:
            loop.tell(StopAsked(None, self.trouble, "failed"))
            return
        message = loop.message_training()
        key = repr(sorted(message.items(), key=str))
        if key in self._warm:
            return
        self._warm.add(key)
        try:
            await self.backend.warm(message)
        except ClusterError as error:
            self._warm.discard(key)
            loop.tell(StopAsked(None, str(error), "failed"))

    # -- slots ------------------------------------------------------------------------------------------------------

    def rebalance(self) -> None:
        """Share the slots evenly among the experiments, older ones first; none gets more than it can use."""
        loops = [loop for loop in self.loops.values() if not loop.finished.is_set()]
        free = len(self.backend.slots)
        shares = dict.fromkeys(loops, 0)
        wanting = list(loops)
        while free and wanting:
            for loop in list(wanting):
                if shares[loop] >= loop.most:
                    wanting.remove(loop)
                elif free:
                    shares[loop] += 1
                    free -= 1
        for loop, share in shares.items():
            # A slot whose leg was told to leave is given out at once: the next leg waits for it on the worker.
            depth = loop.depth if loop.probed else 1
            loop.set_capacity(share, min(share * depth, loop.most) + loop.leaving)

    def dispatch(self, loop: ExperimentLoop, leg: Leg) -> None:
        """Start ``leg`` in the slot with the least to do, or keep it until there is one."""
        self._by_key[leg.key] = (loop, leg)
        heapq.heappush(self._queue, ((loop.search.order(leg.trial), next(self._count)), loop, leg))
        self._send_waiting()

    def _send_waiting(self) -> None:
        later = []
        clock = time.monotonic()
        while self._queue:
            slot = self._slot(self._queue[0][1])
            if slot is None:
                break
            rank, loop, leg = heapq.heappop(self._queue)
            if leg.key not in self._by_key:
                continue  # stopped while it waited
            if leg.not_before > clock:
                later.append((rank, loop, leg))
                asyncio.get_running_loop().call_later(leg.not_before - clock + 0.001, self._send_waiting)
                continue
            leg.slot = slot
            # Unique, and higher for higher rungs: Dask runs tasks of equal priority last-in-first-out.
            priority = -loop.search.order(leg.trial)[0] * 1_000_000 - next(self._count)
            self.backend.start(loop.message(leg), slot, priority)
            loop.leg_started(leg)
        for entry in later:
            heapq.heappush(self._queue, entry)

    def _slot(self, loop: ExperimentLoop) -> Slot | None:
        slots = [slot for slot in self.backend.slots if self._staying(slot) < loop.depth]
        return min(slots, key=self._staying, default=None)

    def _staying(self, slot: Slot) -> int:
        """How many legs of a slot were not told to leave it."""
        found = (self._by_key.get(key) for key in slot.legs)
        return sum(1 for one in found if one is not None and one[1].stop is None)

    def stop_leg(self, leg: Leg, reason: str, keep: bool) -> None:
        """Stop it where it trains, or drop it where it waits."""
        if leg.slot is not None:
            self.backend.stop(leg.key, reason, keep)
            return
        self._later(self._heard_later({"op": "left", "key": leg.key, "outcome": "stopped", "reason": reason}))

    async def _heard_later(self, message: Message) -> None:
        self._heard(message)

    def _heard(self, message: Message) -> None:
        if message["op"] == "slots":
            self.rebalance()
            self._send_waiting()
            return
        found = self._by_key.get(message["key"])
        if found is None:
            return
        loop, leg = found
        if message["op"] == "left":
            del self._by_key[message["key"]]
        loop.hear(leg, message)
        if message["op"] == "left":
            self._send_waiting()
            self._wake.set()

    # -- upkeep -----------------------------------------------------------------------------------------------------

    def changed(self, loop: ExperimentLoop) -> None:
        """Put the experiment's line into the catalog."""
        spec, best = loop.spec, loop.shown.best
        fields: dict[str, Any] = {
            "name": spec.name,
            "version": spec.version,
            "label": spec.label,
            "created": spec.created,
            "started": loop.started,
            "state": loop.state,
            "reason": loop.reason,
            "goal": str(spec.goal),
            "trials": len(loop.search.trials),
            "planned": loop.shown.planned,
            "counts": loop.shown.counts,
            "best": {"trial": best[0], "value": best[1]} if best else None,
            "content": spec.content,
            "notebook": spec.notebook,
        }
        if loop.finished.is_set():
            fields["ended"] = now()
            self._wake.set()
        self.catalog.upsert_experiment(spec.id, fields)

    def _line(self, line: dict[str, Any]) -> None:
        self.journal.append(line)
        self.journal.commit()

    def _later(self, coroutine: Any) -> None:
        task = asyncio.get_running_loop().create_task(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _flushing(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(FLUSH_S)
            for running in list(self.loops.values()):
                try:
                    await loop.run_in_executor(None, running.series.flush)
                except OSError as error:  # a full disk: points wait in memory and are tried again
                    log.warning("points of %s wait: %s", running.spec.label, error)
                    await asyncio.sleep(BEAT_S)

    async def _beating(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            if self._is_removed():
                return
            self._lease.beat()
            for running in list(self.loops.values()):
                running.check_time()
            try:
                await loop.run_in_executor(None, self.catalog.flush)
            except OSError as error:
                log.warning("the catalog waits: %s", error)
            await asyncio.sleep(BEAT_S)

    def _is_removed(self) -> bool:
        """Whether the store was removed under this engine, which then ends and touches nothing at its path."""
        if not self.is_orphan and not self._lease.is_ours:
            log.error("the store at %s is gone or was made anew: this engine ends", self.store.root)
            self.is_orphan = True
            self.end()
        return self.is_orphan

    async def _watching(self) -> None:
        """Wake the engine when a request appears; without a file watch the poll finds it half a second later."""
        try:
            from watchfiles import awatch
        except ImportError:
            return
        async for _ in awatch(self.store.requests, debounce=20, step=5, recursive=False):
            self._wake.set()


def now() -> str:
    """The wall time in UTC, for people."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")
