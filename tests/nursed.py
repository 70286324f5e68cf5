"""Engines that are forked, as kernels' are (`workbench.nursery`), and not new processes: each saves most of a second of
processor time, which was a third of the time of the tests that start engines.

A test may set any variable of ours for its engine. Where anything else that a new process would have is not as it was
when this process's nursery began, the engine is a new process.
"""

from __future__ import annotations

import atexit
import contextlib
import importlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import BinaryIO

from workbench.cluster import forked
from workbench.store.owner import ownership
from workbench.trial.process import meeting

_ENGINE = "workbench.engine.__main__"
#: Variables that an engine reads only when it runs.
_OURS = ("WORKBENCH_", "XDG_", "PYTEST_")
_MOST = 1 << 18


class Engine:
    """A forked engine. It has what tests use of ``subprocess.Popen``."""

    def __init__(self, pid: int, ended: int, args: Sequence[str]) -> None:
        """ended: a pipe's end, at which its exit code arrives."""
        self.pid, self.args = pid, [*args]
        self.returncode: int | None = None
        self._ended = ended

    def poll(self) -> int | None:
        """Its exit code, as ``subprocess.Popen`` gives it, or None while it runs."""
        return self._look(0)

    def wait(self, timeout: float | None = None) -> int:
        """Its exit code, when it has ended. Raises subprocess.TimeoutExpired."""
        code = self._look(timeout)
        if code is None:
            assert timeout is not None
            raise subprocess.TimeoutExpired(self.args, timeout)
        return code

    def send_signal(self, number: int) -> None:
        """Send it a signal, unless it has ended."""
        if self.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def terminate(self) -> None:
        """Ask it to end."""
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """End it at once."""
        self.send_signal(signal.SIGKILL)

    def _look(self, timeout: float | None) -> int | None:
        if self.returncode is None and select.select([self._ended], [], [], timeout)[0]:
            told = os.read(self._ended, 16)
            os.close(self._ended)
            assert told, f"the process from which engine {self.pid} was forked has ended"
            self.returncode = int(told)
        return self.returncode


class Nursery:
    """The process from which this one's engines are forked."""

    def __init__(self) -> None:
        self._fits = _facts(os.environ)
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, __file__, str(theirs.fileno())], pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL
            )
        atexit.register(self._end)

    def begin(self, words: Sequence[str], log: BinaryIO, env: Mapping[str, str]) -> Engine | None:
        """Fork an engine, or give None where it would not be the same as a new process."""
        if self._fits != _facts(env):
            return None
        ours, theirs = os.pipe()
        try:
            message = json.dumps([[*words], dict(env), os.getcwd()]).encode()
            socket.send_fds(self._socket, [message], [log.fileno(), theirs])
        finally:
            os.close(theirs)
        return Engine(int(self._socket.recv(_MOST)), ours, [sys.executable, "-m", "workbench.engine", *words])

    def _end(self) -> None:
        self._socket.close()
        self._process.wait()


def _facts(env: Mapping[str, str]) -> tuple[object, ...]:
    """What must be as it was."""
    umask = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("Umask:"))
    # Which stores are a process's own is taken from the variables with which it began.
    kept = {name: value for name, value in env.items() if name == ownership.ADOPT or not name.startswith(_OURS)}
    return kept, meeting.inherited(), umask


def _fork(messages: int) -> None:
    """Fork engines until the process that holds this one is gone."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    importlib.import_module(_ENGINE).prepare()
    told: dict[int, tuple[int, int]] = {}
    with socket.socket(fileno=messages) as holder:
        while True:
            for ready in select.select([messages, *told], [], [])[0]:
                if ready != messages:
                    pid, ended = told.pop(ready)
                    os.write(ended, str(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])).encode())
                    os.close(ready)
                    os.close(ended)
                    continue
                message, descriptors, _, _ = socket.recv_fds(holder, _MOST, 2)
                if not message:
                    return
                (words, env, folder), (log, ended) = json.loads(message), descriptors
                pid = forked.run_module(_ENGINE, *words, stdout=log, stderr=log, cwd=folder, env=env).pid
                os.close(log)
                told[os.pidfd_open(pid)] = pid, ended
                holder.send(str(pid).encode())


if __name__ == "__main__":
    _fork(int(sys.argv[1]))
