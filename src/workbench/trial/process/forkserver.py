"""The forkserver: a process of the training environment from which runners are forked in milliseconds.

Law: it imports and forks, and nothing else. It has one thread, never initialises CUDA, and unpickles nothing. When
a worker is gone, it kills that worker's runners with their process groups; without any connection it ends.

    python -m workbench.trial.process.forkserver FD [LISTENER]

FD is its end of a socket pair, inherited from the worker that starts it. At LISTENER other workers of the machine
connect (:mod:`workbench.trial.process.meeting`).
"""

from __future__ import annotations

import codecs
import contextlib
import ctypes
import gc
import importlib
import os
import selectors
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NoReturn

from workbench import interpreter, messages
from workbench.messages import Exited, Fork, Forked, Hello, Join, Kill, Message, Ready, Soon, Stamp
from workbench.records import PROTOCOL
from workbench.snapshot.surroundings import lookups, readers
from workbench.snapshot.surroundings.used import counts, used
from workbench.trial.process.ahead import Unfit, import_ahead, import_trusted
from workbench.trial.process.meeting import say_ready
from workbench.trial.process.processes import descendants
from workbench.trial.process.wire import BrokenWire, Connection, encode

#: Variables that set the number of threads of the numeric libraries; set before any of them is imported.
THREAD_VARIABLES = (
    "OMP_NUM_THREADS",
    "MKL_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "NUMEXPR_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
    "BLIS_NUM_THREADS",
)
#: Variables that imports set here: every runner gets them, as if it had imported the modules itself.
made_by_imports: dict[str, str] = {}
#: The search path of the imports ahead.
search_path: list[str] = []
_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36


@dataclass(slots=True, eq=False)
class _Peer:
    """A worker, or a process that only keeps this one alive. unsent: what it has not room for yet; a frozen one holds
    up no other."""

    connection: Connection
    unsent: bytearray = field(default_factory=bytearray)


@dataclass(frozen=True, slots=True)
class _Child:
    """A runner. of, id: its worker, and its number there."""

    of: _Peer
    id: int
    pid: int


def environment(threads: int, hash_seed: int) -> dict[str, str]:
    """The variables of every training process, whatever the notebook's are: threads, hash seed, and so on."""
    variables = {name: str(threads) for name in THREAD_VARIABLES}
    variables["PYTHONHASHSEED"] = str(hash_seed)
    variables["CUBLAS_WORKSPACE_CONFIG"] = ":4096:8"
    variables["PYTHONUNBUFFERED"] = "1"
    variables["MPLBACKEND"] = "Agg"
    return variables


def launch(
    python: str, env: Mapping[str, str], listener: socket.socket | None = None, **popen: Any
) -> tuple[subprocess.Popen[bytes], socket.socket]:
    """Start a forkserver with the interpreter ``python``; returns its process and our end of the control socket.

    The caller sends :class:`~workbench.messages.Hello` first. ``env`` is the whole environment of the new process,
    except that it imports nothing from the current folder: the notebook's own ``PYTHONPATH`` goes with that message.
    listener: at which others may join.
    """
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    with theirs:
        descriptors = [end.fileno() for end in (theirs, listener) if end is not None]
        process = subprocess.Popen(
            interpreter.command("workbench.trial.process.forkserver", *map(str, descriptors), python=python),
            pass_fds=descriptors,
            env=interpreter.surroundings(env),
            stdin=subprocess.DEVNULL,
            start_new_session=True,
            **popen,
        )
    return process, ours


def main(fd: int, listener_fd: int | None = None) -> None:
    """Serve the worker at the other end of descriptor ``fd``, and those that connect, until all are gone."""
    control = _connection(socket.socket(fileno=fd))
    listener = None if listener_fd is None else socket.socket(fileno=listener_fd)
    if listener is not None:
        listener.set_inheritable(False)
        listener.setblocking(False)
    # A terminal's interrupt is for the program that started the worker; the worker decides about its runners.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # The same if a machine's shutdown notice reaches every process: if this one ended, its runners would be killed.
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    # An engine blocks signals while it starts one: runners, and what training starts in them, would never get them.
    signal.pthread_sigmask(signal.SIG_SETMASK, [])
    first = control.receive()
    if not isinstance(first, Hello):
        return
    try:
        ready = _prepare(first)
    except Unfit as unfit:
        told = messages.Unfit(unfit.package, unfit.why)
        for one in (control, *(_accepted(listener) if listener is not None else ())):
            with contextlib.suppress(OSError):
                one.send(told)
        return
    if listener is not None:
        say_ready(listener)
    with contextlib.suppress(OSError):  # its worker may be gone, and others wait
        control.send(ready)
    if first.protocol != PROTOCOL:
        return
    _Forkserver(control, listener, ready).serve()


def _connection(sock: socket.socket) -> Connection:
    sock.set_inheritable(False)
    return Connection(sock)


def _accepted(listener: socket.socket) -> Iterator[Connection]:
    """Those that have connected by now."""
    with contextlib.suppress(OSError):  # none is left
        while True:
            yield _connection(listener.accept()[0])


def _prepare(order: Hello) -> Ready:
    """Import what the worker asks for; the answer has the versions of the training environment."""
    began, folders = time.monotonic(), {path: (stamp(path), _installed(path)) for path in order.path}
    for name in THREAD_VARIABLES:
        os.environ.setdefault(name, str(order.threads))
    os.environ.update(order.env)
    with contextlib.suppress(OSError):
        os.chdir(order.cwd)
    # The project's own folders are for training: a runner has them on its path, but this process does not.
    for entry in reversed(order.path):
        if entry not in sys.path and interpreter.is_installed(entry):
            sys.path.insert(0, entry)
    # Before the imports ahead: names that other modules import from the readers and ``os`` must be wrapped as well.
    readers.install()
    lookups.install()
    before = dict(os.environ)
    importlib.import_module("workbench.trial.process.leg")
    for codec in ("ascii", "cp437"):  # of checkpoints: what legs of two workers need would differ by these otherwise
        with contextlib.suppress(LookupError):
            codecs.lookup(codec)
    from workbench.trial.generators.seeds import importing_ahead
    from workbench.trial.modules import know_installed

    noting = used()
    with noting.ahead(), importing_ahead():
        failed = import_trusted(order.preload)
        if order.learned:
            failed |= import_ahead(order.learned, order.secrets, noting.looked_up)
    made_by_imports.update({name: value for name, value in os.environ.items() if before.get(name) != value})
    search_path[:] = sys.path
    know_installed()
    # Modules imported now are shared by every runner: the collector must not touch, and so copy, their pages.
    gc.collect()
    gc.freeze()
    looks_up, files = [name for name in noting.looked_up() if counts(name)], _files()
    return Ready(
        pid=os.getpid(),
        versions={**interpreter.versions()},
        failed=failed,
        threads=_threads_alive(),
        looks_up=looks_up,
        files=files,
        preload=[*dict.fromkeys([*order.preload, *_packages()])],
        learned=order.learned,
        secrets=order.secrets,
        values={name: before.get(name) for name in looks_up},
        stamps=[stamp(path) for path in files],
        # Python keeps what it compiles for these imports in the folders, where nothing else has come or gone.
        folders={path: stamp(path) if _installed(path) == held else then for path, (then, held) in folders.items()},
        seconds=round(time.monotonic() - began, 3),
    )


def stamp(path: str) -> Stamp | None:
    """The identity of a file or folder; None if there is none."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino


def _installed(folder: str) -> dict[str, Stamp | None]:
    """What lies in a folder of packages, but for compiled files; an installation makes its folder of metadata again."""
    try:
        names = sorted(os.listdir(folder))
    except OSError:
        return {}
    return {
        name: stamp(os.path.join(folder, name)) if name.endswith((".dist-info", ".egg-info")) else None
        for name in names
        if name != "__pycache__"
    }


def _packages() -> list[str]:
    """The packages imported now, except Python's own."""
    return [name for name in sys.modules if "." not in name and name not in sys.stdlib_module_names]


def _files() -> list[str]:
    """The files of all modules imported now, except Python's own."""
    modules = [module for name, module in sys.modules.items() if name.partition(".")[0] not in sys.stdlib_module_names]
    found = dict.fromkeys(getattr(module, "__file__", None) for module in modules)
    return [path for path in found if isinstance(path, str)]


def _threads_alive() -> int:
    try:
        return len(os.listdir("/proc/self/task"))
    except OSError:
        return 1


class _Forkserver:
    def __init__(self, control: Connection, listener: socket.socket | None, ready: Ready) -> None:
        self._peers: set[_Peer] = set()
        self._listener, self._ready = listener, ready
        #: Runners that were forked and whose end was not reported yet.
        self.children: list[_Child] = []
        self._libc = ctypes.CDLL(None, use_errno=True)
        # What a dead runner started in sessions of its own becomes our child, so it ends with us at the latest.
        self._libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        #: Processes that an import started; they do not belong to a runner.
        self._helpers = set(descendants(os.getpid()))
        self._woken, wake = os.pipe()
        for end in (self._woken, wake):
            os.set_blocking(end, False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
        self._wake = wake
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._woken, selectors.EVENT_READ)
        self._join(control)
        if listener is not None:
            self._selector.register(listener, selectors.EVENT_READ)

    def serve(self) -> None:
        # Before it ends, it looks once more for one that has just connected.
        while self._peers or self._accept():
            found = [key.data for key, _ in self._selector.select()]
            with contextlib.suppress(BlockingIOError):
                os.read(self._woken, 4096)
            for peer in found:
                if peer in self._peers:
                    self._flush(peer)
                if peer in self._peers:
                    self._hear(peer)
            self._accept()
            self._reap()
        self._kill_orphans()
        if self._listener is not None:
            with contextlib.suppress(OSError):
                os.unlink(self._listener.getsockname())

    def _accept(self) -> bool:
        """Take in those that have connected. Returns whether there were any."""
        new = [*_accepted(self._listener)] if self._listener is not None else []
        for one in new:
            self._join(one)
        return bool(new)

    def _join(self, connection: Connection) -> None:
        peer = _Peer(connection)
        connection.socket.setblocking(False)
        self._selector.register(connection, selectors.EVENT_READ, peer)
        self._peers.add(peer)

    def _hear(self, peer: _Peer) -> None:
        try:
            for message in peer.connection.ready():
                if peer in self._peers:
                    self._obey(peer, message)
        except BrokenWire:
            self._lose(peer)
        if peer.connection.ended:
            self._lose(peer)

    def _lose(self, peer: _Peer) -> None:
        """This worker is gone, and what it trains here ends."""
        if peer not in self._peers:
            return
        self._peers.remove(peer)
        self._selector.unregister(peer.connection)
        peer.connection.close()
        for child in self.children:
            if child.of is peer:
                _kill_all(child.pid)

    def _say(self, peer: _Peer, message: Message) -> None:
        if peer in self._peers:
            peer.unsent += encode(message)
            self._flush(peer)

    def _flush(self, peer: _Peer) -> None:
        if peer.unsent:
            try:
                del peer.unsent[: peer.connection.socket.send(peer.unsent)]
            except BlockingIOError:
                pass
            except OSError:
                self._lose(peer)
                return
            write = selectors.EVENT_WRITE if peer.unsent else 0
            self._selector.modify(peer.connection, selectors.EVENT_READ | write, peer)

    def _obey(self, peer: _Peer, message: Message) -> None:
        match message:
            case Join():
                self._say(peer, self._ready)
            case Fork():
                self._fork(peer, message)
            case Soon():
                for other in self._peers - {peer}:
                    self._say(other, message)
            case Kill():
                for child in self.children:
                    if child.of is peer and child.id == message.id:
                        _kill_all(child.pid)

    def _fork(self, peer: _Peer, message: Fork) -> None:
        begun = time.perf_counter()
        runner, output = peer.connection.fds(Fork.DESCRIPTORS)
        gc.disable()
        parent, pid, why = os.getpid(), -1, ""
        try:
            pid = os.fork()
        except OSError as error:  # no more processes are allowed, or there is no memory: those that train go on
            why = str(error)
        if pid == 0:
            self._become_runner(parent, runner, output, message.cover)
        gc.enable()
        os.close(runner)
        os.close(output)
        if why:
            self._say(peer, Exited(message.id, 0, None, None, why))
            return
        self.children.append(_Child(peer, message.id, pid))
        self._say(peer, Forked(message.id, pid, round(time.perf_counter() - begun, 6)))

    def _become_runner(self, parent: int, runner: int, output: int, pairs: Sequence[tuple[str, str]]) -> NoReturn:
        status = 70
        try:
            # Its own session and group: a kill then includes the loader's workers, and no terminal signal arrives.
            os.setsid()
            if pairs:
                from workbench.trial.process.view import cover

                signal.set_wakeup_fd(-1)
                cover(pairs)  # before requesting the signal below, which a change of rights cancels
            self._libc.prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)
            if os.getppid() != parent:  # the parent died before the line above
                os._exit(1)
            signal.set_wakeup_fd(-1)
            for number in (signal.SIGCHLD, signal.SIGINT, signal.SIGTERM):
                signal.signal(number, signal.SIG_DFL)
            signal.signal(signal.SIGINT, signal.default_int_handler)
            self._selector.close()
            for peer in self._peers:
                peer.connection.close()
            if self._listener is not None:
                self._listener.close()
            os.close(self._woken)
            os.close(self._wake)
            nothing = os.open(os.devnull, os.O_RDONLY)
            os.dup2(nothing, 0)
            os.dup2(output, 1)
            os.dup2(output, 2)
            os.close(nothing)
            os.close(output)
            gc.enable()
            from workbench.trial.process.runner import serve

            serve(socket.socket(fileno=runner))
        except BaseException:
            import traceback

            traceback.print_exc()
        finally:
            os._exit(status)

    def _reap(self) -> None:
        for child in self.children[:]:
            # The group is killed before its leader is reaped: until then its id cannot be reused.
            ended = os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            if ended is None:
                continue
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(child.pid, signal.SIGKILL)
            _, code = os.waitpid(child.pid, 0)
            self.children.remove(child)
            status = os.waitstatus_to_exitcode(code)
            exited = (status, None) if status >= 0 else (None, -status)
            self._say(child.of, Exited(child.id, child.pid, *exited))
        if not self.children:
            self._kill_orphans()
        self._reap_orphans()

    def _kill_orphans(self) -> None:
        """Called only while no runner lives: then every process below us has lost its runner."""
        for pid in set(descendants(os.getpid())) - self._helpers:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)

    def _reap_orphans(self) -> None:
        runners = {child.pid for child in self.children}
        with contextlib.suppress(ChildProcessError):
            while (ended := os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)) is not None:
                if ended.si_pid in runners:
                    break  # it is reaped, and reported, in the next round
                os.waitpid(ended.si_pid, 0)


def _kill_all(pid: int) -> None:
    """SIGKILL for a runner that is not reaped yet, its process group, and what it started in other groups."""
    below = descendants(pid)
    for kill, target in ((os.killpg, pid), (os.kill, pid), *((os.kill, one) for one in below)):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            kill(target, signal.SIGKILL)


if __name__ == "__main__":
    # Under its real name: the runner's modules must not import a second copy of this one.
    importlib.import_module("workbench.trial.process.forkserver").main(*map(int, sys.argv[1:]))
    sys.stdout.flush()
    os._exit(0)
