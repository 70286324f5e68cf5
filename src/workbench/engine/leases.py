"""The engine's part in sharing this machine's slots. Law: legs only start in slots whose lock their worker holds.

The engine asks for slots while legs wait, gives back those that stay empty, and gives one back when a leg ends there
and an engine with fewer slots waits. Workers hold the locks (:mod:`workbench.store.owner.slots`), so a leg costs
nothing extra.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from workbench.cluster.backend import Backend, Slot
from workbench.errors import StoreError
from workbench.store.owner.slots import Holder, Waiter, Waiting, holders, waiters

log = logging.getLogger("workbench.engine")

#: Seconds between looks at waiting engines and free slots, while slots are held or needed.
LOOK_S = 0.1
#: The least number of seconds between two looks: each end of a short leg asks for one.
LEAST_S = 0.02
#: Seconds for which a slot is held at least while an engine with fewer slots waits: handing over costs some ms.
QUANTUM_S = 1.0
#: Seconds for which an empty slot is kept if no engine waits for it.
LINGER_S = 1.0
#: Seconds for which a free slot is left to engines that have waited longer.
PATIENCE_S = 1.0
#: Seconds between two changes of the text that says which engines hold the slots.
TELL_S = 1.0


class Leases:
    """The slots of ``backend`` that this engine holds."""

    def __init__(
        self,
        store: Path,
        backend: Backend,
        wants: Callable[[], int],
        changed: Callable[[], None],
        say: Callable[[str], None],
    ) -> None:
        """wants: how many legs wait for a slot. changed: called when slots came or went. say: shows this line to the
        user."""
        self._store, self._backend = str(store), backend
        self._wants, self._changed, self._say = wants, changed, say
        self._wake = asyncio.Event()
        self._mark: Waiting | None = None
        #: Since when (monotonic seconds) slots are held, and when a leg was last in them.
        self._taken: dict[Slot, float] = {}
        self._busy: dict[Slot, float] = {}
        #: How many slots a waiting engine had when one was given to it, and when: it gets no other until that one has
        #: arrived.
        self._gave: dict[str, tuple[int, float]] = {}
        self._deferring: float | None = None
        self._told = 0.0
        #: Whether slots were requested and not all were available.
        self.is_short = False
        #: Why legs wait for a slot, in words; None if none waits, or if no other engine holds one.
        self.lack: str | None = None

    def look_soon(self) -> None:
        """Legs need slots, or a slot that is to be given back is empty."""
        self._wake.set()

    @property
    def usable(self) -> int:
        """The slots that count: those held, and those that may be available on request."""
        there = [slot for slot in self._backend.slots if not slot.closed]
        if not self.is_short:
            return len(there)
        held = sum(slot.is_usable for slot in there)
        return held + (held < len(there))

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
            self._wait_no_more()

    def _do_without(self, error: StoreError) -> None:
        """The runtime folder cannot be used: this engine uses all slots, and the user is told."""
        said = f"slots are not shared with your other engines on this machine: {error}"
        log.warning("%s", said)
        self._say(said)
        for slot in self._backend.slots:
            slot.names = ()
        self._wait_no_more()
        self.is_short, self.lack = False, None
        self._changed()

    def _wait_no_more(self) -> None:
        if self._mark is not None:
            self._mark.release()
            self._mark = None

    async def _look(self) -> None:
        slots = [slot for slot in self._backend.slots if slot.names and not slot.closed]
        held = [slot for slot in self._backend.slots if slot.lease]
        wants, now = self._wants(), time.monotonic()
        self._note(held, now)
        if not (wants or held):
            self._settle(0, slots)
            return
        others = waiters(self._mark)
        given = self._to_give(held, others, wants, now)
        for slot in given:
            slot.giving = True  # at once: no leg may start there while its worker is being told
        if given:
            await asyncio.gather(*map(self._release, given))
        idle = sum(slot.is_usable and not slot.legs for slot in slots)
        lacking = [slot for slot in slots if not slot.lease][: max(0, wants - idle)]
        took = await self._ask(lacking, others, now) if lacking else 0
        self._settle(len(lacking) - took, slots)
        if took or given:
            self._changed()

    def _note(self, held: Sequence[Slot], now: float) -> None:
        """Update the times of held slots, and drop those of others."""
        self._taken = {slot: self._taken.get(slot, now) for slot in held}
        self._busy = {slot: now if slot.legs else self._busy.get(slot, now) for slot in held}

    # -- giving -------------------------------------------------------------------------------------------------------

    def _to_give(self, held: Sequence[Slot], others: Sequence[Waiter], wants: int, now: float) -> list[Slot]:
        """The slots to release now. If an engine is owed a slot, no leg starts in the slots that it could use until the
        first of them is empty."""
        empty = [slot for slot in held if not slot.legs]
        found = [slot for slot in empty if slot.closed]
        spare = [slot for slot in empty if not slot.closed][wants:]
        found += [slot for slot in spare if self._is_left(slot, others, now)]
        staying = [slot for slot in held if slot not in found and not slot.closed]
        ripe = [slot for slot in staying if now - self._taken[slot] > QUANTUM_S]
        unmet: set[Slot] = set()
        for other, may in gifts(len(staying), ripe, [one for one in others if not self._was_given(one, now)]):
            gift = next((slot for slot in may if not slot.legs and slot not in found), None)
            if gift is None:
                unmet.update(may)
            else:
                found.append(gift)
                self._gave[other.name] = (other.held, now)
        for slot in staying:
            slot.giving = slot in unmet
        return found

    def _is_left(self, slot: Slot, others: Sequence[Waiter], now: float) -> bool:
        """Whether an empty slot that no leg needs is given back now."""
        return now - self._busy[slot] > LINGER_S or any(slot.lease in other.wants for other in others)

    def _was_given(self, other: Waiter, now: float) -> bool:
        """Whether a slot is on its way to ``other``."""
        had, at = self._gave.get(other.name, (-1, 0.0))
        return had == other.held and now - at < 2 * QUANTUM_S

    async def _release(self, slot: Slot) -> None:
        with contextlib.suppress(OSError):  # its worker is gone, and so is the lock
            await self._backend.release(slot)
        slot.lease, slot.giving = "", False

    # -- asking -------------------------------------------------------------------------------------------------------

    async def _ask(self, lacking: Sequence[Slot], others: Sequence[Waiter], now: float) -> int:
        """Ask for these slots as far as some are free and it is this engine's turn. Returns how many it got."""
        taken = {holder.slot for holder in holders()}
        free = {name for slot in lacking for name in slot.names} - taken
        mine = self._standing()
        ahead = sum((other.held, other.since) < mine and not free.isdisjoint(other.wants) for other in others)
        count = len(free) - ahead
        if count > 0 or not free:
            self._deferring = None
        elif self._deferring is None:
            self._deferring = now
        elif now - self._deferring > PATIENCE_S:
            count = 1  # the engine whose turn it is does not take it
        asked = lacking[: max(0, count)]
        answers = await asyncio.gather(*map(self._lease, asked))
        return sum(answers)

    def _standing(self) -> tuple[int, str]:
        held = sum(bool(slot.lease) for slot in self._backend.slots)
        return (held, self._mark.since if self._mark is not None else "~")

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

    def _settle(self, lacks: int, slots: Sequence[Slot]) -> None:
        """Announce that this engine waits for ``lacks`` slots, or that it does not wait."""
        now = time.monotonic()
        if not lacks:
            self._wait_no_more()
            self._deferring = None
            words = None
        else:
            if self._mark is None:
                self._mark = Waiting(self._store)
            unheld = {name for slot in slots if not slot.lease for name in slot.names}
            self._mark.tell(sum(bool(slot.lease) for slot in slots), unheld)
            if self.lack is not None and now - self._told < TELL_S:
                return
            ours = {slot.lease for slot in slots if slot.lease}
            words = lack(holders(), {name for slot in slots for name in slot.names}, ours)
        if words != self.lack or bool(lacks) != self.is_short:
            self.lack, self.is_short, self._told = words, bool(lacks), now
            self._changed()


def gifts(held: int, ripe: Sequence[Slot], others: Iterable[Waiter]) -> list[tuple[Waiter, list[Slot]]]:
    """The waiting engines that are owed one of ``held`` slots, with the slots that each can use: one for each engine
    with fewer.

    A single slot changes hands; between two engines with equally many nothing does.
    """
    found: list[tuple[Waiter, list[Slot]]] = []
    for other in others:
        may = [slot for slot in ripe if slot.lease in other.wants]
        if other.held < held and len(may) > len(found):
            held -= 1
            found.append((other, may))
    return found


def lack(held: Iterable[Holder], names: set[str], ours: set[str]) -> str:
    """Why none of the slots ``names`` is free, this engine's own left out."""
    others = Counter(str(holder) for holder in held if holder.slot in names - ours)
    total, count = len(names), sum(others.values())
    if not count:
        return "waits for a slot"
    if len(others) == 1:
        return f"waits for a slot: {count} of {total} {'is' if count == 1 else 'are'} held by {next(iter(others))}"
    each = ", ".join(f"{count} by {who}" for who, count in others.items())
    return f"waits for a slot: {count} of {total} are held, {each}"
