"""Which leg trains in which slot. Law: pure; slots and legs in, placements out.

A leg that needs a machine to itself gets it, and keeps other legs off it. No leg overtakes one that waits for a slot:
the waiting leg has the higher rung.
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from workbench.cluster.backend import Slot
from workbench.engine.legs.leg import Leg


@dataclass(frozen=True, slots=True)
class Waiting:
    """A leg that needs a slot. depth: how many legs, including this one, its experiment may have in a slot."""

    leg: Leg
    depth: int


@dataclass(slots=True)
class Shared:
    """Which legs start where, in order.

    later: legs whose delay has not passed. blocked: the first leg without a slot; it and all behind it wait.
    """

    placements: list[tuple[Waiting, Slot]] = field(default_factory=list)
    later: list[Waiting] = field(default_factory=list)
    blocked: Waiting | None = None


def share(
    slots: Sequence[Slot],
    waiting: Iterable[Waiting],
    staying: Callable[[Slot], int],
    alone: Iterable[str],
    may_come: Callable[[Leg], bool],
    now: float,
) -> Shared:
    """Give each leg, in this order, the slot with the fewest legs; among those, the one where its trial waits.

    staying: how many legs of a slot were not told to leave it. alone: workers whose machines are reserved for one leg.
    may_come: whether a slot on another worker than ``leg.avoid`` may become available on request. now: monotonic
    seconds.
    """
    found = Shared()
    given: Counter[Slot] = Counter()
    kept = set(alone)
    for one in waiting:
        if one.leg.not_before > now:
            found.later.append(one)
            continue
        slot = _slot(slots, one, lambda slot: staying(slot) + given[slot], kept, given, may_come)
        if slot is None:
            found.blocked = one
            break
        found.placements.append((one, slot))
        given[slot] += 1
        if one.leg.alone:
            kept.add(slot.worker)
    return found


def _slot(
    slots: Sequence[Slot],
    one: Waiting,
    busy: Callable[[Slot], int],
    alone: Iterable[str],
    given: Mapping[Slot, int],
    may_come: Callable[[Leg], bool],
) -> Slot | None:
    free = [slot for slot in fit(slots, one.leg, alone, given) if busy(slot) < one.depth]
    if free and all(slot.worker == one.leg.avoid for slot in free) and may_come(one.leg):
        return None
    return min(
        free,
        key=lambda slot: (slot.worker == one.leg.avoid, busy(slot), slot.worker != one.leg.prefers),
        default=None,
    )


def fit(slots: Iterable[Slot], leg: Leg, alone: Iterable[str], given: Mapping[Slot, int] | None = None) -> list[Slot]:
    """The slots that ``leg`` may use. alone: workers whose machines are reserved for another leg. given: new legs of
    slots, besides those already in them."""
    every = list(slots)
    taken = {machine(worker) for worker in alone}
    if leg.alone:
        taken |= {machine(slot.worker) for slot in every if slot.legs or (given or {}).get(slot)}
    return [slot for slot in every if slot.is_usable and machine(slot.worker) not in taken]


@functools.lru_cache(4096)
def machine(worker: str) -> str:
    """The host in a worker's address: ``10.0.0.5`` of ``tls://10.0.0.5:40123``."""
    return worker.partition("://")[2].rpartition(":")[0] or worker


def beside(slots: Iterable[Slot], slot: Slot) -> int:
    """How many of ``slots`` are on the machine of ``slot``, which counts itself."""
    host = machine(slot.worker)
    return max(1, sum(machine(one.worker) == host and not one.closed for one in slots))
