"""Which attempt may write a trial's checkpoints. Law: one attempt at a time holds the fence, and never an older one
after a newer one.

One file serves all trials of an experiment: each has its own record in it, which is locked separately.
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
from workbench.store.files.atomic import FILE_MODE, telling
from workbench.store.files.inside import make_inside
from workbench.store.layout import ATTEMPTS

#: Bytes of a record: a decimal number, padded with spaces, and a newline.
_RECORD = 20
_TRIAL = re.compile(r"t(\d{4,9})")


@contextlib.contextmanager
def held(trial: Path, attempt: int | None) -> Iterator[None]:
    """Hold the fence of the trial in the folder ``trial``, as ``attempt``; None for the newest one.

    The block runs before or after any other attempt's block, never at the same time. Raises StaleAttempt if a newer
    attempt has started.
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
            # Unlock before closing: a loader's worker may have been forked with the descriptor.
            _lock(descriptor, fcntl.F_UNLCK, at)
            os.close(descriptor)


def _opened(path: Path) -> int:
    flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC
    try:
        return os.open(path, flags, FILE_MODE)
    except FileNotFoundError:
        make_inside(path.parent)
        return os.open(path, flags, FILE_MODE)


def _lock(descriptor: int, kind: int, at: int) -> None:
    with contextlib.suppress(OSError):  # a file system without locks: the number still protects
        if hasattr(fcntl, "F_OFD_SETLKW"):
            # The lock belongs to the descriptor, not to the process, whose other threads handle other trials.
            fcntl.fcntl(descriptor, fcntl.F_OFD_SETLKW, struct.pack("hhqqi", kind, os.SEEK_SET, at, _RECORD, 0))
        else:
            fcntl.flock(descriptor, fcntl.LOCK_UN if kind == fcntl.F_UNLCK else fcntl.LOCK_EX)


def _number(trial: Path) -> int:
    match = _TRIAL.fullmatch(trial.name)
    return int(match[1]) if match else 0


def _of_older_version(trial: Path) -> int:
    """The attempt recorded by an older Workbench, which had a file for each trial."""
    try:
        with open(f"{trial}/checkpoints/attempt", "rb") as file:
            return _attempt(file.read())
    except (FileNotFoundError, NotADirectoryError):
        return 0


def _attempt(text: bytes) -> int:
    """The attempt in a record; 0 for an empty or torn one (after a power cut)."""
    try:
        return int(text)
    except ValueError:
        return 0
