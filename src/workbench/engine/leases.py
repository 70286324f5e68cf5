"""The engine's part in sharing slots. Law: legs only start in slots that are leased for them.

The engine asks for slots while legs wait, gives back those that stay empty, and gives one back when it has more than
its share (:mod:`workbench.engine.fair`) and another engine waits: when a leg ends there, or when a trial has made room.
On this machine workers hold the locks (:mod:`workbench.store.owner.slots`); on a cluster given by its address, the
scheduler knows the holders (:mod:`workbench.cluster.arbiter`). So a leg costs nothing extra. Where users share a
machine (:mod:`workbench.store.owner.machine`) or a cluster, its slots are first divided among them
(:mod:`workbench.engine.users`).
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from workbench.cluster.backend import Backend, Slot
from workbench.cluster.medium import Folder, Medium
from workbench.engine.fair import aged, allot, in_turn
from workbench.engine.neighbours import Neighbours, claim_of
from workbench.engine.users import Accounts, divide
from workbench.errors import BadMessage, StoreError
from workbench.store.owner import machine
from workbench.store.owner.promised import Promise, lack, promises
from workbench.store.owner.slots import Claimant

log = logging.getLogger("workbench.engine")

#: Why legs wait for a slot on a cluster whose workers are all gone, or have not come yet.
NO_WORKERS = "waits for a slot: the cluster has no workers"
#: Seconds between looks at waiting engines and free slots, while slots are held or needed.
LOOK_S = 0.1
#: The least number of seconds between two looks: each end of a short leg asks for one.
LEAST_S = 0.02
#: Seconds for which a slot is held at least while another engine waits: handing over costs some ms.
QUANTUM_S = 1.0
#: Seconds for which an empty slot is kept if no engine waits for it.
LINGER_S = 1.0
#: Seconds for which a free slot is left to engines that have waited longer.
PATIENCE_S = 1.0
#: Seconds without a claim after which it is forgotten how many slots an engine had.
FORGET_S = 5.0
#: Seconds between two changes of the text that says which engines hold the slots.
TELL_S = 1.0


@dataclass(frozen=True, slots=True)
class Wish:
    """What an engine's experiments want together.

    more: how many more slots they could use now. weight: the sum of theirs. priority: the highest. unit: the most slots
    that one trial needs. experiments: labels.
    """

    more: int
    weight: float = 1.0
    priority: int = 0
    unit: int = 1
    experiments: tuple[str, ...] = ()


class Leases:
    """The slots of ``backend`` that this engine holds."""

    def __init__(
        self,
        store: Path,
        backend: Backend,
        wishes: Callable[[], Wish],
        changed: Callable[[], None],
        say: Callable[[str], None],
    ) -> None:
        """wishes: what could be used now. changed: called when slots came or went. say: shows this line to the user."""
        self._backend, self._folder = backend, Folder(str(store))
        self._wishes, self._changed, self._say = wishes, changed, say
        self._wake = asyncio.Event()
        #: Since when (monotonic seconds) slots are held, and when a leg was last in them.
        self._taken: dict[Slot, float] = {}
        self._busy: dict[Slot, float] = {}
        self._debt, self._aged = 0.0, 0.0
        self._deferring: float | None = None
        self._told = 0.0
        #: Whether slots were requested and not all were available.
        self.is_short = False
        #: Why legs wait for a slot, in words; None if none waits, or if there are slots and no other engine holds one.
        self.lack: str | None = None
        #: How many of the held slots should go to other engines, once a leg has left them; and to which first.
        self.owed = 0
        self.owed_to: str | None = None
        #: The highest priority of those engines.
        self.owed_priority = 0
        #: The most slots that one trial needs.
        self._unit = 1
        #: Free slots that this engine leaves to others while it waits.
        self._promised: tuple[Promise, ...] = ()
        #: Names of slots that a person took out of use.
        self._drained: frozenset[str] = frozenset()
        #: The folder of the machine's users, if they share its slots, and those slots.
        self._shared: machine.Machine | None = None
        self._known: frozenset[str] = frozenset()
        self._accounts = Accounts()
        #: What was said to the user, so that nothing is said twice.
        self._notes: set[str] = set()

    @property
    def _medium(self) -> Medium:
        """Where this engine's claims are, and those of others."""
        return self._backend.arbiter or self._folder

    def look_soon(self) -> None:
        """Legs need slots, or a slot that is to be given back is empty."""
        self._wake.set()

    @property
    def usable(self) -> int:
        """The slots that count: those held, without those that others are owed, or those that may be available on
        request."""
        there = [slot for slot in self._backend.slots if not slot.closed and not self.is_drained(slot)]
        if not (self.is_short or self.owed):
            return len(there)
        held = sum(bool(slot.lease) or not slot.names for slot in there)
        # More may be owed than are still held: a worker has just died with its slot.
        return max(0, held - self.owed) if self.owed else held + min(self._unit, len(there) - held)

    def is_drained(self, slot: Slot) -> bool:
        """Whether legs should leave this slot, since a person took it out of use."""
        return slot.lease in self._drained

    async def keep(self) -> None:
        """Ask for slots and give them back, until cancelled."""
        try:
            while True:
                self._wake.clear()
                try:
                    await self._look()
                except StoreError as error:
                    self._do_without(error)
                except (OSError, BadMessage) as error:
                    log.warning("the cluster's scheduler does not answer: %r", error)
                looked = time.monotonic()
                if self._medium.mine is None and not any(slot.lease for slot in self._backend.slots):
                    await self._wake.wait()  # for the first leg of a search, which begins at once
                    continue
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._wake.wait(), LOOK_S)
                await asyncio.sleep(max(0.0, looked + LEAST_S - time.monotonic()))
        finally:
            self._claim_no_more()

    def _do_without(self, error: StoreError) -> None:
        """The runtime folder cannot be used: this engine uses all slots, and the user is told."""
        said = f"slots are not shared with your other engines on this machine: {error}"
        log.warning("%s", said)
        self._say(said)
        for slot in self._backend.slots:
            slot.names = ()
        self._claim_no_more()
        self.is_short, self.lack = False, None
        self._changed()

    def _claim_no_more(self) -> None:
        self.owed, self.owed_to, self._promised = 0, None, ()
        self._medium.release()

    async def _look(self) -> None:
        self._look_at_users()
        slots = [slot for slot in self._backend.slots if self._names(slot) and not slot.closed]
        held = [slot for slot in self._backend.slots if slot.lease]
        wish, now = self._wishes(), time.monotonic()
        self._unit = wish.unit
        self._drained, drained_before = self._medium.drained(), self._drained
        self._note(held, now)
        if not (held or (wish.more and slots)):
            self._claim_no_more()
            self._settle(False, slots)
            return
        before = self.owed
        mine = self._claim(slots, wish)
        await self._medium.look()
        others, goals = self._goals(slots, mine, self._medium.others(), now)
        given = self._to_give(held, others, wish.more, goals[mine.name], goals, now)
        for slot in given:
            slot.giving = True  # at once: no leg may start there while its worker is being told
        if given:
            await asyncio.gather(*map(self._release, given))
        idle = sum(slot.is_usable and not slot.legs for slot in slots)
        lacking, took = [slot for slot in slots if not slot.lease], 0
        if wish.more > idle and lacking:
            # Those whose slots may be free come first: there may be fewer of these than this engine lacks.
            taken = {holder.slot for holder in self._medium.holders()} | self._drained
            lacking.sort(key=lambda slot: taken.issuperset(self._names(slot)))
            del lacking[wish.more - idle :]
            took = await self._ask(lacking, taken, others, goals[mine.name], goals, now)
            self._promised = self._promises(slots, others, goals) if len(lacking) > took else ()
        else:
            lacking, self._promised = [], ()
        self._settle(len(lacking) > took, slots)
        self._claim(slots, wish)
        if took or given or self.owed != before or self._drained != drained_before:
            self._changed()

    def _claim(self, slots: Sequence[Slot], wish: Wish) -> Claimant:
        """Say what this engine has and lacks."""
        holds = frozenset(slot.lease for slot in slots if slot.lease)
        unheld = {name for slot in slots if not slot.lease for name in self._names(slot)}
        idle = sum(slot.is_usable and not slot.legs for slot in slots)
        return self._medium.claim(
            sum(bool(slot.lease) for slot in slots),
            unheld - holds if self._shared is not None else unheld,
            lacks=max(0, wish.more - idle),
            slots=len(slots),
            weight=wish.weight,
            priority=wish.priority,
            debt=round(self._debt, 1),
            unit=wish.unit,
            experiments=wish.experiments,
            holds=holds,
            promised=self._promised,
        )

    def _promises(
        self, slots: Sequence[Slot], others: Sequence[Claimant], goals: Mapping[str, int]
    ) -> tuple[Promise, ...]:
        """Free slots that are for engines or users which come before this engine."""
        taken = {holder.slot for holder in self._medium.holders()} | {slot.lease for slot in slots}
        turns = in_turn(map(claim_of, others), goals)
        return promises(
            self._pool(slots) - taken - self._drained, sorted(others, key=lambda one: turns.index(one.name)), goals
        )

    def _goals(
        self, slots: Sequence[Slot], mine: Claimant, others: Sequence[Claimant], now: float
    ) -> tuple[Sequence[Claimant], dict[str, int]]:
        """The other claims that count, and how many slots each claim should have, by name. ``others`` are this user's
        other engines. This engine's debt is brought up to date."""
        # What is said is rounded: the sum of many small changes must not be lost.
        mine = replace(mine, debt=self._debt)
        seconds, self._aged = now - self._aged, now
        if seconds > FORGET_S:
            self._debt, seconds = 0.0, 0.0
        found = self._neighbours(slots, mine, others)
        if found is not None:
            return self._among_users(found, mine, others, seconds)
        claims = [claim_of(one) for one in (mine, *others)]
        names = {name for slot in slots for name in slot.names}.union(*(one.wants for one in others))
        names.update(slot.lease for slot in slots if slot.lease)
        names -= self._drained
        there = max(len(names), sum(one.held for one in claims))
        self._debt = aged(there, claims, seconds)[mine.name]
        return others, allot(there, claims)

    # -- other users --------------------------------------------------------------------------------------------------

    def _neighbours(self, slots: Sequence[Slot], mine: Claimant, others: Sequence[Claimant]) -> Neighbours | None:
        """The other users; None where there are none."""
        if self._shared is not None:
            return Neighbours.of(self._shared, self._pool(slots))
        return None if self._medium.is_local else Neighbours.on_cluster(self._pool(slots), mine, others)

    def _look_at_users(self) -> None:
        """Whether users share the machine, and which slots. The user is told what does not work as expected."""
        self._shared = machine.shared() if self._medium.is_local else None
        self._known = frozenset() if self._shared is None else self._shared.slots
        words = machine.trouble() if self._medium.is_local else None
        if words is not None:
            self._note_once(f"the slots of this machine are not shared with other users: {words}")
        elif self._shared is not None:
            slots = [slot for slot in self._backend.slots if slot.names]
            names = self._pool(slots)
            lost = sorted({name for slot in slots for name in slot.names} - self._known)
            if lost and len(slots) > len(names):
                self._note_once(
                    f"users share the slots of this machine that are in {self._shared.place}, so at most {len(names)} "
                    f"of {len(slots)} workers train at once: {', '.join(lost)} {'is' if len(lost) == 1 else 'are'} not "
                    f"there. If the machine has more slots, an administrator can add them: `workbench share-machine "
                    f"{self._shared.place}`."
                )

    def _note_once(self, words: str) -> None:
        if words not in self._notes:
            self._notes.add(words)
            log.warning("%s", words)
            self._say(words)

    def _names(self, slot: Slot) -> Collection[str]:
        """The machine's slots of which the worker of ``slot`` must hold one."""
        return slot.names if self._shared is None else [name for name in slot.names if name in self._known]

    def _pool(self, slots: Iterable[Slot]) -> set[str]:
        """The names of all slots that these workers can use."""
        return {name for slot in slots for name in self._names(slot)}

    def _among_users(
        self, found: Neighbours, mine: Claimant, engines: Sequence[Claimant], seconds: float
    ) -> tuple[Sequence[Claimant], dict[str, int]]:
        """:meth:`_goals` where users share the slots."""
        engines = [one for one in engines if one.owner == mine.owner and (one.wants | one.holds) & found.slots]
        claims = [claim_of(one) for one in (mine, *engines)]
        held = found.mine.union(mine.holds & found.slots, *(one.holds & found.slots for one in engines))
        me = found.me(claims, len(held))
        users = (me, *found.users)
        there = max(len(found.slots - self._drained - found.unknown), sum(one.held for one in users))
        self._accounts.age(there, users, seconds)
        goals = divide(there, self._accounts.known(users), me.name, claims)
        self._debt = aged(goals[me.name], claims, seconds)[mine.name]
        return [*engines, *found.others], goals

    def _note(self, held: Sequence[Slot], now: float) -> None:
        """Update the times of held slots, and drop those of others."""
        self._taken = {slot: self._taken.get(slot, now) for slot in held}
        self._busy = {slot: now if slot.legs else self._busy.get(slot, now) for slot in held}

    # -- giving -------------------------------------------------------------------------------------------------------

    def _to_give(
        self,
        held: Sequence[Slot],
        others: Sequence[Claimant],
        wants: int,
        goal: int,
        goals: Mapping[str, int],
        now: float,
    ) -> list[Slot]:
        """The slots to release now, to have ``goal`` of them. If engines are owed slots, no leg starts in those that
        they could use until enough of them are empty."""
        empty = [slot for slot in held if not slot.legs]
        found = [slot for slot in empty if slot.closed or self.is_drained(slot)]
        spare = [slot for slot in empty if slot not in found][wants:]
        found += [slot for slot in spare if self._is_left(slot, others, now)]
        staying = [slot for slot in held if slot not in found and not slot.closed]
        ripe = [slot for slot in staying if now - self._taken[slot] > QUANTUM_S]
        unmet: set[Slot] = set()
        self.owed, self.owed_to = 0, None
        for other, may in gifts(len(staying) - goal, ripe, others, goals):
            gift = next((slot for slot in may if not slot.legs and slot not in found), None)
            if gift is None:
                unmet.update(may)
                self.owed_priority = max(other.priority, self.owed_priority) if self.owed else other.priority
                self.owed, self.owed_to = self.owed + 1, self.owed_to or str(other)
            else:
                found.append(gift)
        for slot in staying:
            slot.giving = slot in unmet or self.is_drained(slot)
        return found

    def _is_left(self, slot: Slot, others: Sequence[Claimant], now: float) -> bool:
        """Whether an empty slot that no leg needs is given back now."""
        return now - self._busy[slot] > LINGER_S or any(other.lacks and slot.lease in other.wants for other in others)

    async def _release(self, slot: Slot) -> None:
        with contextlib.suppress(OSError):  # its worker is gone, and so is the lock
            await self._backend.release(slot)
        slot.lease, slot.giving = "", False

    # -- asking -------------------------------------------------------------------------------------------------------

    async def _ask(
        self,
        lacking: Sequence[Slot],
        taken: Collection[str],
        others: Sequence[Claimant],
        goal: int,
        goals: Mapping[str, int],
        now: float,
    ) -> int:
        """Ask for these slots as far as some are free and this engine should have them, up to ``goal``. Returns how
        many it got. taken: the names of those that are not free."""
        free = self._pool(lacking).difference(taken)
        ahead = sum(max(0, min(goals[other.name] - other.held, other.lacks)) for other in others if other.wants & free)
        held = sum(bool(slot.lease) for slot in self._backend.slots)
        count = min(len(free), max(goal - held, len(free) - ahead))
        if count > 0 or not free:
            self._deferring = None
        elif self._deferring is None:
            self._deferring = now
        elif now - self._deferring > PATIENCE_S:
            count = 1  # the engine whose turn it is does not take it
        asked = lacking[: max(0, count)]
        answers = await asyncio.gather(*map(self._lease, asked))
        return sum(answers)

    async def _lease(self, slot: Slot) -> bool:
        try:
            slot.lease = await self._backend.lease(slot) or ""
        except OSError:  # its worker is just leaving
            return False
        if slot.lease:
            self._taken[slot] = self._busy[slot] = time.monotonic()
            self._medium.again()
        return bool(slot.lease)

    def _settle(self, is_short: bool, slots: Sequence[Slot]) -> None:
        """Tell the experiments whether slots are lacking, and why."""
        now, words = time.monotonic(), None
        if not is_short:
            self._deferring = None
            # On a machine of its own, workers that are gone are started again at once.
            if self._backend.arbiter is not None and not self._backend.slots:
                words = NO_WORKERS
        else:
            if self.lack is not None and now - self._told < TELL_S:
                return
            ours = {slot.lease for slot in slots if slot.lease}
            words = lack(
                self._medium.holders(), self._pool(slots), ours, self._drained, self._unit, len(ours), self._promised
            )
        if words != self.lack or is_short != self.is_short:
            self.lack, self.is_short, self._told = words, is_short, now
            self._changed()


def gifts(
    over: int, ripe: Sequence[Slot], others: Iterable[Claimant], goals: Mapping[str, int]
) -> list[tuple[Claimant, list[Slot]]]:
    """Who is owed one of ``over`` slots that an engine has beyond its share, with the slots that each can use.

    Owed are engines that lack slots and have fewer than their goals, one for each slot that they have too few.
    """
    found: list[tuple[Claimant, list[Slot]]] = []
    for other in others:
        may = [slot for slot in ripe if slot.lease in other.wants]
        for _ in range(min(other.lacks, goals[other.name] - other.held)):
            if len(found) < over and len(may) > len(found):
                found.append((other, may))
    return found
