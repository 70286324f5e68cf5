"""The owner of a store. Law: a store is this user's if their private list, outside of every store, says so.

A store contains training code and pickles, and its engine runs both. So a folder named ``.workbench`` that came with a
repository, an archive or a share proves nothing. The list is in the user's state folder (``stores/``), one file for
each path. An entry counts if all of these match:

- the folder's path, links followed: a copied or unzipped store has the same mark, but another path;
- the random mark in the store: another store at the same path has another mark or none;
- the folder's inode, if the file system keeps inodes: a replaced folder has another one. The device is not compared,
  since its number may change when the file system is mounted again;
- the folder's owner, and that other users cannot write into it, nor reach a folder in it into which they can write.

An unattended process names its stores in ``WORKBENCH_ADOPT`` (absolute paths of store folders, separated by ``:``). It
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

#: The environment variable with the stores of an unattended process.
ADOPT = "WORKBENCH_ADOPT"

#: Why a store counts as this user's or not. ``missing``: nothing is there yet, so nothing could run.
Reason = Literal["listed", "named", "made", "missing", "unknown", "moved", "replaced", "owner", "writable", "no list"]
_OURS: frozenset[Reason] = frozenset({"listed", "named", "made", "missing"})
_LISTED: frozenset[Reason] = frozenset({"listed", "named", "made"})

#: The file that keeps git from listing a store; it holds nothing that could run.
IGNORE = ".gitignore"
#: The permissions with which others enter a folder, and all that they can have.
_ENTER = stat.S_IXGRP | stat.S_IXOTH
_FOR_OTHERS = stat.S_IRWXG | stat.S_IRWXO
#: The folders of a new, empty store. What lies in them runs.
_PARTS = frozenset({"requests", "blobs", "snapshots", "experiments"})
#: File systems that give a folder another inode with each mount. Network file systems and FUSE do so, too.
_NO_INODES = frozenset({"vfat", "msdos", "exfat", "ntfs", "ntfs3", "fuseblk", "9p", "drvfs"})

#: Path and inode of stores that this process made while the list could not be written.
_made: set[tuple[str, int]] = set()


class Rooted(Protocol):
    """A store, of which only the folder is needed here."""

    @property
    def root(self) -> Path: ...


@dataclass(frozen=True, slots=True)
class Ownership:
    """Whether a store is this user's."""

    is_ours: bool
    #: The folder's owner in words: ``alice``, or ``uid 1001`` if the account has no name.
    owner: str
    #: One sentence without a full stop.
    why: str
    reason: Reason


@dataclass(frozen=True, slots=True)
class _At:
    """A store by its folder alone."""

    root: Path


def ownership(store: Rooted) -> Ownership:
    """Whether ``store`` is this user's now. It reads one small file of the list and one of the store.

    A store that does not exist yet, or that is an empty folder of this user's, counts as theirs: see ``reason``.
    """
    found = _seen(store)
    if found.reason in ("replaced", "unknown", "moved"):
        # Another process of this user may just be creating it: first the folder, then the mark, then the entry.
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


def known() -> list[Path]:
    """The folders of this user's stores, by path: those on the list, in the environment, or made by this process.

    Stores that are gone, or are not this user's any more, are left out. It reads a small file for each entry.
    """
    paths = {*_named(), *(path for path, _ in _made)}
    with contextlib.suppress(NoListError):
        paths |= {entry.path for entry in entries(list_folders())}
    return [Path(path) for path in sorted(paths) if ownership(_At(Path(path))).reason in _LISTED]


def check_ours(store: Rooted) -> None:
    """Raise NotAdopted if ``store`` is not this user's."""
    found = ownership(store)
    if not found.is_ours:
        raise refusal(store, found)


def refusal(store: Rooted, found: Ownership) -> NotAdopted:
    """The error for a store that is not this user's: what is wrong, and what to do."""
    return NotAdopted(
        f"the store {store.root} (owner: {found.owner}) is not known to be yours: {found.why}. It can be read; "
        f"nothing in it runs and nothing is loaded. {remedy(store, found)}"
    )


def remedy(store: Rooted, found: Ownership) -> str:
    """What the user can do about a store that is not theirs, by its reason."""
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
    """Create the folder of ``store`` if it is missing, and add it to the list; one that is already this user's is
    unchanged.

    For creating a store: an existing folder with any content is not claimed. Raises NotAdopted and StoreError.
    """
    found = ownership(store)
    if found.reason in _LISTED:
        return
    if not found.is_ours:
        raise refusal(store, found)
    make_folder(store.root, fsync=True)
    if _may_be_claimed(os.path.realpath(store.root), os.stat(store.root)):
        enlist(store)
    elif (found := ownership(store)).reason not in _LISTED:  # else another process of this user was faster
        raise refusal(store, found)


def enlist(store: Rooted) -> bool:
    """Add the existing folder of ``store`` to the list with a new mark, and close it to other users.

    False if the list cannot be written: then the store is this process's until it ends. Raises NotAdopted if the folder
    belongs to another user, StoreError if its mark cannot be written.
    """
    path = os.path.realpath(store.root)
    try:
        with listing() as folder:
            there = os.stat(path)
            entry = read_entry([folder], path)
            is_listed = entry is not None and _matches(entry, path, there)
            if entry is not None and is_listed and not _is_writable(path, there, entry.open_to):
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
    """``folder``, or this user's own store beside it if ``folder`` is missing or another user's."""
    if ownership(_At(folder)).reason in _LISTED:
        return folder
    mine = beside(folder)
    return mine if ownership(_At(mine)).reason in _LISTED else folder


def beside(folder: Path) -> Path:
    """The path of this user's own store, existing or not, beside another user's: ``.workbench-alice``."""
    name = re.sub(r"[^0-9A-Za-z]+", "-", person(os.geteuid())).strip("-") or str(os.geteuid())
    places = [folder.with_name(f"{folder.name}-{name}{more}") for more in ("", "-2")]
    # If both are another user's (a container that lost its list), raise instead of making yet another one each time.
    return next((place for place in places if ownership(_At(place)).is_ours), folder)


def note(store: Rooted, usual: Path) -> str | None:
    """The note for the user if training does not go into the ``usual`` store because that is another user's."""
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
    """Whether the existing folder of ``store`` belongs to this user, on this file system."""
    path = os.path.realpath(store.root)
    return _is_this_persons(path, os.stat(path))


def environment(store: Rooted) -> dict[str, str]:
    """The environment for a process that works in ``store`` on behalf of this one: the variable as this process got it.

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
        if _is_writable(path, there) and not _is_closed_now(path):
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
        # A store was deleted, and another process of this user is just creating a new one at its path.
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
    if _is_writable(path, there, entry.open_to):
        return "writable", "others may write into it (adopting closes it to them)"
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
    """Whether it is this user's folder with nothing but the empty folders of a new store."""
    if there.st_uid != os.geteuid():
        return False
    try:
        with os.scandir(path) as entries:
            return all(_is_nothing(entry) for entry in entries)
    except OSError:
        return False


def _is_nothing(entry: os.DirEntry[str]) -> bool:
    if entry.name == MARK:
        return True
    if entry.name.startswith((f".{MARK}.", f".{IGNORE}.", IGNORE)) and entry.is_file(follow_symlinks=False):
        return True
    if entry.name not in _PARTS or not entry.is_dir(follow_symlinks=False):
        return False
    with os.scandir(entry.path) as inner:
        return next(inner, None) is None


def _is_this_persons(path: str, there: os.stat_result) -> bool:
    """Whether the folder belongs to this user.

    Some file systems show one owner for all files, regardless of their creator. There a new file has the folder's
    owner.
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


def _is_writable(path: str, there: os.stat_result, open_to: int = 0) -> bool:
    """Whether others can write into the folder, or into one in it that they can reach. open_to: permissions that mean
    nothing, since the file system did not let us remove them."""
    if there.st_mode & OTHERS & ~open_to:
        return True
    if not there.st_mode & _ENTER or there.st_uid != os.geteuid():  # where all files show one owner, modes say nothing
        return False
    return any(_mode_of_folder(os.path.join(path, name)) & OTHERS & ~open_to for name in _PARTS)


def _mode_of_folder(path: str) -> int:
    """The permissions of the folder; 0 if there is none. Those of a link are no one's."""
    try:
        mode = os.lstat(path).st_mode
    except OSError:
        return 0
    return mode if stat.S_ISDIR(mode) else 0


def _closed(path: str) -> int:
    """Close the folder to other users, as a new store's is: its files may have any mode after a copy or a restore.

    Returns the write permissions that the file system did not remove.
    """
    there = os.stat(path)
    # Where all files show one owner, this process may count as one of the others, and must still enter.
    unwanted = _FOR_OTHERS if there.st_uid == os.geteuid() else OTHERS
    if there.st_mode & unwanted:
        with contextlib.suppress(OSError):
            os.chmod(path, stat.S_IMODE(there.st_mode) & ~unwanted)
    return os.stat(path).st_mode & OTHERS


def _is_closed_now(path: str) -> bool:
    # On a file system without changeable modes, they mean nothing.
    before = os.stat(path).st_mode & OTHERS
    left = _closed(path)
    return left in (0, before)


def _named() -> list[str]:
    """The stores in this process's initial environment, links followed."""
    return [os.path.realpath(one) for one in _at_start().split(":") if os.path.isabs(one)]


@cache
def _at_start() -> str:
    """The variable as it was when the process was started: later changes by its code do not count."""
    try:
        pairs = Path("/proc/self/environ").read_bytes().split(b"\0")
    except OSError:
        return os.environ.get(ADOPT, "")
    start = f"{ADOPT}=".encode()
    return next((os.fsdecode(pair[len(start) :]) for pair in pairs if pair.startswith(start)), "")


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
