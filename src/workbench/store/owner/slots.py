"""Slots of this machine, shared by all engines of a user. Law: a slot is held as long as the kernel's lock.

Each slot is a file in the runtime folder: ``cpu0`` for a core, ``gpu-UUID`` for a GPU. The worker that trains in it
holds the file's lock. The file's content (holder, time) counts only while the lock is held. So a killed process frees
its slot at once, and nothing has to be cleaned up. An engine that has slots or lacks some says so in a locked file in
``claims``; each computes from all of these who should have how many (:mod:`workbench.engine.fair`).
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import math
import os
import secrets
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from workbench.store.files.atomic import FILE_MODE, telling
from workbench.store.owner.runtime import folder

_SLOTS, _CLAIMS, _DRAINED = "slots", "claims", "drained"
#: The maximum number of bytes read from such a file.
_MOST = 1 << 14


@dataclass(frozen=True, slots=True)
class Holder:
    """The holder of a slot: an engine's store, the label of the experiment that trains there, the worker's process."""

    slot: str
    store: str = ""
    experiment: str | None = None
    pid: int = 0
    since: str = ""

    def __str__(self) -> str:
        return f"{self.store or 'another process'}{f' ({self.experiment})' if self.experiment else ''}"


@dataclass(frozen=True, slots=True)
class Claimant:
    """An engine that holds slots or lacks some.

    held: how many it has. lacks: how many more it could use now. wants: names of slots that it can use and has not.
    slots: how many it could use at most. weight, priority: those of its experiments together. debt: see
    :class:`workbench.engine.fair.Claim`. experiments: their labels.
    """

    name: str
    store: str
    since: str
    held: int
    wants: frozenset[str]
    lacks: int = 0
    slots: int = 0
    weight: float = 1.0
    priority: int = 0
    debt: float = 0.0
    experiments: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.store}{f' ({self.experiments[0]})' if self.experiments else ''}"


class _Locked:
    """A file whose lock this process holds, and its content."""

    def __init__(self, path: Path, descriptor: int) -> None:
        self.path, self._descriptor = path, descriptor

    def say(self, facts: Mapping[str, Any]) -> None:
        """Overwrite its content with ``facts``. On a full disk it stays empty, and the lock counts anyway."""
        data = json.dumps(facts).encode()
        with contextlib.suppress(OSError):
            # Padded, so that a reader never sees the end of an older, longer text.
            before = os.fstat(self._descriptor).st_size
            os.pwrite(self._descriptor, data.ljust(before), 0)

    def release(self) -> None:
        """Release the lock. Calling it twice is allowed."""
        if self._descriptor >= 0:
            descriptor, self._descriptor = self._descriptor, -1
            with contextlib.suppress(OSError):
                os.ftruncate(descriptor, 0)
            with contextlib.suppress(OSError):
                # Unlock before closing, because of children forked meanwhile.
                fcntl.flock(descriptor, fcntl.LOCK_UN)
            os.close(descriptor)


class Lease(_Locked):
    """The right to train in one slot of this machine. It ends with :meth:`release` or with the process."""

    def __init__(self, path: Path, descriptor: int, store: str) -> None:
        super().__init__(path, descriptor)
        self.name = path.name
        self._holder = Holder(self.name, store=store, pid=os.getpid(), since=_now())
        self.say(asdict(self._holder))

    @property
    def experiment(self) -> str | None:
        """The experiment whose legs train there."""
        return self._holder.experiment

    def trains(self, experiment: str) -> None:
        """Record the experiment whose legs train there now."""
        if experiment != self._holder.experiment:
            holder = {**asdict(self._holder), "experiment": experiment}
            self._holder = Holder(**holder)
            self.say(holder)


class Claiming(_Locked):
    """The file in which an engine says what it claims. It ends with :meth:`release` or with the process."""

    def __init__(self, store: str) -> None:
        """Raises StoreError if the runtime folder cannot be used."""
        place = folder(_CLAIMS)
        while True:
            path = place / secrets.token_hex(8)
            with telling(path):
                descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, FILE_MODE)
                fcntl.flock(descriptor, fcntl.LOCK_EX)
            if os.fstat(descriptor).st_nlink:
                break
            os.close(descriptor)  # it was mistaken for a dead engine's before it was locked
        super().__init__(path, descriptor)
        self._store, self.since = store, _now()
        self._said: Claimant | None = None

    def tell(self, held: int, wants: Iterable[str], **facts: Any) -> Claimant:
        """Record how many slots it has, which others it can use, and other fields of :class:`Claimant`."""
        claimant = Claimant(self.path.name, self._store, self.since, held, frozenset(wants), **facts)
        if claimant != self._said:
            self._said = claimant
            self.say({**asdict(claimant), "wants": sorted(claimant.wants)})
        return claimant

    def again(self) -> None:
        """Move behind equal claims, after getting a slot."""
        self.since = _now()

    def release(self) -> None:
        """Claim nothing any more."""
        with contextlib.suppress(OSError):
            self.path.unlink()
        super().release()


def cores(workers: int | None = None) -> list[str]:
    """Names of the slots of a cluster with that many workers (None: one for each core that this process may use).

    If more workers than cores are asked for, there are more slots than cores.
    """
    names = [f"cpu{number}" for number in sorted(os.sched_getaffinity(0))]
    return [*names, *(f"more{number}" for number in range(max(0, (workers or 0) - len(names))))]


def take(names: Iterable[str], store: str) -> Lease | None:
    """Take the first free one of these slots for this process; None if all are taken or drained. Raises StoreError."""
    place, unused = folder(_SLOTS), drained()
    for name in names:
        path = place / _checked(name)
        if name in unused:
            continue
        with telling(path):
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, FILE_MODE)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if os.path.samestat(os.fstat(descriptor), os.stat(path)):  # otherwise it was removed by hand meanwhile
                    return Lease(path, descriptor, store)
            except (BlockingIOError, FileNotFoundError):
                pass
            os.close(descriptor)
    return None


def drain(name: str) -> None:
    """Take a slot out of use: trials there make room, and none starts there until :func:`use_again`. Raises
    StoreError."""
    path = folder(_DRAINED) / _checked(name)
    with telling(path):
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, FILE_MODE))


def use_again(name: str) -> None:
    """Undo :func:`drain`. Raises StoreError."""
    path = folder(_DRAINED) / _checked(name)
    with telling(path):
        path.unlink(missing_ok=True)


def drained() -> frozenset[str]:
    """The slots that are taken out of use. Raises StoreError."""
    return frozenset(os.listdir(folder(_DRAINED)))


def holders() -> list[Holder]:
    """The slots of this machine that are held, by name. Raises StoreError."""
    place = folder(_SLOTS)
    found = []
    for name in sorted(os.listdir(place)):
        said = _said(place / name)
        if said is not None:
            known = {key: said[key] for key in ("store", "experiment", "pid", "since") if key in said}
            found.append(Holder(name, **known))
    return found


def waiters() -> list[Claimant]:
    """Engines that lack slots, in the order in which they get the next free one. Raises StoreError."""
    return sorted((one for one in claimants() if one.lacks), key=lambda one: (-one.priority, one.debt, one.since))


def claimants(besides: Claiming | None = None) -> list[Claimant]:
    """Engines that hold slots or lack some, the oldest claim first. Raises StoreError."""
    place = folder(_CLAIMS)
    found = []
    for name in os.listdir(place):
        if besides is not None and name == besides.path.name:
            continue
        said = _said(place / name)
        if said is None:
            with contextlib.suppress(OSError):
                (place / name).unlink()  # its engine is gone
        elif said:
            with contextlib.suppress(KeyError, TypeError, ValueError, OverflowError):
                found.append(_claimant(name, said))
    return sorted(found, key=lambda claimant: (claimant.since, claimant.name))


def _claimant(name: str, said: Mapping[str, Any]) -> Claimant:
    """The content of a claim's file. Raises KeyError, TypeError, ValueError or OverflowError for one of no use."""
    weight, debt = float(said.get("weight", 1.0)), float(said.get("debt", 0.0))
    if not (0 < weight < math.inf and math.isfinite(debt)):
        raise ValueError(f"weight {weight}, debt {debt}")
    held, lacks, slots = (max(0, int(said.get(field, 0))) for field in ("held", "lacks", "slots"))
    return Claimant(
        name,
        str(said["store"]),
        str(said["since"]),
        held,
        frozenset(map(str, said["wants"])),
        lacks=lacks,
        slots=slots,
        weight=weight,
        priority=int(said.get("priority", 0)),
        debt=debt,
        experiments=tuple(map(str, said.get("experiments", ()))),
    )


def _said(path: Path) -> dict[str, Any] | None:
    """The content of a locked file; None if no process holds its lock."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        return None
    except BlockingIOError:
        with contextlib.suppress(ValueError, RecursionError):
            said = json.loads(os.read(descriptor, _MOST))
            return said if isinstance(said, dict) else {}
        return {}  # it is being written
    except OSError:
        return None
    finally:
        os.close(descriptor)


def _checked(name: str) -> str:
    if not name or "/" in name or name.startswith("."):
        raise ValueError(f"slot {name!r}: expected a name like cpu0 or gpu-UUID.")
    return name


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")
