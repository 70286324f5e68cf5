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
import os
import re
import secrets
import shlex
import stat
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Literal, Protocol

from workbench.errors import NotAdopted
from workbench.store.files.atomic import FILE_MODE, make_folder
from workbench.store.files.filesystem import NETWORK, kind
from workbench.store.owner.listed import (
    MARK,
    OTHERS,
    Entry,
    NoListError,
    entries,
    list_folders,
    listing,
    mark_of,
    person,
    read_entry,
    write_entry,
    write_mark,
)

#: The environment variable that names stores for a process without a person.
ADOPT = "WORKBENCH_ADOPT"

#: Why a store counts as this person's or not. ``missing``: nothing lies there yet, so nothing could run.
Reason = Literal["listed", "named", "made", "missing", "unknown", "moved", "replaced", "owner", "writable", "no list"]
_OURS: frozenset[Reason] = frozenset({"listed", "named", "made", "missing"})
_LISTED: frozenset[Reason] = frozenset({"listed", "named", "made"})

#: Folders that a new store holds while nothing was put into it.
_PARTS = frozenset({"requests", "blobs", "snapshots", "experiments"})
#: File systems that give a folder another inode each time they are mounted. Those of other machines and FUSE do, too.
_NO_INODES = frozenset({"vfat", "msdos", "exfat", "ntfs", "ntfs3", "fuseblk", "9p", "drvfs"})

#: Path and inode of stores that this process made while the list could not be written.
_made: set[tuple[str, int]] = set()


class Rooted(Protocol):
    """A store: all that is asked of it here is its folder."""

    @property
    def root(self) -> Path: ...


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
class _At:
    """A store by its folder alone."""

    root: Path


def ownership(store: Rooted) -> Ownership:
    """Whether ``store`` is this person's, as it is now. It reads one small file of the list and one of the store.

    A store that does not exist yet, or that is an empty folder of this person's, counts as theirs: see ``reason``.
    """
    found = _seen(store)
    if found.reason in ("replaced", "unknown", "moved"):
        # Another process of this person may be making it just now: folder, mark and entry come one after the other.
        with contextlib.suppress(NoListError):
            if list_folders()[0].is_dir():
                with listing():
                    found = _seen(store)
    return found


def _seen(store: Rooted) -> Ownership:
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
        f"the store {store.root} (owner: {found.owner}) is not known to be yours: {found.why}. It can be read; "
        f"nothing in it runs and nothing is loaded. {remedy(store, found)}"
    )


def remedy(store: Rooted, found: Ownership) -> str:
    """What a person does about a store that is not theirs, by its reason."""
    place = shlex.quote(str(store.root))
    if found.reason == "owner":
        return (
            f"To train with it, make its files yours (`cp -r`, or `chown -R` as root), then `workbench adopt {place}`; "
            f"or work as {found.owner}."
        )
    if found.reason == "no list":
        return (
            f"Set XDG_STATE_HOME to a folder that you alone may write and run `workbench adopt {place}`, or start the "
            f"process with {ADOPT}={place}."
        )
    return (
        f"If you made it, or trust all that lies in it: `workbench adopt {place}`, once (in a cell `%workbench adopt "
        f"{place} --yes`). A process without a person is started with {ADOPT}={place} instead."
    )


def claim(store: Rooted) -> None:
    """Make the folder of ``store`` where it is missing, and put it on the list; what is this person's already stays.

    For who makes a store: an existing folder that holds anything is not claimed. Raises NotAdopted and StoreError.
    """
    found = ownership(store)
    if found.reason in _LISTED:
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
        with listing() as folder:
            there = os.stat(path)
            entry = read_entry([folder], path)
            if entry is not None and _matches(entry, path, there):
                return True  # another process was faster
            if not _is_this_persons(path, there):
                raise refusal(store, _seen(store))  # the list is locked here
            mark = secrets.token_hex(16)
            write_mark(path, mark)
            entry = Entry(path, mark, there.st_uid, there.st_ino, _closed(path), _now())
            write_entry(folder, entry)
            return True
    except NoListError:
        there = os.stat(path)
        if not _is_this_persons(path, there):
            raise refusal(store, ownership(store)) from None
        _closed(path)
        _made.add((path, there.st_ino))
        return False


def home(folder: Path) -> Path:
    """``folder``, unless it is missing or somebody else's and this person has a store beside it."""
    if ownership(_At(folder)).reason in _LISTED:
        return folder
    mine = beside(folder)
    return mine if ownership(_At(mine)).reason in _LISTED else folder


def beside(folder: Path) -> Path:
    """Where this person's own store lies, or will, beside somebody else's: ``.workbench-alice``."""
    name = re.sub(r"[^0-9A-Za-z]+", "-", person(os.geteuid())).strip("-") or str(os.geteuid())
    places = [folder.with_name(f"{folder.name}-{name}{more}") for more in ("", "-2")]
    # Where both are somebody else's (a container whose list is gone), it says so, and does not make one more each time.
    return next((place for place in places if ownership(_At(place)).is_ours), folder)


def note(store: Rooted, usual: Path) -> str | None:
    """What a person is told whose training does not go into the ``usual`` store, since that is somebody else's."""
    if store.root == usual or store.root.parent != usual.parent or not store.root.name.startswith(f"{usual.name}-"):
        return None
    found = ownership(_At(usual))
    if found.is_ours:
        return None
    return (
        f"the store {usual.name} here (owner: {found.owner}) is not known to be yours, so this trains in "
        f"{store.root.name}. To use the other one from now on: `workbench adopt {shlex.quote(str(usual))}`"
    )


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


# ---------------------------------------------------------------------------------------------------------------------
# Judging


def _answer(reason: Reason, owner: str, why: str) -> Ownership:
    return Ownership(reason in _OURS, owner, why, reason)


def _judged(path: str, there: os.stat_result, owner: str) -> tuple[Reason, str]:
    if path in _named():
        if not _is_this_persons(path, there):
            return "owner", f"it belongs to {owner}, and you are {person(os.geteuid())}"
        if there.st_mode & OTHERS and not _is_closed_now(path):
            return "writable", "others may write into it"
        return "named", f"{ADOPT} names it"
    if (path, there.st_ino) in _made:
        return "made", "this process made it"
    try:
        folders = list_folders()
        entry = read_entry(folders, path)
    except NoListError as error:
        if _may_be_claimed(path, there):
            return "missing", "nothing lies in it yet"
        return "no list", f"the list of your stores cannot be used ({error})"
    if entry is not None:
        found = _compared(entry, path, there, owner)
        # A store that was deleted, and a new one that another process of this person is making at its place just now.
        if found[0] != "replaced" or not _may_be_claimed(path, there):
            return found
    if _may_be_claimed(path, there):
        return "missing", "nothing lies in it yet"
    if there.st_uid != os.geteuid():
        return "owner", f"it belongs to {owner}, and you are {person(os.geteuid())}"
    mark = mark_of(path)
    former = None if mark is None else next((one for one in entries(folders) if one.mark == mark), None)
    if former is not None:
        return "moved", f"it is a copy of your store {former.path}, or that store was moved here"
    return "unknown", "you neither made it with this version of Workbench nor adopted it"


def _compared(entry: Entry, path: str, there: os.stat_result, owner: str) -> tuple[Reason, str]:
    if there.st_uid != entry.uid:
        return "owner", f"it belongs to {owner} now, and did not when it was put on your list"
    if there.st_mode & OTHERS & ~entry.open_to:
        return "writable", "others may write into it (adopting takes that right from them)"
    if not _matches(entry, path, there):
        return "replaced", "another folder lies where your store was, or it was put back from a copy"
    return "listed", "it is on the list of your stores"


def _matches(entry: Entry, path: str, there: os.stat_result) -> bool:
    same = entry.path == path and entry.uid == there.st_uid and entry.mark == mark_of(path)
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
    if mode & OTHERS:
        with contextlib.suppress(OSError):
            os.chmod(path, stat.S_IMODE(mode) & ~OTHERS)
    return os.stat(path).st_mode & OTHERS


def _is_closed_now(path: str) -> bool:
    # A file system on which modes cannot be changed says nothing by them.
    before = os.stat(path).st_mode & OTHERS
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


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
