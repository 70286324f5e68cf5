"""A leg as the engine knows it, and the words of its journal lines. Law: data; nothing here decides."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from workbench.cluster.backend import Message, Slot


@dataclass(slots=True, eq=False)
class Leg:
    """One leg that was ordered and whose end is not known."""

    trial: int
    attempt: int
    start: int
    until: int
    reason: str
    key: str
    slot: Slot | None = None
    #: Not before this time (monotonic seconds): the backoff of a retry.
    not_before: float = 0.0
    began: float | None = None
    heard: float = 0.0
    step: int = 0
    stop: str | None = None
    hung: bool = False


def started(leg: Leg) -> dict[str, Any]:
    """The journal's line that a leg begins, written before it does: no attempt's number is given twice."""
    fields = {"trial": leg.trial, "attempt": leg.attempt, "start": leg.start, "until": leg.until}
    return {"kind": "LegStarted", **fields}


def said(message: Message) -> str:
    """Why a leg went wrong, as its runner told it."""
    error = message.get("error")
    if error:
        where = f" (line {error['line']})" if error.get("line") else ""
        return f"{error.get('type')}: {error.get('message')}{where}"
    return str(message.get("why") or "")
