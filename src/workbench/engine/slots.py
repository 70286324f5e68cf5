"""Which leg trains in which slot. Law: no slot waits while a leg could train; checks use slots that no leg needs."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from workbench.cluster.backend import Backend, Sink, Slot, Survivor
from workbench.engine.asking.book import Book
from workbench.engine.judging.blamed import Blamed
from workbench.engine.judging.checks import Checks
from workbench.engine.judging.suspects import Way, Who
from workbench.engine.judging.verify import Verification
from workbench.engine.leases import Leases, Wish
from workbench.engine.legs.fitting import lack
from workbench.engine.legs.leg import Leg
from workbench.engine.legs.placing import Shared, Waiting, beside, share, size
from workbench.engine.legs.underway import UnderWay
from workbench.engine.loop import ExperimentLoop
from workbench.engine.sharing import Sharing, legs_of, slots_of, wants
from workbench.facts import Reached, RoomAsked
from workbench.messages import FromLeg, Left, Plain
from workbench.store import Store
from workbench.store.owner.promised import Lack, Promise, free_words, waits
from workbench.store.owner.slots import now as utc

#: Seconds after a leg's end until what it leaves to do is looked at: neither the next leg nor the search waits for it.
WAKE_S = 0.02
#: Seconds for which a leg that may take more slots than are free waits for those that are just coming.
GATHER_S = 1.0
#: The most trials of an experiment that does not say how many may train at the same time.
UNLIMITED = 1_000


def _waiting(loop: ExperimentLoop, leg: Leg) -> Waiting:
    if leg.parts == 1:
        return Waiting(leg, loop.legbook.depth, leg.size or loop.size)
    return Waiting(leg, leg.parts, shares=loop.spec.id, goal=loop.shown.share)


class Slots:
    """The slots of a backend, and the experiments that share them."""

    def __init__(
        self,
        store: Store,
        make_backend: Callable[[Sink], Backend],
        loops: Mapping[str, ExperimentLoop],
        book: Book,
        wake: Callable[[], None],
        broke: Callable[[str, BaseException], None],
    ) -> None:
        """loops: the open experiments by id. wake: makes the engine look at what is left to do.

        broke: an experiment's loop raised an error: ends that experiment; the others continue.
        """
        self.backend = make_backend(self)
        self._loops, self._wake, self._broke = loops, wake, broke
        self._waking: asyncio.TimerHandle | None = None
        #: The one timer for all legs that wait for a time: each look at the queue replaces it.
        self._delayed: asyncio.TimerHandle | None = None
        self._under_way = UnderWay()
        self._blamed = Blamed(self.backend, book, self._most_needed)
        #: Legs that wait for a slot, by key, each with its rank: the lowest is the first.
        self._queue: dict[str, tuple[tuple[Any, int], ExperimentLoop, Leg]] = {}
        self._count = itertools.count()
        #: Lines about the cluster, shown for each experiment that trains on it.
        self._notes: list[str] = []
        self.leases = Leases(store.root, self.backend, self._wish, self._leases_changed, self.note)
        self._checks = Checks(self.backend, self._under_way, loops, self.leases.look_soon, broke)
        #: Whether experiments are being recovered: legs that still train take their slots before new legs get one.
        self._is_recovering = False
        #: Legs of an earlier engine, by experiment, trial and attempt, while experiments are recovered.
        self._survivors: dict[tuple[str, int, int], Survivor] = {}
        self._sharing = Sharing()
        #: The machines as of the last look; and why experiments (labels) wait for memory of one, or for slots that are
        #: promised to another experiment of this engine.
        self._machines: Sequence[Plain] = ()
        self.lacks: dict[str, Lack] = {}
        #: The experiment whose leg is the first without a slot, and since when.
        self._first: tuple[str, str] | None = None

    # -- experiments that come and go -------------------------------------------------------------------------------

    @contextlib.contextmanager
    def adopting(self) -> Iterator[None]:
        """Meanwhile experiments adopt their legs that still train; afterwards the others are told to leave."""
        self._survivors = {
            (one.story.experiment, one.story.trial, one.story.attempt): one for one in self.backend.survivors
        }
        self._is_recovering = True
        try:
            yield
        finally:
            self._survivors, self._is_recovering = {}, False
        self.backend.settle(self._under_way.keys)
        self._send_waiting()

    def survivor(self, experiment: str, trial: int, attempt: int) -> Survivor | None:
        """That leg, if an earlier engine started it and it still trains."""
        return self._survivors.get((experiment, trial, attempt))

    def welcome(self, loop: ExperimentLoop) -> None:
        """Tell an experiment that was just opened what is known of the cluster."""
        for words in self._notes:
            loop.shown.say(words)
        if self.leases.lack is not None:
            loop.told_lack(self.leases.lack)

    def part(self, loop: ExperimentLoop, why: str) -> None:
        """Make the legs of ``loop`` leave; it gets no more messages from them."""
        for leg in self._under_way.part(loop):
            leg.stop = why
            self.backend.stop(leg.key, why, None)

    def forget(self, loop: ExperimentLoop) -> None:
        """Forget the legs of an experiment that could not be opened."""
        self._under_way.forget(loop)

    def beat(self) -> None:
        """Called about once a second: share the slots again, and start the checks that are due."""
        self._share()
        self._checks.beat(bool(self._queue))

    def check(self) -> None:
        """Start the checks of resuming for which there are slots."""
        self._checks.start(bool(self._queue))

    def holders(self, slot: Slot) -> list[tuple[str, str, float | None]]:
        """The legs that train in a slot: experiment and trial (labels), and since when (monotonic seconds)."""
        return self._under_way.holders(slot)

    # -- sharing ----------------------------------------------------------------------------------------------------

    def rebalance(self) -> None:
        """Share the slots among the experiments by weight and priority; none gets more than it can use."""
        for loop, count in self._sharing.goals(self.leases.usable, self._going).items():
            # One that lends may order a leg more than it has slots for: so it tells that it needs them again.
            legs = (count // loop.size + self._sharing.lends(loop)) * loop.legbook.depth * loop.legbook.per_slot
            # A slot whose leg was told to leave is given out at once: the next leg waits for it on the worker.
            loop.set_capacity(count, min(legs, loop.most) + loop.legbook.leaving)

    @property
    def _going(self) -> list[ExperimentLoop]:
        return [loop for loop in self._loops.values() if not loop.finished.is_set()]

    def _share(self) -> None:
        """Called about once a second: share the slots again, and make trials leave if others wait for their slots."""
        loops, now = self._going, time.monotonic()
        goals = self._sharing.goals(self.leases.usable, loops)
        self._sharing.look(self.leases.usable, loops, goals, now)
        if len(loops) > 1:
            self.rebalance()
            self._send_waiting()  # a leg of a part of a slot may have waited for its experiment's share
        self._drain()
        waiting = {loop: None for _, loop, leg in self._queue.values() if leg.not_before <= now}
        short = [loop for loop in waiting if loop in goals and slots_of(loop) < goals[loop]]
        other = self.leases.owed_to or (short[0].spec.label if short else None)
        lacking = self.leases.owed + sum(goals[loop] - slots_of(loop) for loop in short)
        # An empty slot is of use to a leg of several slots only: a leg of one would have taken it.
        gathers = any(loop.size > 1 for loop in short)
        leaving = [slot for slot in self._in_use if not self._under_way.staying(slot)]
        coming = sum(bool(slot.legs) or (gathers and slot.is_usable) for slot in leaving)
        ranks = [loop.spec.priority for loop in short] + [self.leases.owed_priority] * (self.leases.owed > 0)
        top = max(ranks, default=0)
        for loop, legs in self._sharing.makes_room(loops, goals, short, lacking - coming, top, now):
            loop.tell(*(RoomAsked(leg.trial, f"made room for {other}") for leg in legs))

    @property
    def _in_use(self) -> list[Slot]:
        return [slot for slot in self.backend.slots if not slot.closed and not self.leases.is_drained(slot)]

    def _drain(self) -> None:
        """Make legs leave the slots that a person took out of use."""
        for hearer, leg in self._under_way:
            gone = next((slot.lease for slot in leg.in_slots if self.leases.is_drained(slot)), None)
            if gone is None or leg.stop is not None:
                continue
            why = f"made room: {gone} is drained"
            if isinstance(hearer, Verification):
                hearer.make_room(why)
            elif isinstance(hearer, ExperimentLoop):
                hearer.tell(RoomAsked(leg.trial, why))

    def _refuse_too_large(self) -> None:
        """Fail experiments whose trials need more slots than the cluster will ever have."""
        most = self.backend.most_slots
        for loop in self._going:
            if self.backend.slots and most is not None and loop.size > most:
                loop.fail(
                    f"--slots {loop.spec.slots_words}: each trial needs {loop.size} slots at once, and this cluster "
                    f"has {most}. Expected at most {most}, or a larger cluster (--cluster ADDRESS)."
                )

    def note(self, words: str) -> None:
        """Show this line for every experiment that trains here, now or later."""
        if words not in self._notes:
            self._notes.append(words)
        for loop in self._loops.values():
            loop.shown.say(words)

    def _wish(self) -> Wish:
        loops = [loop for loop in self._going if wants(loop)]
        return Wish(
            self._wanting(),
            sum(loop.spec.weight for loop in loops) or 1.0,
            max((loop.spec.priority for loop in loops), default=0),
            max((loop.size for loop in loops), default=1),
            tuple(loop.spec.label for loop in loops),
        )

    def _wanting(self) -> int:
        """How many more slots could be used besides those with legs."""
        checks = sum(loop.verification.size for loop in self._loops.values() if loop.may_check)
        sizes = self._sizes()
        waiting = [(loop, leg) for _, loop, leg in self._queue.values() if leg.key in self._under_way]
        # A leg that died on a worker should get a slot of another worker, although a slot of that worker is held and
        # empty.
        avoided = {leg.avoid for _, leg in waiting}
        unwanted = sum(slot.is_usable and not slot.legs and slot.worker in avoided for slot in self.backend.slots)
        held_back = sum(loop.size for loop in self._going if wants(loop) and not legs_of(loop))
        return checks + sum(sizes.get(leg.key, loop.size) for loop, leg in waiting) + unwanted + held_back

    def _leases_changed(self) -> None:
        self.rebalance()
        self._send_waiting()
        self._tell_lacks()
        self._wake()

    def _tell_lacks(self) -> None:
        for loop in self._loops.values():
            found = self.lacks.get(loop.spec.label)
            loop.told_lack(self.leases.lack if found is None else found.why)

    def saw(self, machines: Sequence[Plain]) -> None:
        """The machines were looked at."""
        self._machines = machines
        if self._queue:
            self._send_waiting()

    def dispatch(self, loop: ExperimentLoop, leg: Leg) -> None:
        """Start ``leg`` in the slot with the fewest legs, or keep it until there is one."""
        self._under_way.add(loop, leg)
        self._queue[leg.key] = ((loop.search.order(leg.trial), next(self._count)), loop, leg)
        self._send_waiting()

    def adopt(self, loop: ExperimentLoop, leg: Leg, survivor: Survivor) -> None:
        """Adopt a leg that an earlier engine ordered, and handle the messages it has sent since."""
        leg.slot, leg.mates = survivor.slot, survivor.mates
        leg.there = beside(self.backend.slots, survivor.slot)
        self._under_way.add(loop, leg)
        for message in survivor.story.messages:
            self.heard(leg.key, message)

    def _send_waiting(self) -> None:
        if self._is_recovering:
            return
        clock, found = time.monotonic(), Shared()
        self._queue = {key: entry for key, entry in self._queue.items() if key in self._under_way}
        while self._queue:
            found = self._shared(clock)
            for one, slots in found.placements:
                _, loop, leg = self._queue.pop(one.leg.key)
                if leg.key in self._under_way:  # otherwise its experiment has just failed
                    self._start(loop, leg, slots)
            if found.blocked is None or not self._checks.make_room():
                break
        if found.blocked is not None:
            self.leases.look_soon()
        before, self.lacks = self.lacks, {}
        for one, why in found.lacking:
            self.lacks.setdefault(self._queue[one.leg.key][1].spec.label, Lack(why))
        self._promise(found)
        if self.lacks != before:
            self._tell_lacks()
        if self._delayed is not None:
            self._delayed.cancel()
        if found.later:
            delay = min(max(one.leg.not_before, one.until) for one in found.later) - clock + 0.001
            self._delayed = asyncio.get_running_loop().call_later(delay, self._send_waiting)

    def _promise(self, found: Shared) -> None:
        """Say that empty slots are kept for the first leg without enough of them, and which experiments wait behind
        it."""
        first = None if found.blocked is None else self._queue[found.blocked.leg.key][1]
        if first is None:
            self._first = None
            return
        if self._first is None or self._first[0] != first.spec.id:
            self._first = (first.spec.id, utc())
        free = sum(slot.is_usable and not slot.legs for slot in self.backend.slots)
        if not free or first.size == 1:
            return
        promise = Promise(free, experiment=first.spec.label, since=self._first[1])
        for _, loop, leg in self._queue.values():
            if leg.not_before <= time.monotonic():
                kept = () if loop is first else (promise,)
                why = f"{waits(loop.size)}: {free_words(free, kept)}"
                self.lacks.setdefault(loop.spec.label, Lack(why, kept))

    @property
    def divided(self) -> dict[str, tuple[int, str]]:
        """How many trials share a slot, and why, by the label of the experiments that measure it."""
        found = {loop.spec.label: loop.legbook.divided for loop in self._going}
        return {label: one for label, one in found.items() if one is not None}

    def _shared(self, clock: float) -> Shared:
        """Which waiting legs may start now, and where."""
        ranks = self._ranks()
        queue = sorted(self._queue.values(), key=lambda entry: (ranks.get(entry[1].spec.id, 0), entry[0]))
        sizes, waiting = self._sizes(), []
        for _, loop, leg in queue:
            one = _waiting(loop, leg)
            if leg.key in sizes:
                leg.sought = leg.sought or clock
                until = leg.sought + GATHER_S if self._gathers(leg) else 0.0
                one = replace(one, most=sizes[leg.key], until=until)
            waiting.append(one)
        alone = {slot.worker for _, leg in self._under_way if leg.alone for slot in leg.in_slots}
        legs = self._under_way
        return share(self.backend.slots, waiting, legs.staying, alone, self._may_come, clock, legs.divided, self._lack)

    def _ranks(self) -> dict[str, int]:
        """The order in which experiments whose legs wait get slots; empty if only one waits."""
        if len({loop.spec.id for _, loop, _ in self._queue.values()}) < 2:
            return {}
        loops = self._going
        return self._sharing.ranks(loops, self._sharing.goals(self.leases.usable, loops))

    def _lack(self, leg: Leg, slot: Slot, given: Mapping[Slot, int]) -> str:
        """Why ``slot`` lacks memory for ``leg``."""
        seen = next((one for one in self._machines if slot.worker in one.get("workers", ())), {})
        if not seen:
            return ""
        needs = {one: hearer.legbook.need for hearer, one in self._under_way if isinstance(hearer, ExperimentLoop)}
        there = [one for one in needs if one.slot is not None and one.slot.worker in seen["workers"]]
        new = sum(count for one, count in given.items() if one.worker in seen["workers"])
        need = needs.get(leg)
        taken = sum(found.memory for one in there if (found := needs[one]) is not None)
        beside = sum(one.slot is slot for one in there) + given.get(slot, 0)
        return lack(need, seen, slot.worker, slot.lease, beside, taken + new * (need.memory if need else 0))

    def _start(self, loop: ExperimentLoop, leg: Leg, slots: list[Slot]) -> None:
        leg.slot, leg.mates = slots[0], slots[1:]
        leg.there = beside(self.backend.slots, slots[0])
        leg.slots = len(slots) if leg.alone else min(leg.there * leg.parts, self._most_at_once())
        # Unique, and higher for higher rungs: Dask runs tasks of equal priority last-in-first-out.
        priority = -loop.search.order(leg.trial)[0] * 1_000_000 - next(self._count)
        try:
            self.backend.start(loop.message(leg), slots, priority)
            loop.hearing.started(leg)
        except Exception as error:
            self._broke(loop.spec.id, error)

    def _sizes(self) -> dict[str, int]:
        """How many slots waiting legs may take, by key, where that is not one number."""
        found: dict[str, int] = {}
        waiting: dict[ExperimentLoop, list[Leg]] = {}
        for _, loop, leg in sorted(self._queue.values(), key=lambda entry: entry[0]):
            if loop.largest > loop.size:
                waiting.setdefault(loop, []).append(leg)
        goals = self._sharing.goals(self.leases.usable, self._going) if waiting else {}
        for loop, legs in waiting.items():
            room = goals.get(loop, 0) - slots_of(loop)
            # A leg that has just left, of which the search has not heard yet, is followed by another one.
            placed = legs_of(loop) - len(legs)
            count = max(len(legs), len(loop.search.outstanding()) - placed)
            for place, leg in enumerate(legs):
                found[leg.key] = size(room, count - place, loop.size, loop.largest)
                room -= found[leg.key]
        return found

    def _gathers(self, leg: Leg) -> bool:
        """Whether slots are just coming that ``leg`` could take besides those that are free. A leg whose trial has lost
        a slot does not wait for another one."""
        there, most = [slot for slot in self.backend.slots if not slot.closed], self.backend.most_slots
        is_coming = any(slot.names and not slot.lease for slot in there) or len(there) < (most or 0)
        return is_coming and not self.leases.is_short and leg.avoid is None

    def _most_at_once(self) -> int:
        """The most trials of this engine that could train at the same time."""
        going = (loop for loop in self._loops.values() if not loop.finished.is_set())
        each = (
            (loop.spec.parallel or UNLIMITED, loop.legbook.per_slot, loop.search.plan.predicted[0] * loop.size)
            for loop in going
        )
        return sum(min(slots * parts, most) for slots, parts, most in each) or 1

    def _may_come(self, leg: Leg) -> bool:
        """Whether a slot on another worker than the one that ``leg`` died on may be available on request."""
        others = (slot for slot in self.backend.slots if slot.worker != leg.avoid and not slot.closed)
        return not self.leases.is_short and any(slot.names and not slot.lease for slot in others)

    # -- what happens to legs -----------------------------------------------------------------------------------------

    def went_wrong(self, worker: str, who: Who, way: Way) -> None:
        """A leg of ``who`` died on ``worker`` in this way."""
        self._blamed.died(worker, who, way)

    def _most_needed(self) -> int:
        """How many slots a trial of the experiments under way needs at once, at most."""
        return max((loop.size for loop in self._going), default=1)

    def stop_leg(self, leg: Leg, reason: str, keep_s: float | None) -> None:
        """Stop a leg where it trains, or drop it if it waits."""
        if leg.slot is not None:
            self.backend.stop(leg.key, reason, keep_s)
            return
        self._queue.pop(leg.key, None)  # a slot that becomes free before the call below is not for it
        # Not at once: the caller is in the middle of carrying out what its search decided.
        asyncio.get_running_loop().call_soon(self.heard, leg.key, Left(outcome="stopped", reason=reason))

    def go_on(self, loop: ExperimentLoop, reached: Sequence[Reached]) -> None:
        """Tell legs that wait at these levels that they were not stopped there, unless they were."""
        if not loop.spec.scheduler.stops_most:
            return
        for fact in reached:
            leg = loop.legbook.legs.get(fact.trial)
            if leg is not None and leg.slot is not None and leg.stop is None:
                self.backend.go_on(leg.key, fact.step)

    def slots_changed(self) -> None:
        """The backend has other slots now."""
        self._refuse_too_large()
        self._blamed.take_back()
        self.leases.look_soon()  # an earlier engine may have left leases for which this one has no use
        self.rebalance()
        self._send_waiting()

    def heard(self, key: str, message: FromLeg) -> None:
        """Handle a message from the leg of ``key``."""
        found = self._under_way.get(key)
        if found is None:
            return
        loop, leg = found
        if isinstance(message, Left):
            self._under_way.left(key)
            if message.outcome in ("reached", "completed"):
                for slot in leg.in_slots:
                    self._blamed.well(slot.worker)
        try:
            loop.hear(leg, message)
        except Exception as error:
            self._broke(loop.spec.id, error)
        if isinstance(message, Left):
            self._send_waiting()
            if any(slot.giving for slot in leg.in_slots):
                self.leases.look_soon()
            self._wake_soon()

    def _wake_soon(self) -> None:
        """Look at what the end of a leg leaves to do, once for all that end at about the same time."""
        if self._waking is None or self._waking.when() <= asyncio.get_running_loop().time():
            self._waking = asyncio.get_running_loop().call_later(WAKE_S, self._wake)
