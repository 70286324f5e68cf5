"""Where the workers of a machine find a forkserver that another of them has started. Law: they share one only if each
would have started the same: for the same store, environment, limits and view of the machine.

A forkserver listens on a socket in the runtime folder, which other users cannot enter. The sockets of one environment
are numbered; a forkserver with a higher number was started to replace the others. Until it has imported what it must,
the others are used.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import re
import resource
import socket
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from workbench.errors import StoreError
from workbench.store.files.atomic import FILE_MODE
from workbench.store.owner import runtime

#: In the runtime folder.
_FOLDER = "forkservers"
_SUFFIX = ".sock"
#: Connections that may wait while the forkserver imports.
_BACKLOG = 256
#: Seconds for which a connection may take when the machine is busy, and for which another process may hold the lock.
_CONNECT_S, _LOCKED_S = 2.0, 0.5
#: Bytes of a folder's path to which the name of a socket can be added.
_LONGEST = 70
#: The control group of a process that has a scope of its own.
SCOPE = "scope"
_OURS = re.compile(r"/workbench-(engine|forkserver)-\d+\.scope$", re.MULTILINE)
#: Seconds after which it is checked whether anything still listens at a socket.
_SWEPT_S = 3600.0
#: The mode of the socket of a forkserver that imports, and of one that is ready.
_IMPORTS, _READY = 0o600, 0o700
_SPACES = ("mnt", "pid", "net", "ipc", "user", "uts", "cgroup")
_LIMITS = ("AS", "CORE", "CPU", "DATA", "FSIZE", "MEMLOCK", "NOFILE", "NPROC", "STACK")


@dataclass(frozen=True, slots=True)
class Met:
    """number: of the forkserver. connection: to it, if it listens already. listener: otherwise, for the one that is
    now started; None if it can have none, and so serves this process alone."""

    number: int
    connection: socket.socket | None = None
    listener: socket.socket | None = None


class Meeting:
    """The sockets of one environment. store: the one whose trials are trained. environment: what tells forkservers
    apart."""

    def __init__(self, store: str, environment: str, group: str | None = None) -> None:
        """group: the control group in which forkservers will be, if it is not this process's."""
        here = inherited() if group is None else [group, *inherited()[1:]]
        self._prefix = f"{_hash(store)}-{_hash(environment, *here)}-"

    def meet(self, after: int = 0) -> Met:
        """The newest forkserver with a number above ``after``, one that is ready if there is one; or a place for a new
        one. It takes milliseconds."""
        try:
            place = runtime.folder(_FOLDER)
            with _entered(place) as inside, _locked(place):
                names = self._names(place)
                numbers = [self._number(name) for name in names]
                ready = {self._number(name) for name in names if _is_ready(place / name)}
                for number in sorted(numbers, key=lambda number: (number in ready, number), reverse=True):
                    if number > after and (found := connected(inside, self._name(number))) is not None:
                        return Met(number, connection=found)
                _sweep(inside, place)
                number = max([after, *numbers]) + 1
                return Met(number, listener=_listening(inside, self._name(number)))
        except (OSError, StoreError, ValueError):  # such as a folder of another user: then nothing is shared
            return Met(after + 1)

    def newest(self, *, is_ready: bool = False) -> int:
        """The highest number of a forkserver, or of a ready one, which may have ended; 0 if there is none."""
        with contextlib.suppress(OSError, StoreError, ValueError):
            place = runtime.folder(_FOLDER)
            names = [name for name in self._names(place) if not is_ready or _is_ready(place / name)]
            return max(map(self._number, names), default=0)
        return 0

    def _number(self, name: str) -> int:
        return int(name[len(self._prefix) : -len(_SUFFIX)])

    def _names(self, place: Path) -> list[str]:
        return [name for name in os.listdir(place) if name.startswith(self._prefix) and name.endswith(_SUFFIX)]

    def _name(self, number: int) -> str:
        return f"{self._prefix}{number}{_SUFFIX}"


def say_ready(listener: socket.socket) -> None:
    """The forkserver at this listener has imported what it must."""
    with contextlib.suppress(OSError):
        os.chmod(listener.getsockname(), _READY)


def _is_ready(path: Path) -> bool:
    with contextlib.suppress(OSError):
        return path.stat().st_mode & _READY == _READY
    return False


def connected(inside: str, name: str) -> socket.socket | None:
    """A connection to the socket ``name`` of the folder ``inside``; None if nothing listens, and then it is removed."""
    found = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    found.settimeout(_CONNECT_S)
    try:
        found.connect(f"{inside}/{name}")
    except (ConnectionRefusedError, FileNotFoundError):
        found.close()
        with contextlib.suppress(OSError):
            os.unlink(f"{inside}/{name}")
        return None
    except OSError:  # too many connections wait for it
        found.close()
        return None
    found.settimeout(None)
    return found


def _sweep(inside: str, place: Path) -> None:
    """Remove the sockets of forkservers that were killed."""
    before = time.time() - _SWEPT_S
    for name in os.listdir(place):
        with contextlib.suppress(OSError):
            if name.endswith(_SUFFIX) and (place / name).stat().st_mtime < before:
                found = connected(inside, name)
                if found is not None:
                    found.close()


def _listening(inside: str, name: str) -> socket.socket:
    """A listener at ``name``. The lock is held, so that no process tries to connect in between."""
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        listener.bind(f"{inside}/{name}")
        os.chmod(f"{inside}/{name}", _IMPORTS)
        listener.listen(_BACKLOG)
    except BaseException:
        listener.close()
        raise
    return listener


@contextlib.contextmanager
def _entered(place: Path) -> Iterator[str]:
    """A path of the folder that is short enough: that of a socket may have 107 bytes."""
    if len(os.fsencode(place)) <= _LONGEST:
        yield str(place)
        return
    descriptor = os.open(place, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{descriptor}"
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def _locked(place: Path) -> Iterator[None]:
    """Alone in the folder. Raises BlockingIOError if another process holds it for long: it may be frozen."""
    descriptor = os.open(place / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, FILE_MODE)
    try:
        until = time.monotonic() + _LOCKED_S
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > until:
                    raise
                time.sleep(0.001)
        yield
    finally:
        os.close(descriptor)


def inherited() -> list[str]:
    """What a process inherits from the one that starts it, or sees as that one does; the control group first."""
    spaces = [os.readlink(f"/proc/self/ns/{name}") for name in _SPACES if os.path.lexists(f"/proc/self/ns/{name}")]
    limits = [repr(resource.getrlimit(getattr(resource, f"RLIMIT_{name}"))) for name in _LIMITS]
    return [
        group_of(Path("/proc/self/cgroup").read_text()),
        *spaces,
        *limits,
        repr(sorted(os.sched_getaffinity(0))),
        str(os.nice(0)),
    ]


def group_of(text: str) -> str:
    """The control group in ``/proc/self/cgroup``; the scopes that Workbench asks systemd for are as good as one."""
    return SCOPE if _OURS.search(text) else text


def _hash(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode(errors="surrogateescape")).hexdigest()[:12]
