"""Whose a store is. Law: a store is this person's when their private list, outside of every store, says so.

A store holds training code and pickles, and an engine that begins in it runs both. So a folder called ``.workbench``
that came with a repository, an archive or a share proves nothing. The list is in the person's state folder
(``stores/``), one file for each place. An entry counts when all of these are as the list says:

- the folder's path, links followed: a copied or unzipped store brings its mark along, but not its place;
- the random mark that lies in the store: another store that was put at the same path has another one or none;
- the folder's inode, where the file system keeps inodes: a folder that was put there anew has another one. The device
  is not compared, since its number may change when the file system is mounted again;
- the folder's owner, and that others may not write into it.

A process without a person names its stores in ``WORKBENCH_ADOPT`` (absolute paths of store folders, split by ``:``). It
is read from the environment with which the process was started, so that no cell can add to it.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import pwd
import secrets
import stat
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Literal, Protocol

from workbench.errors import NotAdopted, StoreError
from workbench.records import SCHEMA, Json
from workbench.store import personal
from workbench.store.atomic import FILE_MODE, from_json, make_folder, write_json
from workbench.store.filesystem import NETWORK, kind

#: The environment variable that names stores for a process without a person.
ADOPT = "WORKBENCH_ADOPT"
#: The file in a store that holds its mark.
MARK = "mark.json"

#: Why a store counts as this person's or not. ``missing``: nothing lies there yet, so nothing could run.
Reason = Literal["listed", "named", "made", "missing", "unknown", "moved", "replaced", "owner", "writable", "no list"]
_OURS: frozenset[Reason] = frozenset({"listed", "named", "made", "missing"})

_OTHERS = stat.S_IWGRP | stat.S_IWOTH
_MOST_BYTES = 4096
#: Folders that a new store holds while nothing was put into it.
_PARTS = frozenset({"requests", "blobs", "snapshots", "experiments"})
#: File systems that give a folder another inode each time they are mounted. Those of other machines and FUSE do, too.
_NO_INODES = frozenset({"vfat", "msdos", "exfat", "ntfs", "ntfs3", "fuseblk", "9p", "drvfs"})

#: Path and inode of stores that this process made while the list could not be written.
_made: set[tuple[str, int]] = set()


class Rooted(Protocol):
    """A store: all that is asked of it here is its folder."""

    root: Path


@dataclass(frozen=True, slots=True)
class Ownership:
    """Whether a store is this person's."""

    is_ours: bool
    #: The folder's owner as people write it: ``alice``, or ``uid 1001`` where the account has no name.
    owner: str
    #: One sentence without a full stop.
    why: str
    reason: Reason


@dataclass(frozen=True, slots=True)
class _Entry:
    """One file of the list."""

    path: str
    mark: str
    uid: int
    inode: int
    #: Rights of others to write there that the file system did not let us take away.
    open_to: int
    since: str


def ownership(store: Rooted) -> Ownership:
    """Whether ``store`` is this person's, as it is now. It reads one small file of the list and one of the store.

    A store that does not exist yet, or that is an empty folder of this person's, counts as theirs: see ``reason``.
    """
    path = os.path.realpath(store.root)
    try:
        there = os.stat(path)
    except OSError:
        return _answer("missing", person(os.geteuid()), f"there is no store at {store.root} yet")
    owner = person(there.st_uid)
    if not stat.S_ISDIR(there.st_mode):
        return _answer("missing", owner, f"{store.root} is a file")
    reason, why = _judged(path, there, owner)
    return _answer(reason, owner, why)


def check_ours(store: Rooted) -> None:
    """Raise NotAdopted where ``store`` is not this person's."""
    found = ownership(store)
    if not found.is_ours:
        raise refusal(store, found)


def refusal(store: Rooted, found: Ownership) -> NotAdopted:
    """The error for a store that is not this person's: what is wrong, and what to do."""
    return NotAdopted(
        f"the store {store.root} (owner: {found.owner}) is not known as yours: {found.why}. It can be looked at; "
        f"nothing in it runs and nothing is loaded. {remedy(store, found)}"
    )


def remedy(store: Rooted, found: Ownership) -> str:
    """What a person does about a store that is not theirs, by its reason."""
    if found.reason == "owner":
        return (
            f"To train with it, make its files yours (`cp -r`, or `chown -R` as root), then `workbench adopt "
            f"{store.root}`; or work as {found.owner}."
        )
    if found.reason == "no list":
        return (
            f"Set XDG_STATE_HOME to a folder that you alone may write and run `workbench adopt {store.root}`, or start "
            f"the process with {ADOPT}={store.root}."
        )
    return (
        f"If you made it, or trust all that lies in it: `workbench adopt {store.root}`, once. A process without a "
        f"person is started with {ADOPT}={store.root} instead."
    )


def claim(store: Rooted) -> None:
    """Make the folder of ``store`` where it is missing, and put it on the list; what is this person's already stays.

    For who makes a store: an existing folder that holds anything is not claimed. Raises NotAdopted and StoreError.
    """
    found = ownership(store)
    if found.reason in ("listed", "named", "made"):
        return
    if not found.is_ours:
        raise refusal(store, found)
    make_folder(store.root, fsync=True)
    if not _may_be_claimed(os.path.realpath(store.root), os.stat(store.root)):
        raise refusal(store, ownership(store))  # somebody else was faster
    enlist(store)


def enlist(store: Rooted) -> bool:
    """Put the existing folder of ``store`` on the list with a new mark, and take from others the right to write there.

    False where the list cannot be written: then the store is this process's until it ends. Raises NotAdopted where
    the folder belongs to somebody else, StoreError where its mark cannot be written.
    """
    path = os.path.realpath(store.root)
    try:
        with _listing() as folder:
            there = os.stat(path)
            entry = _read_entry(folder, path)
            if entry is not None and _matches(entry, path, there):
                return True  # another process was faster
            if not _is_this_persons(path, there):
                raise refusal(store, ownership(store))
            mark = secrets.token_hex(16)
            write_json(Path(path) / MARK, {"schema": SCHEMA, "mark": mark})
            entry = _Entry(path, mark, there.st_uid, there.st_ino, _closed(path), _now())
            write_json(_entry_path(folder, path), {"schema": SCHEMA, **asdict(entry)})
            return True
    except _NoListError:
        there = os.stat(path)
        if not _is_this_persons(path, there):
            raise refusal(store, ownership(store)) from None
        _closed(path)
        _made.add((path, there.st_ino))
        return False


def may_be_adopted(store: Rooted) -> bool:
    """Whether the existing folder of ``store`` belongs to this person, on this file system."""
    path = os.path.realpath(store.root)
    return _is_this_persons(path, os.stat(path))


def environment(store: Rooted) -> dict[str, str]:
    """What a process that works in ``store`` on behalf of this one gets: the variable as this process was started.

    A store that only this process knows as its own is added.
    """
    named = _named()
    path = os.path.realpath(store.root)
    if any(known == path for known, _ in _made):
        named = [*named, path]
    return {ADOPT: ":".join(named)} if named else {}


def person(uid: int) -> str:
    """An account as people write it."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"uid {uid}"


# ---------------------------------------------------------------------------------------------------------------------
# Judging


def _answer(reason: Reason, owner: str, why: str) -> Ownership:
    return Ownership(reason in _OURS, owner, why, reason)


def _judged(path: str, there: os.stat_result, owner: str) -> tuple[Reason, str]:
    if path in _named():
        if not _is_this_persons(path, there):
            return "owner", f"it belongs to {owner}, and you are {person(os.geteuid())}"
        if there.st_mode & _OTHERS and not _is_closed_now(path):
            return "writable", "others may write into it"
        return "named", f"{ADOPT} names it"
    if (path, there.st_ino) in _made:
        return "made", "this process made it"
    try:
        folder = _list_folder()
        entry = _read_entry(folder, path)
    except _NoListError as error:
        if _may_be_claimed(path, there):
            return "missing", "nothing lies in it yet"
        return "no list", f"the list of your stores cannot be used ({error})"
    if entry is not None:
        return _compared(entry, path, there, owner)
    if _may_be_claimed(path, there):
        return "missing", "nothing lies in it yet"
    if there.st_uid != os.geteuid():
        return "owner", f"it belongs to {owner}, and you are {person(os.geteuid())}"
    mark = _mark_of(path)
    former = None if mark is None else next((one for one in _entries(folder) if one.mark == mark), None)
    if former is not None:
        return "moved", f"it is a copy of your store {former.path}, or that store was moved here"
    return "unknown", "you neither made it with this version of Workbench nor adopted it"


def _compared(entry: _Entry, path: str, there: os.stat_result, owner: str) -> tuple[Reason, str]:
    if there.st_uid != entry.uid:
        return "owner", f"it belongs to {owner} now, and did not when it was put on your list"
    if there.st_mode & _OTHERS & ~entry.open_to:
        return "writable", "others may write into it (adopting takes that right from them)"
    if not _matches(entry, path, there):
        return "replaced", "another folder lies where your store was, or it was put back from a copy"
    return "listed", "it is on the list of your stores"


def _matches(entry: _Entry, path: str, there: os.stat_result) -> bool:
    same = entry.path == path and entry.uid == there.st_uid and entry.mark == _mark_of(path)
    return same and (entry.inode == there.st_ino or not _keeps_inodes(path))


def _keeps_inodes(path: str) -> bool:
    name = kind(path)
    return name not in NETWORK and name not in _NO_INODES and not name.startswith("fuse")


def _may_be_claimed(path: str, there: os.stat_result) -> bool:
    """True for a folder of this person's in which nothing lies but the empty folders of a new store."""
    if there.st_uid != os.geteuid():
        return False
    try:
        with os.scandir(path) as entries:
            return all(_is_nothing(entry) for entry in entries)
    except OSError:
        return False


def _is_nothing(entry: os.DirEntry[str]) -> bool:
    if entry.name == MARK or (entry.name.startswith(f".{MARK}.") and entry.is_file(follow_symlinks=False)):
        return True
    if entry.name not in _PARTS or not entry.is_dir(follow_symlinks=False):
        return False
    with os.scandir(entry.path) as inner:
        return next(inner, None) is None


def _is_this_persons(path: str, there: os.stat_result) -> bool:
    """Whether the folder belongs to this person.

    Some file systems show one owner for all files, whoever makes them. There a new file has the folder's owner.
    """
    if there.st_uid == os.geteuid():
        return True
    probe = os.path.join(path, f".owner-{secrets.token_hex(4)}")
    try:
        descriptor = os.open(probe, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, FILE_MODE)
    except OSError:
        return False
    try:
        return os.fstat(descriptor).st_uid == there.st_uid
    finally:
        os.close(descriptor)
        os.unlink(probe)


def _closed(path: str) -> int:
    """Take from others the right to write into the folder; the rights that the file system leaves them all the same."""
    mode = os.stat(path).st_mode
    if mode & _OTHERS:
        with contextlib.suppress(OSError):
            os.chmod(path, stat.S_IMODE(mode) & ~_OTHERS)
    return os.stat(path).st_mode & _OTHERS


def _is_closed_now(path: str) -> bool:
    # A file system on which modes cannot be changed says nothing by them.
    before = os.stat(path).st_mode & _OTHERS
    left = _closed(path)
    return left in (0, before)


def _named() -> list[str]:
    """The stores that the environment of this process's start names, links followed."""
    return [os.path.realpath(one) for one in _at_start().split(":") if os.path.isabs(one)]


@cache
def _at_start() -> str:
    """The variable as it was when the process was started: what code in it sets later does not count."""
    try:
        pairs = Path("/proc/self/environ").read_bytes().split(b"\0")
    except OSError:
        return os.environ.get(ADOPT, "")
    start = f"{ADOPT}=".encode()
    return next((os.fsdecode(pair[len(start) :]) for pair in pairs if pair.startswith(start)), "")


# ---------------------------------------------------------------------------------------------------------------------
# The list


class _NoListError(Exception):
    """The list cannot be read or written, or it is not only this person's."""


def _list_folder() -> Path:
    """The list's folder, which may be missing. Raises _NoListError where others could write it."""
    try:
        folder = personal.folder() / "stores"
    except RuntimeError as error:
        raise _NoListError(str(error)) from None
    for one in (folder, folder.parent):
        try:
            _check_private(os.stat(one), one)
        except FileNotFoundError:
            continue
        except OSError as error:
            raise _NoListError(f"{one}: {error.strerror}") from None
    return folder


def _check_private(there: os.stat_result, path: Path) -> None:
    if there.st_uid != os.geteuid():
        raise _NoListError(f"{path} belongs to {person(there.st_uid)}")
    if there.st_mode & _OTHERS:
        raise _NoListError(f"others may write {path}")


@contextlib.contextmanager
def _listing() -> Iterator[Path]:
    """The list's folder, made where it is missing and locked against a second writer. Raises _NoListError."""
    folder = _list_folder()
    try:
        make_folder(folder)
        descriptor = os.open(folder / ".lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, FILE_MODE)
    except (StoreError, OSError) as error:
        raise _NoListError(str(error)) from None
    try:
        with contextlib.suppress(OSError):  # a file system without locks: its writers are seldom two
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield folder
    finally:
        os.close(descriptor)


def _entry_path(folder: Path, path: str) -> Path:
    return folder / f"{hashlib.sha256(os.fsencode(path)).hexdigest()[:32]}.json"


def _read_entry(folder: Path, path: str) -> _Entry | None:
    entry = _entry_at(_entry_path(folder, path))
    return entry if entry is not None and entry.path == path else None


def _entry_at(file: Path) -> _Entry | None:
    data = _small_json(os.fspath(file), os.geteuid())
    try:
        return None if data is None else _Entry(**{name: data[name] for name in _Entry.__slots__})
    except KeyError:
        return None


def _entries(folder: Path) -> Iterator[_Entry]:
    with contextlib.suppress(OSError):
        for name in sorted(os.listdir(folder)):
            if name.endswith(".json") and (entry := _entry_at(folder / name)) is not None:
                yield entry


def _mark_of(path: str) -> str | None:
    data = _small_json(os.path.join(path, MARK), None)
    mark = None if data is None else data.get("mark")
    return mark if isinstance(mark, str) and mark else None


def _small_json(path: str, uid: int | None) -> dict[str, Json] | None:
    """The JSON object in a small plain file, which ``uid`` alone may write; None for anything else.

    A link is not followed and a pipe is not waited for: a foreign store may hold both.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        there = os.fstat(descriptor)
        if not stat.S_ISREG(there.st_mode) or (uid is not None and (there.st_uid != uid or there.st_mode & _OTHERS)):
            return None
        data = from_json(os.read(descriptor, _MOST_BYTES))
    except (OSError, ValueError, RecursionError):
        return None
    finally:
        os.close(descriptor)
    return data if isinstance(data, dict) else None


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
