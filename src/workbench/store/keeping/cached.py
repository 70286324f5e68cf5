"""Kept results of ``trial.cached`` and ``trial.shared``. Law: a result's file names its blobs, and is written after
them; in doubt there is no result, and it is made again.

A result is removed when it was not used for a month, or for a day if all experiments that used it were deleted; never
while one of them is unfinished.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from workbench.errors import WorkbenchError
from workbench.records import ENDED, SCHEMA, check_schema
from workbench.store.files.atomic import FILE_MODE, entries_in, make_folder, read_json, write_json
from workbench.store.keeping.naming import in_file
from workbench.store.layout import Store
from workbench.store.lists.summary import entry_of

#: Seconds after its last use at which a result is removed, if the experiments that used it have ended.
UNUSED_S = 30 * 24 * 3600.0
_SUFFIX = ".json"
#: Other files in the folder, which may be a link, are no results.
_NAME = re.compile(r"[0-9a-f]{16,128}\.json")

#: A file that the function read: its path, size, modification time (ns) and digest. A path that ends in ``/`` is a
#: folder that it listed.
File = tuple[str, int, int, str]


@dataclass(frozen=True, slots=True)
class Result:
    """One kept result.

    key: of the function's code and arguments. function: its name. stream: the blob with the pickled value. regions:
    the blobs of its large buffers, with their sizes in bytes. buffers: for each buffer of the stream, its region.
    modules: versions of the modules whose objects it holds. files: what the function read. seconds: how long it took.
    users: the experiments that used it. folder: the working folder, if the function read something below it, perhaps by
    a relative path; empty if it did not; None where an earlier Workbench did not note it.
    """

    key: str
    function: str
    stream: str
    regions: tuple[tuple[str, int], ...]
    buffers: tuple[int, ...]
    modules: dict[str, str]
    files: tuple[File, ...]
    seconds: float
    users: tuple[str, ...] = ()
    folder: str | None = None


def read(store: Store, key: str) -> Result | None:
    """The kept result with this key; None if there is none, or its file is damaged."""
    return _read(_path(store, key))


def _read(path: Path) -> Result | None:
    try:
        found = read_json(path)
        check_schema(found, "this cached result")
        found = {"folder": None, **found}
        fields: dict[str, Any] = {name: found[name] for name in Result.__dataclass_fields__ if name != "key"}
        for name in ("regions", "files"):
            fields[name] = tuple(tuple(one) for one in fields[name])
        return Result(path.stem, **{**fields, "buffers": tuple(fields["buffers"]), "users": tuple(fields["users"])})
    except (WorkbenchError, OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def write(store: Store, result: Result) -> None:
    """Keep ``result``, whose blobs are there already. Raises StoreError."""
    data = asdict(result)
    del data["key"]
    make_folder(store.cached)
    write_json(_path(store, result.key), {"schema": SCHEMA, **data})


def use(store: Store, result: Result, experiment: str) -> None:
    """Note that ``experiment`` uses ``result`` now, so that cleaning up keeps it."""
    path = _path(store, result.key)
    with contextlib.suppress(OSError, WorkbenchError):  # a full disk, or another user's store
        os.utime(path)
        if experiment not in result.users:
            with held(store, result.key):
                newest = _read(path)
                if newest is not None and experiment not in newest.users:
                    write(store, replace(newest, users=(*newest.users, experiment)))


@contextlib.contextmanager
def held(store: Store, key: str) -> Iterator[None]:
    """Hold the lock of this key: one process at a time, and until its end at most.

    POSIX locks, since forked processes do not inherit them: a loader's worker that outlives a killed trial by some
    seconds would keep other trials waiting. One file, in which each key has a byte of its own.
    """
    make_folder(store.cached)
    descriptor = os.open(store.cached / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, FILE_MODE)
    try:
        with contextlib.suppress(OSError):  # a file system without locks: then each trial makes the result
            fcntl.lockf(descriptor, fcntl.LOCK_EX, 1, int(key[:15], 16))
        yield
    finally:
        os.close(descriptor)


def removable(store: Store, young_s: float) -> Iterator[tuple[Path, float]]:
    """The results that may be removed, each with the time (seconds since 1970) since which it must not have been
    used."""
    now, there = time.time(), set(store.experiment_ids())
    for path in _paths(store):
        result = _read(path)
        users = there.intersection(result.users) if result is not None else ()
        if any((entry_of(store, one) or {}).get("state") not in ENDED for one in users):
            continue
        # One that cannot be read may be a later Workbench's.
        yield path, now - (UNUSED_S if users or result is None else young_s)


def named(store: Store, without: frozenset[Path] = frozenset()) -> Iterator[str]:
    """The blobs that kept results need."""
    for path in _paths(store):
        if path not in without:
            yield from in_file(path)


def _paths(store: Store) -> list[Path]:
    return [Path(one.path) for one in entries_in(str(store.cached)) if _NAME.fullmatch(one.name)]


def _path(store: Store, key: str) -> Path:
    return store.cached / f"{key}{_SUFFIX}"
