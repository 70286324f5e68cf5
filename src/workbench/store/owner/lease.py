"""One engine for each store. Law: the process that holds the lock is the engine; the kernel frees it when the holder
dies.

``engine.lock`` decides; ``engine.json`` identifies the engine. On a network file system a lock may not reach other
hosts: there a recent heartbeat of another host counts as well.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import socket
import time
import weakref
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

from workbench.errors import EngineRunning, StoreError
from workbench.records import PROTOCOL, SCHEMA, Json, check_schema
from workbench.store.files.atomic import FILE_MODE, PLAIN, kind_of, read_json, telling, write_json
from workbench.store.files.filesystem import is_network
from workbench.store.layout import Store

#: Seconds without a heartbeat after which an engine on another host counts as dead, if locks may not reach it.
SILENT_S = 30.0
#: Probing the lock holds it for microseconds. An engine waits this long before it concludes that another one has it.
_PROBE_S = 0.25
#: How the lock's file is opened: a pipe does not block, and a link is not followed.
_PLAIN = os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK


@dataclass(frozen=True, slots=True)
class EngineInfo:
    """The engine of a store, according to its last record."""

    host: str
    boot_id: str
    pid: int
    started: str
    heartbeat: str
    protocol: int
    state: Literal["running", "closing"]
    address: str | None = None
    #: Whether its process held the lock when this was read (on a network file system: or another host's heartbeat was
    #: recent).
    alive: bool = False

    @property
    def proof(self) -> str:
        """What only a reader of the engine's record can know: it proves the engine's identity to workers."""
        return f"{self.boot_id} {self.pid} {self.started}"

    @property
    def silent_s(self) -> float:
        """Seconds since its last heartbeat. A live engine without heartbeats hangs."""
        try:
            return (datetime.now(UTC) - datetime.fromisoformat(self.heartbeat)).total_seconds()
        except ValueError:
            return float("inf")


class EngineLease:
    """The right to be a store's engine. It ends with :meth:`release` or with the process, however that ends.

    Where the store was removed, nothing at its path is written or removed any more: there may be a new one.
    """

    def __init__(self, store: Store, descriptor: int, info: EngineInfo) -> None:
        self.store = store
        self._descriptor = descriptor
        self._info = info
        # The descriptor is close-on-exec; a forked child that never calls exec must not keep the lock either.
        forget = weakref.WeakMethod(self._forget)
        os.register_at_fork(after_in_child=lambda: (call := forget()) and call())

    @classmethod
    def acquire(cls, store: Store, *, address: str | None = None, wait_s: float = 0.0) -> EngineLease:
        """Become the engine of ``store``, which is created if it is missing.

        Waits ``wait_s`` seconds for another engine, which may be closing. Raises EngineRunning if it stays, and
        NewerSchema if the last engine was of a later Workbench.
        """
        store.create()
        descriptor = _opened(store)
        try:
            _lock(store, descriptor, wait_s)
            found = _read(store)
            if found is not None:
                check_schema(found, f"{store.engine_json}")
                other = _info(found)
                if other is not None and _elsewhere(store, other):
                    raise _running(store, other)
            now = _now()
            info = EngineInfo(
                host=socket.gethostname(),
                boot_id=boot_id(),
                pid=os.getpid(),
                started=now,
                heartbeat=now,
                protocol=PROTOCOL,
                state="running",
                address=address,
                alive=True,
            )
            lease = cls(store, descriptor, info)
            lease._write(info, fsync=True)
        except BaseException:
            os.close(descriptor)
            raise
        return lease

    @property
    def info(self) -> EngineInfo:
        """The last record."""
        return self._info

    @property
    def held(self) -> bool:
        """Whether the lease is held; False after its release, and in forked children."""
        return self._descriptor >= 0

    @property
    def is_ours(self) -> bool:
        """False if the store was removed, or removed and recreated: the locked file no longer belongs to it."""
        try:
            mine = os.fstat(self._descriptor)
            # The inode number of a removed file is soon reused; its link count shows the removal.
            return mine.st_nlink > 0 and os.path.samestat(mine, os.stat(self.store.engine_lock))
        except OSError:
            return False

    def beat(self, *, address: str | None = None) -> None:
        """Write a heartbeat, about once a second; ``address`` is the cluster's, once it answers.

        Raises StoreFull and the like. If locks do not reach other hosts, the file's time, which needs no space, serves
        as the heartbeat then.
        """
        try:
            self._write(replace(self._info, heartbeat=_now(), address=address or self._info.address))
        except StoreError:
            with contextlib.suppress(OSError):
                os.utime(self.store.engine_json)
            raise

    def closing(self) -> None:
        """Record that the engine is about to end. Afterwards, check for requests once more, then release."""
        self._write(replace(self._info, heartbeat=_now(), state="closing"), fsync=True)

    def running(self) -> None:
        """Undo :meth:`closing`: a request came at the last moment."""
        self._info = replace(self._info, state="running")  # so that the next heartbeat records it, if this write fails
        self._write(replace(self._info, heartbeat=_now()), fsync=True)

    def release(self) -> None:
        """Release the lease. Calling it twice is allowed."""
        if self._descriptor < 0:
            return
        if self.is_ours:
            with contextlib.suppress(OSError):
                os.unlink(self.store.engine_json)
        descriptor, self._descriptor = self._descriptor, -1
        with contextlib.suppress(OSError):
            # Unlock before closing, because of children forked by code that runs no fork hooks.
            fcntl.flock(descriptor, fcntl.LOCK_UN)
        os.close(descriptor)

    def __enter__(self) -> EngineLease:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()

    def _write(self, info: EngineInfo, *, fsync: bool = False) -> None:
        if self._descriptor < 0:
            raise StoreError(f"the lease on {self.store.root} was released; it cannot be written any more.")
        if not self.is_ours:
            return  # another engine's record may be there, by which its workers know it
        data = {name: value for name, value in asdict(info).items() if name != "alive"}
        write_json(self.store.engine_json, {"schema": SCHEMA, **data}, fsync=fsync)
        self._info = info

    def _forget(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


def read_engine(store: Store) -> EngineInfo | None:
    """The engine of ``store``, and whether it is alive; None if there is none, or it has just started."""
    found = _read(store)
    info = None if found is None else _info(found)
    if info is None:
        return None
    return replace(info, alive=is_locked(store.engine_lock) or _elsewhere(store, info))


def boot_id() -> str:
    """An id of the machine's present boot; the same in all its containers."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return ""


@contextlib.contextmanager
def locked(store: Store) -> Iterator[None]:
    """Keep every engine out of the existing ``store``, without being one. Raises EngineRunning if one is alive."""
    descriptor = _opened(store)
    try:
        _lock(store, descriptor, 0.0)
        found = _read(store)
        other = None if found is None else _info(found)
        if other is not None and _elsewhere(store, other):
            raise _running(store, other)
        yield
    finally:
        os.close(descriptor)


def _opened(store: Store) -> int:
    """The lock's file, created if it is missing. Raises StoreError if it is anything but a plain file."""
    path = store.engine_lock
    with telling(path):
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | _PLAIN, FILE_MODE)
            kind = kind_of(os.fstat(descriptor).st_mode)
        except OSError:
            if (kind := _kind_at(path)) is None:
                raise
            descriptor = -1
    if kind is None:
        return descriptor
    if descriptor >= 0:
        os.close(descriptor)
    raise StoreError(f"{path} is {kind}, expected a file. Remove it: the next engine makes the file again.")


def _kind_at(path: Path) -> str | None:
    try:
        return kind_of(path.lstat().st_mode)
    except OSError:
        return None


def _lock(store: Store, descriptor: int, wait_s: float) -> None:
    until = time.monotonic() + max(wait_s, _PROBE_S)
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            pass
        except OSError as error:
            raise StoreError(
                f"{store.engine_lock} cannot be locked ({error.strerror}), so a second engine could not be kept out. "
                "Choose a place with locks (a local disk, or NFS without 'nolock') with --store."
            ) from error
        if time.monotonic() > until:
            found = _read(store)
            raise _running(store, None if found is None else _info(found))
        time.sleep(0.005)  # waiting for a lock has no time limit


def _running(store: Store, info: EngineInfo | None) -> EngineRunning:
    if info is None:
        who = "another engine, which is just starting,"
        how = "Wait a moment and look with workbench engine status"
    else:
        who = f"the engine with process {info.pid} on {info.host}, running since {info.started},"
        how = f"Use that one, or end it with workbench engine stop (or kill {info.pid} on {info.host})"
    return EngineRunning(
        f"{who} works in {store.root}, and a store has one engine. {how}; or name another store with --store."
    )


def _elsewhere(store: Store, info: EngineInfo) -> bool:
    """Whether ``info`` may be alive on another machine, which the lock may not reach."""
    other = info.boot_id != boot_id() and info.state == "running"
    return other and min(info.silent_s, _untouched_s(store)) < SILENT_S and is_network(store.root)


def _untouched_s(store: Store) -> float:
    """Seconds since the engine's file was touched: on a full disk, an engine can do no more."""
    try:
        return time.time() - store.engine_json.stat().st_mtime
    except OSError:
        return float("inf")


def is_locked(path: Path) -> bool:
    """Whether a process holds the lock. It tries a shared lock, so that concurrent checks do not see each other.

    Anything but a plain file is not locked: the store may be another person's, and opening a pipe would block.
    """
    try:
        descriptor = os.open(path, PLAIN)
    except OSError:
        return False
    try:
        if kind_of(os.fstat(descriptor).st_mode) is not None:
            return False
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    finally:
        os.close(descriptor)
    return False


def _read(store: Store) -> Mapping[str, Json] | None:
    try:
        found = read_json(store.engine_json)
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) else None


def _info(found: Mapping[str, Json]) -> EngineInfo | None:
    try:
        return EngineInfo(
            host=str(found["host"]),
            boot_id=str(found["boot_id"]),
            pid=int(found["pid"]),
            started=str(found["started"]),
            heartbeat=str(found["heartbeat"]),
            protocol=int(found["protocol"]),
            state="closing" if found.get("state") == "closing" else "running",
            address=found.get("address"),
        )
    except (KeyError, TypeError, ValueError):
        return None


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")
