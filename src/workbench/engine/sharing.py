"""How an engine divides its slots among its experiments, and which trial makes room. Law: it decides; others act."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import TypeAlias

from workbench.cluster.backend import Slot
from workbench.engine.fair import Claim, aged, allot
from workbench.engine.legs.leg import Leg
from workbench.engine.loop import ExperimentLoop

#: Seconds for which an experiment keeps more slots than it should have while others wait: legs often end by themselves.
PATIENCE_S = 10.0
#: The same as a multiple of its usual set-up, which a trial that makes room pays again.
PATIENCE_SETUPS = 10
#: Looks, about a second apart, at which an experiment had fewer legs than it may have until it lends the difference.
LOOKS_IDLE = 2
#: The longest time between two looks that counts: a machine that slept owes nothing for it.
LONGEST_S = 5.0

Goals: TypeAlias = Mapping[ExperimentLoop, int]


class Sharing:
    """The shares of the experiments of one engine."""

    def __init__(self) -> None:
        self._debts: dict[str, float] = {}
        #: For how many looks each had fewer legs than it may have: it waits for a rung to be full, for example. And how
        #: many legs it had then.
        self._idle: Counter[str] = Counter()
        self._idle_legs: dict[str, int] = {}
        #: Since when (monotonic seconds) each has had more slots than it should have while others wait.
        self._over: dict[str, float] = {}
        self._looked: float | None = None

    def goals(self, slots: int, loops: Sequence[ExperimentLoop]) -> dict[ExperimentLoop, int]:
        """How many of ``slots`` each of these experiments should have now. Earlier ones come first."""
        found = allot(slots, self._claims(loops))
        return {loop: found[loop.spec.id] for loop in loops}

    def lends(self, loop: ExperimentLoop) -> bool:
        """Whether it leaves a part of its share to others, since it has no leg to run there."""
        name = loop.spec.id
        return self._idle[name] >= LOOKS_IDLE and legs_of(loop) <= self._idle_legs[name]

    def look(self, slots: int, loops: Sequence[ExperimentLoop], goals: Goals, now: float) -> None:
        """Called about once a second: note who has more than its share, and who does not use it."""
        seconds = 0.0 if self._looked is None else min(now - self._looked, LONGEST_S)
        self._looked = now
        self._debts = aged(slots, self._claims(loops), seconds)
        for loop in loops:
            name = loop.spec.id
            if self.lends(loop):  # its goal is what it uses
                is_idle = len(loops) > 1
            else:
                self._idle[name] = min(self._idle[name], LOOKS_IDLE - 1)
                is_idle = legs_of(loop) < min(goals[loop] // loop.size, loop.most) and len(loops) > 1
            self._idle[name] = self._idle[name] + 1 if is_idle else 0
            self._idle_legs[name] = legs_of(loop)

    def makes_room(
        self, loops: Iterable[ExperimentLoop], goals: Goals, waits: bool, now: float
    ) -> tuple[ExperimentLoop, list[Leg]] | None:
        """The legs that should save and leave now, and their experiment; None if none should. They are one, or all that
        have parts of one slot.

        waits: whether another experiment or engine waits for a slot that it should have.
        """
        over = {loop.spec.id: loop for loop in loops if waits and slots_of(loop) > goals[loop]}
        self._over = {name: self._over.get(name, now) for name in over}
        ripe = [
            loop for name, loop in over.items()
            if now - self._over[name] >= max(PATIENCE_S, PATIENCE_SETUPS * loop.legbook.setup_s)
        ]  # fmt: skip
        for loop in sorted(ripe, key=lambda loop: goals[loop] - slots_of(loop)):
            found = least_valued(loop)
            if found:
                return loop, found
        return None

    def _claims(self, loops: Iterable[ExperimentLoop]) -> list[Claim]:
        return [
            Claim(
                name=loop.spec.id,
                held=slots_of(loop),
                most=useful(loop, legs_of(loop)) if self.lends(loop) else max(useful(loop, loop.most), slots_of(loop)),
                weight=loop.spec.weight,
                priority=loop.spec.priority,
                debt=self._debts.get(loop.spec.id, 0.0),
                since=f"{place:09}",
                unit=loop.size,
                is_loose=loop.largest > loop.size,
            )
            for place, loop in enumerate(loops)
        ]


def legs_of(loop: ExperimentLoop) -> int:
    """How many legs of the experiment are under way and not leaving, those that wait for a slot included."""
    return sum(leg.stop is None for leg in loop.legbook.legs.values())


def useful(loop: ExperimentLoop, legs: int) -> int:
    """In how many slots so many legs of the experiment could train."""
    if loop.legbook.per_slot > 1:
        return -(-legs // loop.legbook.per_slot)
    # While the first trial is tried alone it takes no more than it needs: the others follow when it has reported.
    size = loop.largest if loop.legbook.probed or loop.search.plan.predicted[0] <= 1 else loop.size
    return legs * size if size == loop.size else min(legs * size, loop.spec.parallel or legs * size)


def slots_of(loop: ExperimentLoop) -> int:
    """In how many slots the experiment trains and is not leaving."""
    return len({id(slot) for leg in loop.legbook.legs.values() if leg.stop is None for slot in leg.in_slots})


def least_valued(loop: ExperimentLoop) -> list[Leg]:
    """The leg whose trial the search values least: of the lowest rung, without a value or with the worst one. Where
    trials have parts of slots, those of the slot with the fewest of them, whose best is worth least.

    A leg that still sets up is not interrupted: it would have to do that again.
    """
    slots: dict[Slot, list[Leg]] = {}
    for leg in loop.legbook.legs.values():
        if leg.slot is not None and leg.stop is None:
            slots.setdefault(leg.slot, []).append(leg)
    each: list[list[Leg]] = []
    for legs in slots.values():
        if all(leg.parts == 1 for leg in legs):
            each += [[leg] for leg in legs if leg.began is not None]
        elif all(leg.began is not None for leg in legs):
            each.append(legs)

    def value(leg: Leg) -> tuple[int, bool, float, int]:
        rung, newest = loop.search.order(leg.trial)[0], leg.goal[1] if leg.goal else None
        worse = 0.0 if newest is None else newest if loop.spec.goal.mode == "min" else -newest
        return rung, newest is None, worse, leg.trial

    return max(each, key=lambda legs: (-len(legs), min(map(value, legs))), default=[])
