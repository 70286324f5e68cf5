"""The state of a machine of the cluster: memory, processor, GPUs, and their use by other programs. Law: it only
reads."""

from __future__ import annotations

import asyncio
import contextlib
import os
import platform
import time
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

import psutil

from workbench.messages import Plain
from workbench.trial.process.measuring import limit

#: A process outside of Workbench is named if it holds this part of the memory.
MUCH = 0.05
#: Processor seconds of each worker and its descendants at the last look.
_spent: dict[int, tuple[float, float]] = {}


def survey(workers: Mapping[str, Mapping[str, Any]]) -> Plain:
    """This machine now: ``host``, ``memory`` in bytes, and for each of ``workers`` (by address; ``pid`` and
    ``visible``, its GPUs as in CUDA_VISIBLE_DEVICES) its memory, processor use in cores, and GPUs.

    A worker's memory is the proportional share of its processes, so that pages shared by forked runners count once, and
    its part of the forkservers that it shares. ``others`` is the memory used by other programs; for a GPU it is None if
    the driver does not report the owners. ``outside``: those with much of it (``pid``, ``name``, ``memory``), or None
    likewise. ``limit``: the bytes that the machine, or the control group of this process, has.
    """
    below, shared = owned([int(one["pid"]) for one in workers.values()])
    parts = {pid: memory_of(pid) // len(sharers) for pid, sharers in shared.items()}
    gpus = list(gpus_here())
    told: Plain = {}
    for address, one in workers.items():
        pids = below.get(int(one["pid"]), [])
        told[address] = {
            "memory": sum(map(memory_of, pids))
            + sum(part for pid, part in parts.items() if int(one["pid"]) in shared[pid]),
            "cpu": _cores(int(one["pid"]), pids),
            "gpu": [_told(gpu, set(pids)) for gpu in _seen(gpus, one.get("visible"))],
        }
    memory = psutil.virtual_memory()
    used = memory.total - memory.available
    ours = sum(one["memory"] for one in told.values()) + memory_of(os.getpid())
    most = min(memory.total, limit() or memory.total)
    family = {*shared, os.getpid(), *(pid for pids in below.values() for pid in pids), *_above(below)}
    return {
        "host": platform.node(),
        "workers": told,
        "memory": {
            "total": memory.total,
            "used": used,
            "others": max(0, used - ours),
            "limit": most,
            "outside": _outside(family, most),
        },
    }


def _above(pids: Iterable[int]) -> Iterator[int]:
    """The processes that have started ``pids``, and those that have started them."""
    for pid in pids:
        with contextlib.suppress(psutil.Error):
            yield from (one.pid for one in psutil.Process(pid).parents())


def _outside(family: Collection[int], most: int) -> list[Plain]:
    """Processes besides ``family`` that hold much of the memory ``most``, which is this control group's."""
    found: list[Plain] = []
    group = _group("self")
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):
            if process.pid in family or process.memory_info().rss < MUCH * most:
                continue
            if _group(str(process.pid)).startswith(group) and (size := memory_of(process.pid)) >= MUCH * most:
                found.append({"pid": process.pid, "name": process.name(), "memory": size})
    return found


def _group(process: str) -> str:
    """The control group that limits the memory of a process; empty: none is known."""
    with open(f"/proc/{process}/cgroup", encoding="utf-8", errors="replace") as file:
        groups = {line.split(":", 2)[1]: line.rstrip("\n").split(":", 2)[2] for line in file}
    return str(groups.get("memory") or groups.get("", "")).rstrip("/")


async def survey_here(workers: Mapping[str, Mapping[str, Any]]) -> Plain:
    """:func:`survey` in a thread, so that it does not block the event loop."""
    return await asyncio.get_running_loop().run_in_executor(None, survey, workers)


def owned(workers: list[int]) -> tuple[dict[int, list[int]], dict[int, set[int]]]:
    """Each of ``workers`` with the processes that it has started and its runners with all below them; and the workers
    that use each forkserver. One pass over the machine's processes.

    A runner is a child of a forkserver that any worker may have started; but its worker reads what it prints.
    """
    children: dict[int, list[int]] = {}
    parents: dict[int, int] = {}
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            parents[process.pid] = process.ppid()
            children.setdefault(process.ppid(), []).append(process.pid)
    readers = {pipe: worker for worker in workers for pipe in _pipes(worker)}
    runners: dict[int, int] = {}
    for pid in parents:
        with contextlib.suppress(OSError, KeyError):
            runners[pid] = readers[os.readlink(f"/proc/{pid}/fd/1")]
    shared: dict[int, set[int]] = {}
    for pid, worker in runners.items():
        if runners.get(parents[pid]) != worker:  # not a process that a runner has started
            shared.setdefault(parents[pid], set()).add(worker)
    taken = runners.keys() | shared.keys()
    found = {worker: _tree(worker, children, taken) for worker in workers}
    for pid, worker in runners.items():
        found[worker] += _tree(pid, children, taken)
    return found, shared


def _tree(pid: int, children: Mapping[int, list[int]], taken: Collection[int]) -> list[int]:
    """The process ``pid`` and all below it, except those ``taken`` and what is below them."""
    tree, waiting = [], [pid]
    while waiting:
        one = waiting.pop()
        tree.append(one)
        waiting += [child for child in children.get(one, []) if child not in taken]
    return tree


def _pipes(worker: int) -> Iterator[str]:
    """The pipes that a worker holds besides its own standard streams."""
    with contextlib.suppress(OSError):
        links = {name: os.readlink(f"/proc/{worker}/fd/{name}") for name in os.listdir(f"/proc/{worker}/fd")}
        own = {links.get(name) for name in ("0", "1", "2")}
        yield from (link for link in links.values() if link.startswith("pipe:") and link not in own)


def memory_of(pid: int) -> int:
    """Bytes of one process, shared pages in proportion; its resident size if the system does not report more."""
    with contextlib.suppress(OSError, ValueError, IndexError), open(f"/proc/{pid}/smaps_rollup", "rb") as file:
        for line in file:
            if line.startswith(b"Pss:"):
                return int(line.split()[1]) << 10
    with contextlib.suppress(psutil.Error):
        return int(psutil.Process(pid).memory_info().rss)
    return 0


def _cores(pid: int, pids: list[int]) -> float | None:
    """Processor seconds per second since the last look at this worker; None at the first look."""
    spent = 0.0
    for one in pids:
        with contextlib.suppress(psutil.Error):
            times = psutil.Process(one).cpu_times()
            spent += times.user + times.system
    now = time.monotonic()
    before = _spent.get(pid)
    _spent[pid] = (now, spent)
    if before is None or now <= before[0]:
        return None
    # The seconds of an ended runner are no longer counted.
    return round(max(0.0, spent - before[1]) / (now - before[0]), 2)


def gpus_here(visible: str | None = None) -> Iterator[Plain]:
    """The machine's NVIDIA GPUs, read without touching CUDA; empty without a driver.

    visible: only the GPU that a worker with this CUDA_VISIBLE_DEVICES uses.
    """
    try:
        import pynvml

        pynvml.nvmlInit()
    except Exception:  # no package, no driver, no permission: in each case nothing can be read
        return
    try:
        for index in range(pynvml.nvmlDeviceGetCount()):
            handle = pynvml.nvmlDeviceGetHandleByIndex(index)
            with contextlib.suppress(pynvml.NVMLError):
                uuid = _text(pynvml.nvmlDeviceGetUUID(handle))
                if visible is not None and not _is_used(str(index), uuid, visible):
                    continue
                memory = pynvml.nvmlDeviceGetMemoryInfo(handle)
                gpu = {
                    "index": str(index),
                    "uuid": uuid,
                    "name": _text(pynvml.nvmlDeviceGetName(handle)),
                    "used": int(memory.used),
                    "total": int(memory.total),
                    "utilisation": None,
                    "power_w": None,
                    "holders": None,
                }
                with contextlib.suppress(pynvml.NVMLError):
                    gpu["utilisation"] = pynvml.nvmlDeviceGetUtilizationRates(handle).gpu / 100
                with contextlib.suppress(pynvml.NVMLError):
                    gpu["power_w"] = pynvml.nvmlDeviceGetPowerUsage(handle) / 1000
                with contextlib.suppress(pynvml.NVMLError):
                    holders = pynvml.nvmlDeviceGetComputeRunningProcesses(handle)
                    gpu["holders"] = {one.pid: one.usedGpuMemory for one in holders}
                yield gpu
    finally:
        pynvml.nvmlShutdown()


def _seen(gpus: list[Plain], visible: str | None) -> list[Plain]:
    """The GPUs of a worker: the first that it sees (dask-cuda turns the list for each worker), or all."""
    if visible is None:
        return gpus
    return [gpu for gpu in gpus if _is_used(gpu["index"], gpu["uuid"], visible)]


def _is_used(index: str, uuid: str, visible: str) -> bool:
    first = visible.split(",")[0].strip()
    return bool(first) and (index == first or uuid.startswith(first))


def _told(gpu: Plain, ours: set[int]) -> Plain:
    told = {name: gpu[name] for name in ("name", "used", "total", "utilisation")}
    holders = gpu["holders"]
    # In a container the driver may report process ids of the host, which do not exist here.
    known = holders is not None and all(
        size is not None and (pid in ours or psutil.pid_exists(pid)) for pid, size in holders.items()
    )
    others = {pid: size for pid, size in holders.items() if pid not in ours} if known else None
    outside = (
        None if others is None else [{"pid": pid, "name": _name(pid), "memory": size} for pid, size in others.items()]
    )
    return {**told, "others": None if others is None else sum(others.values()), "outside": outside}


def _name(pid: int) -> str:
    with contextlib.suppress(psutil.Error):
        return str(psutil.Process(pid).name())
    return "a program"


def _text(words: Any) -> str:
    return words.decode() if isinstance(words, bytes) else str(words)
