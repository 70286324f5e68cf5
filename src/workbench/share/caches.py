"""Where publications from a URL lie while they are open. Law: a folder goes with the process that fetched into it; of
one that was killed, with the next that fetches.
"""

from __future__ import annotations

import atexit
import contextlib
import fcntl
import os
import shutil
import tempfile
from pathlib import Path

_PREFIX = "workbench-opened-"
#: Held as long as the process lives; nobody else sweeps a folder whose lock is held.
_LOCK = "lock"
_held: dict[Path, int] = {}


def cache() -> Path:
    """A new folder that lasts as long as this process."""
    sweep()
    if not _held:
        atexit.register(_let_go, os.getpid())
    outer = Path(tempfile.mkdtemp(prefix=_PREFIX))
    descriptor = os.open(outer / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    _held[outer] = descriptor
    folder = outer / "store"
    folder.mkdir()
    return folder


def sweep() -> None:
    """Remove folders whose process is gone."""
    for outer in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        if outer in _held:
            continue
        with contextlib.suppress(OSError):  # another person's, or being made at this moment
            descriptor = os.open(outer / _LOCK, os.O_RDWR | os.O_CLOEXEC)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(outer, ignore_errors=True)
            finally:
                os.close(descriptor)


def _let_go(owner: int) -> None:
    if os.getpid() == owner:  # a forked child has the list, and not the folders
        for outer in _held:
            shutil.rmtree(outer, ignore_errors=True)
