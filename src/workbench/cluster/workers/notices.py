"""Notice that a worker's machine goes: SIGTERM. Law: each engine's plugin hears it, the last one ends the process."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import Callable
from typing import Any


class Notices:
    """Who hears a SIGTERM of this process."""

    def __init__(self) -> None:
        self._hearers: list[Callable[[], None]] = []
        self._before: Any = signal.SIG_DFL

    def listen(self, hear: Callable[[], None]) -> None:
        """Have ``hear`` called at each SIGTERM, on the running loop."""
        if not self._hearers:
            self._before = signal.getsignal(signal.SIGTERM)
            with contextlib.suppress(ValueError, RuntimeError):  # a worker in a thread has no signals of its own
                asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, self._tell)
        self._hearers.append(hear)

    def leave(self, hear: Callable[[], None]) -> bool:
        """Call ``hear`` no more. Returns whether none is left: then SIGTERM means again what it meant before."""
        if hear in self._hearers:
            self._hearers.remove(hear)
            if not self._hearers:
                with contextlib.suppress(ValueError, RuntimeError):
                    if asyncio.get_running_loop().remove_signal_handler(signal.SIGTERM):
                        signal.signal(signal.SIGTERM, self._before)
        return not self._hearers

    def _tell(self) -> None:
        for hear in tuple(self._hearers):
            hear()


#: Those of this process.
NOTICES = Notices()
