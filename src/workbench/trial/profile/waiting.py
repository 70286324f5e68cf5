"""How long a leg's loop waits for its data. Law: it costs some microseconds a batch, keeps no object of the training
code alive, and the user is told once for each experiment."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

from workbench.snapshot.imported import loaded
from workbench.trial.process.crowding import cores, is_first
from workbench.trial.profile.advice import WAITS, Fed, starved
from workbench.trial.profile.code import own_frames

#: The share is judged after so many seconds of training, and again after as many: the first batches wait for workers
#: to start and for files that the disk has not read yet.
LEAST_S = 10.0
#: Asking a GPU whether it is busy takes some microseconds: a wait of this many seconds can afford that.
LONG_S = 0.0002

P = ParamSpec("P")
R = TypeVar("R")


@dataclass(slots=True)
class _Tally:
    """Seconds spent waiting for the loaders of one data set: all, at the ends of passes, and computing."""

    seconds: float = 0.0
    ends: float = 0.0
    computed: float = 0.0


class Waiting:
    """The waits of one leg for its DataLoaders, in the thread in which it was made."""

    def __init__(
        self,
        slots: int,
        told: Path | None,
        says: Callable[[str], None],
        reports: Callable[[], bool],
        *,
        least_s: float = LEAST_S,
    ) -> None:
        """slots: those of this machine in which trials train; 0 if that is not known. told: exists once the user was
        told. says: tells the user. reports: whether the leg has reported; a loop that counts its own steps has begun
        then. least_s: see :data:`LEAST_S`."""
        self._slots, self._told, self._says, self._reports, self._least_s = slots, told, says, reports, least_s
        # Processes forked from this one are loaders' workers, or run the set-up a second time.
        self._pid, self._thread = os.getpid(), threading.get_ident()
        self._is_training = self._is_inside = False
        #: The processor time of this thread when the request began.
        self._cpu = 0.0
        #: When training began, and when its share is judged next (``time.perf_counter``).
        self._began = self._next = 0.0
        self._seconds = 0.0
        #: By the identity of the data set.
        self._tallies: dict[int, _Tally] = {}
        self._restart()

    def begin(self) -> None:
        """The set-up is done, and training starts."""
        self._is_training = True
        self._restart()

    def share(self) -> float | None:
        """The share of the training time so far in which the loop waited for its data; None before it has begun."""
        elapsed = time.perf_counter() - self._began
        return min(1.0, self._seconds / elapsed) if self._is_training and elapsed > 0 else None

    def so_far(self) -> tuple[float, float] | None:
        """The seconds of the training so far, and those of them in which the loop waited for its data; None before it
        has begun, and before any loader was asked. Any thread may call it."""
        if not self._is_training or not self._tallies:
            return None
        elapsed = time.perf_counter() - self._began
        return elapsed, min(elapsed, self._seconds)

    def without(self, function: Callable[P, R]) -> Callable[P, R]:
        """``function``, whose time does not count."""

        def called(*arguments: P.args, **named: P.kwargs) -> R:
            begun = time.perf_counter()
            try:
                return function(*arguments, **named)
            finally:
                away = time.perf_counter() - begun
                self._began, self._next = self._began + away, self._next + away

        return called

    # -- requests for batches ----------------------------------------------------------------------------------------

    def enter(self) -> bool:
        """A batch is requested; False in another thread, and inside of another request."""
        if self._is_inside or threading.get_ident() != self._thread:
            return False
        self._is_inside = True
        self._cpu = time.thread_time()
        return True

    def leave(self, iterator: Any, begun: float, is_edge: bool) -> None:
        """The request has ended."""
        self._is_inside = False
        now = time.perf_counter()
        took = now - begun
        if iterator is None or (took > LONG_S and not _is_idle()):
            return
        which = id(iterator._dataset)
        tally = self._tallies.get(which)
        if tally is None:
            tally = self._tallies[which] = _Tally()
        tally.seconds += took
        tally.computed += time.thread_time() - self._cpu
        if is_edge:
            tally.ends += took
        self._seconds += took
        if now >= self._next:
            self._judge(iterator, tally, now)

    def fed(self, iterator: Any) -> Fed:
        """How the loader of ``iterator`` fed the training code so far."""
        tally = self._tallies[id(iterator._dataset)]
        elapsed = max(time.perf_counter() - self._began, self._seconds, 1e-9)
        return Fed(
            _name(iterator),
            tally.seconds / elapsed,
            self._seconds / elapsed,
            iterator._num_workers,
            getattr(iterator, "_prefetch_factor", None),
            iterator._persistent_workers,
            tally.ends / max(tally.seconds, 1e-9),
            tally.computed / max(tally.seconds, 1e-9),
        )

    def is_longest(self, iterator: Any) -> bool:
        """Whether no other loader was waited for longer."""
        return self._tallies[id(iterator._dataset)].seconds >= max(one.seconds for one in self._tallies.values())

    def _judge(self, iterator: Any, tally: _Tally, now: float) -> None:
        if not self._is_training:
            self._is_training = self._reports()
            self._restart()  # what was measured so far may be a set-up's
            return
        share = self.share() or 0.0
        if share > WAITS and not self.is_longest(iterator):
            return  # a request of the loader that is waited for longest will follow
        self._next = now + self._least_s
        if share > WAITS and os.getpid() == self._pid and self._told is not None:
            if is_first(self._told):
                self._says(starved(self.fed(iterator), self._slots, cores()))
            self._next = float("inf")

    def _restart(self) -> None:
        self._began = time.perf_counter()
        self._next = self._began + self._least_s
        self._seconds = 0.0
        self._tallies.clear()


def _is_idle() -> bool:
    """Whether the GPU has nothing to do: if it has, the loop waited for a batch while the model still trained."""
    torch: Any = loaded("torch")
    if not torch.cuda.is_initialized():
        return True
    return bool(not torch.cuda.is_current_stream_capturing() and torch.cuda.current_stream().query())


def _name(iterator: Any) -> str:
    """The loader's name in the user's code; without one, the class of its data set."""
    loader: Any = loaded("torch.utils.data").DataLoader
    data = iterator._dataset
    # The outermost first: a function that makes a pass calls every loader the same.
    for frame in reversed([*own_frames(sys._getframe(1))]):
        for names in (frame.f_locals, frame.f_globals):
            for name, value in list(names.items()):
                if isinstance(value, loader) and value.dataset is data and not name.startswith("_"):
                    return f"`{name}`"
    return f"the DataLoader of {type(data).__name__}"
