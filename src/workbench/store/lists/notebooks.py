"""Executed notebooks, kept and indexed. Law: one folder for each execution, written by the executing process.

``notebooks/<id>/`` holds ``run.json`` (what was executed, and how it ended), ``notebook.ipynb`` (as executed, with
outputs), and ``lock``, which is held during the execution: a killed one never counts as running. ``notebooks/locks/``
has a file for each key that is being executed or waited for, which prevents a second execution.
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
from workbench.store.ids import checked_id
from workbench.store.layout import Store
from workbench.store.owner.lease import is_locked

#: Seconds between two checks whether another execution of the same notebook has ended.
_LOOK_S = 0.05

State = Literal["running", "completed", "failed", "interrupted"]


@dataclass(frozen=True, slots=True)
class NotebookRun:
    """One execution of a notebook.

    id: time and letters. key: fingerprint of the notebook's code cells, its folder and its parameters. path:
    the notebook's file. started, ended: UTC. seconds: how long it took. cell, error: the code cell (from 1) where it
    failed, and how, in words. asked: the command that executed it: ``replay`` or ``papermill``. output: papermill's
    output path. experiment, trial: the trial whose slot it used. trained: ids of the experiments that its cells show.
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
    """Parameters on one line, ``lr=0.01 name='a b'``; ``as it is`` if there are none."""
    return " ".join(f"{name}={_shown(value)}" for name, value in parameters.items()) or "as it is"


def _shown(value: Json) -> str:
    plain = isinstance(value, str) and value.isprintable() and value and not set(value) & set(" '\"=")
    return str(value) if plain else repr(value)


def folder_of(store: Store, run: str) -> Path:
    """The folder of the execution ``run``. Raises BadName if ``run`` is not an id."""
    return store.notebooks / checked_id(run)


def executed(store: Store, run: str) -> Path:
    """The executed notebook."""
    return folder_of(store, run) / "notebook.ipynb"


@contextlib.contextmanager
def executing(store: Store, run: NotebookRun) -> Iterator[Path]:
    """Hold the lock of ``run`` while it is executed, and record that it runs; return the executed notebook's path.

    The code inside the block records the end with :func:`write`.
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
    """Wait until nothing executes ``key``, and lock it; None if ``goes_on`` returned False first.

    Returns a descriptor. A process that inherits it holds the lock as long as it lives, even if this one is killed.
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
                # The previous holder removed the file at its end: a lock on a removed file locks nothing.
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
    """The execution that makes another one of ``key`` unnecessary: the newest, if it was started after ``since`` (UTC)
    and completed; or the one of this ``trial``, however it ended.
    """
    own = [run for run in runs(store) if run.key == key]
    for run in reversed(own):
        is_mine = experiment is not None and (run.experiment, run.trial) == (experiment, trial)
        if is_mine and run.state in ("completed", "failed"):
            return run
    return own[-1] if own and own[-1].state == "completed" and own[-1].started > since else None


def write(store: Store, run: NotebookRun) -> None:
    """Write the record of ``run``; it is on disk when this returns."""
    write_json(folder_of(store, run.id) / "run.json", run.to_json())


def read(store: Store, run: str) -> NotebookRun:
    """The record of the execution ``run``; *interrupted* if it is recorded as running but no process executes it.

    Raises NotFound, NewerSchema.
    """
    folder = folder_of(store, run)
    # Checked before the file is read: an execution that ends meanwhile is then read as ended.
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
    """All executions, the oldest first; unreadable ones are left out."""
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
