"""Legs under way as the engine's side of Dask sees them. Law: data; nothing here sends."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from workbench.cluster.backend import Slot


@dataclass(slots=True)
class Flight:
    """One leg under way: its future (shared with others if they are short) and where it was sent."""

    future: Any
    slot: Slot
    is_alone: bool
    stopped: bool = False
    #: It was told to leave, and has time to finish its turn.
    has_time: bool = False


def is_queued(key: str, slot: Slot, flights: Mapping[str, Flight]) -> bool:
    """Whether the leg of ``key`` must wait for others of its slot that were not told to stop."""
    others = (flights.get(one) for one in slot.legs if one != key)
    return any(flight is None or not flight.stopped for flight in others)
