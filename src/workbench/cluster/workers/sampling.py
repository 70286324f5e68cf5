"""What a leg's processes use over time, as their worker sees it. Law: from outside, seldom, and for a bounded cost.

Looks are taken in a thread, so that the worker's event loop goes on. The kernel walks all pages of a process to tell
its memory, and a driver may take milliseconds; what takes long is asked less often.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import logging
import time
from collections.abc import Callable, Mapping, Sequence

from workbench.cluster.workers.machine import gpus_here, memory_of
from workbench.messages import Points, Sampled
from workbench.store.files.samples import Sample
from workbench.trial.process.processes import descendants, spent

#: Seconds from the start of a leg to the first look, with which measuring begins. Then the time between looks grows
#: with the leg's age, up to the second number.
FIRST_S, EVERY_S = 1.0, 5.0
#: The share of a core that asking for memory may take, and for what the GPU does.
MEMORY_SHARE, GPU_SHARE = 0.0005, 0.0002

log = logging.getLogger("workbench.cluster")


class Seldom:
    """Asks, and not again before the time that it took is at most ``share`` of the time since."""

    def __init__(self, question: Callable[[Sequence[int]], Mapping[str, float | None]], share: float) -> None:
        self._question, self._share = question, share
        self._next = 0.0

    def ask(self, pids: Sequence[int]) -> Mapping[str, float | None]:
        """What these processes use, by measure; nothing where it is too early."""
        if time.monotonic() < self._next:
            return {}
        before = time.thread_time()
        answer = self._question(pids)
        self._next = time.monotonic() + (time.thread_time() - before) / self._share
        return answer


class Sampling:
    """The samples of one leg, from now until :meth:`end`. To be made and used on the worker's event loop."""

    def __init__(self, pid: Callable[[], int | None], visible: str | None, tell: Callable[[Sampled], object]) -> None:
        """pid: of its runner, once it is known. visible: the GPUs that it sees, as in CUDA_VISIBLE_DEVICES; empty:
        none."""
        self._tell = tell
        self._look = Look(pid, visible)
        self._loop = asyncio.get_running_loop()
        # Within a leg the clock cannot be set back.
        self._began, self._at = time.monotonic(), time.time()
        #: Seconds of the training, and of its waits for data, as the runner said last, and when; the same of the last
        #: sample.
        self._waited: tuple[float, float, float] | None = None
        self._told: tuple[float, float, float] | None = None
        self._ended = False
        self._timer = self._loop.call_later(FIRST_S, self._due)

    def hear(self, points: Points) -> None:
        """The runner has sent these."""
        if points.waited is None:
            return
        now = time.monotonic()
        self._waited = (*points.waited, now)
        if self._told is None:
            # A process that trained this trial before counts from its own beginning.
            seconds = points.waited[0]
            self._told = (0.0, 0.0, now - seconds) if seconds <= now - self._began else self._waited

    def end(self) -> None:
        """The leg has left its process."""
        self._ended = True
        self._timer.cancel()
        self._send(self._waits())

    def _due(self) -> None:
        asking = self._loop.run_in_executor(None, self._look.take)
        asking.add_done_callback(self._taken)

    def _taken(self, asking: asyncio.Future[list[Sample]]) -> None:
        if self._ended or asking.cancelled():
            return
        if (error := asking.exception()) is not None:
            log.warning("what a trial uses is not shown any more: %r", error)
            return
        self._send([*asking.result(), *self._waits()])
        self._timer = self._loop.call_later(min(EVERY_S, time.monotonic() - self._began), self._due)

    def _waits(self) -> list[Sample]:
        """The share of the time in which training waited for data, since the last sample of it."""
        if self._waited is None or self._told is None:
            return []
        (seconds, waited, now), (before, then, since) = self._waited, self._told
        if seconds - before < FIRST_S:
            return []
        self._told = self._waited
        zero = self._at - self._began
        return [("waits", zero + since, zero + now, min(1.0, max(0.0, (waited - then) / (seconds - before))))]

    def _send(self, rows: list[Sample]) -> None:
        if rows:
            self._tell(Sampled(rows))


class Look:
    """Looks at a process and those below it. One thread at a time may use it."""

    def __init__(self, pid: Callable[[], int | None], visible: str | None) -> None:
        self._pid, self._visible = pid, visible
        self._asked = [Seldom(_memory, MEMORY_SHARE)]
        if visible != "":
            self._asked.append(Seldom(self._of_gpu, GPU_SHARE))
        #: Processor seconds until the last look.
        self._spent = 0.0
        #: Until when each measure was sampled, and when the first look was; all None before it.
        self._until: dict[str, float] = {}
        self._first: float | None = None
        self._zero = time.time() - time.monotonic()

    def take(self) -> list[Sample]:
        """The samples since the last call; none at the first one, nor if the process has ended."""
        root = self._pid()
        own = None if root is None else spent(root)
        if root is None or own is None:
            return []
        below, now = descendants(root), time.monotonic()
        # What a process has used is lost with it if no other one waited for its end.
        before, self._spent = self._spent, own + sum(spent(pid) or 0.0 for pid in below)
        if self._first is None:
            self._first = now
            return []
        found: dict[str, float | None] = {
            "cpu": max(0.0, self._spent - before) / max(now - self._until.get("cpu", self._first), 1e-6)
        }
        for asked in list(self._asked):
            found.update(asked.ask([root, *below]))
        return [self._sample(name, now, value) for name, value in found.items() if value is not None]

    def _sample(self, name: str, now: float, value: float) -> Sample:
        """One that covers the time since the last one of its measure."""
        since = self._until.get(name, self._first or now)
        self._until[name] = now
        return name, self._zero + since, self._zero + now, float(value)

    def _of_gpu(self, pids: Sequence[int]) -> Mapping[str, float | None]:
        gpus = list(gpus_here(self._visible))
        if not gpus:
            del self._asked[1:]
            return {}
        _keep_open()
        own = [gpu for gpu in gpus if not (gpu["holders"] or {}).keys().isdisjoint(pids)]
        if not own and len(gpus) > 1:
            return {}
        gpu = (own or gpus)[0]
        sizes = [size for pid, size in (gpu["holders"] or {}).items() if pid in pids]
        # In a container the driver may tell other numbers of the processes, or none.
        memory = sum(sizes) if sizes and None not in sizes else gpu["used"]
        return {"gpu": gpu["utilisation"], "gpu_memory": memory, "gpu_power": gpu["power_w"]}


def _memory(pids: Sequence[int]) -> Mapping[str, float | None]:
    return {"memory": sum(map(memory_of, pids))}


@functools.cache
def _keep_open() -> None:
    """Keep NVIDIA's library open as long as this process lives: to open it takes longer than to ask."""
    with contextlib.suppress(Exception):
        import pynvml

        pynvml.nvmlInit()
