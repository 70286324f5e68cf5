"""`python -m workbench.nursery --store FOLDER --socket N`: the process from which a kernel's engines are forked.

Law: it imports what an engine and its cluster need, forks engines when it is told to, and ends with the process that
holds it. It reads no store. An engine that was forked does not depend on it.

The imports, most of all of Dask, take an engine a second. A kernel holds a nursery from the moment in which the
extension is loaded, so that they are done before a train cell asks for an engine. Engine, cluster and workers share the
memory of what it has imported.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from typing import BinaryIO

from workbench import interpreter
from workbench.cluster import forked
from workbench.trial.process import meeting

#: The engine's program.
_ENGINE = "workbench.engine.__main__"
#: Seconds after which one that imports is not waited for, unless it has worked meanwhile; and within which it forks
#: then, or else counts as frozen.
READY_S, FORKS_S = 2.0, 5.0
#: Bytes of a message.
_MOST = 1 << 16


class Nursery:
    """One, as the process that holds it sees it."""

    def __init__(self, root: str, surroundings: Mapping[str, str]) -> None:
        """Start it, for engines of the store at ``root`` that begin with these variables. Raises OSError."""
        self.fits, self.sources = _facts(root, surroundings), _sources()
        #: Whether it has imported what it must.
        self._is_ready = False
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        words = ("--store", root, "--socket", str(theirs.fileno()))
        try:
            self._process = subprocess.Popen(
                interpreter.command("workbench.nursery", *words),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                cwd="/",
                start_new_session=True,
                env=dict(surroundings),
                pass_fds=[theirs.fileno()],
            )
        except BaseException:
            self._socket.close()
            raise
        finally:
            theirs.close()

    @property
    def is_alive(self) -> bool:
        """Whether its process runs."""
        return self._process.poll() is None

    def is_ready(self, most_s: float) -> bool:
        """Whether it can fork. It is waited for while it works: a new process would do the same, from the beginning.

        most_s: seconds without any work. Raises OSError if it has ended.
        """
        self._socket.settimeout(most_s)
        while not self._is_ready:
            worked = self._worked()
            try:
                self._hear()
                self._is_ready = True
            except (TimeoutError, BlockingIOError):
                if worked == self._worked():
                    return False
        return True

    def _worked(self) -> list[str]:
        """The processor time it has used (``man proc_pid_stat``: fields 14 and 15)."""
        with open(f"/proc/{self._process.pid}/stat") as stat:
            return stat.read().rpartition(")")[2].split()[11:13]

    def begin(self, words: Sequence[str], log: BinaryIO) -> None:
        """Fork an engine with these words, which prints to ``log``. Raises OSError."""
        self._socket.settimeout(FORKS_S)
        socket.send_fds(self._socket, [json.dumps([*words]).encode()], [log.fileno()])
        self._hear()

    def _hear(self) -> None:
        if not self._socket.recv(_MOST):
            raise ConnectionResetError("it has ended")

    def end(self) -> None:
        """End it; its engines go on."""
        self._socket.close()
        with contextlib.suppress(ProcessLookupError):
            self._process.kill()  # at once: it may be frozen
        self._process.wait()


class Kept:
    """The nursery that this process holds, if it holds one."""

    #: So many that ended or froze by themselves are too many: no other is started.
    MOST_FAILED = 3

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._nursery: Nursery | None = None
        self._failed = 0

    @property
    def holds(self) -> bool:
        """Whether it holds one."""
        return self._nursery is not None

    def keep(self, root: str, surroundings: Mapping[str, str]) -> None:
        """Hold one for engines of this store with these variables, unless several have failed."""
        with self._lock:
            held = self._nursery
            if held is not None and not held.is_alive:
                self._failed += 1
            elif held is not None and held.fits == _facts(root, surroundings):
                return
            self._end()
            if self._failed < self.MOST_FAILED:
                try:
                    self._nursery = Nursery(root, surroundings)
                except OSError:  # such as a limit of processes: engines begin as new processes then
                    self._failed += 1

    def let_go(self) -> None:
        """Hold none any more."""
        with self._lock:
            self._end()

    def begin(self, root: str, surroundings: Mapping[str, str], words: Sequence[str], log: BinaryIO) -> bool:
        """Fork an engine that is the same as one that this process would start; it takes milliseconds.

        False if no nursery does it: none fits, or one that imports has done nothing for :data:`READY_S`, or it has
        ended or is frozen, and then it is not held any more.
        """
        with self._lock:
            held = self._nursery
            if held is None or not held.is_alive or held.fits != _facts(root, surroundings):
                return False
            if held.sources != _sources():
                self._end()
                return False
            try:
                if not held.is_ready(READY_S):
                    return False
                held.begin(words, log)
            except OSError:
                self._failed += 1
                self._end()
                return False
            except BaseException:  # a user interrupts it: its answer must not be taken for the next engine's
                self._end()
                raise
            return True

    def _end(self) -> None:
        held, self._nursery = self._nursery, None
        if held is not None:
            held.end()


#: This process's own.
KEPT = Kept()


def _facts(root: str, surroundings: Mapping[str, str]) -> tuple[object, ...]:
    """What must be the same for a forked engine to be the same as one that is started now.

    A package that is installed or removed changes the folder that contains it; Dask reads its settings from files when
    it is imported.
    """
    watched = [entry for entry in sys.path if interpreter.is_installed(entry)]
    for folder in (surroundings.get("DASK_CONFIG"), "~/.config/dask", f"{sys.prefix}/etc/dask", "/etc/dask"):
        if folder is not None:
            named = os.path.expanduser(folder)
            with contextlib.suppress(OSError):
                watched += [named, *(f"{named}/{name}" for name in os.listdir(named))]
    return root, dict(surroundings), sys.executable, interpreter.changed(watched), meeting.inherited(), _umask()


def _sources() -> tuple[tuple[str, int], ...]:
    """When the files of a checkout of Workbench were changed; only the start of an engine takes the time to look."""
    watched: list[str] = []
    if not interpreter.is_installed(str(interpreter.PACKAGE.parent)):
        for folder, _, names in os.walk(interpreter.PACKAGE):
            watched += [f"{folder}/{name}" for name in names if name.endswith(".py")]
    return interpreter.changed(watched)


def _umask() -> str:
    """The mask of new files' modes, which Python itself can only read by setting it, for all threads."""
    with contextlib.suppress(OSError, StopIteration), open("/proc/self/status") as lines:
        return next(line for line in lines if line.startswith("Umask:"))
    return ""


# ---------------------------------------------------------------------------------------------------------------------
# Its own process


def main(arguments: list[str] | None = None) -> int:
    """Fork engines until the process that holds this one is gone."""
    parser = argparse.ArgumentParser(prog="python -m workbench.nursery", description="Fork a store's engines.")
    parser.add_argument("--store", required=True, help="the store's folder")
    parser.add_argument("--socket", type=int, required=True, help="the descriptor of the socket to its holder")
    options = parser.parse_args(arguments)
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    importlib.import_module(_ENGINE).prepare()
    with socket.socket(fileno=options.socket) as holder:
        holder.send(b"ready")
        engines: dict[int, forked.Forked] = {}
        while True:
            for ready in select.select([options.socket, *engines], [], [])[0]:
                if ready != options.socket:
                    engines.pop(ready).wait()
                    os.close(ready)
                    continue
                message, descriptors, _, _ = socket.recv_fds(holder, _MOST, 1)
                if not message:
                    return 0
                words, log = json.loads(message), descriptors[0]
                engine = forked.run_module(_ENGINE, *words, stdout=log, stderr=log, cwd=options.store)
                os.close(log)
                engines[os.pidfd_open(engine.pid)] = engine
                holder.send(str(engine.pid).encode())


if __name__ == "__main__":
    sys.exit(main())
