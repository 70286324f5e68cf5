"""Blobs, addressed by content. Law: a blob's name is the sha256 of its bytes, so writing it twice changes nothing."""

from __future__ import annotations

import contextlib
import hashlib
import os
from pathlib import Path

from workbench.errors import NotFound, StoreError
from workbench.store.files.atomic import REMOVED, NoFile, entries_in, make_folder, open_file, write_atomic

#: Existing blobs whose bytes this process has compared with their names, each with what would show a change.
_compared: dict[Path, tuple[int, ...]] = {}
_MOST_COMPARED = 20_000


def put(folder: Path, data: bytes | bytearray | memoryview) -> str:
    """Store ``data`` in ``folder`` and return its sha256. An existing blob is not written again, unless it is
    damaged."""
    digest = hashlib.sha256(data).hexdigest()
    path = folder / digest
    if not is_kept(path, memoryview(data).nbytes):
        make_folder(folder)
        write_atomic(path, data)
    return digest


def is_kept(path: Path, size: int) -> bool:
    """Whether the blob is there and whole. Cleaning up keeps it for a day then, since it is needed again."""
    try:
        if path.stat().st_size == size and _is_whole(path):
            # If clean-up has just renamed it, it is not known whether the touch came in time.
            os.utime(path)
            if path.exists():
                _compared[path] = _mark(path)
                return True
    except OSError:
        # It does not exist; or it belongs to another user, and cannot be touched.
        return path.exists()
    return False


def _is_whole(path: Path) -> bool:
    """Whether the bytes at ``path`` match its name. A process reads them once."""
    mark = _mark(path)
    if _compared.get(path) == mark:
        return True
    try:
        with open_file(path) as file:
            is_whole = hashlib.file_digest(file, "sha256").hexdigest() == path.name
    except NoFile:
        return False
    if is_whole:
        if len(_compared) >= _MOST_COMPARED:
            _compared.clear()
        _compared[path] = mark
    return is_whole


def _mark(path: Path) -> tuple[int, ...]:
    status = path.stat()
    return status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns


def get(path: Path, *, verify: bool = False) -> bytes:
    """The bytes of the blob at ``path``; with ``verify``, their digest is compared with the name first.

    Raises NotFound if there is none, StoreError if the bytes no longer match the name.
    """
    try:
        data = _read(path)
    except (NoFile, PermissionError) as error:
        raise StoreError(f"blob {path.name} cannot be read: {error}. Restore it from a copy of the store.") from error
    if data is None:
        raise NotFound(
            f"blob {path.name} is not in {path.parent}. It was cleaned up, or the store was copied without it."
        )
    if verify and hashlib.sha256(data).hexdigest() != path.name:
        raise StoreError(
            f"the bytes of blob {path.name} have changed on the disk. Restore it from a copy of the store."
        )
    return data


def _read(path: Path) -> bytes | None:
    """The bytes at ``path``, also while clean-up has renamed it to check whether it is needed; else None."""
    with contextlib.suppress(FileNotFoundError):
        return _bytes(path)
    begins = f"{REMOVED}{path.name}-"
    for aside in (Path(entry.path) for entry in entries_in(str(path.parent)) if entry.name.startswith(begins)):
        with contextlib.suppress(FileNotFoundError):
            return _bytes(aside)
    with contextlib.suppress(FileNotFoundError):  # it was put back while the other name was tried
        return _bytes(path)
    return None


def _bytes(path: Path) -> bytes:
    with open_file(path) as file:
        return file.read()
