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
_CHANGES = fcntl.DN_CREATE | fcntl.DN_RENAME | fcntl.DN_DELETE | fcntl.DN_MULTISHOT


@contextlib.contextmanager
def ringing(folder: Path, ring: Callable[[], None]) -> Iterator[bool]:
    """Call ``ring`` on the event loop whenever the list of files in ``folder`` changes.

    Yields False where the system cannot tell of changes: no such kernel, or an event loop outside of the main thread.
    """
    loop = asyncio.get_running_loop()
    try:
        loop.add_signal_handler(signal.SIGIO, ring)
    except (RuntimeError, ValueError):
        yield False
        return
    descriptor = -1
    try:
        told = True
        try:
            descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            fcntl.fcntl(descriptor, fcntl.F_NOTIFY, _CHANGES)
        except OSError:
            told = False
        yield told
    finally:
        # Closed first, which ends the signals: one that comes without a handler would end the process.
        if descriptor >= 0:
            os.close(descriptor)
        loop.remove_signal_handler(signal.SIGIO)
        signal.signal(signal.SIGIO, signal.SIG_IGN)
