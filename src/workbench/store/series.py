"""Curves, trials and legs of one experiment, in SQLite. Law: the engine writes, in groups; readers never wait for it.

Every row has a number from one counter that only rises, so a reader asks for new rows by the last number it saw.
Buffered rows are lost with the process; flushed ones survive ``kill -9``, and a power cut may lose the last
second.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import math
import operator
import os
import sqlite3
import threading
import time as clock
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from workbench.errors import Broken, NotFound, StoreReadOnly
from workbench.records import Json
from workbench.records.names import trial_label
from workbench.store.files import database, tables
from workbench.store.files.database import Opened, telling_sqlite
from workbench.store.files.filesystem import is_network
from workbench.store.files.samples import Sample
from workbench.store.files.unwritten import Taken, Unwritten, write
from workbench.store.journal import Damage

#: trial, metric, step, index inside the step, value, time (seconds since 1970)
Point = tuple[int, str, int, int, float, float]

#: The number of levels in one query: SQLite allows some 900 values.
_AT_ONCE = 300


class _Files(NamedTuple):
    """Shows whether a database was changed: the inodes of its files (0: missing); size and modification time of the
    main one."""

    inodes: tuple[int, ...]
    content: tuple[int, ...]


class Series:
    """One experiment's database: :meth:`open` for the engine, :meth:`read` for viewers.

    Several threads may use either. A writer reads only what was flushed, like all readers.
    """

    def __init__(self, path: Path, writer: Opened | None, reader: Opened | None) -> None:
        self.path = path
        #: Tables and indexes that were missing when the engine opened it: all for a new one. They must be filled again.
        self.missing: tuple[str, ...] = writer.missing if writer else ()
        #: Problems of the file that were worked around.
        self.damage: list[Damage] = list(writer.damage) if writer else []
        #: Invalid points, and why. They were left out.
        self.refused: list[tuple[Any, str]] = []
        #: Files found broken while this was open, and moved away. Their content must be restored.
        self.broken: list[Path | None] = []
        #: Called when something is added to an empty buffer, in the thread that adds it: a flush is due.
        self.on_news: Callable[[], object] = _nothing
        self._writer = writer
        self._reader = reader
        self._closed = False
        self._writing = threading.Lock()
        self._reading = threading.RLock()
        self._unwritten = Unwritten()
        #: The metrics' numbers by name, for the writer, and the inverse for the reader.
        self._ids: dict[str, int] = {}
        self._names: dict[int, str] = {}
        #: By trial: the samples since its old ones were joined.
        self._sampled: dict[int, int] = {}
        self._change = 0
        #: The inodes of the files that are open, and the content after the last flush. Only this object writes it.
        self._files = _Files((), ())
        #: Whether the open database has a WAL.
        self._is_wal = False
        #: Reading failed: the next flush checks the whole file.
        self._is_suspect = False
        #: The inode of the reader's file, which may be replaced.
        self._inode = 0

    # Opening ---------------------------------------------------------------------------------------------------------

    @classmethod
    def open(cls, path: Path, *, network: bool | None = None) -> Series:
        """Open ``path`` for writing, which only the engine does; it is created, in one go, if it is missing.

        ``network``: on a network file system (None detects it) SQLite has a rollback journal instead of a WAL; readers
        may then wait some milliseconds for a flush. A file that is not a database is moved away and reported in
        :attr:`damage`. Raises NewerSchema, StoreFull, StoreReadOnly or StoreError.
        """
        with telling_sqlite(path):
            opened = database.open_writer(path, wal=not (is_network(path) if network is None else network))
            series = cls(path, opened, None)
            try:
                series._count()
            except BaseException:
                opened.close()
                raise
        return series

    def _count(self) -> None:
        """Continue with the numbers in the file."""
        assert self._writer is not None
        connection = self._writer.connection
        counters = {"points": "id", "trials": "change", "legs": "change", "meta": "change"}
        newest = [f"SELECT max({number}) FROM {table}" for table, number in counters.items()]
        self._change = max(self._change, *(connection.execute(query).fetchone()[0] or 0 for query in newest))
        self._ids = dict(connection.execute("SELECT name, id FROM names"))
        self._is_wal = connection.execute("PRAGMA journal_mode").fetchone()[0] == "wal"
        self._files = _files(self.path)

    def count_anew(self) -> None:
        """From now on, use numbers above all that a lost database can have used.

        Readers that ask by the last number they saw then get everything that is restored.
        """
        with self._writing:
            self._change = max(self._change, int(clock.time() * 1000))

    @classmethod
    def read(cls, path: Path) -> Series:
        """Open ``path`` for reading: while the engine writes, long after, or in a read-only folder.

        Raises NotFound if the experiment has none yet.
        """
        if not os.path.lexists(path):
            raise NotFound(f"{path} is not there: the experiment has not started, or the file was moved away.")
        with telling_sqlite(path):
            series = cls(path, None, database.open_reader(path))
            series._inode = _inode(path)
            return series

    def close(self) -> None:
        """Flush (a writer) and close. It is closed even if flushing raises. It may be called twice."""
        try:
            if self._writer is not None:
                self.flush()
                self._keep_what_was_removed()
        finally:
            with self._writing, self._reading:
                self._closed = True
                for opened in (self._reader, self._writer):
                    if opened is not None:
                        opened.close()
                self._reader = self._writer = None

    def __enter__(self) -> Series:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # Writing ---------------------------------------------------------------------------------------------------------

    @property
    def waits(self) -> bool:
        """Whether something is buffered and not flushed."""
        return not self._unwritten.is_empty

    def add_points(self, rows: Iterable[Sequence[Any]]) -> None:
        """Add rows of (trial, metric, step, index, value, time). An equal value is ignored; another replaces it."""
        if self._unwritten.add_points(rows):
            self.on_news()

    def add_samples(self, trial: int, samples: Iterable[Sample]) -> None:
        """Add what a trial was seen to use. It is not part of its points, and has no number of the counter."""
        if self._unwritten.add_samples(trial, samples):
            self.on_news()

    def put_trial(self, number: int, **fields: Any) -> None:
        """Set fields of a trial; other fields are unchanged. Fields without a column of their own are stored too."""
        self._put("trials", (number,), fields)

    def put_leg(self, trial: int, attempt: int, **fields: Any) -> None:
        """Set fields of a leg; other fields are unchanged. Fields without a column of their own are stored too."""
        self._put("legs", (trial, attempt), fields)

    def put_meta(self, key: str, value: Json) -> None:
        """Set one fact about the experiment."""
        if self._unwritten.put_meta(key, value):
            self.on_news()

    def flush(self) -> int:
        """Write the buffer in one transaction, and return the newest number of the counter.

        It blocks, so it is called in a thread. If it raises (StoreFull if the disk is full), nothing is written and
        nothing is lost: the buffer waits for the next call. A missing or damaged file is moved away and a new one
        created, as :attr:`broken` says.
        """
        with self._writing:
            taken = self._unwritten.take()
            if taken is None:
                return self._change
            try:
                try:
                    self._check()
                    with telling_sqlite(self.path):
                        self._write(taken)
                except Broken:
                    self._begin_anew()
                    with telling_sqlite(self.path):
                        self._write(taken)
                # The inodes remain those of the open files: what was removed during the flush is noticed by the next.
                self._files = self._files._replace(content=_files(self.path).content)
            except BaseException:
                self._unwritten.give_back(taken)
                raise
            return self._change

    # Reading ---------------------------------------------------------------------------------------------------------

    def points(self, trials: Iterable[int] | None = None, names: Iterable[str] | None = None) -> list[Point]:
        """Points of these trials and metrics (None: all), by metric, trial, step and index."""
        # The name is a column of the result, so that rows need no conversion, mostly not even for nan.
        query = "SELECT trial, ?, step, idx, value, time FROM points WHERE name = ?"
        found: list[Point] = []
        for number, name in self._numbers(names):
            if trials is None:
                found += _floats(self._fetch(f"{query} ORDER BY trial, step, idx", (name, number)), 4)
                continue
            for trial in sorted(set(trials)):
                rows = self._fetch(f"{query} AND trial = ? ORDER BY step, idx", (name, number, trial))
                found += _floats(rows, 4)
        return found

    def curves(
        self, trials: Iterable[int] | None = None, names: Iterable[str] | None = None
    ) -> dict[tuple[int, str], list[tuple[int, int, float]]]:
        """Lists of (step, index, value) by (trial, metric): the fastest way to read many curves."""
        query = "SELECT step, idx, value FROM points WHERE name = ? AND trial = ? ORDER BY step, idx"
        wanted = None if trials is None else sorted(set(trials))
        found = {}
        for number, name in self._numbers(names):
            for trial in self._reported(number) if wanted is None else wanted:
                rows = self._fetch(query, (number, trial))
                if rows:
                    found[trial, name] = _floats(rows, 2)
        return found

    def lacking(self, metric: str, levels: Iterable[tuple[int, int, float]]) -> int:
        """How many of these (trial, step, value) no point of ``metric`` shows, at that step or before it."""
        number = next((number for number, _ in self._numbers([metric])), None)
        waiting = [(trial, step, None if math.isnan(value) else value) for trial, step, value in levels]
        if number is None:
            return len(waiting)
        count = 0
        for begin in range(0, len(waiting), _AT_ONCE):
            some = waiting[begin : begin + _AT_ONCE]
            query = (
                f"WITH level(trial, step, value) AS (VALUES {', '.join(['(?, ?, ?)'] * len(some))}) "
                "SELECT count(*) FROM level WHERE NOT EXISTS (SELECT 1 FROM points WHERE name = ? "
                "AND trial = level.trial AND step <= level.step AND value IS level.value)"
            )
            count += self._fetch(query, (*itertools.chain.from_iterable(some), number))[0][0]
        return count

    def points_after(self, cursor: int, limit: int | None = None) -> tuple[int, list[Point]]:
        """New points since ``cursor`` (initially 0), oldest first, and the cursor for the next call."""
        query = "SELECT id, name, trial, step, idx, value, time FROM points WHERE id > ? ORDER BY id LIMIT ?"
        rows = self._fetch(query, (cursor, -1 if limit is None else limit))
        if not rows:
            return cursor, []
        name = self._named({row[1] for row in rows})
        points = [(t, name[n], s, i, math.nan if v is None else v, at) for _, n, t, s, i, v, at in rows]
        return rows[-1][0], points

    def trials(self) -> list[dict[str, Any]]:
        """All trials by number."""
        return self._records("trials", "ORDER BY number")

    def trial(self, number: int) -> dict[str, Any]:
        """One trial. Raises NotFound."""
        found = self._records("trials", "WHERE number = ?", (number,))
        if not found:
            counted = self._fetch("SELECT count(*), min(number), max(number) FROM trials")
            count, lowest, highest = counted[0] if counted else (0, 0, 0)
            known = f"it has {trial_label(lowest)} to {trial_label(highest)}" if count else "it has none yet"
            raise NotFound(f"this experiment has no trial {trial_label(number)}: {known}.")
        return found[0]

    def trials_after(self, change: int) -> tuple[int, list[dict[str, Any]]]:
        """Trials that changed since ``change`` (initially 0), and the number for the next call."""
        return self._after("trials", change)

    def legs(self, trial: int | None = None) -> list[dict[str, Any]]:
        """Legs of one trial or of all, by trial and attempt."""
        if trial is None:
            return self._records("legs", "ORDER BY trial, attempt")
        return self._records("legs", "WHERE trial = ? ORDER BY attempt", (trial,))

    def attempts(self) -> set[tuple[int, int]]:
        """Trial and attempt of every leg. Raises ValueError for a leg with fields that cannot be read."""
        if sqlite3.sqlite_version_info < (3, 38):  # it may be built without JSON
            return {(leg["trial"], leg["attempt"]) for leg in self.legs()}
        texts = [name for name, kind in (*tables.LEG_FIELDS.items(), ("more", "json")) if kind == "json"]
        sound = " AND ".join(f'("{name}" IS NULL OR json_valid("{name}"))' for name in texts)
        rows = self._fetch(f"SELECT trial, attempt, {sound} FROM legs")
        if not all(row[2] for row in rows):
            self.legs()  # Python's JSON may contain NaN, which SQLite does not accept
        return {(trial, attempt) for trial, attempt, _ in rows}

    def what_is_wrong(self) -> str | None:
        """What is wrong with the file, after reading all of it; None if nothing is."""
        with self._reading, telling_sqlite(self.path):
            return database.looked_through(self._current().connection)

    def legs_after(self, change: int) -> tuple[int, list[dict[str, Any]]]:
        """Legs that changed since ``change`` (initially 0), and the number for the next call."""
        return self._after("legs", change)

    def meta(self) -> dict[str, Json]:
        """The facts that :meth:`put_meta` set."""
        return {key: json.loads(value) for key, value in self._fetch("SELECT key, value FROM meta")}

    def names(self) -> list[str]:
        """Reported metrics, in the order of their first report."""
        return [name for (name,) in self._fetch("SELECT name FROM names ORDER BY id")]

    # Internals of writing --------------------------------------------------------------------------------------------

    def _put(self, table: str, key: tuple[int, ...], fields: dict[str, Any]) -> None:
        if self._unwritten.put_row(table, key, fields):
            self.on_news()

    def _write(self, taken: Taken) -> None:
        if self._writer is None:
            raise StoreReadOnly(f"{self.path} is closed, or was opened read-only. Series.open() writes.")
        connection, ids, change = self._writer.connection, dict(self._ids), self._change
        refused: list[tuple[Any, str]] = []
        sampled = dict(self._sampled)
        connection.execute("BEGIN IMMEDIATE")
        try:
            change = write(connection, taken, ids, change, refused, sampled)
            connection.execute("COMMIT")
        except BaseException:
            # A full disk may already have ended the transaction.
            with contextlib.suppress(sqlite3.Error):
                connection.execute("ROLLBACK")
            raise
        self._ids, self._change, self._sampled = ids, change, sampled
        self.refused += refused

    def _check(self) -> None:
        """Raise Broken if the files are not those that were last written, or were changed and are damaged."""
        now = _files(self.path)
        if self._are_removed(now):
            raise Broken(f"{self.path} was removed or replaced while it was open.")
        if now.content != self._files.content or self._is_suspect:
            wrong = database.check(self.path)
            if wrong is not None:
                raise Broken(f"{self.path}: {wrong}.")
            self._is_suspect = False

    def _are_removed(self, now: _Files) -> bool:
        # Reading the counters made the files beside a WAL's database, so any that is missing has been removed since.
        count = len(now.inodes) if self._is_wal else 1
        there = now.inodes[:count]
        return self._writer is not None and (there != self._files.inodes[:count] or 0 in there)

    def _begin_anew(self) -> None:
        """Move the broken file away and create a new one, with the content of the open one if that is complete."""
        assert self._writer is not None
        with self._reading:
            # A removed file is complete as long as it is open; of an overwritten file, memory may contain old pages
            # besides new ones.
            is_removed = self._are_removed(_files(self.path))
            with telling_sqlite(self.path):
                whole = database.copied(self._writer.connection, self.path) if is_removed else None
            for opened in (self._reader, self._writer):
                if opened is not None:
                    opened.close()
            self._reader = None
            with telling_sqlite(self.path):
                moved = database.put_away(self.path)
                if whole is not None:
                    database.replace(whole, self.path)
                self._writer = database.open_writer(self.path, wal=not is_network(self.path))
                self._is_suspect = False
                self._count()
        if whole is None:
            self._change = max(self._change, int(clock.time() * 1000))
            self.broken.append(moved)

    def _keep_what_was_removed(self) -> None:
        """A file removed since the last flush is complete as long as it is open: restore it."""
        with self._writing, self._reading:
            if self._writer is None or not self.path.parent.is_dir() or not self._are_removed(_files(self.path)):
                return
            with contextlib.suppress(OSError):  # on a full disk: the journal and checkpoints still have the points
                whole = database.copied(self._writer.connection, self.path)
                if whole is not None:
                    database.put_away(self.path)
                    database.replace(whole, self.path)

    # Internals of reading --------------------------------------------------------------------------------------------

    def _fetch(self, query: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        with self._reading, self._suspecting(), telling_sqlite(self.path):
            reader = self._current()
            try:
                return reader.connection.execute(query, values).fetchall()
            except sqlite3.OperationalError as error:
                if "no such table" not in str(error):
                    raise
                # The engine creates it again, from the journal, when it opens the experiment.
                if not any(damage.what == str(error) for damage in self.damage):
                    self.damage.append(Damage(self.path, 0, str(error)))
                return []

    @contextlib.contextmanager
    def _suspecting(self) -> Iterator[None]:
        try:
            yield
        except Broken:
            self._is_suspect = True
            raise

    def _current(self) -> Opened:
        reader = self._reader
        if self._closed:
            raise StoreReadOnly(f"{self.path} is closed. Open it again with Series.read().")
        inode = _inode(self.path)
        is_old = reader is not None and reader.state is not None and reader.state != database.state_of(self.path)
        if reader is not None and (is_old or (inode and inode != self._inode)):
            reader.close()
            reader = self._reader = None
        if reader is None:
            reader = self._reader = database.open_reader(self.path)
            self._inode = inode
        return reader

    def _numbers(self, names: Iterable[str] | None) -> list[tuple[int, str]]:
        """Reported metrics with these names, each with its number in the table of points."""
        wanted = None if names is None else set(names)
        reported = self._fetch("SELECT id, name FROM names ORDER BY id")
        return [(number, name) for number, name in reported if wanted is None or name in wanted]

    def _reported(self, metric: int) -> Iterator[int]:
        """Trials that reported a metric, rising; one index lookup for each instead of a scan of all points."""
        trial = -1
        while True:
            rows = self._fetch("SELECT min(trial) FROM points WHERE name = ? AND trial > ?", (metric, trial))
            if not rows or rows[0][0] is None:
                return
            trial = rows[0][0]
            yield trial

    def _named(self, ids: set[int]) -> dict[int, str]:
        if not ids <= self._names.keys():
            self._names = dict(self._fetch("SELECT id, name FROM names"))
        return self._names

    def _records(self, table: str, rest: str, values: Sequence[Any] = ()) -> list[dict[str, Any]]:
        return tables.records(table, self._fetch(tables.query_rows(table, rest), values))

    def _after(self, table: str, change: int) -> tuple[int, list[dict[str, Any]]]:
        found = self._records(table, "WHERE change > ? ORDER BY change", (change,))
        return (found[-1]["change"] if found else change), found


def _nothing() -> None:
    """Do nothing: the default of ``on_news``."""


def _floats(rows: list[tuple[Any, ...]], column: int) -> list[Any]:
    """``rows`` with nan in ``column`` in place of NULL, which SQLite stores for nan."""
    if None not in map(operator.itemgetter(column), rows):
        return rows
    return [row if row[column] is not None else (*row[:column], math.nan, *row[column + 1 :]) for row in rows]


def _files(path: Path) -> _Files:
    inodes = tuple(_inode(f"{path}{ending}") for ending in ("", *database.BESIDE[:2]))
    try:
        stat = os.lstat(path)
    except OSError:
        return _Files(inodes, ())
    return _Files(inodes, (stat.st_size, stat.st_mtime_ns))


def _inode(path: Path | str) -> int:
    try:
        return os.lstat(path).st_ino
    except OSError:
        return 0
