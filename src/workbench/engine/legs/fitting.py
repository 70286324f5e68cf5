"""Whether a trial's measured peak fits beside what other programs hold. Law: pure; a look at machines in, words out.

A leg waits only for memory that processes with a name hold, and that would be enough without them. What is not known
makes no leg wait: a peak before it is measured, a machine before the first look, a driver that does not tell.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from workbench.engine.legs.dividing import Need, amount

#: So many programs are named at most.
MOST_NAMED = 2


def lack(need: Need | None, machine: Mapping[str, Any], worker: str, slot: str, beside: int, taken: int) -> str:
    """Why a trial that needs ``need`` should not start on ``worker`` now; empty if it may.

    machine: it, as of the last look (:func:`workbench.cluster.workers.machine.survey`); empty before. slot: its name;
    empty if it has none. beside: trials of the same experiment in the slot. taken: bytes of the machine's memory that
    all trials there were measured to need.
    """
    if need is None or not machine:
        return ""
    gpus = list(machine.get("workers", {}).get(worker, {}).get("gpu") or ())
    gpu: Mapping[str, Any] = gpus[0] if len(gpus) == 1 else {}
    name = slot if slot.startswith("gpu-") else "the GPU"
    memory = machine.get("memory") or {}
    return _short(need.device, beside * need.device, gpu, name) or _short(need.memory, taken, memory, "this machine")


def _short(size: int, taken: int, memory: Mapping[str, Any], where: str) -> str:
    total, outside = int(memory.get("limit") or memory.get("total") or 0), _known(memory.get("outside"))
    free = max(0, total - taken - sum(one["memory"] for one in outside))
    if not (size and total and outside) or size <= free or size + taken > total:
        return ""
    named = [f"{one['name']} (pid {one['pid']}) holds {amount(one['memory'])} GB" for one in outside[:MOST_NAMED]]
    return f"waits for memory: {where} has {amount(free)} GB free, a trial needs {amount(size)}; {', '.join(named)}" + (
        f", {len(outside) - MOST_NAMED} more" if len(outside) > MOST_NAMED else ""
    )


def _known(outside: Any) -> Sequence[Mapping[str, Any]]:
    """Programs outside, largest first; none if the size of one is not known."""
    found = list(outside or ())
    if any(not isinstance(one.get("memory"), int) for one in found):
        return ()
    return sorted(found, key=lambda one: -one["memory"])
