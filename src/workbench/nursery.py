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
#: Seconds within which it forks, though it may still import on a busy machine. After that it counts as frozen.
FORKS_S = 10.0
#: Bytes of a message.
_MOST = 1 << 16


class Nursery:
    """One, as the process that holds it sees it."""

    def __init__(self, root: str, surroundings: Mapping[str, str]) -> None:
        """Start it, for engines of the store at ``root`` that begin with these variables. Raises OSError."""
        self.fits = _facts(root, surroundings)
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        words = ("--store", root, "--socket", str(theirs.fileno()))
        with theirs:
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
        self._socket.settimeout(FORKS_S)

    @property
    def is_alive(self) -> bool:
        """Whether its process runs."""
        return self._process.poll() is None

    def begin(self, words: Sequence[str], log: BinaryIO) -> bool:
        """Fork an engine with these words, which prints to ``log``. False, and this nursery has ended, if it cannot."""
        with contextlib.suppress(OSError):
            socket.send_fds(self._socket, [json.dumps([*words]).encode()], [log.fileno()])
            if self._socket.recv(_MOST):
                return True
        self.end()
        return False

    def end(self) -> None:
        """End it; its engines go on."""
        self._socket.close()
        with contextlib.suppress(ProcessLookupError):
            self._process.kill()  # at once: it may be frozen
        self._process.wait()


class Kept:
    """The nursery that this process holds, if it holds one."""

    #: So many that ended by themselves are too many: no other is started.
    MOST_FAILED = 3

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._nursery: Nursery | None = None
        self._failed = 0

    def keep(self, root: str, surroundings: Mapping[str, str]) -> None:
        """Hold one for engines of this store with these variables. Raises OSError."""
        with self._lock:
            held = self._nursery
            if held is not None and not held.is_alive:
                self._failed += 1
            elif held is not None and held.fits == _facts(root, surroundings):
                return
            self._end()
            if self._failed < self.MOST_FAILED:
                self._nursery = Nursery(root, surroundings)

    def let_go(self) -> None:
        """Hold none any more."""
        with self._lock:
            self._end()

    def begin(self, root: str, surroundings: Mapping[str, str], words: Sequence[str], log: BinaryIO) -> bool:
        """Fork an engine that is the same as one that this process would start. False if there is no nursery for it."""
        with self._lock:
            held = self._nursery
            if held is None or not held.is_alive or held.fits != _facts(root, surroundings):
                return False
            if held.begin(words, log):
                return True
            self._nursery = None
            return False

    def _end(self) -> None:
        held, self._nursery = self._nursery, None
        if held is not None:
            held.end()


#: This process's own.
KEPT = Kept()


def _facts(root: str, surroundings: Mapping[str, str]) -> tuple[object, ...]:
    """What must be the same for a forked engine to be the same as one that is started now.

    A package that is installed or removed changes the folder that contains it. A checkout of Workbench is edited.
    """
    watched = [entry for entry in sys.path if interpreter.is_installed(entry)]
    if not interpreter.is_installed(str(interpreter.PACKAGE.parent)):
        for folder, _, names in os.walk(interpreter.PACKAGE):
            watched += [f"{folder}/{name}" for name in names if name.endswith(".py")]
    changed = []
    for entry in watched:
        with contextlib.suppress(OSError):
            changed.append((entry, os.stat(entry).st_mtime_ns))
    return root, dict(surroundings), sys.executable, changed, meeting.inherited()


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
    # It forks without threads, and buries what it has forked when it looks.
    with socket.socket(fileno=options.socket) as holder:
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
