"""New processes without a new Python: forks of this one. Law: only a process without Python threads forks, and the
child keeps no descriptor but the standard ones and those that it is given.

What takes long when a process begins is importing Dask, which a fork has done already. Threads of NumPy's library for
linear algebra, which that starts, are handled by the library itself.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import importlib
import logging
import os
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from workbench import interpreter

#: Where ``/proc/self/stat`` says in which part of memory the command line begins and ends, counted behind the name
#: (``man proc_pid_stat``: fields 48 and 49).
_ARGUMENTS = (45, 46)


class Forked:
    """A child that was forked here. It has what is used of ``subprocess.Popen``."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        #: Whether it has ended and was waited for: its number may be another process's by now.
        self._is_over = False

    def poll(self) -> None:
        """See whether it has ended."""
        self._look(os.WNOHANG)

    def wait(self) -> None:
        """Wait until it has ended."""
        self._look(0)

    def kill(self) -> None:
        """End it at once."""
        if not self._is_over:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)

    def _look(self, how: int) -> None:
        if not self._is_over:
            with contextlib.suppress(ChildProcessError):
                if os.waitpid(self.pid, how)[0] == 0:
                    return
            self._is_over = True


def can_run(module: str) -> bool:
    """Whether :func:`run_module` saves anything and is safe: the module is imported, and no Python thread runs."""
    return module in sys.modules and threading.active_count() == 1


def run_module(
    module: str,
    *words: str,
    stdout: int,
    stderr: int = 2,
    cwd: str | None = None,
    env: Mapping[str, str] | None = None,
) -> Forked:
    """Run ``python -P -m module words`` in a session of its own, in a fork.

    module: it has a ``main`` that takes the words, and the child ends when that returns. stdout, stderr: descriptors.
    cwd: its folder, if that exists. env: its variables, as ``subprocess.Popen`` takes them. There is nothing to read at
    its standard input.
    """

    def main() -> object:
        os.setsid()
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(stderr, 2)
        os.dup2(stdout, 1)
        _close_all_but({0, 1, 2})
        if env is not None:
            _surround(env)
        if cwd is not None:
            with contextlib.suppress(FileNotFoundError):
                os.chdir(cwd)
        logging.root.handlers.clear()  # a new process has none, and ``main`` makes its own
        program = importlib.import_module(module)
        # Processes that this one spawns import what is ``__main__`` here.
        sys.modules["__main__"], sys.argv = program, [str(program.__file__), *words]
        try:
            return program.main([*words])
        finally:
            # As Python does at a process's end. What this one has inherited looks whose it is.
            threading._shutdown()  # type: ignore[attr-defined]
            atexit._run_exitfuncs()

    return Forked(fork(interpreter.command(module.removesuffix(".__main__"), *words), main, (stdout, stderr)))


def _surround(env: Mapping[str, str]) -> None:
    """Have this process the variables and the import path with which ``python -P`` would begin."""
    before, after = (_entries(around.get(interpreter.PATH, "")) for around in (os.environ, env))
    if not sys.flags.safe_path:
        before.add(os.path.realpath(os.curdir))
    sys.path[:] = [entry for entry in sys.path if os.path.realpath(entry) not in before - after]
    if dict(os.environ) != dict(env):
        os.environ.clear()
        os.environ.update(env)


def _entries(path: str) -> set[str]:
    return {os.path.realpath(entry) for entry in path.split(os.pathsep) if entry}


def fork(title: Sequence[str], work: Callable[[], object], kept: Iterable[int] = ()) -> int:
    """Fork a process that does ``work`` and ends; the child's number. Its exit code is what ``work`` returns, or 0.

    title: what ``ps`` shows, as far as there is room. kept: descriptors that it keeps beside the standard ones.
    """
    pid = os.fork()
    if pid != 0:
        return pid
    status = 1
    try:
        _close_all_but({0, 1, 2, *kept})
        _entitle(title)
        told = work()
        status = told if isinstance(told, int) else 0
    except SystemExit as error:
        status = error.code if isinstance(error.code, int) else 0
    except KeyboardInterrupt:  # before it has a session of its own, the terminal of the process above is its own too
        status = 128 + signal.SIGINT
    except BaseException:
        traceback.print_exc()
    finally:
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(OSError, ValueError, AttributeError):
                stream.flush()
        os._exit(status)


def _close_all_but(kept: Iterable[int]) -> None:
    # ``multiprocessing.util.close_all_fds_except`` tries every number up to the limit, which may be a thousand million.
    for one in {int(name) for name in os.listdir("/proc/self/fd")}.difference(kept):
        with contextlib.suppress(OSError):  # of the listing itself
            os.close(one)


def _entitle(words: Sequence[str]) -> None:
    """Have ``ps`` show these words for this process, and not those of the one that it was forked from."""
    fields = Path("/proc/self/stat").read_bytes().rpartition(b")")[2].split()
    start, end = (int(fields[place]) for place in _ARGUMENTS)  # zeros if the system does not say it
    if start < end:
        shown = b"\0".join(os.fsencode(word) for word in words)[: end - start - 1]
        ctypes.memmove(start, shown.ljust(end - start, b"\0"), end - start)
