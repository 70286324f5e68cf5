"""Reads files that this process may have locked. Law: reading a file here releases no lock.

A process that closes any descriptor of a file loses all its POSIX locks on it. SQLite locks a database in this way:
without the lock, another process takes an open database for a closed one and removes its log, with committed rows.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import struct
import threading
from collections.abc import Iterator
from typing import BinaryIO

#: A ``struct flock``: a lock for writing on the whole file.
_WHOLE = struct.pack("hhqqi", fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
#: Files that were locked when they had been read. They are read and closed later.
_open: list[BinaryIO] = []
_guard = threading.Lock()


@contextlib.contextmanager
def reading(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """Open a file for reading, from its beginning. While a process has a lock on it, it stays open afterwards."""
    file = _taken(os.stat(path)) or open(path, "rb")
    try:
        file.seek(0)
        yield file
    finally:
        with _guard:
            _open.append(file)
            for one in [one for one in _open if not _is_locked(one)]:
                _open.remove(one)
                one.close()


def _taken(status: os.stat_result) -> BinaryIO | None:
    """The file, if it is open here since it was read before."""
    with _guard:
        for file in _open:
            if os.path.samestat(os.fstat(file.fileno()), status):
                _open.remove(file)
                return file
    return None


def _is_locked(file: BinaryIO) -> bool:
    """Whether a process, which may be this one, has a POSIX lock on the file."""
    try:
        found = fcntl.fcntl(file, fcntl.F_OFD_GETLK, _WHOLE)
    except OSError:  # a file system without locks
        return False
    return bool(struct.unpack_from("h", found)[0] != fcntl.F_UNLCK)
