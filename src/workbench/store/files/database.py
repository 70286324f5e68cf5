"""How the database of a series is made, opened and checked. Law: no process ever sees it half made, and readers write
nothing.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from workbench.errors import Broken, NewerSchema, StoreError, StoreFull, StoreReadOnly
from workbench.records import SCHEMA
from workbench.store.files import foreign
from workbench.store.files.atomic import (
    FILE_MODE,
    fsync_folder,
    kind_of,
    move_away,
    store_error,
    telling,
    unfinished_name,
)
from workbench.store.files.space import space_left
from workbench.store.files.tables import TABLES
from workbench.store.journal import Damage

#: How long a reader waits while the engine opens, closes or (on network file systems) flushes.
_BUSY_S = 10.0
_NO_DATABASE = frozenset({sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB})
#: Errors after which the file counts as damaged, unless the disk is full.
_BROKEN = _NO_DATABASE | {sqlite3.SQLITE_IOERR}
#: The files that SQLite keeps beside a database.
BESIDE = ("-wal", "-shm", "-journal")
_MAGIC, _HEADER = b"SQLite format 3\0", 100
#: A database of at most this many bytes is checked completely whenever the engine opens it.
LOOKED_THROUGH = 32 << 20
_CANNOT_SHARE = frozenset({sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY})


@dataclass(frozen=True, slots=True)
class Opened:
    """A connection, and the problems found while opening it."""

    connection: sqlite3.Connection
    #: Tables and indexes that did not exist.
    missing: tuple[str, ...] = ()
    damage: tuple[Damage, ...] = ()
    #: The private copy of a reader that cannot share memory with the writer.
    copy: tempfile.TemporaryDirectory[str] | None = None
    #: For such a reader, the state of the files; if it changes, the copy is out of date.
    state: tuple[object, ...] | None = None

    def close(self) -> None:
        """Close the connection, and remove the copy."""
        self.connection.close()
        if self.copy is not None:
            self.copy.cleanup()


def open_writer(path: Path, *, wal: bool) -> Opened:
    """A connection that writes ``path``; creates a missing database, and repairs missing tables.

    A file that is not a database, or a damaged one, is moved away (``series.db.broken-<n>``), and a new one created.
    Raises NewerSchema for one of a later Workbench.
    """
    journal = "WAL" if wal else "TRUNCATE"
    damage: tuple[Damage, ...] = ()
    made: tuple[str, ...] = ()
    wrong = what_is_wrong(path)
    if wrong is None and not os.access(path, os.W_OK):
        # SQLite would open it anyway, to read it, and refuse at the first flush.
        raise store_error(path, OSError(errno.EROFS, os.strerror(errno.EROFS)))
    if wrong is None:
        try:
            connection, missing = _open(path, journal)
            return Opened(connection, missing)
        except sqlite3.DatabaseError as error:
            if _code(error) not in _NO_DATABASE:
                raise
            wrong = f"it is not a database ({error})"
    if os.path.lexists(path):
        moved = put_away(path)
        damage = (Damage(path, 0, f"{wrong}; it lies in {moved.name if moved else 'no file'} now"),)
    else:
        put_away(path)  # a WAL without its database: it would corrupt another one
    _make(path, journal)
    made = tuple(TABLES)
    connection, _ = _open(path, journal)
    return Opened(connection, made, damage)


def put_away(path: Path) -> Path | None:
    """Move a database away with all of SQLite's files beside it; its new path, or None if it did not exist."""
    moved = move_away(path)
    for ending in BESIDE:
        beside = Path(f"{path}{ending}")
        if moved is None or not os.path.lexists(beside):
            with contextlib.suppress(OSError):
                beside.unlink()
            continue
        with telling(beside):
            os.replace(beside, f"{moved}{ending}")
    return moved


def what_is_wrong(path: Path) -> str | None:
    """What is wrong with the database at ``path``, judged by its first bytes and its size; None if nothing is.

    It does not open the database, so it is quick, and a pipe does not block it.
    """
    try:
        kind = kind_of(path.lstat().st_mode)
        if kind is not None:
            return f"it is {kind}, expected a file"
        with open(path, "rb", buffering=0) as file:
            head, size = file.read(_HEADER), os.fstat(file.fileno()).st_size
    except FileNotFoundError:
        return "it is missing"
    except OSError as error:
        return f"it cannot be read ({error.strerror})"
    if not size:
        return "it is empty"
    if len(head) < _HEADER or not head.startswith(_MAGIC):
        return "it is not a database"
    page = int.from_bytes(head[16:18], "big")
    pages = int.from_bytes(head[28:32], "big")
    is_counted = head[24:28] == head[92:96]  # else an old SQLite wrote it, and did not store the size
    if is_counted and size < pages * (65536 if page == 1 else page):
        return f"it was cut off after {size:,} bytes"
    return None


def check(path: Path) -> str | None:
    """What is wrong with the database at ``path``, after reading all of it; None if nothing is. It blocks."""
    wrong = what_is_wrong(path)
    if wrong is not None:
        return wrong
    try:
        opened = open_reader(path)
        try:
            return looked_through(opened.connection)
        finally:
            opened.close()
    except (sqlite3.Error, OSError) as error:
        return f"it cannot be read ({error})"


def forged(path: Path) -> str | None:
    """What the database at ``path`` holds besides plain tables; None if nothing, or if it cannot be read at all."""
    try:
        open_reader(path).close()
    except foreign.Forged as error:
        return error.what
    except (sqlite3.Error, OSError):  # its next reader says why
        return None
    return None


def looked_through(connection: sqlite3.Connection) -> str | None:
    """What is wrong with an open database, after reading all of it; None if nothing is."""
    found = str(connection.execute("PRAGMA quick_check(1)").fetchone()[0])
    return None if found == "ok" else f"it is damaged ({found.splitlines()[-1][:200]})"


def open_reader(path: Path) -> Opened:
    """A connection that reads ``path``, even if neither it nor its folder is writable.

    A reader of a WAL shares a memory file with the writer. If it can neither create nor find that file (in a read-only
    folder, after a crash), it reads the database alone, or, if a WAL or a journal is left, a copy of
    both. Raises Broken for anything but a file (SQLite would wait at a pipe), and for a database that holds more than
    plain tables: a view in it may never end.
    """
    kind = kind_of(path.lstat().st_mode)
    if kind is not None:
        raise Broken(f"{path}: it is {kind}, expected a database. workbench doctor says what can be put back.")
    for file in (Path(f"{path}{ending}") for ending in BESIDE):
        with contextlib.suppress(FileNotFoundError):
            if (kind := kind_of(file.lstat().st_mode)) is not None:
                raise Broken(f"{file}: it is {kind}, expected a file of SQLite's. Remove it.")
    state = state_of(path)
    left = [Path(f"{path}{ending}") for ending in ("-wal", "-journal")]
    if not left[0].exists() and is_wal(path):
        # No writer has it open: a writer would have made that file. A reader that makes it could not remove it again.
        return Opened(_looking(path, "mode=ro&immutable=1"), state=state)
    try:
        return Opened(_looking(path, "mode=ro"))
    except sqlite3.OperationalError as error:
        if _code(error) not in _CANNOT_SHARE or not path.exists():
            raise
    state = state_of(path)
    left = [file for file in left if file.exists() and file.stat().st_size]
    if not left:
        return Opened(_looking(path, "mode=ro&immutable=1"), state=state)
    copy = tempfile.TemporaryDirectory(prefix="workbench-series-")
    try:
        for file in (path, *left):
            shutil.copyfile(file, Path(copy.name) / file.name)
        return Opened(_looking(Path(copy.name) / path.name, "mode=rw"), copy=copy, state=state)
    except BaseException:
        copy.cleanup()
        raise


def copied(connection: sqlite3.Connection, path: Path) -> Path | None:
    """Everything that ``connection`` can still read, in a database beside ``path``; None if that is incomplete.

    A removed database stays complete as long as a process has it open.
    """
    aside = unfinished_name(path)
    try:
        os.close(os.open(aside, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, FILE_MODE))
        target = _connect(aside, "mode=rw")
        try:
            connection.backup(target)
            whole = looked_through(target) is None
            target.execute("PRAGMA journal_mode = DELETE")  # one file, without others beside it
        finally:
            target.close()
        if whole:
            return aside
    except (sqlite3.Error, OSError) as error:
        _remove(aside)
        # On a full disk, an open database stays open until it can be copied.
        if isinstance(error, OSError) or _code(error) not in {*_BROKEN, 0}:
            raise
        return None
    _remove(aside)
    return None


def replace(aside: Path, path: Path) -> None:
    """Replace the database ``path`` by ``aside``."""
    with telling(path):
        os.replace(aside, path)
        fsync_folder(path.parent)


def _remove(path: Path) -> None:
    for ending in ("", *BESIDE):
        with contextlib.suppress(OSError):
            os.unlink(f"{path}{ending}")


def is_wal(path: Path) -> bool:
    """Whether opening the database, to write or to read it, creates files beside it."""
    try:
        with open(path, "rb") as file:
            return file.read(20)[18:] == b"\x02\x02"
    except OSError:
        return False


def rest(path: Path) -> bool:
    """Merge a database that is no longer written into one file; False if a reader still has it open. It blocks."""
    if not (is_wal(path) or Path(f"{path}-wal").exists()):
        return True
    with telling_sqlite(path), closing(_connect(path, "mode=rw", wait_s=0.1)) as connection:
        try:
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
            return bool(connection.execute("PRAGMA journal_mode = DELETE").fetchone()[0] == "delete")
        except sqlite3.OperationalError as error:
            if _code(error) != sqlite3.SQLITE_BUSY:
                raise
            return False


def state_of(path: Path) -> tuple[object, ...]:
    """A value that changes when the database is written."""
    found: list[object] = []
    for file in (path, Path(f"{path}-wal")):
        try:
            stat = file.stat()
            found += [stat.st_ino, stat.st_size, stat.st_mtime_ns]
        except OSError:
            found.append(None)
    return tuple(found)


@contextlib.contextmanager
def telling_sqlite(path: Path) -> Iterator[None]:
    """Convert SQLite's errors inside to :class:`StoreError` and the like, naming ``path``."""
    try:
        with telling(path):
            yield
    except sqlite3.Error as error:
        code = _code(error)
        if code == sqlite3.SQLITE_FULL or (code == sqlite3.SQLITE_IOERR and _is_full(path)):
            raise StoreFull(
                f"no space is left to write {path}; what was there before is untouched. "
                "Free some space there, or choose another place with --store or WORKBENCH_HOME."
            ) from error
        # A WAL that can neither be made nor found is reported as a database that cannot be opened.
        if code in _CANNOT_SHARE and not (os.access(path, os.W_OK) and os.access(path.parent, os.W_OK)):
            raise StoreReadOnly(
                f"{path} cannot be written ({error}). Give yourself write permission there, "
                "or choose another place with --store or WORKBENCH_HOME."
            ) from error
        if code == sqlite3.SQLITE_INTERRUPT:
            raise Broken(
                f"{path}: reading it takes far longer than its size explains, so it is damaged, or was made to do so. "
                "Delete the experiment (workbench delete), or restore the file from a copy."
            ) from error
        kind = Broken if code in _BROKEN else StoreError
        raise kind(f"{path}: {error}. Check the disk; workbench doctor checks the store.") from error


def _connect(path: Path, parameters: str, wait_s: float = _BUSY_S) -> foreign.Reader:
    uri = f"file:{quote(os.fsencode(path))}?{parameters}"
    connection = sqlite3.connect(
        uri, uri=True, timeout=wait_s, isolation_level=None, check_same_thread=False, factory=foreign.Reader
    )
    try:
        connection.execute("PRAGMA trusted_schema = OFF")
    except BaseException:  # SQLite opens the file at the first statement
        connection.close()
        raise
    return connection


def _looking(path: Path, parameters: str) -> sqlite3.Connection:
    connection = _connect(path, parameters)
    try:
        if (wrong := foreign.found_in(connection)) is not None:
            raise foreign.Forged(path, wrong)
        connection.count_steps(path)
        connection.execute("PRAGMA cache_size = -16000")  # 16 MB, used as needed: 100 curves of 1,000 points fit
    except BaseException:
        connection.close()
        raise
    return connection


def _open(path: Path, journal: str) -> tuple[sqlite3.Connection, tuple[str, ...]]:
    connection = _connect(path, "mode=rw")
    try:
        schema = int(connection.execute("PRAGMA user_version").fetchone()[0])
        if schema > SCHEMA:
            raise NewerSchema(
                f"{path} was written by a later Workbench (schema {schema}; this one knows up to {SCHEMA}). "
                "It can be read. Upgrade Workbench to continue it."
            )
        if (wrong := foreign.found_in(connection)) is not None:
            raise _no_database(wrong)
        if path.stat().st_size <= LOOKED_THROUGH and (wrong := looked_through(connection)) is not None:
            raise _no_database(wrong)
        connection.execute(f"PRAGMA journal_mode = {journal}")
        # With WAL: no fsync at each flush. A kill then loses nothing; a power cut may lose the last second.
        connection.execute("PRAGMA synchronous = NORMAL")
        connection.execute("PRAGMA journal_size_limit = 16777216")
        there = {name for (name,) in connection.execute("SELECT name FROM sqlite_master")}
        missing = tuple(name for name in TABLES if name not in there)
        if missing:
            connection.execute("BEGIN IMMEDIATE")
            for name in missing:
                connection.execute(TABLES[name])
            connection.execute("COMMIT")
    except BaseException:
        connection.close()
        raise
    return connection, missing


def _make(path: Path, journal: str) -> None:
    """Make the database under another name and rename it, so that a reader finds it complete or not at all."""
    aside = unfinished_name(path)
    try:
        with telling(path):
            descriptor = os.open(aside, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, FILE_MODE)
        try:
            connection = _connect(aside, "mode=rw")
            try:
                connection.execute("PRAGMA synchronous = OFF")
                connection.execute("BEGIN")
                for statement in TABLES.values():
                    connection.execute(statement)
                connection.execute(f"PRAGMA user_version = {SCHEMA}")
                connection.execute("COMMIT")
                connection.execute(f"PRAGMA journal_mode = {journal}")
            finally:
                connection.close()
            with telling(path):
                os.fsync(descriptor)
                os.replace(aside, path)
                fsync_folder(path.parent)
        finally:
            # Only after SQLite is done: closing any descriptor of a file releases the process's locks on it.
            os.close(descriptor)
    except BaseException:
        _remove(aside)
        raise


def _no_database(wrong: str) -> sqlite3.DatabaseError:
    error = sqlite3.DatabaseError(wrong)
    error.sqlite_errorcode = sqlite3.SQLITE_CORRUPT  # the code that SQLite itself uses
    return error


def _code(error: sqlite3.Error) -> int:
    """SQLite's primary error code, or 0 if the error is the module's own."""
    return int(getattr(error, "sqlite_errorcode", None) or 0) & 0xFF


def _is_full(path: Path) -> bool:
    try:
        room = space_left(path.parent)
    except OSError:
        return False
    return room is not None and room < 1 << 20
