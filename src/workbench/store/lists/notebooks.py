"""Executed notebooks, kept and indexed. Law: one folder for each execution, written by whoever executes it.

``notebooks/<id>/`` holds ``run.json`` (what was executed, and how it ended), ``notebook.ipynb`` (as it was executed,
with outputs), and ``lock``, which is held while it is being executed: one that was killed never counts as running.
``notebooks/locks/`` has a file for each key that is being executed, or waited for: it keeps a second one from starting.
"""

from __future__ import annotations

import contextlib
import dataclasses
import fcntl
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from workbench.errors import NewerSchema, NotFound
from workbench.records import SCHEMA, Json
from workbench.store.files.atomic import make_folder, read_json, write_json
from workbench.store.layout import Store, checked_id
from workbench.store.owner.lease import is_locked

#: Seconds between two looks whether another execution of the same has ended.
_LOOK_S = 0.05

State = Literal["running", "completed", "failed", "interrupted"]


@dataclass(frozen=True, slots=True)
class NotebookRun:
    """One execution of a notebook.

    id: time and random letters. key: fingerprint of the notebook's code cells, its folder and its parameters. path:
    the notebook's file. started, ended: UTC. seconds: how long it took. cell, error: the code cell (from 1) where it
    failed, and how, in words. asked: who executed it: ``replay`` or ``papermill``. output: where papermill was told to
    write it. experiment, trial: the trial on whose slot it was executed. trained: ids of the experiments that its cells
    show.
    """

    id: str
    key: str
    path: str
    parameters: dict[str, Json] = field(default_factory=dict)
    state: State = "running"
    started: str = ""
    ended: str | None = None
    seconds: float | None = None
    cell: int | None = None
    error: str | None = None
    asked: str = "replay"
    output: str | None = None
    experiment: str | None = None
    trial: int | None = None
    trained: tuple[str, ...] = ()
    schema: int = SCHEMA

    @property
    def label(self) -> str:
        """Its parameters on one line, ``lr=0.01 epochs=3``."""
        return label_of(self.parameters)

    def to_json(self) -> dict[str, Json]:
        """Plain data for ``run.json``."""
        return dataclasses.asdict(self)


def label_of(parameters: dict[str, Json]) -> str:
    """Parameters on one line, ``lr=0.01 name='a b'``; ``as it is`` where there are none."""
    return " ".join(f"{name}={_shown(value)}" for name, value in parameters.items()) or "as it is"


def _shown(value: Json) -> str:
    plain = isinstance(value, str) and value.isprintable() and value and not set(value) & set(" '\"=")
    return str(value) if plain else repr(value)


def folder_of(store: Store, run: str) -> Path:
    """Where the execution ``run`` is kept. Raises BadName where ``run`` is no id."""
    return store.notebooks / checked_id(run)


def executed(store: Store, run: str) -> Path:
    """The notebook as it was executed."""
    return folder_of(store, run) / "notebook.ipynb"


@contextlib.contextmanager
def executing(store: Store, run: NotebookRun) -> Iterator[Path]:
    """Hold the place of ``run`` while it is executed, and write that it runs; the executed notebook's file.

    Whoever is inside writes the end with :func:`write`.
    """
    store.check_writable()
    store.create()
    folder = folder_of(store, run.id)
    make_folder(store.notebooks)
    make_folder(folder)
    descriptor = os.open(folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        write(store, run)
        yield folder / "notebook.ipynb"
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def alone(store: Store, key: str, goes_on: Callable[[], bool] = lambda: True) -> Iterator[int | None]:
    """Wait until nothing executes ``key``, and keep others from it; None where ``goes_on`` said no before.

    What is given is a descriptor. A process that inherits it keeps others away as long as it lives, even where this
    one is killed.
    """
    folder = store.notebooks / "locks"
    make_folder(store.notebooks)
    make_folder(folder)
    path, descriptor = folder / key, None
    try:
        while goes_on():
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            with contextlib.suppress(BlockingIOError):
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                # The one before removed the file at its end: a lock on that one keeps no other away.
                with contextlib.suppress(FileNotFoundError):
                    if os.stat(path).st_ino == os.fstat(descriptor).st_ino:
                        break
            os.close(descriptor)
            descriptor = None
            time.sleep(_LOOK_S)
        yield descriptor
        if descriptor is not None:
            path.unlink(missing_ok=True)
    finally:
        if descriptor is not None:
            os.close(descriptor)


def settled(
    store: Store, key: str, *, since: str = "", experiment: str | None = None, trial: int | None = None
) -> NotebookRun | None:
    """The execution that makes another one of ``key`` needless: the newest, where it was begun after ``since`` (UTC)
    and completed; or the one of this very ``trial``, however it ended.
    """
    own = [run for run in runs(store) if run.key == key]
    for run in reversed(own):
        is_mine = experiment is not None and (run.experiment, run.trial) == (experiment, trial)
        if is_mine and run.state in ("completed", "failed"):
            return run
    return own[-1] if own and own[-1].state == "completed" and own[-1].started > since else None


def write(store: Store, run: NotebookRun) -> None:
    """Write what is known of ``run``, on the disk when this returns."""
    write_json(folder_of(store, run.id) / "run.json", run.to_json())


def read(store: Store, run: str) -> NotebookRun:
    """What is known of the execution ``run``; *interrupted* where it says running and nobody executes it any more.

    Raises NotFound, NewerSchema.
    """
    folder = folder_of(store, run)
    # Looked at before the file: an execution that ends meanwhile is then read as ended.
    lives = is_locked(folder / "lock")
    try:
        data = read_json(folder / "run.json")
    except (FileNotFoundError, NotADirectoryError):
        raise NotFound(f"there is no executed notebook {run} in {store.root}.") from None
    except ValueError as error:
        raise NotFound(f"{folder / 'run.json'} is damaged ({error}).") from error
    if not isinstance(data, dict) or not {"id", "key", "path"} <= data.keys():
        raise NotFound(f"{folder / 'run.json'} is damaged.")
    if int(data.get("schema", 1)) > SCHEMA:
        raise NewerSchema(f"the executed notebook {run} was kept by a later Workbench. Upgrade Workbench to see it.")
    known: dict[str, Any] = {one.name: data[one.name] for one in dataclasses.fields(NotebookRun) if one.name in data}
    known["trained"] = tuple(known.get("trained") or ())
    found = NotebookRun(**known)
    if found.state == "running" and not lives:
        return dataclasses.replace(found, state="interrupted")
    return found


def runs(store: Store) -> list[NotebookRun]:
    """All executions, the oldest first; what cannot be read is left out."""
    try:
        names = sorted(os.listdir(store.notebooks))
    except (FileNotFoundError, NotADirectoryError):
        return []
    found = []
    for name in names:
        with contextlib.suppress(NotFound, NewerSchema, ValueError, OSError):
            found.append(read(store, name))
    return found


def newest(store: Store) -> dict[str, NotebookRun]:
    """The newest execution of each key."""
    return {run.key: run for run in runs(store)}
