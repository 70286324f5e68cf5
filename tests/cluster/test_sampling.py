"""What a worker sees of real processes: what they use is what they do, and looking costs little."""

from __future__ import annotations

import asyncio
import contextlib
import subprocess
import sys
import time
import types
from collections.abc import Iterator
from typing import IO

import psutil
import pytest

from workbench.cluster.workers import sampling
from workbench.cluster.workers.sampling import FIRST_S, Look, Sampling, Seldom
from workbench.messages import Points, Sampled
from workbench.store.files.samples import Sample

MB = 1 << 20
#: Holds 200 MB and computes, and has a process below it that does the same; each computes until its input ends.
BUSY = """
import os, sys, threading
held = bytearray(b"x") * (200 << 20)
if os.fork() == 0:
    held = bytearray(b"y") * (200 << 20)
print("ready", flush=True)
ended = threading.Thread(target=sys.stdin.read, daemon=True)
ended.start()
while ended.is_alive():
    sum(range(10_000))
"""


@contextlib.contextmanager
def running(source: str, lines: int = 1) -> Iterator[int]:
    """A process that has printed so many lines; its number."""
    with subprocess.Popen([sys.executable, "-c", source], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        output: IO[bytes] | None = process.stdout
        assert output is not None
        assert [output.readline() for _ in range(lines)] == [b"ready\n"] * lines
        yield process.pid
        process.communicate()


def taken(look: Look) -> dict[str, float]:
    return {name: value for name, _, _, value in look.take()}


def spent(pid: int) -> float:
    """The processor time of a process and of those below it, as psutil tells it."""
    root = psutil.Process(pid)
    times = [one.cpu_times() for one in (root, *root.children(recursive=True))]
    return sum(one.user + one.system for one in times)


def test_a_process_and_those_below_it_are_seen_together() -> None:
    with running(BUSY, lines=2) as pid:
        look = Look(lambda: pid, "")
        begun, before = time.monotonic(), spent(pid)
        assert look.take() == [], "measuring begins with the first look"
        within, inside = time.monotonic(), spent(pid)
        while spent(pid) < inside + 1.0:  # on a busy machine the cores may be elsewhere
            time.sleep(0.05)
        inside = spent(pid) - inside
        within, found = time.monotonic() - within, look.take()
        most = spent(pid) - before
        seconds, used = time.monotonic() - begun, {name: value for name, _, _, value in found}
    assert used.keys() == {"cpu", "memory"}
    [(_, since, until, _), *_] = found
    # Each look takes time on a busy machine. The clocks differ by milliseconds at most.
    assert within - 0.05 <= until - since <= seconds + 0.05
    # Both compute for a second together, or longer where the looks take time; and each has its own 200 MB.
    assert inside - 0.1 <= used["cpu"] * (until - since) <= most + 0.1  # the kernel counts in hundredths of a second
    assert 400 * MB < used["memory"] < 700 * MB
    assert until == pytest.approx(time.time(), abs=5.0)


def test_a_process_at_rest_uses_no_core() -> None:
    with running("print('ready', flush=True); input()") as pid:
        look = Look(lambda: pid, "")
        look.take()
        time.sleep(0.5)
        assert taken(look)["cpu"] < 0.1


def test_a_process_that_is_gone_or_not_there_yet_has_no_samples() -> None:
    with running("print('ready', flush=True); input()") as pid:
        pass
    look = Look(lambda: pid, "")
    assert look.take() == look.take() == []
    assert Look(lambda: None, "").take() == []


def test_what_takes_long_is_asked_less_often() -> None:
    asked: list[int] = []

    def question(pids: object) -> dict[str, float | None]:
        asked.append(1)
        begun = time.thread_time()
        while time.thread_time() - begun < 0.005:
            pass
        return {"memory": 1.0}

    seldom, begun = Seldom(question, share=0.05), time.monotonic()
    while time.monotonic() - begun < 1.0 or len(asked) < 2:
        seldom.ask([])
    assert len(asked) <= 1 + 10 * (time.monotonic() - begun), "5 ms of each 100"


async def test_the_wait_for_data_is_told_between_two_samples() -> None:
    told: list[Sampled] = []
    one = Sampling(lambda: None, "", told.append)
    try:
        one.hear(Points([], None))
        one._began -= 100  # it began some time ago
        one.hear(Points([], (10.0, 9.0)))
        assert [(name, value) for name, _, _, value in one._waits()] == [("waits", 0.9)]
        one.hear(Points([], (10.5, 9.5)))
        assert one._waits() == [], "half a second is too short to tell"
        one.hear(Points([], (20.0, 9.0)))
    finally:
        one.end()
    [sampled] = told
    [(name, since, until, value)] = sampled.rows
    assert (name, value) == ("waits", 0.0)
    assert since <= until


async def test_a_process_that_trained_before_counts_from_the_present() -> None:
    told: list[Sampled] = []
    one = Sampling(lambda: None, "", told.append)
    one.hear(Points([], (50.0, 40.0)))  # its leg began just now
    one.hear(Points([], (52.0, 40.0)))
    one.end()
    assert [row[3] for row in told[0].rows] == [0.0]


async def test_a_short_leg_is_not_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    looks: list[int] = []
    looked, loop = asyncio.Event(), asyncio.get_running_loop()

    def take(self: Look) -> list[Sample]:
        looks.append(1)
        loop.call_soon_threadsafe(looked.set)
        return []

    monkeypatch.setattr(Look, "take", take)
    monkeypatch.setattr(sampling, "FIRST_S", 0.2)
    told: list[Sampled] = []
    Sampling(lambda: None, "", told.append).end()
    other = Sampling(lambda: None, "", told.append)
    await looked.wait()
    other.end()
    assert (len(looks), told) == (1, [])
    assert FIRST_S > 0.15


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> types.ModuleType:
    """NVIDIA's own library, answering for two GPUs of which the second is used: no machine of the tests has one."""
    library = types.ModuleType("pynvml")
    library.NVMLError = type("NVMLError", (Exception,), {})
    library.nvmlInit = library.nvmlShutdown = lambda: None
    library.nvmlDeviceGetCount = lambda: 2
    library.nvmlDeviceGetHandleByIndex = lambda index: index
    library.nvmlDeviceGetUUID = lambda handle: f"GPU-{handle}{handle}"
    library.nvmlDeviceGetName = lambda handle: "H100"
    library.nvmlDeviceGetMemoryInfo = lambda handle: types.SimpleNamespace(used=30 * MB, total=80 << 30)
    library.nvmlDeviceGetUtilizationRates = lambda handle: types.SimpleNamespace(gpu=85 * handle)
    library.nvmlDeviceGetPowerUsage = lambda handle: 312_400
    library.pids = []
    library.nvmlDeviceGetComputeRunningProcesses = lambda handle: [
        types.SimpleNamespace(pid=pid, usedGpuMemory=20 * MB) for pid in library.pids if handle
    ]
    monkeypatch.setitem(sys.modules, "pynvml", library)
    return library


@pytest.mark.parametrize(
    ("visible", "is_named", "found"),
    [
        ("1,0", True, (0.85, 20 * MB, 312.4)),
        ("GPU-11", False, (0.85, 30 * MB, 312.4)),  # as in a container: the driver tells other numbers
        ("0", False, (0.0, 30 * MB, 312.4)),
        (None, True, (0.85, 20 * MB, 312.4)),
        (None, False, None),  # which of two it is cannot be known
        ("", True, None),
        ("7", True, None),
    ],
)
def test_the_gpu_of_a_slot_is_read(
    gpu: types.ModuleType, visible: str | None, is_named: bool, found: tuple[float, float, float] | None
) -> None:
    with running("print('ready', flush=True); input()") as pid:
        gpu.pids = [pid] if is_named else [1]
        look = Look(lambda: pid, visible)
        look.take()
        used = taken(look)
    told = tuple(used[name] for name in ("gpu", "gpu_memory", "gpu_power") if name in used)
    assert told == (() if found is None else found)
