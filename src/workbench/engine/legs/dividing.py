"""How many trials share a slot, by what one was measured to need. Law: pure; what was measured in, a number out.

A trial trains in a whole slot first. From then on the number only falls, when a trial needs more than those before it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

from workbench.messages import Measured
from workbench.records.sizes import MOST_PER_SLOT

#: The part of a slot's memory that its trials may fill: of a GPU's, and of a machine's, on which other programs run.
ON_DEVICE, ON_MACHINE = 0.95, 0.8
#: A trial may need so much more memory than was measured: peaks rise a little from step to step.
MARGIN = 1.1
#: The part of a slot's processor time that its trials may use together: one that computes all the time has a whole one.
COMPUTES = 0.8


@dataclass(frozen=True, slots=True)
class Need:
    """What a trial needed at most, and what a slot has. Sizes are in bytes, processor time in cores; 0: not known.

    device: on a GPU, with what CUDA itself needs. memory: of the machine's. busy: as the first trial was measured.
    """

    device: int = 0
    device_total: int = 0
    memory: int = 0
    memory_total: int = 0
    busy: float = 0.0
    cores: float = 0.0

    def to_json(self) -> dict[str, float]:
        """Plain data for the journal."""
        return {one.name: getattr(self, one.name) for one in fields(self)}

    @classmethod
    def from_json(cls, line: Mapping[str, Any]) -> Need:
        """The need in a line of the journal."""
        return cls(**{one.name: line.get(one.name) or 0 for one in fields(cls)})


def needed(found: Measured, slots: int, before: Need | None = None) -> Need:
    """What trials need, after ``found`` was measured, and before that ``before``.

    slots: how many slots of its engine are on that machine. A machine's cores are slots of other engines as well.
    """
    slots = max(slots, 1) if found.has_device else max(slots, found.cores, 1)
    now = Need(
        device=found.device + found.context if found.device else 0,
        device_total=found.device_total,
        memory=found.memory or 0,
        memory_total=(found.machine or 0) // slots,
        busy=found.busy,
        cores=found.cores / slots,
    )
    if before is None:
        return now
    # Beside others a trial gets less of its core than it could use: only the first one, in a whole slot, tells.
    return replace(
        now,
        device=max(now.device, before.device),
        device_total=_least(now.device_total, before.device_total),
        memory=max(now.memory, before.memory),
        memory_total=_least(now.memory_total, before.memory_total),
        busy=before.busy,
        cores=before.cores,
    )


def _least(one: int, other: int) -> int:
    return min(one, other) if one and other else one or other


def parts(need: Need) -> int:
    """How many trials share a slot, at least 1. What is not known limits nothing; if nothing is, it is 1."""
    limits = [fits for fits, _ in _limits(need)]
    return max(1, min(MOST_PER_SLOT, *limits)) if limits else 1


def words(need: Need, count: int) -> str:
    """The number with its reason, for the user.

    >>> words(Need(device=2_100_000_000, device_total=24_000_000_000, busy=0.3, cores=4.0), 9)
    '9 trials in each slot: one needs 2.1 of 24 GB'
    >>> words(Need(memory=300_000_000, memory_total=12_000_000_000, busy=0.95, cores=1.0), 1)
    '1 trial in each slot: it computes 95% of the time'
    """
    what = f"{count} trial{'s' * (count != 1)} in each slot"
    limits = _limits(need)
    if not limits:
        return f"{what}: what it needs cannot be measured here"
    return f"{what}: {'it' if count == 1 else 'one'} {min(limits)[1]}"


def _limits(need: Need) -> list[tuple[int, str]]:
    """How many trials fit by each measure, and the reason in words."""
    found = []
    if need.busy and need.cores:
        each = need.busy / need.cores
        where = "" if need.cores <= 1 else f" on the {need.cores:g} cores of a slot"
        found.append((math.floor(COMPUTES / each + 1e-9), f"computes {min(each, 1):.0%} of the time{where}"))
    for size, total, part in (
        (need.device, need.device_total, ON_DEVICE),
        (need.memory, need.memory_total, ON_MACHINE),
    ):
        if size and total:
            found.append((int(part * total / (MARGIN * size)), f"needs {amount(size)} of {amount(total)} GB"))
    return found


def amount(size: int) -> str:
    """Bytes as gigabytes, for people: ``2.1``."""
    return f"{size / 1e9:.1f}".removesuffix(".0")
