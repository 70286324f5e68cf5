"""The machine's notice of its shutdown (SIGTERM), for a runner and not for what training forks from it.

Law: a process that training forks ends by SIGTERM at once. With a handler of Python's it would not: a signal that comes
just before a system call waits, such as that for the next task of a pool, is handled only when the call returns, and
one that comes just after the fork is dropped.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any

Handler = Callable[[int, FrameType | None], Any]


def on_notice(handler: Handler) -> None:
    """Call ``handler`` in this process when a notice comes. Called once, in the main thread."""
    signal.signal(signal.SIGTERM, handler)
    masks = threading.local()

    def before() -> None:
        masks.before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])

    def after_in_parent() -> None:
        signal.pthread_sigmask(signal.SIG_SETMASK, masks.before)

    def after_in_child() -> None:
        # Training may have set a handler of its own, which its children inherit as anywhere else.
        if signal.getsignal(signal.SIGTERM) == handler:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, masks.before)

    os.register_at_fork(before=before, after_in_parent=after_in_parent, after_in_child=after_in_child)
