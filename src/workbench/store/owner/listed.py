"""The list of a user's stores. Law: it is outside of every store, only this user may write it, and it decides nothing:
:mod:`workbench.store.owner.ownership` compares it with the stores.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import pwd
import stat
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from workbench.errors import StoreError
from workbench.records import SCHEMA, Json
from workbench.store.files.atomic import FILE_MODE, from_json, make_folder, write_json
from workbench.store.owner import personal

#: The file in a store with its mark.
MARK = "mark.json"
#: Other users' write permissions.
OTHERS = stat.S_IWGRP | stat.S_IWOTH

_MOST_BYTES = 4096


@dataclass(frozen=True, slots=True)
class Entry:
    """One file of the list."""

    path: str
    mark: str
    uid: int
    inode: int
    #: Other users' write permissions that the file system did not let us remove.
    open_to: int
    since: str


class NoListError(Exception):
    """The list cannot be read or written, or other users can write it."""


def list_folders() -> list[Path]:
    """The folders of the list; a service may not know the one that this user's shell sets.

    Raises NoListError if others could write the first, which is the one written to.
    """
    try:
        folders = [_checked(personal.folder() / "stores")]
    except RuntimeError as error:
        raise NoListError(str(error)) from None
    with contextlib.suppress(RuntimeError, NoListError):
        folders.append(_checked(personal.usual() / "stores"))
    return [*dict.fromkeys(folders)]


def _checked(folder: Path) -> Path:
    """``folder``, which may be missing. Raises NoListError if other users can write it."""
    for one in (folder, folder.parent):
        try:
            _check_private(os.stat(one), one)
        except FileNotFoundError:
            continue
        except OSError as error:
            raise NoListError(f"{one}: {error.strerror}") from None
    return folder


def _check_private(there: os.stat_result, path: Path) -> None:
    if there.st_uid != os.geteuid():
        raise NoListError(f"{path} belongs to {person(there.st_uid)}")
    if there.st_mode & OTHERS:
        raise NoListError(f"others may write {path}")


@contextlib.contextmanager
def listing() -> Iterator[Path]:
    """The list's folder, created if missing and locked against a second writer. Raises NoListError."""
    folder = list_folders()[0]
    try:
        make_folder(folder)
        descriptor = os.open(folder / ".lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, FILE_MODE)
    except (StoreError, OSError) as error:
        raise NoListError(str(error)) from None
    try:
        with contextlib.suppress(OSError):  # a file system without locks: two writers are rare
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield folder
    finally:
        os.close(descriptor)


def entry_path(folder: Path, path: str) -> Path:
    return folder / f"{hashlib.sha256(os.fsencode(path)).hexdigest()[:32]}.json"


def read_entry(folders: list[Path], path: str) -> Entry | None:
    found = (_entry_at(entry_path(folder, path)) for folder in folders)
    return next((entry for entry in found if entry is not None and entry.path == path), None)


def _entry_at(file: Path) -> Entry | None:
    data = _small_json(os.fspath(file), os.geteuid())
    try:
        return None if data is None else Entry(**{name: data[name] for name in Entry.__slots__})
    except KeyError:
        return None


def entries(folders: list[Path]) -> Iterator[Entry]:
    for folder in folders:
        with contextlib.suppress(OSError):
            for name in sorted(os.listdir(folder)):
                if name.endswith(".json") and (entry := _entry_at(folder / name)) is not None:
                    yield entry


def mark_of(path: str) -> str | None:
    data = _small_json(os.path.join(path, MARK), None)
    mark = None if data is None else data.get("mark")
    return mark if isinstance(mark, str) and mark else None


def _small_json(path: str, uid: int | None) -> dict[str, Json] | None:
    """The JSON object in a small plain file that only ``uid`` may write; None for anything else.

    It follows no link and waits for no pipe: another user's store may contain both.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        there = os.fstat(descriptor)
        if not stat.S_ISREG(there.st_mode) or (uid is not None and (there.st_uid != uid or there.st_mode & OTHERS)):
            return None
        data = from_json(os.read(descriptor, _MOST_BYTES))
    except (OSError, ValueError, RecursionError):
        return None
    finally:
        os.close(descriptor)
    return data if isinstance(data, dict) else None


def write_entry(folder: Path, entry: Entry) -> None:
    """Add ``entry`` to the list in ``folder``, replacing one with the same path."""
    write_json(entry_path(folder, entry.path), {"schema": SCHEMA, **asdict(entry)})


def write_mark(path: str, mark: str) -> None:
    """Write the mark into the store at ``path``."""
    write_json(Path(path) / MARK, {"schema": SCHEMA, "mark": mark})


def account() -> str:
    """Whose this process is: the user of JupyterHub, where all may have one account of the system; else the account."""
    return os.environ.get("JUPYTERHUB_USER") or person(os.geteuid())


def person(uid: int) -> str:
    """An account in words."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"uid {uid}"
