"""The small files of a finished experiment in one archive. Law: an existing file takes precedence over its packed copy.

The archive is on disk before the files are removed. It is an SQLite archive: ``sqlite3 -A --list --file packed.sqlar``
lists it, ``--extract`` unpacks it. Names are those of the files below the folder of trials. The engine writes it when
an experiment has ended and when it removes a checkpoint in it; all processes may read it. If an ended experiment
continues, new files are beside it, and are packed when it ends again.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import sqlite3
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

from workbench.errors import StoreError
from workbench.store.files import database, fence, foreign
from workbench.store.files.atomic import (
    FILE_MODE,
    WRITING,
    entries_in,
    fsync_folder,
    open_file,
    read_file,
    unfinished_name,
    write_atomic,
)
from workbench.store.files.database import telling_sqlite
from workbench.store.layout import PACKED

#: The maximum size of a packed file, and of the files that are packed in one transaction before they are removed.
SMALL, AT_ONCE = 1 << 20, 1 << 26
#: The maximum number of bytes read from a trial's file: bundles and logs are far smaller.
MOST = 64 << 20
#: Files of trials that are packed: small checkpoints, and output.
_PACKED = re.compile(r"t\d{4,9}\.(?:(?:(?:passing|setup)\.)?zip|log\.txt)")
#: The tables: the archive as SQLite defines it, and an index of checkpoints, so that they need not be read.
_TABLES = (
    "CREATE TABLE IF NOT EXISTS sqlar (name TEXT PRIMARY KEY, mode INT, mtime INT, sz INT, data BLOB)",
    "CREATE TABLE IF NOT EXISTS checkpoints (name TEXT, step INT, bytes INT, PRIMARY KEY (name, step)) WITHOUT ROWID",
)
_PUT = "INSERT OR REPLACE INTO sqlar VALUES (?, ?, ?, ?, ?)"
_STEP = re.compile(r"step-(\d{8,12})/")


def is_one(name: str) -> bool:
    """Whether a small file of a trial with this name may be packed: a bundle of checkpoints, or a log."""
    return _PACKED.fullmatch(name) is not None


def is_loose(folder: Path) -> bool:
    """Whether the folder of trials ``folder`` contains a file that may be packed, or one that was never finished."""
    try:
        with os.scandir(folder) as entries:
            return any(is_one(entry.name) or entry.name.endswith(WRITING) for entry in entries)
    except OSError:
        return False


def read(path: Path) -> bytes | None:
    """The bytes of a trial's file, which may be packed; None if there is none."""
    # Try twice: it may be packed or unpacked in between.
    for look in (_plain, _unpacked, _plain):
        data = look(path)
        if data is not None:
            return data
    return None


def opened(path: Path) -> BinaryIO:
    """A trial's file, which may be packed, opened for reading. Raises FileNotFoundError."""
    try:
        return open_file(path)
    except FileNotFoundError:
        data = read(path)
        if data is None:
            raise
        return io.BytesIO(data)


def is_there(path: Path) -> bool:
    """Whether there is such a file, packed or not."""
    return path.exists() or _unpacked(path) is not None or path.exists()


@dataclass(frozen=True, slots=True)
class Within:
    """The packed files of a folder of trials: sizes by name, and for each file the sizes of its checkpoints by step."""

    sizes: Mapping[str, int] = field(default_factory=dict)
    steps: Mapping[str, Mapping[int, int]] = field(default_factory=dict)


def within(folder: Path) -> Within:
    """The packed files of the folder of trials ``folder``."""
    with _reading(folder) as connection:
        if connection is None:
            return Within()
        sizes = connection.execute("SELECT name, sz FROM sqlar ORDER BY name").fetchall()
        rows = connection.execute("SELECT name, step, bytes FROM checkpoints").fetchall()
    steps: dict[str, dict[int, int]] = {}
    for name, step, size in rows:
        steps.setdefault(name, {})[step] = size
    return Within(dict(sizes), steps)


def bundles(folder: Path) -> Iterator[tuple[Path, bytes]]:
    """The packed checkpoints of all trials in ``folder``: the paths of the unpacked files, and bytes.

    Raises StoreError, OSError or zlib.error if the archive is damaged.
    """
    with _reading(folder) as connection:
        if connection is None:
            return
        pages, size = (connection.execute(f"PRAGMA page_{what}").fetchone()[0] for what in ("count", "size"))
        if pages * size > _place(folder).stat().st_size:
            raise StoreError("it was cut short")
        torn = connection.execute("SELECT name FROM sqlar WHERE length(data) > sz LIMIT 1").fetchone()
        if torn:
            raise StoreError(f"{torn[0]} in it is not whole")
        for name, size, data in connection.execute("SELECT name, sz, data FROM sqlar WHERE name GLOB '*.zip'"):
            yield folder / name, _whole(size, data)


def unpack(path: Path) -> None:
    """Unpack a trial's file so that it can be written to, if it is packed."""
    data = None if path.exists() else _unpacked(path)
    if data is not None:
        write_atomic(path, data)


def pack(folder: Path) -> int:
    """Pack the small files in the folder of trials ``folder``, none of which is being written; return how many. It
    blocks.

    Files whose writers died half-way are removed. A crash leaves a file, its packed copy or both. Raises StoreFull and
    the like; files that were not packed remain.
    """
    found = []
    for entry in entries_in(str(folder)):
        if _PACKED.fullmatch(entry.name) and _is_small(entry):
            found.append(entry.name)
        elif entry.name.endswith(WRITING):
            with contextlib.suppress(OSError):
                os.unlink(entry.path)
    found.sort()
    count = 0
    while found:
        batch: dict[str, tuple[os.stat_result, bytes]] = {}
        size = 0
        while found and size < AT_ONCE:
            name = found.pop()
            with contextlib.suppress(FileNotFoundError):
                data = read_file(folder / name, MOST)
                batch[name] = (folder / name).stat(), data
                size += len(data)
        _put(folder, batch)
        for name, (before, _) in batch.items():
            # A runner that changes its checkpoints meanwhile either waits or came first.
            with fence.held(folder / name.partition(".")[0], None), contextlib.suppress(FileNotFoundError):
                now = (folder / name).stat()
                if (now.st_ino, now.st_size, now.st_mtime_ns) == (before.st_ino, before.st_size, before.st_mtime_ns):
                    (folder / f"{name}.old").unlink(missing_ok=True)
                    (folder / name).unlink()
        count += len(batch)
    return count


def replace(path: Path, data: bytes | None) -> bool:
    """Replace the packed copy of a trial's file, or remove it if None; False if there is none. For the engine."""
    with _writing(path.parent, make=False) as connection:
        if connection is None:
            return False
        connection.execute("DELETE FROM checkpoints WHERE name = ?", (path.name,))
        if data is None:
            done = connection.execute("DELETE FROM sqlar WHERE name = ?", (path.name,))
        else:
            _index(connection, path.name, data)
            done = connection.execute("UPDATE sqlar SET sz = ?, data = ? WHERE name = ?", (len(data), data, path.name))
        return done.rowcount > 0


# ---------------------------------------------------------------------------------------------------------------------


def _place(folder: Path) -> Path:
    return folder.with_name(PACKED)


def _is_small(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_file(follow_symlinks=False) and entry.stat(follow_symlinks=False).st_size <= SMALL
    except OSError:
        return False


def _plain(path: Path) -> bytes | None:
    try:
        return read_file(path, MOST)
    except (FileNotFoundError, NotADirectoryError):
        return None


def _unpacked(path: Path) -> bytes | None:
    with _reading(path.parent) as connection:
        if connection is None:
            return None
        row = connection.execute("SELECT sz, data FROM sqlar WHERE name = ?", (path.name,)).fetchone()
    return None if row is None else _whole(*row)


def _whole(size: int, data: bytes) -> bytes:
    # Archives made by other programs may be compressed.
    return bytes(data) if size == len(data) else zlib.decompressobj().decompress(data, min(size, SMALL))


@contextlib.contextmanager
def _reading(folder: Path) -> Iterator[sqlite3.Connection | None]:
    path = _place(folder)
    if not path.exists():
        yield None
        return
    with telling_sqlite(path):
        found = database.open_reader(path)
        try:
            yield found.connection
        finally:
            found.close()


@contextlib.contextmanager
def _writing(folder: Path, *, make: bool) -> Iterator[sqlite3.Connection | None]:
    """A transaction that is on disk at the end of the block. A new archive appears complete."""
    path = _place(folder)
    target = path
    if not path.exists():
        if not make:
            yield None
            return
        target = unfinished_name(path)
    with telling_sqlite(path):
        try:
            if target != path:
                os.close(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, FILE_MODE))
            with closing(sqlite3.connect(target, timeout=10.0, isolation_level=None)) as connection:
                if (wrong := foreign.found_in(connection)) is not None:
                    raise foreign.Forged(path, wrong)
                connection.execute("PRAGMA synchronous = FULL")
                connection.execute("BEGIN IMMEDIATE")
                for table in _TABLES:
                    connection.execute(table)
                yield connection
                connection.execute("COMMIT")
            if target != path:
                os.replace(target, path)
                fsync_folder(path.parent)
        except BaseException:
            if target != path:
                target.unlink(missing_ok=True)
            raise


def _put(folder: Path, batch: dict[str, tuple[os.stat_result, bytes]]) -> None:
    with _writing(folder, make=True) as connection:
        assert connection is not None
        rows = [(name, stat.st_mode, int(stat.st_mtime), len(data), data) for name, (stat, data) in batch.items()]
        connection.executemany(_PUT, rows)
        for name, (_, data) in batch.items():
            connection.execute("DELETE FROM checkpoints WHERE name = ?", (name,))
            _index(connection, name, data)


def _index(connection: sqlite3.Connection, name: str, data: bytes) -> None:
    if not name.endswith(".zip"):
        return
    found: dict[int, int] = {}
    try:
        members = zipfile.ZipFile(io.BytesIO(data)).infolist()
    except zipfile.BadZipFile:  # damaged before it was packed: readers get the error
        return
    for one in members:
        match = _STEP.match(one.filename)
        if match:
            found[int(match[1])] = found.get(int(match[1]), 0) + one.file_size
    connection.executemany("INSERT INTO checkpoints VALUES (?, ?, ?)", [(name, *item) for item in found.items()])
