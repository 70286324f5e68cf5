"""Legs as Dask futures: the engine's side. Law: a future is pinned to a slot's worker and never retried by Dask.

Dask is given the pipes and the machines; which leg runs where, and what a lost one means, is decided above. A leg is a
future (``flights.py``); very short legs train in their slot's lane (``lanes.py``).
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import secrets
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import dask

from workbench.cluster import devices
from workbench.cluster.backend import Sink, Slot, Survivor, leader
from workbench.cluster.client import (
    closed,
    connected,
    disconnected,
    greeted,
    plugin_of,
    set_up,
    subscribed,
    surveyed,
    usable,
)
from workbench.cluster.direct import ANSWER_S, Direct
from workbench.cluster.flights import Flights, lost
from workbench.cluster.gangs import BEHIND, CAUSE_S, Gangs, ranks
from workbench.cluster.hearing import Hearing
from workbench.cluster.medium import AtScheduler
from workbench.cluster.own import Own
from workbench.cluster.settings import SETTINGS, encode_at_once
from workbench.cluster.workers.calls import greet, rest, sees_store, warm
from workbench.cluster.workers.line import Line
from workbench.cluster.workers.machine import survey_here
from workbench.cluster.workers.secrets import to_wire
from workbench.cluster.workers.worker import INTERVAL_S
from workbench.errors import BadMessage, ClusterError, WorkbenchError
from workbench.messages import FromLeg, FromWorker, Greeting, Left, Notice, Order, Plain, Wants, unpacked
from workbench.messages import read as read_message
from workbench.records import Training
from workbench.store.owner import private
from workbench.store.owner.slots import cores

log = logging.getLogger("workbench.cluster")

#: Seconds between attempts to reach a cluster that went away.
REATTACH_S = 1.0
#: Seconds after the end of its line for which a worker may have died without Dask's scheduler having said so.
GONE_S = 2.0


class DaskBackend:
    """The store's own cluster, in a process of its own, or one that is attached to by its address."""

    def __init__(
        self,
        root: str,
        nonce: str,
        sink: Sink,
        *,
        address: str | None = None,
        workers: int | None = None,
        own: Own | None = None,
    ) -> None:
        """own: the store's own cluster if it is running already; without an address it is started here."""
        self._root, self._nonce, self._listener = root, nonce, sink
        self._address = address
        self._own = own if own is not None or address is not None else Own(root, workers)
        #: Where Dask's own pages are; None where there are none.
        self.dashboard: str | None = None
        #: What a person is told of the cluster before anything trains there.
        self.note: str | None = None
        #: Through which engines of a cluster that is not ours share its slots; None where they do not.
        self.arbiter: AtScheduler | None = None
        self._plan = devices.Plan()
        #: The name of our plugin on the workers. An own cluster has one engine after the other.
        self._topic = "workbench"
        self._flights = Flights(self, nonce)
        self._gangs = Gangs(lambda key: self.later(self._stop_left_behind(key)))
        #: Keys of all ranks that an earlier engine started.
        self._left: list[str] = []
        self._client: Any = None
        self._direct = Direct(None)
        self.was_found = self._own is not None and self._own.was_found
        self.survivors: list[Survivor] = []
        #: What the engine is to hear when it has settled about survivors; None: it hears at once.
        self._held: list[tuple[str, FromLeg]] | None = [] if self.was_found else None
        self._hearing = Hearing(self._missed)
        self._warmed: list[Training] = []
        #: What each worker said of itself when it was taken in.
        self._answers: dict[str, Plain] = {}
        self.is_closing = self._reattaching = self._was_open = False
        #: It ends when a cluster that is not ours is gone.
        self._attending: asyncio.Task[None] | None = None
        #: Workers that went away; one of them may just be getting ready.
        self._removed: set[str] = set()
        #: Workers whose machine has given notice that it goes.
        self._noticed: set[str] = set()
        self._tasks: set[asyncio.Task[Any]] = set()
        self.slots: list[Slot] = []

    @property
    def most_slots(self) -> int | None:
        """How many slots it will ever have; None if other machines may join it."""
        if self._own is None:
            return None
        if self._plan.trains_on_gpus:
            return len(devices.slot_names()) or None
        return self._own.workers or len(cores())

    # -- opening and closing --------------------------------------------------------------------------------------

    async def open(self) -> None:
        """Start or attach; returns when at least one worker can take legs."""
        dask.config.set(SETTINGS)
        encode_at_once()
        if self._own is not None:
            self._plan = await asyncio.to_thread(devices.plan, self._own.workers)
            self.note = self._plan.note
        self._reattaching = True
        try:
            await self._attach()
        except WorkbenchError:
            raise
        except Exception as error:  # whatever half of a cluster raises: it went away meanwhile
            log.warning("the cluster went away while it was being attached: %r", error)
            await self._attach_again()
        self._attached()

    async def _attach_again(self) -> None:
        """Attach after a cluster, or an attempt, of which nothing is to be left. An own cluster is replaced."""
        if self._attending is not None:
            self._attending.cancel()
        if self._client is not None:
            await closed(self._client)
        if self._own is not None:
            await self._own.replace()
        await self._attach()

    async def _attach(self) -> None:
        self._client = await connected(self._own, self._address)
        if self._own is None:  # there may be other engines, and what we left there when we lost it
            self._topic = f"workbench-{secrets.token_hex(4)}"
        self._direct = Direct(self._client, self._topic)
        self._flights.attach(self._client, self._direct, self._topic)
        self._attending = None if self._own is not None else self.later(self._attend(self._client))
        self._client.scheduler_comm.interval = INTERVAL_S
        self._hearing = Hearing(self._missed)
        self._client.subscribe_topic("all", self._cluster_event)
        await subscribed(self._client, self._topic, lambda event: self._hear(event[1]))
        told = await greeted(self._client, self._own, self._nonce, self._topic)
        self.dashboard = self._own.record.dashboard if self._own is not None and self._own.record is not None else None
        self.arbiter = None if self._own is not None else await self._joined()
        if not any(told.values()):
            plugin = plugin_of(self._own, self._plan, self._root, self._nonce, self._topic)
            await set_up(self._client, plugin, self._address, skips=self._skips)
        # Before they tell what they know: what they say since then comes by their lines, in its order.
        await asyncio.gather(*map(self._open_line, told))
        told = await greeted(self._client, self._own, self._nonce, self._topic)
        # One that dies at this moment is not among them; what takes its place is heard of.
        answers = await self._client.run(sees_store, self._root, self._nonce, self._topic, on_error="ignore")
        answers = usable(self._root, answers, skips=self._skips)
        self._answers.update(answers)
        for worker in answers:
            self._add(worker)
        for worker in answers:
            self._take_over(worker, told.get(worker) or Greeting([], 0))
        self.survivors = self._gangs.joined(self.survivors)
        if self._own is not None:
            self._own.watch(self.lose_scheduler)

    @property
    def _skips(self) -> bool:
        """Whether workers that cannot train are left out. First they are an error: it may be another cluster than was
        meant. One of our own is replaced."""
        return self._was_open and self._own is None

    async def _joined(self) -> AtScheduler | None:
        """The arbiter of a cluster that is not ours; None, with a note, where its scheduler cannot have one."""
        try:
            return await AtScheduler.joined(self._client, self._root, self._topic)
        except ClusterError as error:
            self.note = f"slots are not shared with other engines of this cluster: {error}"
            log.warning("%s", self.note)
            return None

    def _attached(self) -> None:
        self._reattaching, self._was_open = False, True
        if self._attending is not None and self._attending.done():
            self.lose_scheduler()

    async def _attend(self, client: Any) -> None:
        await disconnected(client)
        if client is self._client:
            self.lose_scheduler()

    def _take_over(self, worker: str, told: Greeting) -> None:
        """Hear what ``worker`` had to tell, and from now on what it says."""
        slots = [slot for slot in self.slots if slot.worker == worker]
        for story in told.stories:
            if story.is_check or not slots:
                continue
            slot = min(slots, key=lambda slot: len(slot.legs))
            if not story.is_over:
                self._flights.adopt(story.key, slot)
                self._left.append(story.key)
            self.survivors.append(Survivor(story, slot))
        self._take(self._hearing.greeted(worker, told.n))

    def settle(self, adopted: Collection[str]) -> None:
        """Go on with the survivors of these keys; the others are told to leave."""
        for key in self._left:
            if leader(key) not in adopted and key in self._flights:
                self._flights.stop(key, "the engine that started it is gone", None)
        self.survivors, self._left = [], []
        held, self._held = self._held, None
        for key, message in held or ():
            self._listener.heard(key, message)

    def marks(self) -> dict[str, int]:
        """How far each worker of an own cluster has been heard; none before what it told has come to the engine."""
        return self._hearing.marks() if self._own is not None and self._held is None else {}

    async def keep(self, marks: dict[str, int]) -> None:
        """What was heard up to these marks is on the disk."""
        for worker, number in marks.items():
            if await self._direct.heard(worker, number):
                self._hearing.kept(worker, number)

    def tell(self, key: str, message: FromLeg) -> None:
        """Pass on a message of the leg of ``key``, or keep it until the engine has decided about survivors."""
        heard = self._gangs.take(key, message)
        if heard is None:
            return
        if self._held is None:
            self._listener.heard(leader(key), heard)
        else:
            self._held.append((leader(key), heard))

    async def look(self) -> list[Plain]:
        """The machines: this one in a thread of ours where the cluster is local, others by one worker of each."""
        there = sorted({slot.worker for slot in self.slots} & self._answers.keys())
        answers = {worker: self._answers[worker] for worker in there}
        if self._own is not None:
            return [await survey_here(answers)] if answers else []
        return await surveyed(self._client, answers)

    async def close(self) -> None:
        """Cancel what runs, and end the cluster where it is ours."""
        self.is_closing = True
        self._flights.close()
        for task in self._tasks:
            task.cancel()
        with contextlib.suppress(Exception):  # closing must go on whatever half of the cluster is gone already
            if self._own is None:
                await asyncio.wait_for(self._client.run(rest, topic=self._topic), 5)
        await closed(self._client)
        if self._own is not None:
            await self._own.end()

    async def lease(self, slot: Slot) -> str | None:
        """Have the slot's worker hold one of its machine's slots: the lock must die with the process that trains.

        On a cluster that is not ours, its scheduler knows who has which slot.
        """
        if self.arbiter is not None:
            return await self.arbiter.take(slot.names)
        return await self._direct.lease(slot.worker, slot.names, self._root)

    async def release(self, slot: Slot) -> None:
        """Give back what was leased: by the slot's worker, or at the scheduler, where the worker need not answer."""
        self._flights.rest(slot)
        if self.arbiter is not None:
            await self.arbiter.give(slot.lease)
            self.later(self._direct.clear(slot.worker))
        else:
            await self._direct.release(slot.worker)

    async def warm(self, training: Training) -> None:
        """Start this training environment's forkserver on every worker."""
        if training not in self._warmed:
            self._warmed.append(training)
        answers = await self._client.run(warm, training=training, topic=self._topic, on_error="return")
        for answer in answers.values():
            if isinstance(answer, ClusterError):
                raise answer
            if isinstance(answer, BaseException):
                log.warning("warming a worker: %s", answer)

    # -- legs -----------------------------------------------------------------------------------------------------

    def start(self, order: Order, slots: Sequence[Slot], priority: int) -> None:
        """Order one leg, each of its ranks pinned to its slot's worker."""
        self._gangs.begin(order.key, len(slots))
        for one, slot in zip(ranks(order, slots), slots, strict=True):
            self._flights.start(one, slot, priority)

    def stop(self, key: str, reason: str, keep_s: float | None) -> None:
        """Cancel the leg's future, and tell its worker directly, which is a hop nearer."""
        self._flights.stop(key, reason, keep_s)
        if keep_s is None:  # otherwise the first rank tells the others when to leave
            for one in self._gangs.keys(key)[1:]:
                self._flights.stop(one, reason, None)

    async def _stop_left_behind(self, key: str) -> None:
        await asyncio.sleep(CAUSE_S)
        for one in self._gangs.keys(key):
            self._flights.stop(one, BEHIND, None)

    def go_on(self, key: str, level: int) -> None:
        """Tell the leg, which waits for it, that the search has not stopped it at this level."""
        self._flights.go_on(key, level)

    # -- what is heard --------------------------------------------------------------------------------------------

    def _hear(self, told: Mapping[str, Any]) -> None:
        if told["worker"] not in self._removed:
            self._take(self._hearing.take(told))

    async def _open_line(self, worker: str) -> None:
        """Have a worker of a cluster of our own say what it says past Dask's scheduler, from now on."""
        direct = self._direct
        if self._own is not None and (line := await direct.open_line(worker)) is not None:
            self.later(self._listen(direct, worker, line))

    async def _listen(self, direct: Direct, worker: str, line: Line) -> None:
        await direct.listen(worker, line, self._hear)
        if direct is not self._direct:
            return
        self._hearing.unsure(worker)
        trained = self._legs_of(worker)
        # It has died, which Dask's scheduler will say. Otherwise what was said last by the line may be lost.
        await asyncio.sleep(GONE_S)
        keys = [key for key in self._legs_of(worker) if key in trained]
        if keys and direct is self._direct:
            log.error("the line to worker %s broke: its legs start again", worker)
            self._begin_again(keys, "its line to the engine broke")

    def _legs_of(self, worker: str) -> list[str]:
        return [key for slot in self.slots if slot.worker == worker for key in slot.legs]

    def _begin_again(self, keys: Sequence[str], why: str) -> None:
        """Have legs start again: they report again what their checkpoints hold."""
        for key in keys:
            self.stop(key, why, None)
            self._flights.end(key, lost(why))

    def _take(self, batch: list[bytes]) -> None:
        for frame in batch:
            key = ""
            try:
                data = unpacked(frame)
                key = str(data.get("key", ""))
                self._understand(key, read_message(data))
            except BadMessage as error:
                log.error("a worker sent what cannot be read: %s", error)
                self._begin_again([key], f"what its worker sent cannot be read ({error})")
            except Exception:  # a fault of ours, and the next message may be about another leg
                log.exception("a message of a worker about %s could not be taken", key)
                self._begin_again([key], "what its worker sent could not be taken")

    def _understand(self, key: str, message: FromLeg | FromWorker) -> None:
        match message:
            case Left():
                self._flights.end(key, message)
            case Wants():
                values = to_wire(private.kept(Path(self._root), message.experiment))
                self.later(self._direct.give_secrets(message.worker, message.experiment, values))
            case Notice():
                self._noticed.add(message.worker)
                self.close_worker(message.worker, "its machine announced that it shuts down")
            case _ if key in self._flights:
                self.tell(key, message)

    def _missed(self, worker: str, count: int) -> None:
        log.error("%d messages of worker %s were lost on their way: its legs start again", count, worker)
        self._begin_again(self._legs_of(worker), "messages of its worker were lost on their way")

    def close_worker(self, worker: str, why: str) -> None:
        """Give no more legs to ``worker``; those that it has go on."""
        for slot in self.slots:
            if slot.worker == worker and not slot.closed:
                slot.closed = why
        log.warning("worker %s is no longer used: %s", worker, why)
        self._listener.slots_changed()

    def open_worker(self, worker: str, why: str) -> None:
        """Give legs to ``worker`` again, if it was closed for this reason."""
        for slot in self.slots:
            if slot.worker == worker and slot.closed == why:
                slot.closed = ""
                log.warning("worker %s is used again: a trial needs its slots", worker)

    def _cluster_event(self, event: Any) -> None:
        _, message = event
        action, worker = message.get("action"), message.get("worker")
        if action == "add-worker":
            self._removed.discard(worker)
            self._noticed.discard(worker)
            self.later(self._admit(worker))
        elif action == "remove-worker":
            self._remove(worker)

    async def _admit(self, worker: str) -> None:
        try:
            answers = await self._client.run(sees_store, self._root, self._nonce, self._topic, workers=[worker])
            told: dict[str, Greeting | None] = {}
            if self._own is not None:  # its plugin may name an engine before
                await self._open_line(worker)
                told = await self._client.run(greet, engine=self._nonce, topic=self._topic, workers=[worker])
            for training in list(self._warmed):
                # Before it is given legs: they would wait for it, where another worker may be free.
                await self._client.run(warm, training=training, topic=self._topic, workers=[worker], on_error="ignore")
            for address, answer in usable(self._root, answers, skips=False).items():
                if address not in self._removed:
                    self._answers[address] = answer
                    self._add(address)
                    if not self._hearing.knows(address):
                        greeting = told.get(address)
                        self._take_over(address, Greeting([], 0 if greeting is None else greeting.n))
        except (OSError, ClusterError, ValueError) as error:
            log.warning("worker %s is not used: %s", worker, error)

    def _add(self, worker: str) -> None:
        if any(slot.worker == worker for slot in self.slots):
            return
        if self._own is not None and self._own.record is not None:
            count = self._own.record.slots
        else:
            count = int(self._answers[worker]["threads"])
        names, held = self._leased(worker)
        slots = [Slot(worker, index, [], names=names, lease=held) for index in range(count)]
        for slot in slots if self.arbiter is not None else ():
            slot.names = (slot.name,)
        self.slots.extend(slots)
        self._listener.slots_changed()

    def _leased(self, worker: str) -> tuple[tuple[str, ...], str]:
        """Of which slots of this machine ``worker`` must hold one, and which it holds already."""
        if self._own is None:
            return (), ""
        answer = self._answers.get(worker, {})
        gpu = answer.get("gpu") if self._plan.trains_on_gpus else None
        return (gpu,) if gpu else tuple(cores(self._own.workers)), answer.get("lease") or ""

    def _remove(self, worker: str) -> None:
        self._removed.add(worker)
        self._answers.pop(worker, None)
        self._hearing.forget(worker)
        gone = [slot for slot in self.slots if slot.worker == worker]
        self.slots = [slot for slot in self.slots if slot.worker != worker]
        for slot in gone:
            self._flights.lose(slot)
        if gone:
            self._listener.slots_changed()

    async def heard_until(self, worker: str, n: int) -> bool:
        """Wait until ``worker`` was heard up to its message ``n``, or is gone; False if it is silent for too long."""
        return await self._hearing.until(worker, n, ANSWER_S)

    def gone(self, worker: str) -> Left:
        """The end of a leg whose worker is gone; one that was ordered while its machine went is preempted, too."""
        cause = "preempted" if worker in self._noticed else "worker"
        return lost(f"its worker {worker} is gone", cause=cause)

    def lose_scheduler(self) -> None:
        """Dask's scheduler is gone: so is all that ran there. Look for it again until it answers."""
        if self._reattaching or self.is_closing:
            return
        self._reattaching = True
        self.slots = []
        self._flights.end_all("Dask's scheduler is gone")
        self._listener.slots_changed()
        self.later(self._reattach())

    async def _reattach(self) -> None:
        while True:
            try:
                await self._attach_again()
                break
            except Exception as error:  # whatever half of a cluster raises: without one the engine is of no use
                log.warning("%s", error)
                await asyncio.sleep(REATTACH_S)
        self._attached()
        for training in self._warmed:
            self.later(self._client.run(warm, training=training, topic=self._topic, on_error="ignore"))

    def later(self, coroutine: Any) -> asyncio.Task[Any]:
        """Run ``coroutine`` in the background, until this is closed."""
        task = asyncio.get_running_loop().create_task(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task
