"""What a leg's processes use of memory, processor and GPU. Law: it reads, seldom, and a leg trains on if it cannot.

The memory of a process that ended between two looks, such as a loader's worker, is not seen.
"""

from __future__ import annotations

import contextlib
import io
import os
import resource
import time
from collections.abc import Callable, Iterable
from pathlib import Path

from workbench.messages import Measured
from workbench.trial.process import devices
from workbench.trial.process.crowding import cores
from workbench.trial.process.processes import descendants, spent

#: A look is taken at the end of a step, at most once in so many seconds; and told if the peak is higher by this factor.
LOOK_S, HIGHER = 1.0, 1.05
#: The part of the training's time that looks may take: the kernel walks all pages of processes that share memory.
MOST_OF_TIME = 0.001


class Measuring:
    """Measures one leg. :meth:`begin` is called before anything else, when the set-up is done."""

    def __init__(self, tell: Callable[[Measured], None], step: Callable[[], int], *, at_once: bool) -> None:
        """tell: sends what was measured. step: the step that the leg has reached. at_once: whether the first step is
        measured, however short it is."""
        self._tell, self._step = tell, step
        self._at_once = at_once
        self._spent: tuple[float, dict[int, float]] = (0.0, {})
        self._began = self._next = self._waited = 0.0
        self._told: Measured | None = None

    def begin(self) -> None:
        """The first step starts."""
        self._spent, self._waited, self._began = _spent(), waited_for_core(), time.monotonic()
        self._next = self._began + (0.0 if self._at_once else LOOK_S)

    def stepped(self) -> None:
        """A step ends."""
        now = time.monotonic()
        if now < self._next:
            return
        before = self._told
        busy = before.busy if before is not None else self._busy(now)
        gpu = devices.used()
        found = Measured(
            step=self._step(),
            memory=peak_memory(),
            machine=limit(),
            busy=round(busy, 3),
            cores=cores(),
            has_device=bool(os.environ.get("CUDA_VISIBLE_DEVICES")),
            **({} if gpu is None else {"device": gpu[0], "context": gpu[1], "device_total": gpu[2]}),
        )
        if before is None or _is_higher(found.memory, before.memory) or _is_higher(found.device, before.device):
            self._told = found
            self._tell(found)
        after = time.monotonic()
        self._next = after + max(LOOK_S, (after - now) / MOST_OF_TIME)

    def _busy(self, now: float) -> float:
        """The cores that this process and those below it have kept busy since the beginning, of the time in which the
        training's thread had what it needed: on a full machine, a trial that only computes seems to wait otherwise."""
        (then, theirs), (total, below) = self._spent, _spent()
        # Of a process that has ended and was waited for, this process has all the time, that before the start included.
        gone = sum(spent for pid, spent in theirs.items() if pid not in below)
        used = total - then - gone + sum(spent - theirs.get(pid, 0.0) for pid, spent in below.items())
        return max(0.0, used) / max(now - self._began - (waited_for_core() - self._waited), 1e-6)


def _is_higher(now: int | None, before: int | None) -> bool:
    return now is not None and now > HIGHER * (before or 0)


def waited_for_core() -> float:
    """Seconds for which the calling thread could have computed and no core was free, as Linux counts them; else 0."""
    suppressed = contextlib.suppress(OSError, ValueError, IndexError)
    with suppressed, io.FileIO("/proc/thread-self/schedstat") as file:  # training may have replaced ``open``
        return int(file.read().split()[1]) / 1e9
    return 0.0


def _spent() -> tuple[float, dict[int, float]]:
    """Processor seconds of this process and of those that it has waited for; and of each process below it."""
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    below = {}
    for pid in descendants(os.getpid()):
        if (seconds := spent(pid)) is not None:
            below[pid] = seconds
    return time.process_time() + ended.ru_utime + ended.ru_stime, below


def peak_memory() -> int | None:
    """The most bytes of memory that this process had; or what it has together with those below it, if that is more."""
    own = _bytes("/proc/self/status", b"VmHWM:")
    below = descendants(os.getpid())
    if not below:
        return own
    every = _bytes_of(os.getpid(), *below)
    return max((size for size in (own, every) if size is not None), default=None)


def _bytes_of(*pids: int) -> int | None:
    sizes = [_bytes(f"/proc/{pid}/smaps_rollup", b"Pss:") for pid in pids]
    return sum(size or 0 for size in sizes) if sizes[0] is not None else None


def _bytes(path: str, name: bytes) -> int | None:
    """A size from one of the kernel's files, which has it in kB."""
    with contextlib.suppress(OSError, ValueError, IndexError), open(path, "rb") as file:
        return next((int(line.split()[1]) << 10 for line in file if line.startswith(name)), None)
    return None


def limit() -> int | None:
    """The bytes that all processes here may have together: the machine's, or fewer if a control group says so."""
    found = [_bytes("/proc/meminfo", b"MemTotal:"), *map(_number, _groups())]
    return min((size for size in found if size is not None), default=None)


def _groups() -> Iterable[Path]:
    """Files with the limits of this process's control groups (cgroup v2, then v1), and of those above them."""
    with contextlib.suppress(OSError, ValueError):
        for line in Path("/proc/self/cgroup").read_text().splitlines():
            _, controllers, path = line.split(":", 2)
            if controllers in ("", "memory"):
                root = Path("/sys/fs/cgroup/memory" if controllers else "/sys/fs/cgroup")
                name = "memory.limit_in_bytes" if controllers else "memory.max"
                place = root / path.strip("/")
                yield from (one / name for one in (place, *place.parents) if root in (one, *one.parents))


def _number(path: Path) -> int | None:
    with contextlib.suppress(OSError, ValueError):
        return int(path.read_text())
    return None
