"""Wakes the engine when a request appears. Law: it costs nothing while nothing happens, and may miss a request.

The kernel signals changes in a folder (``F_NOTIFY``, man fcntl(2)), but not those made on another host. So the engine
also looks at the requests now and then.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

#: Changes of the list of requests: a file was created, renamed (requests are written under another name, then renamed)
#: or removed.
_CHANGES = fcntl.DN_CREATE | fcntl.DN_RENAME | fcntl.DN_DELETE


@contextlib.contextmanager
def ringing(folder: Path, ring: Callable[[], None]) -> Iterator[Callable[[], bool]]:
    """Call ``ring`` on the event loop when the list of files in ``folder`` changes.

    Yields a function that requests the next call; each call of it gives one call of ``ring``. So thousands of files do
    not flood the event loop with signals, among which one that ends the engine could be lost. The function returns
    False if changes cannot be signalled: the kernel lacks it, or the event loop is not in the main thread.
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
        # Close first, which ends the signals: a signal without a handler would end the process.
        if descriptor >= 0:
            os.close(descriptor)
        loop.remove_signal_handler(signal.SIGIO)
        signal.signal(signal.SIGIO, signal.SIG_IGN)
