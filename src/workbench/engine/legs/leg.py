"""A leg as the engine knows it, and the words of its journal lines. Law: data only; nothing here decides."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from workbench.cluster.backend import Slot
from workbench.messages import Left, Saved


@dataclass(slots=True, eq=False)
class Leg:
    """One leg that was ordered and has not ended."""

    trial: int
    attempt: int
    start: int
    until: int
    reason: str
    key: str
    slot: Slot | None = None
    #: The slots of its other ranks.
    mates: list[Slot] = field(default_factory=list)
    #: On how many slots it must train, where that is recorded; 0: as the experiment's share allows.
    size: int = 0
    #: When it was first looked for slots (monotonic seconds), where it may take more than it needs.
    sought: float = 0.0
    #: Not started before this time (monotonic seconds): the delay of a retry.
    not_before: float = 0.0
    #: When its set-up started (monotonic seconds), and the same as UTC in ISO 8601 once it is shown.
    placed: float = 0.0
    since: str | None = None
    #: It has been setting up for so long that this is shown.
    is_setting_up: bool = False
    began: float | None = None
    heard: float = 0.0
    #: The newest reported step, and when it was reported (monotonic seconds); None before the first.
    turned: tuple[int, float] | None = None
    step: int = 0
    #: The newest step at which the goal was reported, and its value.
    goal: tuple[int, float] | None = None
    #: The goal by step, as far as an earlier engine heard it from this leg.
    known: dict[int, float] = field(default_factory=dict)
    stop: str | None = None
    #: It was told to leave its slot to others, so that no other leg of its experiment follows it there.
    makes_room: bool = False
    #: Seconds without a message, if it was stopped for that.
    hung: float | None = None
    #: It needs its machine to itself: it ran out of memory next to others.
    alone: bool = False
    #: A worker to avoid, and the one where the trial waits to be continued.
    avoid: str | None = None
    prefers: str | None = None
    #: Into how many parts its slot is divided: it trains in one of them, beside others of its experiment.
    parts: int = 1
    #: How many slots of its engine are on its machine; 0 before it has a slot.
    there: int = 0
    #: How many slots of its machine, or parts of slots, trials may train in at the same time, its own included; 0
    #: before it has a slot.
    slots: int = 0
    #: For its page: the state that was found, and where it trained.
    detail: dict[str, Any] = field(default_factory=dict)

    @property
    def in_slots(self) -> list[Slot]:
        """All slots in which it trains."""
        return [] if self.slot is None else [self.slot, *self.mates]

    def lost_on(self, left: Left) -> str | None:
        """The worker on which it died; None if it may have been any of several."""
        if not self.mates:
            return self.slot.worker if self.slot is not None else None
        return self.in_slots[left.rank].worker if left.rank is not None else None

    def saved(self, message: Saved) -> None:
        """Note a checkpoint for its page: the count, the last size in bytes, and the total seconds that training
        waited."""
        if message.found is not None:
            self.detail["found"] = message.found
        before = self.detail.get("saved", {"count": 0, "stall_s": 0.0, "written_s": 0.0})
        self.detail["saved"] = {
            "count": before["count"] + 1,
            "bytes": message.bytes,
            "stall_s": round(before["stall_s"] + message.stall, 6),
            "written_s": round(before["written_s"] + message.seconds, 6),
        }


def started(leg: Leg) -> dict[str, Any]:
    """The journal's line for the start of a leg, written before the leg starts: no attempt number is used twice."""
    fields = {"trial": leg.trial, "attempt": leg.attempt, "start": leg.start, "until": leg.until}
    return {"kind": "LegStarted", **fields}


def cut(reason: str, waited_s: float, step: int) -> str:
    """Why a leg that should leave with a checkpoint was ended within a turn. step: where its trial continues."""
    where = f"from step {step}" if step else "from its beginning"
    return (
        f"{reason}; its step did not end after {waited_s:g} s more, so it was stopped within it and continues {where} "
        "(`for batch in trial.batches(loader)` would leave between two batches)"
    )


def said(message: Left) -> str:
    """Why a leg failed, as its runner reported it."""
    error = message.error
    if error:
        where = f" (line {error['line']})" if error.get("line") else ""
        return f"{error.get('type')}: {error.get('message')}{where}"
    return message.why or ""
