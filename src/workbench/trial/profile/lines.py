"""The costly lines of training code. Law: a line costs the time that the training thread is in it, or in what it calls
that is not the user's.

torch's profiler knows the functions that called an operation, not their lines. So a thread looks, some hundred times a
second, at which line of the user's code the training thread is: its share of the looks is its share of the time.
"""

from __future__ import annotations

import linecache
import sys
import threading
import time
from dataclasses import dataclass

from workbench.trial.profile.code import own_frames

#: Seconds between looks: of a window of one second, a line's share is known to about 4 percent points.
EVERY_S = 0.005


@dataclass(frozen=True, slots=True)
class Line:
    """A line of the user's code: its file (or the name of a cell), its number and text, its share of the time."""

    file: str
    number: int
    text: str
    share: float


class Lines:
    """Looks at the lines of the thread that makes it, from :meth:`start` to :meth:`stop`."""

    def __init__(self) -> None:
        self._thread = threading.get_ident()
        self._ended = threading.Event()
        self._looks: dict[tuple[str, int], float] = {}
        self._looker = threading.Thread(target=self._look, name="workbench-lines", daemon=True)
        self._seconds = 0.0

    def start(self) -> None:
        """Look from now on."""
        self._looker.start()

    def stop(self) -> None:
        """Look no longer."""
        self._ended.set()
        self._looker.join()

    def costliest(self, most: int = 8, least: float = 0.01) -> list[Line]:
        """At most ``most`` lines, the costliest first, without those of a smaller share than ``least``."""
        found = sorted(self._looks.items(), key=lambda one: (-one[1], one[0]))
        shares = [(file, number, seconds / self._seconds) for (file, number), seconds in found[:most]]
        return [
            Line(file, number, linecache.getline(file, number).strip(), share)
            for file, number, share in shares
            if share >= least
        ]

    def _look(self) -> None:
        before = time.perf_counter()
        while not self._ended.wait(EVERY_S):
            frame = sys._current_frames().get(self._thread)
            # An extension that holds Python's lock delays a look: the look counts for the whole time.
            now = time.perf_counter()
            took, before = now - before, now
            self._seconds += took
            own = next(own_frames(frame), None)
            if own is not None:
                at = (own.f_code.co_filename, own.f_lineno)
                self._looks[at] = self._looks.get(at, 0.0) + took
            del frame, own
