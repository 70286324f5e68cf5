"""How the engine is asked: a request file, an engine that is running, an answer in the store's journal."""

from __future__ import annotations

import contextlib
import os
import subprocess
import threading
import time
from collections.abc import Iterator
from typing import Any, BinaryIO

import workbench.errors as errors
from workbench import asked, interpreter
from workbench.asked import Extend, Request, Resume, Start, Verify
from workbench.cluster.address import check_address
from workbench.errors import BadName, BadOption, NotFound, StoreError, WorkbenchError
from workbench.nursery import KEPT
from workbench.snapshot.surroundings import variables
from workbench.store import Store, journal, requests
from workbench.store.files.atomic import telling
from workbench.store.owner import ownership, private
from workbench.store.owner.lease import EngineInfo, read_engine

#: Seconds within which an engine, new or old, answers a request.
ANSWER_S = 60.0
_LOOK_S = 0.005
#: Requests after which an experiment trains.
_TRAINING = (Start, Resume, Extend, Verify)
#: States of experiments that an engine continues.
_UNDER_WAY = ("waiting", "running", "stopping")
#: Seconds between looks at the engine while an answer is waited for.
_CHECK_S = 2.0
#: Seconds between looks at the engine while a caller waits for it.
_TEND_S = 0.25
#: Seconds that one which was started gets before the next look; twice as many each time one dies, up to the second.
_START_S, _START_MOST_S = 4.0, 60.0


def ensure_engine(store: Store, cluster: str | None = None, *, ahead: bool = False) -> None:
    """Start an engine for ``store`` unless one lives. It runs in its own session: the kernel may die, it goes on.

    It takes milliseconds, and some seconds where a nursery does not answer and a new process is started instead.
    cluster: the Dask scheduler's address it attaches to, instead of what the surroundings say. ahead: nothing is to be
    trained yet, and the engine gets ready for what was trained last. Raises NotAdopted for a store that is not this
    person's.
    """
    ownership.check_ours(store)
    if store.root.is_dir():  # an empty one becomes a store before the log is the first file in it
        ownership.claim(store)
    if _runs(read_engine(store)):
        return
    surroundings = around_engine(store)
    if cluster is not None:
        surroundings["WORKBENCH_CLUSTER"] = cluster
    words = ["--store", str(store.root), *(["--ahead"] if ahead else [])]
    with open_log(store) as log:
        if KEPT.begin(str(store.root), surroundings, words, log):
            return
        process = subprocess.Popen(
            interpreter.command("workbench.engine", *words),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            cwd=store.root,
            start_new_session=True,
            env=surroundings,
        )
    # It may end first: without a process that waits for it, it would stay a zombie.
    threading.Thread(target=process.wait, name="workbench-engine", daemon=True).start()


def keep_nursery(store: Store) -> None:
    """Get ready to start engines of ``store`` at once."""
    KEPT.keep(str(store.root), around_engine(store))


@contextlib.contextmanager
def ready(store: Store) -> Iterator[None]:
    """Have what an engine of ``store`` takes long for begin now, while this process does what comes before it starts
    one; nothing where one runs. Afterwards it is let go."""
    begins = os.environ.get(interpreter.AHEAD) != "0" and not KEPT.holds and not _runs(read_engine(store))
    if begins:
        with contextlib.suppress(OSError):
            keep_nursery(store)
    try:
        yield
    finally:
        if begins:
            KEPT.let_go()


def _runs(info: EngineInfo | None) -> bool:
    return info is not None and info.alive and info.state == "running"


def around_engine(store: Store) -> dict[str, str]:
    """The variables that an engine of ``store`` begins with: Jupyter's own and ours that no cell may set are not."""
    known = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("JPY_", "JUPYTER_")) and name != ownership.ADOPT
    }
    return interpreter.surroundings({**known, **ownership.environment(store)}, store.root, store.root.parent)


class Tending:
    """Called repeatedly while a caller waits for experiments: an engine that was killed is replaced.

    One that ended in order is not replaced: a user ended it, or it was idle.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._wait = _START_S
        self._next = time.monotonic() + _TEND_S

    def __call__(self) -> None:
        """Look, unless it was done a moment ago."""
        clock = time.monotonic()
        if clock < self._next:
            return
        wait = _TEND_S
        with contextlib.suppress(OSError, WorkbenchError):  # a reader of the store cannot start an engine
            info = read_engine(self._store)
            if info is None or info.alive:
                self._wait = _START_S
            else:
                ensure_engine(self._store, info.address)
                wait, self._wait = self._wait, min(2 * self._wait, _START_MOST_S)
        self._next = clock + wait


def open_log(store: Store) -> BinaryIO:
    """The file to which the engine of ``store`` prints. Raises StoreFull or StoreReadOnly."""
    with telling(store.engine_log):
        return open(store.engine_log, "ab", opener=_without_waiting)


def _without_waiting(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NONBLOCK | os.O_NOCTTY, 0o666)  # a pipe without a reader is an error


def check_cluster(store: Store, address: str | None = None) -> None:
    """Refuse a cluster that does not answer, or that the engine of ``store`` does not use while it has work.

    address: as the user wrote it, or None for the one in the environment. Raises NoAnswer or BadOption.
    """
    info = read_engine(store)
    if info is None or not info.alive or info.state == "closing":
        named = address or os.environ.get("WORKBENCH_CLUSTER")
        if named:
            check_address(named)
    elif address is not None and address != info.address:
        under_way = ask(store, asked.Ping())["under_way"]
        if under_way:
            raise BadOption(
                f"--cluster {address}: the engine of {store.root} trains {', '.join(under_way[:3])} and works on "
                f"{info.address or 'a cluster of this machine'}. Expected one cluster for one store. Wait, end that "
                "engine with `workbench engine stop`, leave --cluster out, or name another store with --store."
            )
        check_address(address)
        # The next request starts an engine on the named cluster.
        ask(store, asked.End(only_idle=True))


def has_no_work(store: Store) -> bool:
    """Whether nothing in ``store`` is under way or asked for; what is paused waits for its user."""
    from workbench.store.lists.catalog import read_catalog

    under_way = any(entry.get("state") in _UNDER_WAY for entry in read_catalog(store))
    return not under_way and requests.next_due(store) is None


class Waiting:
    """A request that was made, and its answer in the store's journal."""

    def __init__(self, store: Store, number: str, after: int = 0, cluster: str | None = None) -> None:
        """after: the journal's line after which the answer comes. cluster: as :func:`ask` takes it."""
        self.number = number
        self._store, self._after, self._cluster = store, after, cluster
        self._checked = time.monotonic()

    def look(self) -> dict[str, Any] | None:
        """The line with the answer, or None as long as there is none."""
        for line in journal.read(self._store.journal_path, after=self._after):
            self._after = line["n"]
            if line["kind"] == "answer" and line.get("request") == self.number:
                return dict(line)
        return None

    def tend(self) -> None:
        """Now and then, start an engine if none is running: it was leaving, or died before it took the request."""
        now = time.monotonic()
        if now - self._checked > _CHECK_S:
            ensure_engine(self._store, self._cluster)
            self._checked = now


def sent(store: Store, request: Request, cluster: str | None = None, not_before: str | None = None) -> Waiting:
    """Write ``request``. NotAdopted is raised before it is asked.

    cluster: the address to which an engine that must be started for it attaches. not_before: the time (ISO 8601, UTC)
    until which it waits and may be withdrawn.
    """
    ownership.check_ours(store)
    if isinstance(request, _TRAINING):
        _offer(store, request.experiment)
    newest = journal.last(store.journal_path)
    due = {} if not_before is None else {"not_before": not_before}
    number = requests.put(store, {**asked.plain(request), **due})
    return Waiting(store, number, newest["n"] if newest else 0, cluster)


def ask(store: Store, request: Request, timeout: float = ANSWER_S, cluster: str | None = None) -> dict[str, Any]:
    """The engine's answer to ``request``. A refusal is raised as the error it names; NotAdopted before it is asked.

    cluster: the address to which an engine that must be started for it attaches.
    """
    waiting = sent(store, request, cluster)
    ensure_engine(store, cluster)
    return answer(store, waiting, timeout)


def _offer(store: Store, experiment: str) -> None:
    """Keep the secrets with which an experiment trains, as far as this process has them, for the engine to find."""
    with contextlib.suppress(NotFound, BadName):  # the engine says what is wrong
        known = store.read_spec(experiment, viewing=True).training.secrets
        if known:
            private.keep(store.root, experiment, variables.at_hand(known))


def answer(store: Store, waiting: Waiting, timeout: float = ANSWER_S) -> dict[str, Any]:
    """Wait for the answer. Raises the refusal, or StoreError if there is none in time."""
    deadline = time.monotonic() + timeout
    while (line := waiting.look()) is None:
        if time.monotonic() > deadline:
            raise StoreError(
                f"the engine has not answered within {timeout:g} s. Expected an answer to request {waiting.number}. "
                f"Look at {store.engine_log}, or run `workbench doctor`."
            )
        waiting.tend()
        time.sleep(_LOOK_S)
    return _unwrapped(line)


def _unwrapped(line: dict[str, Any]) -> dict[str, Any]:
    if line["accepted"]:
        return line
    kind = getattr(errors, line.get("type", ""), WorkbenchError)
    raise kind(line["error"])
