"""What the machine's slots use: processor, memory and GPUs. Law: it only reads, and never fails for want of a GPU.

:func:`loads` is pure. A slot's processes are its worker, the runners of its trials and all that these have started, as
the engine counts them (:mod:`workbench.cluster.workers.machine`), so that every viewer shows the same memory.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

import psutil

from workbench.cluster.devices import slot_name
from workbench.cluster.workers import machine
from workbench.messages import Plain
from workbench.store.owner.slots import Holder, is_its_process

#: Seconds over which processor time is measured.
SAMPLE_S = 0.2


@dataclass(frozen=True, slots=True)
class Gpu:
    """A GPU now: all that it does, for whichever program. None: its driver does not report it."""

    #: The name of its slot, such as ``gpu-GPU-8d1f…``.
    slot: str
    name: str
    #: The part of the last moments in which it computed, from 0 to 1.
    utilisation: float | None
    memory_bytes: int
    memory_total_bytes: int
    power_w: float | None


@dataclass(frozen=True, slots=True)
class Load:
    """What a slot's processes use."""

    #: Processor time by time: 1 is one core. None if it could not be measured.
    utilisation: float | None
    #: Pages that several processes share are counted in parts.
    memory_bytes: int
    #: The GPU of the slot's name; for a core, the first one on which its processes hold memory.
    gpu: Gpu | None


@dataclass(frozen=True, slots=True)
class Outside:
    """A process outside of Workbench that holds memory of a GPU; memory_bytes is None if the driver does not say."""

    #: The name of the GPU's slot.
    gpu: str
    pid: int
    name: str
    memory_bytes: int | None


@dataclass(frozen=True, slots=True)
class Loads:
    """What is used, by slot. A slot is missing if its process could not be found, for example in another container."""

    slots: Mapping[str, Load]
    outside: tuple[Outside, ...]


def loads(
    workers: Mapping[str, Plain], gpus: Sequence[Plain], pids: Mapping[str, Collection[int]], names: Mapping[int, str]
) -> Loads:
    """What the slots use.

    workers: by slot, ``memory`` and ``cpu`` as :func:`machine.survey` tells them. gpus: as the driver tells them:
    ``index``, ``uuid``, ``name``, ``used``, ``total``, ``utilisation``, ``power_w``, and ``holders`` (bytes by process,
    None if unknown). pids: the processes of each slot. names: of the live processes among the holders.
    """
    found = {}
    for slot, worker in workers.items():
        mine = next((gpu for gpu in gpus if _is_of(gpu, slot, pids.get(slot, ()))), None)
        found[slot] = Load(worker["cpu"], worker["memory"], None if mine is None else _gpu(mine))
    ours = {pid for some in pids.values() for pid in some}
    return Loads(found, tuple(one for gpu in gpus for one in _outside(gpu, ours, names)))


def _is_of(gpu: Plain, slot: str, pids: Collection[int]) -> bool:
    if slot.startswith("gpu-"):
        # A user may name a GPU by the beginning of its UUID.
        return slot == f"gpu-{gpu['index']}" or (slot.startswith("gpu-GPU-") and _slot(gpu).startswith(slot))
    return not (gpu["holders"] or {}).keys().isdisjoint(pids)


def _gpu(gpu: Plain) -> Gpu:
    return Gpu(_slot(gpu), gpu["name"], gpu["utilisation"], gpu["used"], gpu["total"], gpu["power_w"])


def _slot(gpu: Plain) -> str:
    return slot_name(gpu["uuid"]) or gpu["uuid"]


def _outside(gpu: Plain, ours: Collection[int], names: Mapping[int, str]) -> Iterable[Outside]:
    holders = gpu["holders"] or {}
    if any(pid not in ours and pid not in names for pid in holders):
        return  # in a container the driver may report process ids of the host: ours could be among them
    for pid, size in sorted(holders.items()):
        if pid not in ours:
            yield Outside(_slot(gpu), pid, names[pid], size)


# ---------------------------------------------------------------------------------------------------------------------
# Reading


def read(held: Iterable[Holder]) -> Loads:
    """What the slots of these holders use now. It takes :data:`SAMPLE_S` seconds and more, unless no slot is held."""
    workers = {one.slot: {"pid": one.pid, "visible": ""} for one in held if is_its_process(one)}
    told: Mapping[str, Plain] = {}
    if workers:
        machine.survey(workers)
        time.sleep(SAMPLE_S)
        told = machine.survey(workers)["workers"]
    gpus = _gpus()
    pids = _pids(workers) if gpus else {}
    return loads(told, gpus, pids, _names(pid for gpu in gpus for pid in gpu["holders"] or ()))


def _pids(workers: Mapping[str, Plain]) -> dict[str, list[int]]:
    below, _ = machine.owned([one["pid"] for one in workers.values()])
    return {slot: below[one["pid"]] for slot, one in workers.items()}


def _gpus() -> list[Plain]:
    """The machine's NVIDIA GPUs with their power; none without a driver that works."""
    found: list[Plain] = []
    with contextlib.suppress(Exception):  # a driver may fail in many ways, and the slots are shown anyway
        found.extend(machine.gpus_here())
    return found


def _names(pids: Iterable[int]) -> dict[int, str]:
    """The names of those processes that exist here."""
    found = {}
    for pid in pids:
        with contextlib.suppress(psutil.Error):
            found[pid] = psutil.Process(pid).name()
    return found
