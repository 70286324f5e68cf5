"""Wakes the engine in the moment a request appears. Law: it costs nothing while nothing happens, and may be missed.

The kernel tells of changes in a folder by a signal (``F_NOTIFY``, man fcntl(2)); changes made on another host are not
told. So the engine looks at the requests now and then besides.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

#: What changes the list of requests: a new file, a renamed one (requests are written aside and renamed), one removed.
_CHANGES = fcntl.DN_CREATE | fcntl.DN_RENAME | fcntl.DN_DELETE


@contextlib.contextmanager
def ringing(folder: Path, ring: Callable[[], None]) -> Iterator[Callable[[], bool]]:
    """Call ``ring`` on the event loop when the list of files in ``folder`` changes.

    Yields what asks for the next call, one for each time that it is called: thousands of files must not flood the event
    loop with signals, among which one that ends the engine could be lost. It gives False where the system cannot tell
    of changes: no such kernel, or an event loop outside of the main thread.
    """
    loop = asyncio.get_running_loop()
    try:
        loop.add_signal_handler(signal.SIGIO, ring)
    except (RuntimeError, ValueError):
        yield lambda: False
        return
    descriptor = -1

    def ask() -> bool:
        try:
            fcntl.fcntl(descriptor, fcntl.F_NOTIFY, _CHANGES)
        except OSError:
            return False
        return True

    try:
        with contextlib.suppress(OSError):
            descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        yield ask
    finally:
        # Closed first, which ends the signals: one that comes without a handler would end the process.
        if descriptor >= 0:
            os.close(descriptor)
        loop.remove_signal_handler(signal.SIGIO)
        signal.signal(signal.SIGIO, signal.SIG_IGN)
