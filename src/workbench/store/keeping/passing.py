"""Checkpoints between levels at the storage's URL. Law: a complete one exists at any moment, and only the newest stays.

Each has its own name, so that the previous one is removed only when the next is complete. The runner may replace one on
disk while it is being sent, so sending uses separate links. Beside the trial's checkpoints, ``remote/passing`` contains
the name of the remote one, and ``remote/gone-passing`` says that none is needed any more.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
from dataclasses import replace
from pathlib import Path

from workbench.errors import NotFound, StoreError
from workbench.store.files.atomic import FOLDER_MODE, make_folder, telling, write_atomic
from workbench.store.keeping.checkpoints import Checkpoint, Checkpoints, Folder, Skipped
from workbench.store.keeping.manifest import NAME
from workbench.store.keeping.remote import Remote
from workbench.store.layout import TrialPaths

KIND = "passing"
_GONE = "gone-passing"
_NAME = re.compile(r"step-(\d{8,12})-[0-9a-f]{12}")


def drop_passing(trial: TrialPaths) -> None:
    """Remove checkpoints between levels, on disk now and at the URL with the next :func:`send_passing`."""
    if trial.remote.is_dir():
        with contextlib.suppress(StoreError):  # then it stays at the URL until the experiment is deleted
            write_atomic(trial.remote / _GONE, b"", fsync=False)
    Checkpoints(trial.passing).drop()
    shutil.rmtree(trial.passing, ignore_errors=True)


def send_passing(trial: TrialPaths, remote: Remote) -> bool:
    """Copy the newest checkpoint between levels of ``trial`` to ``remote``; return whether something was sent. It
    blocks.

    One that a later level has made useless is removed there too; one lost only on disk stays. Raises StoreError.
    """
    note = trial.remote / KIND
    if (trial.remote / _GONE).exists() and Checkpoints(trial.passing).is_empty:
        remote.remove()
        for one in (note, trial.remote / _GONE):
            one.unlink(missing_ok=True)
        return False
    (trial.remote / _GONE).unlink(missing_ok=True)
    there = note.read_text() if note.exists() else None
    level = max(Checkpoints(trial).steps(), default=-1)
    found = Checkpoints(trial.passing).newest()
    if found is None or found.step < level:
        if there is not None and _step(there) < level:
            remote.remove()
            note.unlink(missing_ok=True)
        return False
    name = f"step-{found.step:08d}-{found.manifest.digest[:12]}"
    if name == there:
        return False
    make_folder(trial.remote)
    aside = trial.remote / "sending"
    try:
        remote.push(replace(found, folder=_linked(found, aside)), name)
    except (FileNotFoundError, NotFound):
        return False  # the runner has just replaced it; the next one is sent when it is reported
    finally:
        shutil.rmtree(aside, ignore_errors=True)
    write_atomic(note, name.encode(), fsync=False)
    for other in remote.names():
        if other != name:
            remote.remove(other)
    return True


def fetch_passing(remote: Remote, trial: Path, after: int, most: int | None, attempt: int) -> list[Skipped]:
    """Fetch the newest one at ``remote`` after step ``after`` and up to ``most``; return the skipped ones."""
    skipped = []
    for name in sorted(remote.names(), reverse=True):
        match = _NAME.fullmatch(name)
        step = int(match[1]) if match else -1
        if step < max(after, 0) or (most is not None and step > most):
            continue
        why = remote.fetch(step, Checkpoints(trial / KIND), attempt, name)
        if why is None:
            # A lost disk has lost this file too, and without it the remote copy would stay.
            note = TrialPaths(trial).remote / KIND
            make_folder(note.parent)
            write_atomic(note, name.encode(), fsync=False)
            break
        skipped.append(Skipped(step, Path(name), why))
    return skipped


def _step(name: str) -> int:
    match = _NAME.fullmatch(name)
    return int(match[1]) if match else -1


def _linked(found: Checkpoint, folder: Path) -> Folder:
    """Link the files of ``found`` into ``folder``, or copy them if links are not supported."""
    source = found.folder
    if not isinstance(source, Path):
        return source  # a small one was read completely
    shutil.rmtree(folder, ignore_errors=True)
    with telling(folder):
        for name in (*found.manifest.files, NAME):
            target = folder / name
            target.parent.mkdir(parents=True, exist_ok=True, mode=FOLDER_MODE)
            try:
                os.link(source / name, target)
            except FileNotFoundError:
                raise NotFound(f"{found.folder} was replaced.") from None
            except OSError:
                shutil.copyfile(source / name, target)
    return folder
