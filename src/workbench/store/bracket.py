"""A bracket as it is being climbed. Law: data; what goes into it is decided by whoever folds a journal."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field
from typing import Literal

__all__ = ["Bracket", "Entry", "Fate", "Rung"]

#: What became of a trial at a rung. *training*: it has a leg, in a slot or queued for one. *waiting*: it has none now.
#: *lost*: its leg was, and it is tried again.
Fate = Literal["training", "waiting", "on", "stopped", "failed", "completed", "lost"]


@dataclass(slots=True)
class Entry:
    """A trial at a rung. ``value`` is None until it was told there; ``came`` is the step it started from."""

    trial: int
    came: int
    fate: Fate = "waiting"
    reason: str = ""
    value: float | None = None


@dataclass(slots=True)
class Rung:
    """Who is compared at a step. ``places``: how many are planned, None where nobody can know."""

    step: int
    places: int | None = None
    entries: dict[int, Entry] = field(default_factory=dict)


@dataclass(slots=True)
class Bracket:
    """A ladder. ``first``: its first trial, or None where the plan is not known; ``turn``: Hyperband's round."""

    number: int
    turn: int = 0
    first: int | None = None
    rungs: list[Rung] = field(default_factory=list)

    def rung(self, step: int) -> Rung | None:
        """The rung at ``step``; of an older journal, whose plan is not known, a new one."""
        at = bisect_right(self.rungs, step, key=lambda rung: rung.step)
        if at and self.rungs[at - 1].step == step:
            return self.rungs[at - 1]
        if self.first is not None:
            return None
        self.rungs.insert(at, Rung(step))
        return self.rungs[at]

    def above(self, step: int, until: int) -> int:
        """The next step after ``step`` at which a leg to ``until`` is compared."""
        at = bisect_right(self.rungs, step, key=lambda rung: rung.step)
        return min(until, self.rungs[at].step) if at < len(self.rungs) else until
