"""How an engine divides its slots among its experiments, and which trial makes room. Law: it decides; others act."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import TypeAlias

from workbench.cluster.backend import Slot
from workbench.engine.fair import Claim, aged, allot, in_turn
from workbench.engine.legs.leg import Leg
from workbench.engine.loop import ExperimentLoop

#: Seconds for which a leg trains at least before it makes room for others of its priority: most legs end by themselves.
PATIENCE_S = 10.0
#: The same for others that have lent the slot for a moment and need it again, and for those of a higher priority.
LENT_S = 2.0
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
        #: Those that had more slots than they should have at the last look: numbers of slots change for moments.
        self._over: frozenset[str] = frozenset()
        #: When each lent something last (monotonic seconds).
        self._lent: dict[str, float] = {}
        self._looked: float | None = None

    def goals(self, slots: int, loops: Sequence[ExperimentLoop]) -> dict[ExperimentLoop, int]:
        """How many of ``slots`` each of these experiments should have now. Earlier ones come first."""
        found = allot(slots, self._claims(loops))
        return {loop: found[loop.spec.id] for loop in loops}

    def ranks(self, loops: Sequence[ExperimentLoop], goals: Goals) -> dict[str, int]:
        """The place of each experiment (its id) in the order in which they get slots that become free."""
        names = in_turn(self._claims(loops), {loop.spec.id: goal for loop, goal in goals.items()})
        return {name: place for place, name in enumerate(names)}

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
                self._lent[name] = now
                is_idle = len(loops) > 1
            else:
                self._idle[name] = min(self._idle[name], LOOKS_IDLE - 1)
                is_idle = legs_of(loop) < min(goals[loop] // loop.size, loop.most) and len(loops) > 1
            self._idle[name] = self._idle[name] + 1 if is_idle else 0
            self._idle_legs[name] = legs_of(loop)

    def makes_room(
        self,
        loops: Iterable[ExperimentLoop],
        goals: Goals,
        short: Iterable[ExperimentLoop],
        lacking: int,
        priority: int,
        now: float,
    ) -> list[tuple[ExperimentLoop, list[Leg]]]:
        """The legs that should save and leave now, each with its experiment. Legs that have parts of one slot are
        together.

        short: the experiments that have fewer slots than they should have and wait. lacking: how many slots these and
        other engines wait for, those not counted that are empty or that a leg is about to leave. priority: the highest
        of those that wait.
        """
        returns = any(now - self._lent.get(loop.spec.id, -PATIENCE_S) < PATIENCE_S for loop in short)
        over = {loop.spec.id: loop for loop in loops if slots_of(loop) > goals[loop]}
        before, self._over = self._over, frozenset(over)
        found = []
        ripe = [loop for name, loop in over.items() if name in before]
        for loop in sorted(ripe, key=lambda loop: goals[loop] - slots_of(loop)):
            least_s = tenure(returns or loop.spec.priority < priority, loop.legbook.setup_s)
            spare = slots_of(loop) - goals[loop]
            for legs in by_value(loop, now - least_s):
                count = len({id(slot) for leg in legs for slot in leg.in_slots})
                if lacking > 0 and spare > 0:
                    found.append((loop, legs))
                    lacking, spare = lacking - count, spare - count
        return found

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


def wants(loop: ExperimentLoop) -> bool:
    """Whether it trains or would if it had slots. One that is paused, or waits at a rung, wants none."""
    # Without a share it orders no leg. Its engine claims slots for it: it may need more than there are now.
    is_held_back = loop.capacity == 0 and loop.life.state in ("waiting", "running") and loop.most > 0
    return is_held_back or legs_of(loop) > 0


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


def tenure(is_lent: bool, setup_s: float) -> float:
    """Seconds for which a leg trains at least before it makes room.

    So a slot changes hands by a checkpoint at most once in that time, and set-ups that are paid again take at most a
    tenth of it. is_lent: whether the slot is for one that lent it, or for a higher priority. setup_s: the experiment's
    usual set-up.
    """
    return max(min(LENT_S, PATIENCE_S) if is_lent else PATIENCE_S, PATIENCE_SETUPS * setup_s)


def by_value(loop: ExperimentLoop, before: float) -> list[list[Leg]]:
    """The legs that may make room, those first whose trials the search values least: of the lowest rung, without a
    value or with the worst one. Where trials have parts of slots, those of a slot are together, and first are those of
    the slot with the fewest of them, whose best is worth least.

    before: only those that began to train before then (monotonic seconds); in a slot with several, one of them. A leg
    that still sets up is not interrupted: it would have to do that again.
    """
    slots: dict[Slot, list[Leg]] = {}
    for leg in loop.legbook.legs.values():
        if leg.slot is not None and leg.stop is None:
            slots.setdefault(leg.slot, []).append(leg)
    each: list[list[Leg]] = []
    for legs in slots.values():
        if all(leg.parts == 1 for leg in legs):
            each += [[leg] for leg in legs if leg.began is not None and leg.began <= before]
        else:
            began = [leg.began for leg in legs if leg.began is not None]
            if len(began) == len(legs) and min(began) <= before:
                each.append(legs)

    def value(leg: Leg) -> tuple[int, bool, float, int]:
        rung, newest = loop.search.order(leg.trial)[0], leg.goal[1] if leg.goal else None
        worse = 0.0 if newest is None else newest if loop.spec.goal.mode == "min" else -newest
        return rung, newest is None, worse, leg.trial

    return sorted(each, key=lambda legs: (-len(legs), min(map(value, legs))), reverse=True)
