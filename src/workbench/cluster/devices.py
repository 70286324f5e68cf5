"""The machine's NVIDIA GPUs, and how a cluster of this machine uses them. Law: CUDA is never touched.

A slot is a GPU if dask-cuda is installed, otherwise a core. A slot that is a core sees no GPU: otherwise all trials
would train on the first one at once, and run out of its memory.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from workbench.trial.process.surroundings import Hides

#: Files of GPUs: NVIDIA's driver, its small computers, and Windows' subsystem for Linux.
_FILES = ("nvidia*", "nvhost*", "dxg")
#: Where the driver lists its GPUs, one folder each. The variable names another place, for tests.
DRIVER = Path("/proc/driver/nvidia/gpus")
DRIVER_VARIABLE = "WORKBENCH_NVIDIA_GPUS"
VISIBLE = "CUDA_VISIBLE_DEVICES"
#: With one of these values the user says that no GPU may be used.
NONE = ("", "-1", "none", "void", "NoDevFiles")


@dataclass(frozen=True, slots=True)
class Plan:
    """What a cluster's slots are, and a note for the user before anything trains."""

    trains_on_gpus: bool = False
    #: Whether there are GPUs that slots on cores must not see.
    hides_gpus: bool = False
    note: str | None = None


def plan(workers: int | None, around: Mapping[str, str] = os.environ) -> Plan:
    """What a cluster of this machine with ``workers`` workers (None: as many as fit) trains on."""
    if around.get(VISIBLE, "0").strip() in NONE:
        return Plan(hides_gpus=True)
    driven, trouble = _driven()
    found = driven or len(_listed(around))
    if not found:
        return Plan()
    there = f"this machine has {found} NVIDIA GPU{'s' if found > 1 else ''}"
    if not driven:
        return Plan(
            hides_gpus=True,
            note=f"{there}, but the driver does not answer ({trouble}): trials train on CPU cores, and see no GPU. "
            "See what `nvidia-smi` says here; in a container, start it with its GPUs (`--gpus all`).",
        )
    if workers is not None:
        return Plan(
            hides_gpus=True,
            note=f"{there}, and {workers} CPU slots were asked for (--workers or WORKBENCH_WORKERS): trials see a GPU "
            f"only where the notebook names one in {VISIBLE}. Without that number, each GPU is a slot.",
        )
    try:
        import_module("dask_cuda")
    except Exception as error:  # its import fails in many ways: no CUDA package, other versions of Dask
        return Plan(
            hides_gpus=True,
            note=f"{there}, but dask-cuda cannot be used ({type(error).__name__}: {error}): trials train on CPU cores, "
            f"and see no GPU. To train on GPUs: {sys.executable} -m pip install 'workbench[cuda]', then `workbench "
            "engine stop`; the next engine uses them.",
        )
    return Plan(trains_on_gpus=True)


def has_any(around: Mapping[str, str] = os.environ) -> bool:
    """Whether the machine may have GPUs, which takes no time; :func:`plan` says whether they can be used."""
    return bool(_listed(around)) or any(next(Path("/dev").glob(name), None) for name in _FILES)


def hides(found: Plan, workers: int | None) -> Hides:
    """Which GPUs the slots of a cluster with that plan do not see; workers: as :func:`plan` got them."""
    return ("unnamed" if workers else "all") if found.hides_gpus else "none"


def slot_name(visible: str | None) -> str | None:
    """The machine's slot for a worker with this ``CUDA_VISIBLE_DEVICES``: its first GPU, by UUID."""
    first = (visible or "").split(",")[0].strip()
    if not first or first in NONE:
        return None
    uuid = first if first.startswith(("GPU-", "MIG-")) else _uuid(first)
    return f"gpu-{(uuid or first).replace('/', '_')}"


def slot_names(around: Mapping[str, str] = os.environ) -> list[str]:
    """The machine's slots of the GPUs that a cluster trains on by default; empty if it trains on cores.

    Unlike :func:`plan`, it does not import dask-cuda, which takes seconds.
    """
    visible = around.get(VISIBLE)
    if (visible is not None and visible.strip() in NONE) or find_spec("dask_cuda") is None:
        return []
    each = visible.split(",") if visible is not None else map(str, range(_driven()[0]))
    return [name for name in map(slot_name, each) if name is not None]


def gpu_slots() -> list[str]:
    """The slots of all GPUs that the driver reports, whichever of them this process may see."""
    return [name for name in map(slot_name, map(str, range(_driven()[0]))) if name is not None]


def _driven() -> tuple[int, str]:
    """How many GPUs the driver reports; 0 and the reason if it does not work."""
    try:
        import pynvml

        pynvml.nvmlInit()
        try:
            return int(pynvml.nvmlDeviceGetCount()), "it says that there is none"
        finally:
            pynvml.nvmlShutdown()
    except Exception as error:  # no package, no driver, no permission: in each case no GPU can be used
        return 0, str(error)


def _listed(around: Mapping[str, str]) -> list[str]:
    """GPUs that the kernel knows, whether or not the driver works."""
    try:
        return os.listdir(around.get(DRIVER_VARIABLE) or DRIVER)
    except OSError:
        return []


def _uuid(index: str) -> str | None:
    try:
        import pynvml

        pynvml.nvmlInit()
        try:
            found: Any = pynvml.nvmlDeviceGetUUID(pynvml.nvmlDeviceGetHandleByIndex(int(index)))
            return found.decode() if isinstance(found, bytes) else str(found)
        finally:
            pynvml.nvmlShutdown()
    except Exception:  # the index works too, as long as all workers use it
        return None
