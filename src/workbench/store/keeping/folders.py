"""Folders of checkpoints: their names, how one is shown and comes to the disk. Law: one rename shows it, and whole."""

from __future__ import annotations

import errno
import os
import re
import secrets
import shutil
from pathlib import Path

from workbench.errors import BadName
from workbench.records.plain import plain
from workbench.store.files.atomic import FILE_MODE, FOLDER_MODE, fsync_folder, telling, write_all
from workbench.store.keeping.manifest import NAME, files_in

# A checkpoint that was replaced stays as `.old` for the moment between two renames.
_SHOWN = re.compile(r"step-(\d{8,12})(\.old)?")
_ASIDE = re.compile(r"\.(?:writing|removed)-step-\d{8,12}-a(\d+)-[0-9a-f]{8}")


def checked(step: int) -> int:
    """``step`` as an int, where it is one. Raises BadName."""
    step = plain(step)
    if isinstance(step, bool) or not isinstance(step, int) or not 0 <= step < 10**12:
        raise BadName(f"{step!r} is not a step: expected an integer from 0 on.")
    return step


def name_of(step: int) -> str:
    """The name of the folder of the checkpoint at ``step``."""
    return f"step-{checked(step):08d}"


def begun(folder: Path, step: int, attempt: int) -> Path:
    """A new folder in ``folder``, not shown yet, for the checkpoint of an attempt at ``step``."""
    aside = folder / f".writing-{name_of(step)}-a{attempt}-{secrets.token_hex(4)}"
    with telling(aside):
        os.mkdir(aside, FOLDER_MODE)
    return aside


def shown(folder: Path) -> list[tuple[int, Path]]:
    """Checkpoints that are shown in ``folder``, each with its step. One that is being replaced is there twice."""
    matches = [(_SHOWN.fullmatch(entry), entry) for entry in _listed(folder)]
    return [(int(match[1]), folder / entry) for match, entry in matches if match]


def left_by_attempts_before(attempt: int, folder: Path) -> list[str]:
    """Names in ``folder`` of what attempts before ``attempt`` left half-written or half-removed."""
    matches = [(_ASIDE.fullmatch(entry), entry) for entry in _listed(folder)]
    return [entry for match, entry in matches if match and int(match[1]) < attempt]


def show(aside: Path, target: Path) -> None:
    """Show the checkpoint in ``aside`` as ``target``, in the place of one that is there."""
    old = target.with_name(f"{target.name}.old")
    try:
        os.rename(aside, target)
    except OSError as error:
        if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
            raise
        shutil.rmtree(old, ignore_errors=True)
        os.rename(target, old)
        os.rename(aside, target)
    if old.exists():  # also after a crash between the two renames
        shutil.rmtree(old, ignore_errors=True)


def write(path: Path, data: bytes) -> None:
    """Write a file into a folder that is not shown yet: nothing waits for the disk."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, FILE_MODE)
    try:
        write_all(descriptor, data)
    finally:
        os.close(descriptor)


def fsync_all(folder: Path) -> None:
    """Bring a checkpoint to the disk: its files, its manifest, and the names of both."""
    names = [name for name, _ in files_in(folder)]
    for name in names if len(names) > 3 else ():
        _start(folder / name)
    for name in names:
        fsync(folder / name)
    fsync(folder / NAME)
    for root, _, _ in os.walk(folder):
        fsync_folder(Path(root))


def _start(path: Path) -> None:
    """Let a file's bytes set out for the disk: several large ones take as long as one then, not a commit each."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        # Not those that are linked, and there already: they would leave the memory from which they are looked at.
        if hasattr(os, "posix_fadvise") and os.fstat(descriptor).st_nlink == 1:
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
    finally:
        os.close(descriptor)


def fsync(path: Path) -> int:
    """Bring the file's bytes to the disk; its inode."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
        return os.fstat(descriptor).st_ino
    finally:
        os.close(descriptor)


def _listed(folder: Path) -> list[str]:
    try:
        return os.listdir(folder)
    except (FileNotFoundError, NotADirectoryError):
        return []
