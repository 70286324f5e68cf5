"""Which leg trains in which slot. Law: pure; slots and legs in, placements out.

A leg that needs a machine to itself gets it, and keeps other legs off it. A leg of several slots gets all of them or
none, on one machine where one has enough; one that may take more takes what is free, even if it is on several. No leg
overtakes one that waits for a slot: the waiting leg has the higher rung.

Legs of a part of a slot share it with others of their experiment only, so that a slot belongs to one experiment at a
time. They are spread over as many slots as their experiment should have. Where it has more than that, new ones join the
fullest, so that the others become free. One that only waits for others of its experiment holds up no leg behind it, and
one that finds a part in a slot of its experiment takes no slot from a leg before it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from workbench.cluster.address import machine
from workbench.cluster.backend import Slot
from workbench.engine.legs.leg import Leg


@dataclass(frozen=True, slots=True)
class Waiting:
    """A leg that needs slots: so many. depth: how many legs, including this one, its experiment may have in a slot.

    most: it takes up to so many. until: the time (monotonic seconds) until which it waits for them, if more slots come.
    shares: the experiment with whose other legs it shares a slot, each in a part of it; empty: with none. goal: how
    many slots that experiment should have.
    """

    leg: Leg
    depth: int
    slots: int = 1
    most: int = 1
    until: float = 0.0
    shares: str = ""
    goal: int = 0


@dataclass(slots=True)
class Shared:
    """Which legs start where, in order.

    later: legs whose delay has not passed. blocked: the first leg without a slot; it waits, and all behind it that need
    one.
    """

    placements: list[tuple[Waiting, list[Slot]]] = field(default_factory=list)
    later: list[Waiting] = field(default_factory=list)
    blocked: Waiting | None = None
    #: Legs for which there is a slot, but not its memory, with the reason. They hold up no leg behind them.
    lacking: list[tuple[Waiting, str]] = field(default_factory=list)


def size(room: int, legs: int, least: int, most: int) -> int:
    """On how many slots the first of some legs trains, where that may be ``least`` to ``most``.

    More trials at the least size come before fewer at larger ones: a rank more costs each step an exchange of
    gradients, a trial more does not. So a leg takes more only where there are fewer legs than the share could hold.

    room: the slots of its experiment's share in which none of its legs trains. legs: how many of them could start now,
    this one counted. What does not divide goes to those that come first.
    """
    each = -(-room // max(legs, 1))
    return max(least, min(each, room - least * (legs - 1), most))


def share(
    slots: Sequence[Slot],
    waiting: Iterable[Waiting],
    staying: Callable[[Slot], int],
    alone: Iterable[str],
    may_come: Callable[[Leg], bool],
    now: float,
    divided: Callable[[Slot], str] = lambda slot: "",
    lack: Callable[[Leg, Slot, Mapping[Slot, int]], str] = lambda leg, slot, given: "",
) -> Shared:
    """Give each leg, in this order, the slots with the fewest legs; among those, the one where its trial waits.

    staying: how many legs of a slot were not told to leave it. alone: workers whose machines are reserved for one leg.
    may_come: whether a slot on another worker than ``leg.avoid`` may become available on request. now: monotonic
    seconds. divided: the experiment that has a slot in parts; empty: none has. lack: why a slot lacks memory for a leg,
    beside the legs just given to slots; empty if it does not.
    """
    found = Shared()
    given: Counter[Slot] = Counter()
    parted: dict[Slot, str] = {}
    kept = set(alone)

    def busy(slot: Slot) -> int:
        return staying(slot) + given[slot]

    def owner(slot: Slot) -> str:
        return parted.get(slot) or divided(slot)

    for one in waiting:
        if one.leg.not_before > now:
            if found.blocked is None or one.shares:
                found.later.append(one)
            continue
        may_open = True
        if one.shares:
            own = [slot for slot in slots if not slot.closed and owner(slot) == one.shares]
            may_open = len(own) < one.goal
            may = set(sorted(own, key=busy, reverse=True)[: one.goal])
            if may_open and found.blocked is None:
                may.update(slot for slot in slots if not busy(slot))
        elif found.blocked is None:
            may = {slot for slot in slots if not owner(slot)}
        else:
            continue
        fits = [slot for slot in fit(slots, one.leg, kept, given) if slot in may]
        lacks = {slot: words for slot in fits if (words := lack(one.leg, slot, given))}
        chosen = _chosen([slot for slot in fits if slot not in lacks], one, busy, may_come)
        if not chosen and lacks and (wanted := _chosen(fits, one, busy, may_come)):
            found.lacking.append((one, next(filter(None, map(lacks.get, wanted)))))
            continue
        if chosen and len(chosen) < one.most and now < one.until:
            found.later.append(one)
        elif chosen:
            found.placements.append((one, chosen))
            given.update(chosen)
            parted.update(dict.fromkeys(chosen, one.shares))
            if one.leg.alone:
                kept.update(slot.worker for slot in chosen)
        elif may_open and found.blocked is None:
            found.blocked = one
    return found


def _chosen(
    slots: Iterable[Slot], one: Waiting, busy: Callable[[Slot], int], may_come: Callable[[Leg], bool]
) -> list[Slot]:
    free = [slot for slot in slots if busy(slot) < one.depth]
    if len(free) < one.slots or (all(slot.worker == one.leg.avoid for slot in free) and may_come(one.leg)):
        return []

    def order(slot: Slot) -> tuple[bool, int, bool]:
        is_elsewhere = slot.worker != one.leg.prefers
        # The part of the slot that the trial had there is free: no other leg waits because it goes on there.
        return slot.worker == one.leg.avoid, 0 if one.shares and not is_elsewhere else 1 + busy(slot), is_elsewhere

    free.sort(key=order)
    count = min(len(free), max(one.slots, one.most))
    there = Counter(machine(slot.worker) for slot in free)
    whole = [slot for slot in free if there[machine(slot.worker)] >= count]
    if whole:
        free = [slot for slot in whole if machine(slot.worker) == machine(whole[0].worker)]
    return free[:count]


def fit(slots: Iterable[Slot], leg: Leg, alone: Iterable[str], given: Mapping[Slot, int] | None = None) -> list[Slot]:
    """The slots that ``leg`` may use. alone: workers whose machines are reserved for another leg. given: new legs of
    slots, besides those already in them."""
    every = list(slots)
    taken = {machine(worker) for worker in alone}
    if leg.alone:
        taken |= {machine(slot.worker) for slot in every if slot.legs or (given or {}).get(slot)}
    return [slot for slot in every if slot.is_usable and machine(slot.worker) not in taken]


def beside(slots: Iterable[Slot], slot: Slot) -> int:
    """How many of ``slots`` are on the machine of ``slot``, which counts itself."""
    host = machine(slot.worker)
    return max(1, sum(machine(one.worker) == host and not one.closed for one in slots))
