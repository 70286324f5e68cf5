"""A second run of the set-up, in a process beside the first trial's: what differs between the two is not reproducible.

Law: it trains nothing, changes no file that is there, and ends with its runner. It starts after the first run of the
set-up, so that the two never download or unpack the same files at once.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import random
import select
import signal
import struct
import time
import types
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, NoReturn

from workbench.snapshot.imported import loaded
from workbench.store.owner import runtime
from workbench.trial.course.apart import Apart
from workbench.trial.course.made import prints
from workbench.trial.course.place import Place
from workbench.trial.generators import unseeded
from workbench.trial.namespace import frames_around
from workbench.trial.process.processes import descendants
from workbench.trial.state import State

_PR_SET_PDEATHSIG = 1
_HEAD = struct.Struct("<?Q")
#: The second set-up may take at most this many seconds, or this multiple of the first one's time.
LEAST_S, TIMES = 10.0, 4.0
#: Memory that must be free in addition to what the first set-up took, in bytes: of the machine, and of a GPU.
_SPARE, _SPARE_ON_GPU = 256 << 20, 700 << 20


class TwinCourse:
    """The object behind ``trial`` in the second run: the first turn ends it."""

    may_resume = True
    place = None

    def __init__(self, place: Place, tell: Callable[[bool, bytes], NoReturn]) -> None:
        self._place, self._tell = place, tell
        self._tracked: dict[str, Any] = {}

    def turn(self, frame: types.FrameType) -> int:
        place = self._place
        place.begins()
        frames = frames_around(frame, place.main, place.top)
        state = State(place.main, frames, hidden=place.hidden, tracked=self._tracked, modules=place.modules)
        self._tell(True, prints(state.base))

    def turns_left(self) -> int:
        return 0

    def report(self, values: Mapping[str, Any], step: int | None) -> bool:
        if step is not None:
            self._tell(False, b"this loop counts for itself, so where its set-up ends is not known")
        return True

    def log(self, values: Mapping[str, Any]) -> None:
        """Does nothing: the first run sent it."""

    def show(self, figure: Any) -> None:
        """Does nothing: the first run showed it."""

    def batches(self, loader: Any) -> Any:
        return loader

    def track(self, objects: Mapping[str, Any]) -> None:
        self._tracked.update(objects)

    def data(self, path: Path) -> None:
        """Does nothing: the first run recorded it."""

    def save(self, folder: Path, step: int | None) -> None:
        """Does nothing: the first run saves."""

    def restore(self) -> Path | None:
        return None

    def is_due(self, step: int) -> bool:
        return False

    def write(self, step: int, write: Callable[[Path], None]) -> None:
        """Does nothing: the first run saves."""

    def trains(self, repeats: bool = False) -> None:
        self.report({}, 1)


class Twin:
    """The process of the second run, seen from the first. It waits for :meth:`go`."""

    #: Those of this process that have not ended: what they read is not what the trial reads.
    alive: ClassVar[set[int]] = set()

    def __init__(
        self,
        run: Callable[[Callable[[bool, bytes], NoReturn]], None],
        closed: tuple[int, ...],
        apart: Callable[..., Apart],
    ) -> None:
        """Fork it now, in the state in which the first run starts.

        run: trains with a :class:`TwinCourse`, given how to send the result. closed: descriptors to close. apart:
        makes the process's :class:`Apart`, given a folder and what ends it.
        """
        self._memory = _resident()
        self._folder = runtime.temporary("setup")
        waits, self._go = os.pipe()
        self._result, tells = os.pipe()
        parent = os.getpid()
        drawn = random.getstate()
        self.pid = os.fork()
        if self.pid == 0:
            random.setstate(drawn)  # Python seeds it again in every forked child
            for descriptor in (self._go, self._result, *closed):
                os.close(descriptor)
            _become(parent, waits, tells, run, partial(apart, str(self._folder)))
        self.alive.add(self.pid)
        os.close(waits)
        os.close(tells)
        self._until = 0.0
        self._bytes = bytearray()
        self._is_over = False

    def go(self, seconds: float) -> str:
        """The first set-up is done, and took ``seconds``. Returns why there is no room for a second one, or nothing."""
        why = _no_room(max(0, _resident() - self._memory))
        if why:
            self.end()
            return why
        self._until = time.monotonic() + max(LEAST_S, TIMES * seconds)
        os.write(self._go, b"1")
        return ""

    def result(self, wait: bool) -> tuple[bool, bytes] | None:
        """Whether the second run reached its first turn, and its prints or the reason. None, without wait: not yet."""
        while not self._is_over:
            left = self._until - time.monotonic()
            if left <= 0:
                self.end()
                return False, b"it took much longer than the first time"
            if not select.select([self._result], [], [], left if wait else 0)[0]:
                if wait:
                    continue
                return None
            piece = os.read(self._result, 1 << 20)
            self._bytes += piece
            if not piece or self._is_whole():
                break
        whole = self._is_whole()
        self.end()
        if not whole:
            return False, b"its process died"
        is_well, length = _HEAD.unpack_from(self._bytes)
        return is_well, bytes(self._bytes[_HEAD.size : _HEAD.size + length])

    def _is_whole(self) -> bool:
        return len(self._bytes) >= _HEAD.size and len(self._bytes) >= _HEAD.size + _HEAD.unpack_from(self._bytes)[1]

    def end(self) -> None:
        """End its process and what it started; they are gone when this returns."""
        if self._is_over:
            return
        self._is_over = True
        for pid in (*descendants(self.pid), self.pid):
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        with contextlib.suppress(ChildProcessError):
            os.waitpid(self.pid, 0)
        self.alive.discard(self.pid)
        os.close(self._go)
        os.close(self._result)
        runtime.remove(self._folder)


def _become(parent: int, waits: int, tells: int, run: Callable[..., None], apart: Callable[..., Apart]) -> NoReturn:
    def tell(is_well: bool, data: bytes) -> NoReturn:
        data = memoryview(_HEAD.pack(is_well, len(data)) + data)  # type: ignore[assignment]
        while data:
            data = data[os.write(tells, data) :]
        for pid in descendants(os.getpid()):
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        os._exit(0)

    try:
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)
        if os.getppid() != parent or not os.read(waits, 1):
            os._exit(0)
        nothing = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nothing, 1)
        os.dup2(nothing, 2)
        unseeded.here()
        apart(lambda why: tell(False, why[:500].encode(errors="replace"))).hook()
        run(tell)
        tell(False, b"it ended without a turn of trial.steps()")
    except BaseException as error:
        tell(False, f"{type(error).__name__}: {error}"[:500].encode(errors="replace"))
    finally:
        os._exit(1)


def _resident() -> int:
    try:
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError):
        return 0


def _no_room(taken: int) -> str:
    """Why a second set-up that takes as much memory could harm the first, or nothing."""
    free = _free()
    if free is not None and free < taken + taken // 4 + _SPARE:
        return f"it takes {taken / 1e9:.1f} GB of memory, and {free / 1e9:.1f} GB are free"
    torch = loaded("torch")
    if torch is not None and torch.cuda.is_initialized():
        on_gpu, reserved = torch.cuda.mem_get_info()[0], torch.cuda.memory_reserved()
        if on_gpu < reserved + reserved // 4 + _SPARE_ON_GPU:
            return f"it takes {reserved / 1e9:.1f} GB of the GPU's memory, and {on_gpu / 1e9:.1f} GB are free"
    return ""


def _free() -> int | None:
    """Bytes of available memory: of the machine, and of the control group."""
    found: list[int] = []
    with contextlib.suppress(OSError, ValueError, StopIteration):
        lines = Path("/proc/meminfo").read_text().splitlines()
        found.append(int(next(line for line in lines if line.startswith("MemAvailable:")).split()[1]) * 1024)
    with contextlib.suppress(OSError, ValueError):
        most = Path("/sys/fs/cgroup/memory.max").read_text()
        found.append(int(most) - int(Path("/sys/fs/cgroup/memory.current").read_text()))
    return min(found, default=None)
