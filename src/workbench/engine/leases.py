"""The engine's part in sharing this machine's slots. Law: legs only start in slots whose lock their worker holds.

The engine asks for slots while legs wait, gives back those that stay empty, and gives one back when it has more than
its share (:mod:`workbench.engine.fair`) and another engine waits: when a leg ends there, or when a trial has made room.
Workers hold the locks (:mod:`workbench.store.owner.slots`), so a leg costs nothing extra.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from workbench.cluster.backend import Backend, Slot
from workbench.engine.fair import Claim, aged, allot
from workbench.errors import StoreError
from workbench.store.owner.slots import Claimant, Claiming, Holder, claimants, drained, holders

log = logging.getLogger("workbench.engine")

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

    more: how many more slots they could use now. weight: the sum of theirs. priority: the highest. experiments: labels.
    """

    more: int
    weight: float = 1.0
    priority: int = 0
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
        self._store, self._backend = str(store), backend
        self._wishes, self._changed, self._say = wishes, changed, say
        self._wake = asyncio.Event()
        self._mark: Claiming | None = None
        #: Since when (monotonic seconds) slots are held, and when a leg was last in them.
        self._taken: dict[Slot, float] = {}
        self._busy: dict[Slot, float] = {}
        self._debt, self._aged = 0.0, 0.0
        self._deferring: float | None = None
        self._told = 0.0
        #: Whether slots were requested and not all were available.
        self.is_short = False
        #: Why legs wait for a slot, in words; None if none waits, or if no other engine holds one.
        self.lack: str | None = None
        #: How many of the held slots should go to other engines, once a leg has left them; and to which first.
        self.owed = 0
        self.owed_to: str | None = None
        #: Names of slots that a person took out of use.
        self._drained: frozenset[str] = frozenset()

    def look_soon(self) -> None:
        """Legs need slots, or a slot that is to be given back is empty."""
        self._wake.set()

    @property
    def usable(self) -> int:
        """The slots that count: those held, and those that may be available on request."""
        there = [slot for slot in self._backend.slots if not slot.closed and not self.is_drained(slot)]
        if not (self.is_short or self.owed):
            return len(there)
        held = sum(bool(slot.lease) or not slot.names for slot in there) - self.owed
        return held + (self.is_short and held < len(there))

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
                held, looked = any(slot.lease for slot in self._backend.slots), time.monotonic()
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._wake.wait(), LOOK_S if held or self._mark is not None else None)
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
        self.owed, self.owed_to = 0, None
        if self._mark is not None:
            self._mark.release()
            self._mark = None

    async def _look(self) -> None:
        slots = [slot for slot in self._backend.slots if slot.names and not slot.closed]
        held = [slot for slot in self._backend.slots if slot.lease]
        wish, now = self._wishes(), time.monotonic()
        self._drained, drained_before = drained(), self._drained
        self._note(held, now)
        if not (wish.more or held):
            self._claim_no_more()
            self._settle(False, slots)
            return
        others, before = claimants(self._mark), self.owed
        goals = self._goals(slots, others, wish, now)
        given = self._to_give(held, others, wish.more, goals, now)
        for slot in given:
            slot.giving = True  # at once: no leg may start there while its worker is being told
        if given:
            await asyncio.gather(*map(self._release, given))
        idle = sum(slot.is_usable and not slot.legs for slot in slots)
        lacking = [slot for slot in slots if not slot.lease][: max(0, wish.more - idle)]
        took = await self._ask(lacking, others, goals, now) if lacking else 0
        self._settle(len(lacking) > took, slots)
        self._claim(slots, wish)
        if took or given or self.owed != before or self._drained != drained_before:
            self._changed()

    def _claim(self, slots: Sequence[Slot], wish: Wish) -> Claimant:
        """Say what this engine has and lacks."""
        if self._mark is None:
            self._mark = Claiming(self._store)
        unheld = {name for slot in slots if not slot.lease for name in slot.names}
        idle = sum(slot.is_usable and not slot.legs for slot in slots)
        return self._mark.tell(
            sum(bool(slot.lease) for slot in slots),
            unheld,
            lacks=max(0, wish.more - idle),
            slots=len(slots),
            weight=wish.weight,
            priority=wish.priority,
            debt=round(self._debt, 1),
            experiments=wish.experiments,
        )

    def _goals(self, slots: Sequence[Slot], others: Sequence[Claimant], wish: Wish, now: float) -> dict[str, int]:
        """How many slots each engine should have, by its claim's name; and this engine's debt is brought up to date."""
        # What is said is rounded: the sum of many small changes must not be lost.
        mine = replace(self._claim(slots, wish), debt=self._debt)
        claims = [_claimed(one) for one in (mine, *others)]
        names = {name for slot in slots for name in slot.names}.union(*(one.wants for one in others))
        names.update(slot.lease for slot in slots if slot.lease)
        names -= self._drained
        there = max(len(names), sum(one.held for one in claims))
        seconds, self._aged = now - self._aged, now
        if seconds > FORGET_S:
            self._debt, seconds = 0.0, 0.0
        self._debt = aged(there, claims, seconds)[mine.name]
        return allot(there, claims)

    def _note(self, held: Sequence[Slot], now: float) -> None:
        """Update the times of held slots, and drop those of others."""
        self._taken = {slot: self._taken.get(slot, now) for slot in held}
        self._busy = {slot: now if slot.legs else self._busy.get(slot, now) for slot in held}

    # -- giving -------------------------------------------------------------------------------------------------------

    def _to_give(
        self, held: Sequence[Slot], others: Sequence[Claimant], wants: int, goals: Mapping[str, int], now: float
    ) -> list[Slot]:
        """The slots to release now. If engines are owed slots, no leg starts in those that they could use until enough
        of them are empty."""
        assert self._mark is not None
        empty = [slot for slot in held if not slot.legs]
        found = [slot for slot in empty if slot.closed or self.is_drained(slot)]
        spare = [slot for slot in empty if slot not in found][wants:]
        found += [slot for slot in spare if self._is_left(slot, others, now)]
        staying = [slot for slot in held if slot not in found and not slot.closed]
        ripe = [slot for slot in staying if now - self._taken[slot] > QUANTUM_S]
        unmet: set[Slot] = set()
        self.owed, self.owed_to = 0, None
        for other, may in gifts(len(staying) - goals[self._mark.path.name], ripe, others, goals):
            gift = next((slot for slot in may if not slot.legs and slot not in found), None)
            if gift is None:
                unmet.update(may)
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
        self, lacking: Sequence[Slot], others: Sequence[Claimant], goals: Mapping[str, int], now: float
    ) -> int:
        """Ask for these slots as far as some are free and this engine should have them. Returns how many it got."""
        assert self._mark is not None
        taken = {holder.slot for holder in holders()} | self._drained
        free = {name for slot in lacking for name in slot.names} - taken
        ahead = sum(max(0, min(goals[other.name] - other.held, other.lacks)) for other in others if other.wants & free)
        held = sum(bool(slot.lease) for slot in self._backend.slots)
        count = min(len(free), max(goals[self._mark.path.name] - held, len(free) - ahead))
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
            if self._mark is not None:
                self._mark.again()
        return bool(slot.lease)

    def _settle(self, is_short: bool, slots: Sequence[Slot]) -> None:
        """Tell the experiments whether slots are lacking, and why."""
        now, words = time.monotonic(), None
        if not is_short:
            self._deferring = None
        else:
            if self.lack is not None and now - self._told < TELL_S:
                return
            ours = {slot.lease for slot in slots if slot.lease}
            words = lack(holders(), {name for slot in slots for name in slot.names}, ours, self._drained)
        if words != self.lack or is_short != self.is_short:
            self.lack, self.is_short, self._told = words, is_short, now
            self._changed()


def _claimed(one: Claimant) -> Claim:
    most = min(one.held + one.lacks, max(one.slots, one.held))
    return Claim(one.name, one.held, most, one.weight, one.priority, one.debt, one.since)


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


def lack(held: Iterable[Holder], names: set[str], ours: set[str], unused: Collection[str] = ()) -> str:
    """Why none of the slots ``names`` is free, this engine's own left out. unused: names of drained slots."""
    others = Counter(str(holder) for holder in held if holder.slot in names - ours)
    total, count, words = len(names), sum(others.values()), []
    if len(others) == 1:
        words.append(f"{count} of {total} {'is' if count == 1 else 'are'} held by {next(iter(others))}")
    elif others:
        words.append(f"{count} of {total} are held, " + ", ".join(f"{count} by {who}" for who, count in others.items()))
    if out := sorted(names.intersection(unused)):
        words.append(f"{', '.join(out)} {'is' if len(out) == 1 else 'are'} drained")
    return f"waits for a slot: {'; '.join(words)}" if words else "waits for a slot"
