"""Which attempt may write a trial's checkpoints. Law: one at a time holds the fence, and none that is older than it.

One file serves all trials of an experiment: each has a record of its own in it, which is locked by itself.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import struct
from collections.abc import Iterator
from pathlib import Path

from workbench.errors import StaleAttempt
from workbench.store.files.atomic import FILE_MODE, make_folder, telling
from workbench.store.layout import ATTEMPTS

#: Bytes of a record: a decimal number, filled up with spaces, and a newline.
_RECORD = 20
_TRIAL = re.compile(r"t(\d{4,9})")


@contextlib.contextmanager
def held(trial: Path, attempt: int | None) -> Iterator[None]:
    """Hold the fence of the trial in the folder ``trial``, as ``attempt``; None: as the newest, whichever that is.

    What is inside happens before or after any other attempt's, never between. Raises StaleAttempt where a newer attempt
    has begun.
    """
    path, at = trial.with_name(ATTEMPTS), _RECORD * _number(trial)
    with telling(path):
        descriptor = _opened(path)
        try:
            _lock(descriptor, fcntl.F_WRLCK, at)
            newest = max(_attempt(os.pread(descriptor, _RECORD, at)), _of_older_version(trial))
            attempt = newest if attempt is None else attempt
            if attempt < newest:
                raise StaleAttempt(
                    f"attempt {attempt} tried to write a checkpoint in {trial}, but attempt {newest} of the trial has "
                    "begun. The newer attempt continues; this one must end."
                )
            if attempt > newest:
                os.pwrite(descriptor, b"%-19d\n" % attempt, at)
            yield
        finally:
            # Unlocked and not only closed: a loader's worker may have been forked with the descriptor.
            _lock(descriptor, fcntl.F_UNLCK, at)
            os.close(descriptor)


def _opened(path: Path) -> int:
    flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC
    try:
        return os.open(path, flags, FILE_MODE)
    except FileNotFoundError:
        make_folder(path.parent)
        return os.open(path, flags, FILE_MODE)


def _lock(descriptor: int, kind: int, at: int) -> None:
    with contextlib.suppress(OSError):  # a file system without locks: the number still guards
        if hasattr(fcntl, "F_OFD_SETLKW"):
            # Of this descriptor and not of this process, whose other threads look after other trials.
            fcntl.fcntl(descriptor, fcntl.F_OFD_SETLKW, struct.pack("hhqqi", kind, os.SEEK_SET, at, _RECORD, 0))
        else:
            fcntl.flock(descriptor, fcntl.LOCK_UN if kind == fcntl.F_UNLCK else fcntl.LOCK_EX)


def _number(trial: Path) -> int:
    match = _TRIAL.fullmatch(trial.name)
    return int(match[1]) if match else 0


def _of_older_version(trial: Path) -> int:
    """What an older Workbench noted, which had a file for each trial."""
    try:
        return _attempt((trial / "checkpoints" / "attempt").read_bytes())
    except (FileNotFoundError, NotADirectoryError):
        return 0


def _attempt(text: bytes) -> int:
    """What a record says; an empty or torn one (a power cut) says nothing."""
    try:
        return int(text)
    except ValueError:
        return 0
