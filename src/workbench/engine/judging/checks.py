"""Checks of resuming, in slots that no leg needs. Law: a check never keeps a leg waiting."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping

from workbench.cluster.backend import Backend
from workbench.engine.judging.verify import Verification
from workbench.engine.legs.underway import UnderWay
from workbench.engine.loop import ExperimentLoop

#: Beats for which a slot must stay free before a check may use it while searches continue.
BEATS_FREE = 2
#: Beats after which a check is given up that needs more slots than there are.
BEATS_LACKING = 30
#: How far a check's priority is below that of every leg.
BELOW = 1_000_000_000


class Checks:
    """Starts the checks that experiments want, and ends those whose slot a leg needs."""

    def __init__(
        self,
        backend: Backend,
        under_way: UnderWay,
        loops: Mapping[str, ExperimentLoop],
        need_slots: Callable[[], None],
        broke: Callable[[str, BaseException], None],
    ) -> None:
        """need_slots: called when a check waits for a slot. broke: ends an experiment whose loop raised an error."""
        self._backend, self._under_way, self._loops = backend, under_way, loops
        self._need_slots, self._broke = need_slots, broke
        #: Beats for which some slot has been free and nothing waited.
        self._beats_free = 0
        self._count = itertools.count()

    def beat(self, legs_wait: bool) -> None:
        """Called about once a second."""
        self._beats_free += 1
        self.start(legs_wait)

    def start(self, legs_wait: bool) -> None:
        """Start checks in free slots: at once for an ended search, otherwise if the slots stay free.

        legs_wait: legs wait for a slot, so that none is started.
        """
        free = [slot for slot in self._backend.slots if not slot.legs and slot.is_usable]
        if legs_wait or not free:
            self._beats_free = 0
            if any(loop.may_check for loop in self._loops.values()):
                self._need_slots()
            return
        for loop in self._loops.values():
            if not loop.may_check:
                continue
            needed = loop.verification.size
            may_start = len(free) >= needed and (loop.finished.is_set() or self._beats_free >= BEATS_FREE)
            if may_start:
                try:
                    leg, message = loop.begin_check()
                except Exception as error:
                    self._broke(loop.spec.id, error)
                    return
                leg.slot, *leg.mates = (free.pop() for _ in range(needed))
                self._under_way.add(loop.verification, leg)
                self._backend.start(message, leg.in_slots, -BELOW - next(self._count))
            elif self._beats_free >= BEATS_LACKING and needed > sum(not slot.closed for slot in self._backend.slots):
                loop.verification.drop(f"its trial trained on {needed} slots, and there are fewer now")

    def make_room(self) -> bool:
        """Make a check leave its slot at once. Returns whether there was one."""
        for hearer, leg in self._under_way:
            if isinstance(hearer, Verification) and leg.slot is not None and leg.stop is None:
                hearer.make_room("a search wants its slot")
                return True
        return False
