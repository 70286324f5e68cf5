"""Which slots a leg may have. Law: pure; who wants a machine for itself gets it, and keeps others off meanwhile."""

from __future__ import annotations

from collections.abc import Iterable

from workbench.cluster.backend import Slot
from workbench.engine.leg import Leg


def machine(worker: str) -> str:
    """The host in a worker's address: ``10.0.0.5`` of ``tls://10.0.0.5:40123``."""
    return worker.partition("://")[2].rpartition(":")[0] or worker


def fit(slots: Iterable[Slot], leg: Leg, alone: Iterable[str]) -> list[Slot]:
    """The slots that ``leg`` may have. alone: workers whose machines are another leg's alone."""
    every = list(slots)
    taken = {machine(worker) for worker in alone}
    if leg.alone:
        taken |= {machine(slot.worker) for slot in every if slot.legs}
    return [slot for slot in every if slot.is_usable and machine(slot.worker) not in taken]
