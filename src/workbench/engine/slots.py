"""Which leg trains in which slot. Law: no slot waits while a leg could train; checks use slots that no leg needs."""

from __future__ import annotations

import asyncio
import itertools
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from workbench.cluster.backend import Backend, Sink, Slot, Survivor
from workbench.engine.asking.book import Book
from workbench.engine.judging.suspects import Suspects
from workbench.engine.judging.verify import Verification
from workbench.engine.leases import Leases, Wish
from workbench.engine.legs.leg import Leg
from workbench.engine.legs.placing import Shared, Waiting, beside, share
from workbench.engine.loop import ExperimentLoop
from workbench.engine.sharing import Sharing, legs_of, slots_of
from workbench.facts import Reached, RoomAsked
from workbench.messages import FromLeg, Left
from workbench.records import Spec
from workbench.records.names import trial_label
from workbench.store import Store

#: Beats for which a slot must stay free before a check may use it while searches continue.
BEATS_FREE = 2
#: Seconds after a leg's end until what it leaves to do is looked at: neither the next leg nor the search waits for it.
WAKE_S = 0.02
#: The number of legs that a slot with a check counts as having; and how far a check's priority is below that of every
#: leg.
MANY, CHECKS = 1_000, 1_000_000_000


@dataclass(frozen=True, slots=True)
class Parted:
    """Receives the messages of a failed experiment's legs until they have left."""

    spec: Spec

    def hear(self, leg: Leg, message: FromLeg) -> None:
        """Ignore the message."""


class Slots(ABC):
    """The slots of a backend, and the experiments that share them."""

    def __init__(self, store: Store, make_backend: Callable[[Sink], Backend]) -> None:
        self.backend = make_backend(self)
        self._wake = asyncio.Event()
        self._waking: asyncio.TimerHandle | None = None
        self.book = Book(store, self._wake.set)
        self.loops: dict[str, ExperimentLoop] = {}
        self._suspects = Suspects()
        self._by_key: dict[str, tuple[ExperimentLoop | Verification | Parted, Leg]] = {}
        #: Beats for which some slot has been free and nothing waited.
        self._beats_free = 0
        #: Legs that wait for a slot, by key, each with its rank: the lowest is the first.
        self._queue: dict[str, tuple[tuple[Any, int], ExperimentLoop, Leg]] = {}
        self._count = itertools.count()
        #: Lines about the cluster, shown for each experiment that trains on it.
        self._notes: list[str] = []
        self.leases = Leases(store.root, self.backend, self._wish, self._leases_changed, self.note)
        #: Whether experiments are being recovered: legs that still train take their slots before new legs get one.
        self._is_recovering = False
        self._sharing = Sharing()

    @abstractmethod
    def later(self, coroutine: Coroutine[Any, Any, Any]) -> None:
        """Run ``coroutine`` in the background."""

    @abstractmethod
    def broke(self, experiment: str, error: BaseException) -> None:
        """An experiment's loop raised an error: end that experiment, and continue with the others."""

    def part(self, loop: ExperimentLoop, why: str) -> None:
        """Make the legs of ``loop`` leave; it gets no more messages from them."""
        for key, (hearer, leg) in list(self._by_key.items()):
            if hearer is loop or hearer is loop.verification:
                if leg.slot is None:
                    del self._by_key[key]
                else:
                    self._by_key[key] = (Parted(loop.spec), leg)
                    leg.stop = why
                    self.backend.stop(key, why, None)

    def rebalance(self) -> None:
        """Share the slots among the experiments by weight and priority; none gets more than it can use."""
        for loop, count in self._sharing.goals(self.leases.usable, self._going).items():
            # One that lends may order a leg more than it has slots for: so it tells that it needs them again.
            legs = (count + self._sharing.lends(loop)) * loop.legbook.depth
            # A slot whose leg was told to leave is given out at once: the next leg waits for it on the worker.
            loop.set_capacity(count, min(legs, loop.most) + loop.legbook.leaving)

    @property
    def _going(self) -> list[ExperimentLoop]:
        return [loop for loop in self.loops.values() if not loop.finished.is_set()]

    def _share(self) -> None:
        """Called about once a second: share the slots again, and make a trial leave if others wait for too long."""
        loops, now = self._going, time.monotonic()
        goals = self._sharing.goals(self.leases.usable, loops)
        self._sharing.look(self.leases.usable, loops, goals, now)
        if len(loops) > 1:
            self.rebalance()
        self._drain()
        waiting = [loop for _, loop, leg in self._queue.values() if leg.not_before <= now]
        short = next((loop for loop in waiting if loop in goals and slots_of(loop) < goals[loop]), None)
        other = self.leases.owed_to or (short.spec.label if short is not None else None)
        found = self._sharing.makes_room(loops, goals, other is not None, now)
        if found is not None:
            loop, leg = found
            loop.tell(RoomAsked(leg.trial, f"made room for {other}"))

    def _drain(self) -> None:
        """Make legs leave the slots that a person took out of use."""
        for hearer, leg in list(self._by_key.values()):
            if leg.slot is None or leg.stop is not None or not self.leases.is_drained(leg.slot):
                continue
            why = f"made room: {leg.slot.lease} is drained"
            if isinstance(hearer, Verification):
                hearer.make_room(why)
            elif isinstance(hearer, ExperimentLoop):
                hearer.tell(RoomAsked(leg.trial, why))

    def note(self, words: str) -> None:
        """Show this line for every experiment that trains here, now or later."""
        if words not in self._notes:
            self._notes.append(words)
        for loop in self.loops.values():
            loop.shown.say(words)

    def _wish(self) -> Wish:
        # One without a leg, paused or waiting at a rung, claims nothing, and gives the others no priority.
        loops = [loop for loop in self._going if legs_of(loop)]
        return Wish(
            self._wanting(),
            sum(loop.spec.weight for loop in loops) or 1.0,
            max((loop.spec.priority for loop in loops), default=0),
            tuple(loop.spec.label for loop in loops),
        )

    def _wanting(self) -> int:
        """How many more slots could be used besides those with legs."""
        checks = sum(loop.may_check for loop in self.loops.values())
        waiting = [leg for leg in self._legs() if leg.slot is None]
        # A leg that died on a worker should get a slot of another worker, although a slot of that worker is held and
        # empty.
        avoided = {leg.avoid for leg in waiting}
        unwanted = sum(slot.is_usable and not slot.legs and slot.worker in avoided for slot in self.backend.slots)
        return checks + len(waiting) + unwanted

    def _leases_changed(self) -> None:
        self.rebalance()
        self._send_waiting()
        for loop in self.loops.values():
            loop.told_lack(self.leases.lack)
        self._wake.set()

    def dispatch(self, loop: ExperimentLoop, leg: Leg) -> None:
        """Start ``leg`` in the slot with the fewest legs, or keep it until there is one."""
        self._by_key[leg.key] = (loop, leg)
        self._queue[leg.key] = ((loop.search.order(leg.trial), next(self._count)), loop, leg)
        self._send_waiting()

    def adopt(self, loop: ExperimentLoop, leg: Leg, survivor: Survivor) -> None:
        """Adopt a leg that an earlier engine ordered, and handle the messages it has sent since."""
        leg.slot = survivor.slot
        self._by_key[leg.key] = (loop, leg)
        for message in survivor.story.messages:
            self.heard(leg.key, message)

    def _send_waiting(self) -> None:
        if self._is_recovering:
            return
        clock, found = time.monotonic(), Shared()
        self._queue = {key: entry for key, entry in self._queue.items() if key in self._by_key}
        while self._queue:
            found = self._shared(clock)
            for one, slot in found.placements:
                _, loop, leg = self._queue.pop(one.leg.key)
                if leg.key in self._by_key:  # otherwise its experiment has just failed
                    self._start(loop, leg, slot)
            if found.blocked is None or not self._made_room():
                break
        if found.blocked is not None:
            self.leases.look_soon()
        for one in found.later:
            asyncio.get_running_loop().call_later(one.leg.not_before - clock + 0.001, self._send_waiting)

    def _shared(self, clock: float) -> Shared:
        """Which waiting legs may start now, and where."""
        queue = sorted(self._queue.values(), key=lambda entry: entry[0])
        waiting = [Waiting(leg, loop.legbook.depth) for _, loop, leg in queue]
        alone = {leg.slot.worker for leg in self._legs() if leg.alone and leg.slot}
        return share(self.backend.slots, waiting, self._staying, alone, self._may_come, clock)

    def _start(self, loop: ExperimentLoop, leg: Leg, slot: Slot) -> None:
        leg.slot = slot
        leg.slots = 1 if leg.alone else min(beside(self.backend.slots, slot), self._most_at_once())
        # Unique, and higher for higher rungs: Dask runs tasks of equal priority last-in-first-out.
        priority = -loop.search.order(leg.trial)[0] * 1_000_000 - next(self._count)
        try:
            self.backend.start(loop.message(leg), slot, priority)
            loop.hearing.started(leg)
        except Exception as error:
            self.broke(loop.spec.id, error)

    def _most_at_once(self) -> int:
        """The most trials of this engine that could train at the same time."""
        going = (loop for loop in self.loops.values() if not loop.finished.is_set())
        return sum(min(loop.spec.parallel or MANY, loop.search.planned[0]) for loop in going) or 1

    def _may_come(self, leg: Leg) -> bool:
        """Whether a slot on another worker than the one that ``leg`` died on may be available on request."""
        others = (slot for slot in self.backend.slots if slot.worker != leg.avoid and not slot.closed)
        return not self.leases.is_short and any(slot.names and not slot.lease for slot in others)

    def _legs(self) -> Iterator[Leg]:
        return (leg for _, leg in self._by_key.values())

    def went_wrong(self, loop: ExperimentLoop, leg: Leg, way: tuple[str, str]) -> None:
        """Note a death on a worker. A worker on which three trials died in the same way is not used any more."""
        if leg.slot is None:
            return
        worker = leg.slot.worker
        others = len({slot.worker for slot in self.backend.slots if not slot.closed and slot.worker != worker})
        why = self._suspects.died(worker, (loop.spec.id, leg.trial), way, others)
        if why is not None:
            self.book.line({"kind": "SetAside", "worker": worker, "reason": why})
            self.backend.close_worker(worker, why)

    def _staying(self, slot: Slot) -> int:
        """How many legs of a slot were not told to leave it."""
        found = (self._by_key.get(key) for key in slot.legs)
        # Nothing is queued behind a check: a leg would wait for something unimportant.
        return sum(
            MANY if isinstance(one[0], Verification) else 1 for one in found if one is not None and one[1].stop is None
        )

    # -- checks of resuming -----------------------------------------------------------------------------------------

    def _check(self) -> None:
        """Start checks in slots that no leg needs: at once for an ended search, otherwise if they stay free."""
        free = [slot for slot in self.backend.slots if not slot.legs and slot.is_usable]
        if self._queue or not free:
            self._beats_free = 0
            if any(loop.may_check for loop in self.loops.values()):
                self.leases.look_soon()
            return
        for loop in self.loops.values():
            if free and loop.may_check and (loop.finished.is_set() or self._beats_free >= BEATS_FREE):
                try:
                    leg, message = loop.begin_check()
                except Exception as error:
                    self.broke(loop.spec.id, error)
                    return
                leg.slot = free.pop()
                self._by_key[leg.key] = (loop.verification, leg)
                self.backend.start(message, leg.slot, -CHECKS - next(self._count))

    def _made_room(self) -> bool:
        """Make a check leave its slot at once. Returns whether there was one."""
        for hearer, leg in self._by_key.values():
            if isinstance(hearer, Verification) and leg.slot is not None and leg.stop is None:
                hearer.make_room("a search wants its slot")
                return True
        return False

    def _holder(self, slot: Slot) -> tuple[str, str, float | None] | None:
        """The leg that trains in a slot: the first of its legs that is still there."""
        for key in slot.legs:
            found = self._by_key.get(key)
            if found is not None:
                return found[0].spec.label, trial_label(found[1].trial), found[1].began
        return None

    def stop_leg(self, leg: Leg, reason: str, keep_s: float | None) -> None:
        """Stop a leg where it trains, or drop it if it waits."""
        if leg.slot is not None:
            self.backend.stop(leg.key, reason, keep_s)
            return
        self.later(self._heard_later(leg.key, Left(outcome="stopped", reason=reason)))

    def go_on(self, loop: ExperimentLoop, reached: Sequence[Reached]) -> None:
        """Tell legs that wait at these levels that they were not stopped there, unless they were."""
        if not loop.spec.scheduler.stops_most:
            return
        for fact in reached:
            leg = loop.legbook.legs.get(fact.trial)
            if leg is not None and leg.slot is not None and leg.stop is None:
                self.backend.go_on(leg.key, fact.step)

    async def _heard_later(self, key: str, message: FromLeg) -> None:
        self.heard(key, message)

    def slots_changed(self) -> None:
        """The backend has other slots now."""
        self.rebalance()
        self._send_waiting()

    def heard(self, key: str, message: FromLeg) -> None:
        """Handle a message from the leg of ``key``."""
        found = self._by_key.get(key)
        if found is None:
            return
        loop, leg = found
        if isinstance(message, Left):
            del self._by_key[key]
            if message.outcome in ("reached", "completed") and leg.slot is not None:
                self._suspects.well(leg.slot.worker)
        try:
            loop.hear(leg, message)
        except Exception as error:
            self.broke(loop.spec.id, error)
        if isinstance(message, Left):
            self._send_waiting()
            if leg.slot is not None and leg.slot.giving:
                self.leases.look_soon()
            self._wake_soon()

    def _wake_soon(self) -> None:
        """Look at what the end of a leg leaves to do, once for all that end at about the same time."""
        if self._waking is None or self._waking.when() <= asyncio.get_running_loop().time():
            self._waking = asyncio.get_running_loop().call_later(WAKE_S, self._wake.set)
