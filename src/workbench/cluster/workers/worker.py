"""What Workbench adds to a Dask worker: it drives runners, one leg a task. Law: training code never runs in here.

Everything happens on the worker's event loop. A leg is a coroutine task; its cancellation is seen as a transition of
the task's state, and ends the runner: cooperatively at its next turn, by a kill after the grace time.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import pickle
import platform
import signal
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from distributed.core import Status
from distributed.diagnostics.plugin import WorkerPlugin
from distributed.worker_state_machine import SecedeEvent

from workbench.cluster.clocks import wake
from workbench.cluster.settings import encode_at_once
from workbench.cluster.workers import laying
from workbench.cluster.workers.forking.forkserver import ForkserverKilled
from workbench.cluster.workers.forking.forkservers import Forkservers
from workbench.cluster.workers.forking.runners import Runner
from workbench.cluster.workers.forking.trainings import Trainings
from workbench.cluster.workers.leaving import gone, until_left
from workbench.cluster.workers.legs import CANCELLED, NO_LANE, NOTICE_S, TOPIC, Early, Lane, Leg, ended_by
from workbench.cluster.workers.line import Line
from workbench.cluster.workers.log import LogWriter
from workbench.cluster.workers.notices import NOTICES
from workbench.cluster.workers.outbox import Outbox
from workbench.cluster.workers.room import room_of
from workbench.cluster.workers.sampling import Sampling
from workbench.cluster.workers.secrets import Secrets
from workbench.cluster.workers.seen import Digests, Sight
from workbench.cluster.workers.trouble import OomKills
from workbench.cluster.workers.waiting import Waiting, see_out
from workbench.errors import ClusterError, VersionsDiffer
from workbench.messages import (
    Begun,
    Ends,
    Greeting,
    Left,
    Level,
    Measured,
    Message,
    Notice,
    Order,
    Plain,
    Points,
    Saved,
    Says,
    Seen,
    Unsaved,
    Wants,
)
from workbench.pace import BATCH_S
from workbench.records import PROTOCOL, Training
from workbench.records.texts import written
from workbench.store import Store
from workbench.store.owner.lease import read_engine
from workbench.store.owner.own_cluster import ticks_of
from workbench.store.owner.runtime import hold
from workbench.store.owner.slots import Lease, take
from workbench.trial.process.surroundings import VISIBLE, Hides

#: Seconds between the batches of Dask's own senders on this worker (2 ms by default). Shorter costs processor time.
INTERVAL_S = 0.0005
#: Seconds between looks at what is not used any more, while legs are under way and while none is.
TIDY_S, RESTING_S = 1.0, 4.0
#: A leg at least this long leaves no runner for the next one, which gets a fresh fork made ahead.
REUSE_BELOW_S = 1.0
#: States in which Dask wants a task's result.
_WANTED = ("executing", "long-running", "memory", "error")
#: Final states of a task whose result Dask does not want.
_UNWANTED = ("cancelled", "released", "forgotten")
#: States of a task that has not started.
_QUEUED = ("waiting", "ready", "constrained")
#: How often a training environment is started again that is killed before it is ready.
WARMS = 3


class Workplace(WorkerPlugin):
    """The plugin: forkservers by training environment, legs under way, and the way back to the engine."""

    def __init__(
        self,
        topic: str,
        slots: int | None,
        protocol: int = PROTOCOL,
        *,
        has_devices: bool = True,
        hides: Hides = "none",
        engine: str = "",
        store: str | None = None,
    ) -> None:
        """has_devices, hides: as :func:`workbench.trial.process.surroundings.arranged` takes them.

        engine: what proves who the engine is. store: where it works, if legs are to train on when it dies.
        """
        self.topic, self.slots, self.protocol, self.has_devices, self.hides = topic, slots, protocol, has_devices, hides
        self.engine, self.store = engine, store
        #: By which Dask knows it. Each engine of a cluster that several share has its own on every worker.
        self.name = topic

    def __getstate__(self) -> dict[str, Any]:
        names = ("topic", "slots", "protocol", "has_devices", "hides", "engine", "store", "name")
        return {name: getattr(self, name) for name in names}

    def setup(self, worker: Any) -> None:
        """Called by Dask on the worker's loop."""
        if self.protocol != PROTOCOL:
            raise VersionsDiffer(
                f"the engine speaks protocol {self.protocol}, this worker's Workbench {PROTOCOL}. "
                "Install the same Workbench version on every machine."
            )
        self._worker = worker
        self._loop = asyncio.get_running_loop()
        self._forkservers = Forkservers(self.store or self.topic)
        self._waiting = Waiting(self._forkservers.give_back)
        self._legs: dict[str, Leg] = {}
        self._tasks: dict[str, list[Leg]] = {}
        self._lanes: dict[str, Lane] = {}
        self._early: Early[tuple[list[Leg], asyncio.Task[dict[str, Left]]]] = Early()
        self._room = room_of(worker, self.slots or worker.state.nthreads)
        self._outbox = Outbox(worker, self.topic)
        self._digests = Digests()
        self._secrets = Secrets(self._want)
        self._trainings = Trainings(self.has_devices, self.hides)
        #: The slot of this machine that this worker holds for its legs.
        self._lease: Lease | None = None
        self._oom_kills = OomKills()
        self._is_leaving = False
        self._empty = asyncio.Event()
        self._begun = asyncio.Event()
        NOTICES.listen(self._noticed)
        #: What the engine orders without an answer, by its line or, where it has none, by calls.
        self._orders: dict[str, Callable[..., None]] = {
            "start": self._start_now,
            "go_on": self._go_on,
            "heard": self._outbox.unheard.heard,
        }
        for name, order in self._orders.items():
            worker.handlers[f"{self.topic}_{name}"] = order
        worker.handlers[f"{self.topic}_line"] = self._serve_line
        worker.handlers[f"{self.topic}_stop"] = self._stop_now
        worker.handlers[f"{self.topic}_secrets"] = self._secrets.give
        worker.handlers[f"{self.topic}_lease"] = self._take_slot
        worker.handlers[f"{self.topic}_release"] = self._give_slot
        if self.store is not None:
            encode_at_once()
        hold(Path(worker.local_directory))
        worker.batched_stream.interval = INTERVAL_S
        self._tidying = self._loop.create_task(self._tidy())

    async def teardown(self, worker: Any) -> None:
        """Called by Dask when the worker closes: nothing of ours outlives it."""
        self._tidying.cancel()
        self._digests.close()
        NOTICES.leave(self._noticed)
        self.rest()
        if self._lease is not None:
            self._lease.release()

    def rest(self) -> None:
        """End the forkservers and what waits in them. The next leg starts its own again."""
        self._forkservers.close()

    def transition(self, key: Any, start: str, finish: str, **_: Any) -> None:
        """Dask's word that a task changed: a leg whose result is not needed any more must leave, or does not start."""
        lane = self._lanes.get(key)
        if lane is not None:
            if finish in _UNWANTED:  # a lane's task may be on its way still when its legs train
                lane.given_up.set()
                self._early.forbid(key, "its lane was given up")
                self._give_up(lane.legs.values())
        elif key in self._tasks:
            if finish not in _WANTED:
                self._give_up(self._tasks[key])
        elif start in _QUEUED and finish in _UNWANTED:
            self._never_comes(key)

    def _never_comes(self, key: Any) -> None:
        """Dask dropped a task before it began."""
        if (early := self._early.take(key)) is not None:
            self._give_up(early[0])
        elif self._worker.state.tasks[key].annotations.get(TOPIC) == self.topic:
            why = self._early.why_not(key) or CANCELLED
            self._early.forbid(key, why)  # the order to start it may be on its way
            self._outbox.tell(key, Left(outcome="stopped", reason=why), now=True)

    def _give_up(self, legs: Iterable[Leg]) -> None:
        """Have legs leave that Dask does not want any more.

        Dask also says so when the engine died. Then a leg with all its messages kept trains on, and the next engine
        decides about it.
        """
        has_engine = self._has_engine()
        for leg in legs:
            if leg.stop_reason is None and (has_engine or not self._outbox.unheard.is_whole(leg.order.key)):
                leg.stop(CANCELLED)

    def take_over(self, engine: str) -> Greeting:
        """Another engine is there: what it must know of the legs here. Orders of the one before are refused now."""
        self.engine = engine
        told = Greeting(self._outbox.unheard.told() if self.store is not None else [], self._outbox.count)
        self._secrets.ask_again()  # which comes after what was told
        return told

    def _has_engine(self) -> bool:
        """Whether the engine lives whose legs these are."""
        if self.store is None:
            return True
        info = read_engine(Store(self.store))
        # By its process: one that was killed closes its connections before it lets go of the lock.
        return info is not None and info.alive and info.proof == self.engine and ticks_of(info.pid) is not None

    async def drive_all(self, orders: list[Order]) -> Ends:
        """The Dask task of these legs: train them, unless they were started before it came. All that they say goes to
        the engine directly; their last messages are the result as well."""
        task = orders[0].task
        legs, ended = self._early.take(task) or self._begin(orders)
        self._tasks[task] = legs
        if orders[0].leg.parts > 1:
            # It counts for no thread of Dask's worker: more legs may train at once than that has threads.
            self._worker.handle_stimulus(SecedeEvent(key=task, compute_duration=0.0, stimulus_id=f"part-{task}"))
        if self._worker.state.tasks[task].state not in _WANTED and self._has_engine():
            for leg in legs:
                leg.stop(CANCELLED)
        try:
            lefts = await ended
            return Ends(self._outbox.count, lefts)
        finally:
            del self._tasks[task]

    async def hold(self, task: str) -> Ends:
        """The Dask task of a lane: it lasts until the lane is given up."""
        await self._lanes.setdefault(task, Lane()).given_up.wait()
        self._lanes.pop(task, None)
        return Ends()

    async def _serve_line(self, comm: Any) -> Status:
        """The engine's line to this worker, until one of the two is gone."""
        line = self._outbox.line = Line(comm)
        try:
            await line.answer()
            await line.serve(self._obey)
        finally:
            if self._outbox.line is line:  # else another engine has opened one
                self._outbox.line = None
        return Status.dont_reply

    def _obey(self, order: Mapping[str, Any]) -> None:
        """What the engine says by its line: the name of one of its direct orders, and the arguments."""
        self._orders[order["name"]](**order["given"])

    def _start_now(self, orders: bytes) -> None:
        """The engine's direct order: start legs of a lane, or before Dask brings their task."""
        legs: list[Order] = pickle.loads(orders)
        task, is_lane = legs[0].task, legs[0].task != legs[0].key
        if task in self._tasks or not self._early.may_start(task):
            if is_lane:  # else their future says what became of them
                for leg in legs:
                    self._outbox.tell(leg.key, NO_LANE, now=True)
        elif is_lane:
            begun, _ = self._begin(legs)
            self._lanes.setdefault(task, Lane()).legs.update((leg.order.key, leg) for leg in begun)
        else:
            self._early.add(task, self._begin(legs))

    def _begin(self, orders: list[Order]) -> tuple[list[Leg], asyncio.Task[dict[str, Left]]]:
        """Start legs, one after another; their last messages will be the result."""
        legs = [Leg(order) for order in orders]
        self._legs.update((leg.order.key, leg) for leg in legs)
        self._begun.set()
        if self.store is not None and orders[0].engine != self.engine:
            for leg in legs:
                leg.stop("the engine that started it is gone")
        elif self.store is not None:
            for order in orders:
                self._outbox.unheard.begin(order)
        for leg in legs:
            if (why := self._early.why_not(leg.order.key)) is not None:  # the order to stop overtook this one
                leg.stop(why)
            if self._is_leaving:
                leg.notice()
        return legs, self._loop.create_task(self._drive_each(legs))

    async def _drive_each(self, legs: list[Leg]) -> dict[str, Left]:
        return {leg.order.key: await self._drive(leg, is_last=leg is legs[-1]) for leg in legs}

    async def _drive(self, leg: Leg, is_last: bool) -> Left:
        order = leg.order
        try:
            async with self._room.of(order.leg.parts, leg.stop_asked) as has_room:
                may_train = has_room and leg.stop_reason is None
                left = await self._train(leg) if may_train else leg.told_to_leave()
        except Exception as error:
            left = ended_by(error, order)
        finally:
            await laying.removed(order)
            del self._legs[order.key]
            if order.task in self._lanes:
                self._lanes[order.task].legs.pop(order.key, None)
            if not self._legs:
                self._empty.set()
        # Ends of very short legs are told together, so that their successors are ordered together.
        return self._outbox.tell(order.key, left, now=is_last or left.outcome != "reached")

    async def warm(self, training: Training) -> dict[str, str | None]:
        """Start the forkserver of a training environment ahead of its first leg; its versions."""
        for left in reversed(range(WARMS)):
            try:
                forkserver = await self._forkservers.ready(self._trainings.of(training))
                break
            except ForkserverKilled:
                if not left:
                    raise
        forkserver.fork_ahead()
        return forkserver.versions

    # -----------------------------------------------------------------------------------------------------------------

    async def _train(self, leg: Leg) -> Left:
        order = leg.order
        known = self._trainings.of(order.training)
        hidden = known.training.secrets
        secrets = await self._secrets.of(order.leg.experiment, hidden)
        lacks = sorted(hidden.keys() - secrets)
        if lacks and not self._has_engine():
            raise ClusterError("its engine was gone before it told the secrets. It starts again by itself.")
        back = await laying.laid_out(order)
        cover = laying.covering(back["copies"], known.training.path) if back else ()
        found = self._waiting.continued(order, secrets)
        if found is None:
            # Whatever waits in this leg's slot leaves first; its memory is needed.
            await self._waiting.make_room(self._room.free)
            found = await self._forkservers.runner(known, order.experiment, cover)
        forkserver, runner = found
        leg.runner = runner
        if self._lease is not None:
            self._lease.trains(order.label)
        ooms, began = self._oom_kills.lately(), time.monotonic()
        ended: asyncio.Future[Left | None] = self._loop.create_future()

        def tell(seen: Plain) -> None:
            self._outbox.tell(order.key, Seen(seen), now=False)

        keeper = self._digests.keeper(order.leg.store, order.keep_data)
        sight = Sight(self._digests, tell, keeper)

        def take(message: Message | None) -> None:
            if isinstance(message, Begun | Left) and message.seen:
                self._forkservers.learn(known, message.seen.pop("loaded", ()))
            match message:
                case None | Left():
                    if not ended.done():
                        ended.set_result(message)
                case Begun():
                    leg.has_begun, leg.setup_s = True, message.setup_s
                    self._outbox.tell(order.key, self._placed(message, sight, lacks, runner), now=False)
                    if leg.stop_reason is None and order.leg.until > order.leg.start:
                        # Not earlier: on few cores that delays the first report.
                        self._forkservers.fork_ahead(forkserver)
                case Points():
                    if sampling is not None:
                        sampling.hear(message)
                    self._outbox.tell(order.key, message, now=False)
                case Level() | Saved() | Unsaved() | Says() | Measured():
                    # The level at which the leg ends travels with the end, which follows at once.
                    is_between = isinstance(message, Level) and message.step < order.leg.until
                    self._outbox.tell(order.key, message, now=is_between)

        log = LogWriter(Path(order.log), b"[attempt %d from step %d]\n" % (order.attempt, order.start))
        if lacks:
            names = ", ".join(map(written, lacks))
            log.feed(f"[secrets of the notebook that are not available, and so not set: {names}]\n".encode())
        sampling = self._sampled(order, runner)
        runner.begin(replace(order.leg, back=back, secrets=secrets), log, take)
        try:
            left = await until_left(leg, runner, ended)
        finally:
            if sampling is not None:
                sampling.end()
        is_short = time.monotonic() - began < REUSE_BELOW_S and not order.strict
        if not is_short or (left is not None and not left.waits and not left.reusable):
            self._forkservers.spent(known, forkserver, order.experiment, leg.setup_s)
        if left is not None and left.waits:
            self._waiting.add(order, order.leg.until, secrets, forkserver, runner, is_short)
            if leg.stop_reason is not None:  # the order to stop is on its way there
                await self._waiting.make_room(0)
            await sight.left(left.seen)
            return replace(left, seen=None)
        runner.end_of_leg()
        if left is None:
            return gone(leg, runner, self._oom_kills.more_than(ooms))
        if back:
            left = replace(left, reusable=False)
        if not (left.reusable and is_short and self._forkservers.give_back(forkserver, runner)):
            await see_out(runner)
        await sight.left(left.seen)
        if leg.stop_reason is not None and left.outcome == "stopped":
            left = replace(left, reason=leg.stop_reason)
        return replace(left, seen=None)

    def _sampled(self, order: Order, runner: Runner) -> Sampling | None:
        """Samples of what the leg uses; none of a check, nor of other ranks than the first."""
        if order.leg.check is not None or (order.leg.rank is not None and order.leg.rank.index):
            return None
        visible = os.environ.get(VISIBLE) if self.hides == "none" else ""
        return Sampling(lambda: runner.pid, visible, lambda rows: self._outbox.tell(order.key, rows, now=False))

    def _placed(self, message: Begun, sight: Sight, lacks: list[str], runner: Runner) -> Begun:
        """A runner's word that its leg has begun, with what this worker knows of it."""
        seen = None if message.seen is None else sight.first(message.seen)
        environment = {"host": platform.node(), **message.environment}
        where = {"worker": self._worker.address, "pid": runner.pid, "at": time.time()}
        return replace(message, seen=seen, lacks=lacks, environment=environment, **where)

    def _want(self, experiment: str) -> None:
        """Ask the engine for the secrets of an experiment."""
        self._outbox.say(Wants(experiment, self._worker.address))

    def _noticed(self) -> None:
        """SIGTERM: the machine is about to go. The engine gives nothing more to this worker, and its legs leave."""
        if self._is_leaving:
            self._go()
            return
        self._is_leaving = True
        self._outbox.say(Notice(self._worker.address))
        for leg in self._legs.values():
            leg.notice()
        if not self._legs:
            self._empty.set()
        self._going = self._loop.create_task(self._leave())

    async def _leave(self) -> None:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._empty.wait(), NOTICE_S)
            await asyncio.wait_for(self._waiting.make_room(0), NOTICE_S)
        await asyncio.sleep(BATCH_S)  # the last words are on their way
        self._go()

    def _go(self) -> None:
        """End now, as SIGTERM would without this plugin. The last engine's plugin ends the worker."""
        if NOTICES.leave(self._noticed):
            os.kill(os.getpid(), signal.SIGTERM)

    @property
    def lease(self) -> str | None:
        """The slot of this machine that this worker holds."""
        return self._lease.name if self._lease is not None else None

    async def _take_slot(self, names: list[str], store: str) -> str | None:
        """Hold the first of these slots that is free, until it is given back or this process ends."""
        if self._lease is None:
            self._lease = take(names, store)
        return self.lease

    async def _give_slot(self) -> bool:
        """Let another engine have the slot; False where a leg is still in it."""
        if not self._legs:
            await self._waiting.make_room(0)
        if self._legs:
            return False
        if self._lease is not None:
            self._lease.release()
            self._lease = None
        return True

    async def _stop_now(self, key: str, reason: str, keep_s: float | None = None) -> bool:
        """The engine's direct order, one hop away. True where the leg was here."""
        leg = self._legs.get(key)
        if leg is not None:
            leg.stop(reason, keep_s)
        else:
            self._early.forbid(key, reason)
        return leg is not None

    def _go_on(self, key: str, level: int) -> None:
        """The search has not stopped the leg at this level."""
        leg = self._legs.get(key)
        if leg is not None and leg.runner is not None:
            leg.runner.go_on(level)

    async def _tidy(self) -> None:
        while True:
            await asyncio.sleep(TIDY_S)
            self._forkservers.tidy()
            wake(self._worker.batched_stream)
            if not self._legs:  # only what is not used is left to go
                self._begun.clear()
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._begun.wait(), RESTING_S)
