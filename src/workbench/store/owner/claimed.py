"""What users of one machine claim of its slots, and who of them holds which. Law: whatever the files of other users
contain, it counts only for their owners.

An engine says in a file of the shared folder (:mod:`workbench.store.owner.machine`) which slots it has and how many
more it can use: names of slots and counts, no store and no experiment. The engine holds a write lock on the file. Only
who may write a file can have such a lock, so no other user can make a dead engine's claim seem alive.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import secrets
import stat
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from workbench.store.owner.machine import CLAIMS, SLOTS, Machine

#: The kernel's ``struct flock`` where pointers have 64 bits: kind, whence, start, length, process.
_FLOCK = struct.Struct("@hhqqi4x")
#: The maximum number of bytes read from a file, and of files that are looked at.
_MOST, _MOST_FILES = 1 << 14, 1024
_LOCKS = Path("/proc/locks")


@dataclass(frozen=True, slots=True)
class Said:
    """The claim of one engine of another user or of this one, by the file's owner. All numbers are at least 0.

    holds: slots that it says it has; another user may have them. wants: others that it can use. lacks: how many more it
    could use now. unit: how many slots each of its trials needs.
    """

    user: int
    token: str
    holds: frozenset[str]
    wants: frozenset[str]
    lacks: int
    unit: int
    since: str


@dataclass(frozen=True, slots=True)
class Survey:
    """All claims, and the machine's slots that are held, with the numbers of their users (None: unknown)."""

    held: Mapping[str, int | None]
    claims: tuple[Said, ...]


class Notice:
    """A claim's file, which other users read. It ends with :meth:`release` or with the process."""

    def __init__(self, machine: Machine) -> None:
        """Raises OSError if it cannot be made."""
        self.machine = machine
        while True:
            self._path = machine.place / CLAIMS / secrets.token_hex(8)
            flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
            # Closed to others until it is locked: a lock of theirs would be in the way.
            self._descriptor = os.open(self._path, flags, 0o600)
            fcntl.fcntl(self._descriptor, fcntl.F_OFD_SETLKW, _FLOCK.pack(fcntl.F_WRLCK, 0, 0, 0, 0))
            os.fchmod(self._descriptor, 0o644)
            if os.fstat(self._descriptor).st_nlink:
                break
            os.close(self._descriptor)  # this user's other engine mistook it for a dead one's before it was locked
        self._said: Mapping[str, Any] | None = None

    def say(self, facts: Mapping[str, Any]) -> None:
        """Overwrite its content. On a full disk the older one stays."""
        if facts != self._said:
            data = json.dumps(facts).encode()
            with contextlib.suppress(OSError):
                # Padded, so that a reader never sees the end of an older, longer text.
                os.pwrite(self._descriptor, data.ljust(os.fstat(self._descriptor).st_size), 0)
                self._said = facts

    def release(self) -> None:
        """Claim nothing any more."""
        with contextlib.suppress(OSError):
            self._path.unlink()
        with contextlib.suppress(OSError):
            # Unlock before closing, because of children forked meanwhile.
            fcntl.fcntl(self._descriptor, fcntl.F_OFD_SETLK, _FLOCK.pack(fcntl.F_UNLCK, 0, 0, 0, 0))
        os.close(self._descriptor)


def survey(machine: Machine) -> Survey:
    """Who holds and who claims what now. Files that are not valid are left out."""
    slots = machine.slots
    claims = tuple(sorted(_claims(machine, slots), key=lambda one: (one.since, one.user, one.token)))
    by_kernel, held = _lockers(), {}
    for name in slots:
        inode = _locked(machine.place / SLOTS / name)
        if inode is not None:
            user = _user_of(by_kernel[inode]) if inode in by_kernel else None
            # In a container, processes of others may not be visible. Then their claims are the best that is known.
            held[name] = user if user is not None else next((one.user for one in claims if name in one.holds), None)
    return Survey(held, claims)


def _claims(machine: Machine, slots: frozenset[str]) -> Iterator[Said]:
    seen: set[tuple[int, int]] = set()
    with contextlib.suppress(OSError), os.scandir(machine.place / CLAIMS) as entries:
        for _, entry in zip(range(_MOST_FILES), entries, strict=False):
            try:
                descriptor = os.open(entry.path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
            except OSError:
                continue
            try:
                there = os.fstat(descriptor)
                file = there.st_dev, there.st_ino
                # A second link would count a claim twice. If others can write it, its owner may not have said it.
                if not stat.S_ISREG(there.st_mode) or there.st_mode & 0o022 or file in seen:
                    continue
                seen.add(file)
                if not _is_write_locked(descriptor):
                    if there.st_uid == os.geteuid():
                        os.unlink(entry.path)  # its engine is gone
                    continue
                said = json.loads(os.read(descriptor, _MOST))
                yield _said(there.st_uid, entry.name, said, slots)
            except (OSError, ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError):
                continue  # it is being written, or is not valid
            finally:
                os.close(descriptor)


def _said(user: int, token: str, said: Mapping[str, Any], slots: frozenset[str]) -> Said:
    """Raises KeyError, TypeError, ValueError, AttributeError or OverflowError for a claim that is not valid."""
    holds, wants = (slots.intersection(map(str, said[field])) for field in ("holds", "wants"))
    lacks, unit = int(said["lacks"]), int(said["unit"])
    return Said(
        user, token, holds, wants - holds, min(max(0, lacks), len(wants - holds)), max(1, unit), str(said["since"])[:40]
    )


def _is_write_locked(descriptor: int) -> bool:
    asked = _FLOCK.pack(fcntl.F_RDLCK, 0, 0, 0, 0)
    kind: int = _FLOCK.unpack(fcntl.fcntl(descriptor, fcntl.F_OFD_GETLK, asked))[0]
    return kind == fcntl.F_WRLCK


def _locked(path: Path) -> tuple[int, int, int] | None:
    """Device (two numbers) and inode of a slot's file that is locked; None for another."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        there = os.fstat(descriptor)
        return os.major(there.st_dev), os.minor(there.st_dev), there.st_ino
    except OSError:
        pass
    finally:
        os.close(descriptor)
    return None


def _lockers() -> dict[tuple[int, int, int], int]:
    """The processes that hold exclusive locks of whole files, by device and inode, as far as they can be seen here."""
    found = {}
    with contextlib.suppress(OSError):
        for line in _LOCKS.read_text(errors="replace").splitlines():
            words = line.split()
            # 1: FLOCK  ADVISORY  WRITE 4711 fe:00:1234 0 EOF; a process that waits has "->" before FLOCK.
            if len(words) > 5 and words[1] == "FLOCK" and words[3] == "WRITE":
                with contextlib.suppress(ValueError):
                    major, minor, inode = words[5].split(":")
                    found[int(major, 16), int(minor, 16), int(inode)] = int(words[4])
    return found


def _user_of(pid: int) -> int | None:
    """The number of a process's user; None if it cannot be seen."""
    with contextlib.suppress(OSError, ValueError, IndexError):
        # Not the owner of the folder: a process can make that root.
        for line in Path(f"/proc/{pid}/status").read_text(errors="replace").splitlines():
            if line.startswith("Uid:"):
                return int(line.split()[1])
    return None
