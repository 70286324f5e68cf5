"""Slots of this machine, shared by all engines of a user. Law: a slot is held as long as the kernel's lock.

Each slot is a file in the runtime folder: ``cpu0`` for a core, ``gpu-UUID`` for a GPU. The worker that trains in it
holds the file's lock. The file's content (holder, time) counts only while the lock is held. So a killed process frees
its slot at once, and nothing has to be cleaned up. An engine that has slots or lacks some says so in a locked file in
``claims``; each computes from all of these who should have how many (:mod:`workbench.engine.fair`).

Where the users of a machine share its slots (:mod:`workbench.store.owner.machine`), a slot is also a lock there, and
other users' slots and claims are those that they show there.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import logging
import math
import os
import secrets
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from workbench.store.files.atomic import FILE_MODE, telling
from workbench.store.owner.claimed import Notice, survey
from workbench.store.owner.listed import person
from workbench.store.owner.machine import Machine, shared
from workbench.store.owner.promised import Promise, promise_of
from workbench.store.owner.runtime import folder

log = logging.getLogger("workbench.engine")

_SLOTS, _CLAIMS, _DRAINED = "slots", "claims", "drained"
#: The maximum number of bytes read from such a file.
_MOST = 1 << 14


@dataclass(frozen=True, slots=True)
class Holder:
    """The holder of a slot: an engine's store, the label of the experiment that trains there, the worker's process.

    user: the name of another user, of whom nothing else is known; empty for this one.
    """

    slot: str
    store: str = ""
    experiment: str | None = None
    pid: int = 0
    since: str = ""
    user: str = ""

    def __str__(self) -> str:
        if self.user:
            return self.user
        return f"{self.store or 'another process'}{f' ({self.experiment})' if self.experiment else ''}"


@dataclass(frozen=True, slots=True)
class Claimant:
    """An engine that holds slots or lacks some.

    held: how many it has, and holds: which. lacks: how many more it could use now. wants: names of slots that it can
    use and has not. slots: how many it could use at most. weight, priority: those of its experiments together. debt,
    unit: see :class:`workbench.engine.fair.Claim`. experiments: their labels. user: the name of another user; then the
    claim is that of all engines of this user, it has no store, and weight is the user's. promised: free slots that it
    leaves to others, while it waits. owner: on a cluster, the account that it says it works for; empty if it does not.
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
    unit: int = 1
    experiments: tuple[str, ...] = ()
    user: str = ""
    holds: frozenset[str] = frozenset()
    promised: tuple[Promise, ...] = ()
    owner: str = ""

    def __str__(self) -> str:
        return self.user or f"{self.store}{f' ({self.experiments[0]})' if self.experiments else ''}"

    def placed(self, place: Callable[[str], str]) -> tuple[Promise, ...]:
        """Its promises, with stores as people name them. place: names one."""
        return tuple(replace(one, store=place(one.store) if one.store else "") for one in self.promised)


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
            _unlock(descriptor)


class Lease(_Locked):
    """The right to train in one slot of this machine. It ends with :meth:`release` or with the process."""

    def __init__(self, path: Path, descriptor: int, store: str, shared_lock: int | None = None) -> None:
        """shared_lock: a descriptor with the lock that the machine's users share."""
        super().__init__(path, descriptor)
        self._shared_lock = shared_lock
        self.name = path.name
        self._holder = Holder(self.name, store=store, pid=os.getpid(), since=now())
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

    def release(self) -> None:
        """Release both locks. Calling it twice is allowed."""
        super().release()
        if self._shared_lock is not None:
            descriptor, self._shared_lock = self._shared_lock, None
            _unlock(descriptor)


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
        self._store, self.since = store, now()
        self._said: Claimant | None = None
        #: What other users see of it, where users share this machine.
        self._notice: Notice | None = None

    def tell(self, held: int, wants: Iterable[str], **facts: Any) -> Claimant:
        """Record how many slots it has, which others it can use, and other fields of :class:`Claimant`."""
        claimant = Claimant(self.path.name, self._store, self.since, held, frozenset(wants), **facts)
        if claimant != self._said:
            self._said = claimant
            self.say(facts_of(claimant))
        return claimant

    def show(self, machine: Machine | None, claimant: Claimant) -> None:
        """Show the users of ``machine`` what ``claimant`` says of slots, and neither store nor experiments."""
        if self._notice is not None and self._notice.machine != machine:
            self._hide()
        if machine is not None:
            try:
                self._notice = self._notice or Notice(machine)
            except OSError as error:
                log.warning("other users do not see what this engine claims: %s", error)
                return
            self._notice.say({
                "holds": sorted(claimant.holds),
                "wants": sorted(claimant.wants),
                "lacks": claimant.lacks,
                "unit": claimant.unit,
                "since": claimant.since,
            })  # fmt: skip

    def _hide(self) -> None:
        if self._notice is not None:
            self._notice.release()
            self._notice = None

    def again(self) -> None:
        """Move behind equal claims, after getting a slot."""
        self.since = now()

    def release(self) -> None:
        """Claim nothing any more."""
        self._hide()
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
    """Take the first free one of these slots for this process; None if all are taken or drained. Raises StoreError.

    Where users share the machine, a slot that is not one of theirs is never free.
    """
    place, unused, machine = folder(_SLOTS), drained(), shared()
    for name in names:
        path = place / _checked(name)
        if name in unused:
            continue
        lock = None if machine is None else machine.lock(name)
        if machine is not None and lock is None:
            continue
        lease = None
        try:
            lease = _taken(path, store, lock)
        finally:
            if lease is None and lock is not None:
                _unlock(lock)
        if lease is not None:
            return lease
    return None


def _taken(path: Path, store: str, lock: int | None) -> Lease | None:
    """The slot of the file ``path``, if it is free. lock: that which users share."""
    with telling(path):
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, FILE_MODE)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.path.samestat(os.fstat(descriptor), os.stat(path)):  # otherwise it was removed by hand meanwhile
                return Lease(path, descriptor, store, lock)
        except (BlockingIOError, FileNotFoundError):
            pass
        os.close(descriptor)
    return None


def drain(name: str) -> None:
    """Take a slot out of use: trials there make room, and none starts there until :func:`use_again`. Raises
    StoreError.

    The machine's administrator does that for all users, another user for the own trials only.
    """
    machine = shared()
    if machine is not None and machine.is_mine:
        machine.drain(_checked(name))
        return
    path = folder(_DRAINED) / _checked(name)
    with telling(path):
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, FILE_MODE))


def use_again(name: str) -> None:
    """Undo :func:`drain`. What the administrator drained stays so for others. Raises StoreError."""
    machine = shared()
    if machine is not None and machine.is_mine:
        machine.use_again(_checked(name))
    path = folder(_DRAINED) / _checked(name)
    with telling(path):
        path.unlink(missing_ok=True)


def drained() -> frozenset[str]:
    """The slots that are taken out of use. Raises StoreError."""
    machine = shared()
    return frozenset(os.listdir(folder(_DRAINED))) | (machine.drained if machine is not None else frozenset())


def holders() -> list[Holder]:
    """The slots of this machine that are held, by name. Raises StoreError."""
    place = folder(_SLOTS)
    found = []
    for name in sorted(os.listdir(place)):
        said = _said(place / name)
        if said is not None:
            known = {key: said[key] for key in ("store", "experiment", "pid", "since") if key in said}
            found.append(Holder(name, **known))
    machine = shared()
    if machine is not None:
        found += others(machine, {holder.slot for holder in found})
    return sorted(found, key=lambda holder: holder.slot)


def others(machine: Machine, besides: Collection[str]) -> list[Holder]:
    """The slots that other users hold. besides: those that this user holds."""
    found = []
    for slot, user in survey(machine).held.items():
        if slot not in besides:
            own = user == os.geteuid()  # it is just taking the slot or giving it back
            found.append(Holder(slot, user="" if own else "another user" if user is None else person(user)))
    return found


def is_its_process(holder: Holder) -> bool:
    """Whether the process whose number a holder gives has the slot's file open, in this container, as a holder has.

    Raises StoreError.
    """
    path, fds = folder(_SLOTS) / holder.slot, f"/proc/{holder.pid}/fd"
    with contextlib.suppress(OSError):
        there = os.stat(path, follow_symlinks=False)
        for name in os.listdir(fds):
            with contextlib.suppress(OSError):
                if os.path.samestat(os.stat(f"{fds}/{name}"), there):
                    return True
    return False


def waiters() -> list[Claimant]:
    """Engines that lack slots, in the order in which they get the next free one; then other users whose engines do.

    Raises StoreError.
    """
    own = sorted((one for one in claimants() if one.lacks), key=lambda one: (-one.priority, one.debt, one.since))
    machine = shared()
    return own if machine is None else [*own, *_waiting_users(machine)]


def _waiting_users(machine: Machine) -> list[Claimant]:
    """Other users whose engines lack slots, who waits longest first."""
    found, waiting = survey(machine), []
    for user in dict.fromkeys(one.user for one in found.claims if one.lacks and one.user != os.geteuid()):
        theirs = [one for one in found.claims if one.user == user and one.lacks]
        held = frozenset(slot for slot, holder in found.held.items() if holder == user)
        wants = frozenset[str]().union(*(one.wants for one in theirs)) - held
        lacks = min(len(wants), sum(one.lacks for one in theirs))
        name, since = person(user), theirs[0].since
        claimant = Claimant(
            name, "", since, len(held), wants, lacks, weight=machine.weight(user), user=name, holds=held
        )
        waiting += [claimant] if lacks else []
    return waiting


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
                found.append(claimant_of(name, said))
    return sorted(found, key=lambda claimant: (claimant.since, claimant.name))


def facts_of(claimant: Claimant) -> dict[str, Any]:
    """``claimant`` as plain data."""
    return {**asdict(claimant), "wants": sorted(claimant.wants), "holds": sorted(claimant.holds)}


def claimant_of(name: str, said: Mapping[str, Any]) -> Claimant:
    """What :func:`facts_of` gave, as it was read from a file or a wire.

    Raises KeyError, TypeError, ValueError or OverflowError for one of no use.
    """
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
        unit=max(1, int(said.get("unit", 1))),
        experiments=tuple(map(str, said.get("experiments", ()))),
        holds=frozenset(map(str, said.get("holds", ()))),
        promised=tuple(promise_of(one) for one in said.get("promised", ())),
        owner=str(said.get("owner", "")),
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


def _unlock(descriptor: int) -> None:
    with contextlib.suppress(OSError):
        # Unlock before closing, because of children forked meanwhile.
        fcntl.flock(descriptor, fcntl.LOCK_UN)
    os.close(descriptor)


def _checked(name: str) -> str:
    if not name or "/" in name or name.startswith("."):
        raise ValueError(f"slot {name!r}: expected a name like cpu0 or gpu-UUID.")
    return name


def now() -> str:
    """The time, as claims and holders have it."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")
