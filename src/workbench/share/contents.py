"""The files that make an experiment complete, by their places in a store. Law: only names of known shapes, and no link
is followed: the store may be another user's, and a link in it may lead to a file of this user's.
"""

from __future__ import annotations

import hashlib
import os
import re
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext, suppress
from pathlib import Path
from typing import BinaryIO

from workbench.errors import NotFound, StoreError
from workbench.share.manifest import Listed
from workbench.store import Store
from workbench.store.files import database, packed
from workbench.store.files.atomic import NoFile, open_file
from workbench.store.keeping.kept import blobs_in
from workbench.store.keeping.naming import named_by_experiment
from workbench.store.owner.ownership import ownership

_PART = r"[^/\\\x00-\x1f]{1,200}"
#: Allowed names of a store's files. A file with any other name is never written.
_SHAPES = re.compile(
    rf"""(?x)
    experiments/(?P<experiment>[0-9A-Za-z-]{{10,60}})/
        (?: spec\.json | events\.jsonl | series\.db | data\.json | setup\.json
          | trials/t\d{{4,9}}(?: \.log\.txt(?:\.\d+)? | (?:\.passing|\.setup)?\.zip
              | /(?: log\.txt(?:\.\d+)? | ranks/\d{{1,4}}\.log
                  | (?:checkpoints|passing|setup|files)(?:/{_PART})+ ) ) )
    | snapshots/[0-9a-f]{{16,64}}(?:/{_PART})+
    | blobs/[0-9a-f]{{64}}
    """
)
#: Files that have a meaning only inside one process.
_PASSING = re.compile(r"(^|/)\.|(^|/)(fence|.*\.(writing|old))$")
#: Folders of a trial's checkpoints.
_STATES = {"checkpoints", "passing", "setup"}
_CHUNK = 1 << 20


def is_name(name: str) -> bool:
    """True for a valid name of a store's file: relative, without ``..``, and in a known place."""
    return _SHAPES.fullmatch(name) is not None and not {"..", "."} & set(name.split("/"))


def experiment_of(name: str) -> str | None:
    """The id of the experiment whose folder contains ``name``, or None."""
    match = _SHAPES.fullmatch(name)
    return match["experiment"] if match else None


def files_of(
    store: Store, experiment_id: str, aside: Path | None = None, *, checkpoints: bool = True, data: bool = False
) -> Iterator[tuple[str, Path]]:
    """Name and path of every file that the experiment needs, except its series (see :func:`copy_series`).

    ``aside``: a folder for unpacked copies of packed files, and for a link to each file that the engine may pack or
    remove meanwhile; if None, packed files are left out. checkpoints: include its trials' checkpoints, and whatever
    loading and replaying from a step needs. data: include files that its trials read, if they were kept.
    Raises StoreError for a link in place of one of them.
    """
    paths = store.experiment(experiment_id)
    if not paths.spec.exists():
        raise NotFound(f"experiment {experiment_id} is not in {store.root}. `workbench ls` lists them.")
    # The folders of this user's own store may be links, to a larger disk for example.
    shared = () if ownership(store).is_ours else (store.experiments, store.blobs, store.snapshots)
    for path in (*shared, paths.folder, paths.trials, paths.packed):
        _refuse_link(path)
    found: set[str] = set()
    for path in _files_in(paths.folder):
        name = path.relative_to(store.root).as_posix()
        kept = path != paths.series and (data or path != paths.data)
        kept = kept and (
            checkpoints or not (path.suffix == ".zip" or _STATES & set(path.relative_to(paths.folder).parts))
        )
        if kept and path.is_file() and not path.is_symlink() and is_name(name) and not _PASSING.search(name):
            held: Path | None = path
            if aside is not None and path.parent != paths.folder:
                held = _held(path, aside / f"{len(found)}{path.suffix}")
            if held is not None:
                found.add(name)
                yield name, held
    for packed_name in packed.within(paths.trials).sizes if aside is not None else ():
        path, data_of = paths.trials / packed_name, None
        name = path.relative_to(store.root).as_posix()
        if is_name(name) and name not in found and (checkpoints or path.suffix != ".zip"):
            data_of = packed.read(path)
        if aside is not None and data_of is not None:
            (aside / packed_name).write_bytes(data_of)
            yield name, aside / packed_name
    needs = named_by_experiment(store, experiment_id, data=data)
    if not data:
        needs -= blobs_in(store.read_spec_json(experiment_id).get("data_back") or {}).keys()
    for needed in sorted(needs):
        blob, snapshot = store.blobs / needed, store.snapshots / needed
        _refuse_link(blob)
        _refuse_link(snapshot)
        if blob.is_file():
            yield f"blobs/{needed}", blob
        for path in _files_in(snapshot):
            # Data beside a module is a link to the original: it is listed, and not included.
            if path.is_file() and not path.is_symlink() and is_name(name := path.relative_to(store.root).as_posix()):
                yield name, path


def _refuse_link(path: Path) -> None:
    if path.is_symlink():
        raise StoreError(
            f"{path} is a link, and a link in a store is not followed: it may lead to any file. Nothing was written. "
            "If it is yours, put the file or folder itself there."
        )


@contextmanager
def undisturbed(store: Store, experiment_id: str) -> Iterator[None]:
    """Raise NotFound if the experiment is deleted, or another of its files is removed, while the body reads it."""
    spec = store.experiment(experiment_id).spec
    try:
        yield
        spec.lstat()  # a deletion takes the whole folder away: what was read before this was complete
    except FileNotFoundError as error:
        raise NotFound(
            f"{error.filename} was removed while experiment {experiment_id} was read. Nothing was written. "
            "If `workbench ls` lists the experiment, try again."
        ) from None


def may_vanish(name: str) -> AbstractContextManager[object]:
    """Reading ``name`` in this context may find it gone if it is a trial's: an engine cleans up checkpoints."""
    is_trials = name.startswith("experiments/") and name.split("/")[2] == "trials"
    return suppress(FileNotFoundError) if is_trials else nullcontext()


def opened_file(path: Path) -> BinaryIO:
    """Open a file that others get. Raises FileNotFoundError if it is gone, StoreError for anything but a plain file."""
    try:
        return open_file(path)
    except NoFile as error:
        raise StoreError(f"{path} is not read: {error}. Nothing was written. Put the file itself there.") from None


def read_out(name: str, source: BinaryIO, write: Callable[[bytes], object] | None = None) -> Listed:
    """Give the bytes of the file ``name`` to ``write``, if given; return their size and digest: it may grow meanwhile.

    Raises StoreError for a blob that does not match its name.
    """
    digest, size = hashlib.sha256(), 0
    while chunk := source.read(_CHUNK):
        digest.update(chunk)
        size += len(chunk)
        if write is not None:
            write(chunk)
    listed = Listed(name, size, digest.hexdigest())
    if name.startswith("blobs/") and name != f"blobs/{listed.sha256}":
        raise StoreError(
            f"{name} does not match its name: the file is damaged. Nothing was written. Restore it from a copy of the "
            "store; `workbench doctor` lists what else is damaged."
        )
    return listed


def _files_in(folder: Path) -> list[Path]:
    """The files in ``folder`` and below it; other processes may remove some of it meanwhile."""
    return sorted(Path(place, name) for place, _, names in os.walk(folder) for name in names)


def _held(path: Path, held: Path) -> Path | None:
    """Link a trial's file at ``held``, so that its engine cannot remove it; None if it is already gone.

    On another disk, files that are not packed (large checkpoints) are used in place.
    """
    try:
        os.link(path, held)
    except FileNotFoundError:
        return None
    except OSError:
        if not packed.is_one(path.name):
            return path
        data = packed.read(path)
        if data is None:
            return None
        held.write_bytes(data)
    return held


def copy_series(store: Store, experiment_id: str, target: Path) -> bool:
    """Make a self-contained copy of the experiment's series (no WAL beside it); False if there is none."""
    path = store.experiment(experiment_id).series
    _refuse_link(path)
    if not path.exists():
        return False
    source = database.open_reader(path)
    try:
        with closing(sqlite3.connect(target)) as copy:
            source.connection.backup(copy)
            copy.execute("PRAGMA journal_mode=DELETE")
    finally:
        source.close()
    return True
