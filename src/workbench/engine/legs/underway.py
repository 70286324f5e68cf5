"""The legs that were ordered and have not left, each with the object that hears its messages.

Law: it starts and stops nothing; that a leg has left is known here first.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias

from workbench.cluster.backend import Slot, leader
from workbench.engine.judging.verify import Verification
from workbench.engine.legs.leg import Leg
from workbench.engine.loop import ExperimentLoop
from workbench.messages import FromLeg
from workbench.records import Spec
from workbench.records.names import trial_label

#: The number of legs that a slot with a check counts as having: nothing is queued behind a check, since a leg would
#: wait for something unimportant.
MANY = 1_000


@dataclass(frozen=True, slots=True)
class Parted:
    """Receives the messages of a failed experiment's legs until they have left."""

    spec: Spec

    def hear(self, leg: Leg, message: FromLeg) -> None:
        """Ignore the message."""


#: Hears a leg's messages: its experiment, the checks of resuming of its experiment, or what a failed one leaves.
Hearer: TypeAlias = ExperimentLoop | Verification | Parted


class UnderWay:
    """The legs of an engine, by key. Those that wait for a slot are among them."""

    def __init__(self) -> None:
        self._found: dict[str, tuple[Hearer, Leg]] = {}

    def __contains__(self, key: str) -> bool:
        return key in self._found

    def __iter__(self) -> Iterator[tuple[Hearer, Leg]]:
        """A copy, so that legs may leave meanwhile."""
        return iter(list(self._found.values()))

    @property
    def keys(self) -> set[str]:
        """The keys of all legs."""
        return set(self._found)

    def add(self, hearer: ExperimentLoop | Verification, leg: Leg) -> None:
        """A leg was ordered."""
        self._found[leg.key] = (hearer, leg)

    def get(self, key: str) -> tuple[Hearer, Leg] | None:
        """The leg of ``key`` with its hearer; None if it has left."""
        return self._found.get(key)

    def left(self, key: str) -> None:
        """The leg has left."""
        del self._found[key]

    def forget(self, loop: ExperimentLoop) -> None:
        """Forget all legs of an experiment that could not be opened."""
        self._found = {key: found for key, found in self._found.items() if found[0] is not loop}

    def part(self, loop: ExperimentLoop) -> list[Leg]:
        """Let ``loop`` hear of no leg any more. Returns its legs that have a slot and so must leave it."""
        leaving = []
        for key, (hearer, leg) in list(self._found.items()):
            if hearer is loop or hearer is loop.verification:
                if leg.slot is None:
                    del self._found[key]
                else:
                    self._found[key] = (Parted(loop.spec), leg)
                    leaving.append(leg)
        return leaving

    def in_slot(self, slot: Slot) -> list[tuple[Hearer, Leg]]:
        """The legs that were placed in a slot and have not left."""
        return [found for key in slot.legs if (found := self._found.get(leader(key))) is not None]

    def staying(self, slot: Slot) -> int:
        """How many legs of a slot were not told to leave it; a check counts as :data:`MANY`."""
        return sum(
            MANY if isinstance(hearer, Verification) else 1 for hearer, leg in self.in_slot(slot) if leg.stop is None
        )

    def divided(self, slot: Slot) -> str:
        """The experiment (its id) whose legs have parts of a slot, and were not told to leave it; empty: none has."""
        parts = (hearer.spec.id for hearer, leg in self.in_slot(slot) if leg.parts > 1 and leg.stop is None)
        return next(parts, "")

    def holders(self, slot: Slot) -> list[tuple[str, str, float | None]]:
        """The legs that train in a slot: experiment and trial (labels), and since when (monotonic seconds).

        The legs queued behind them are left out: a slot trains one leg, or as many as it has parts.
        """
        # Its worker takes promoted trials first, whichever leg was ordered before.
        found = sorted(self.in_slot(slot), key=lambda one: one[1].began is None)
        first = found[: found[0][1].parts] if found else []
        return [(hearer.spec.label, trial_label(leg.trial), leg.began) for hearer, leg in first]
