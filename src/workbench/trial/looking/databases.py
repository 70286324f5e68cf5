"""SQLite's databases in memory. Law: what was committed is state, as in a list; files stay on their disk.

A connection whose database is more than that (attached files, temporary tables), or has an open transaction, is not
saved: the reason is named.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from workbench.snapshot.imported import loaded
from workbench.trial.kinds import IsLeft, Kind, NotLookedInto, See, Token
from workbench.trial.looking.digests import digest

#: Attributes of a connection that its user sets.
_SET = ("isolation_level", "row_factory", "text_factory")
#: Settings that a database does not hold.
_PRAGMAS = ("foreign_keys", "recursive_triggers", "ignore_check_constraints", "query_only", "case_sensitive_like")
#: Parts of a database's first page that count changes and name the version of SQLite.
_COUNTS = ((24, 28), (40, 44), (92, 100))
_BUSY = (5, 6)
#: Pages that are copied at a time: after each of these the deadline is looked at.
_PAGES = 1 << 10


class Database(Kind):
    """A connection to a database in memory: its tables, and the settings of the connection."""

    def look(self, obj: Any, see: See) -> Token:
        if (data := _bytes_of(obj)) is None:
            return 0
        counted = bytearray(data)
        for begin, end in _COUNTS if data else ():
            counted[begin:end] = bytes(end - begin)
        return (digest(counted), _pragmas(obj), *[see(getattr(obj, name), f".{name}") for name in _SET])

    def content(self, obj: Any, left: IsLeft) -> Any:
        data = _bytes_of(obj)
        if data is None:
            return None
        settings = {name: getattr(obj, name) for name in _SET}
        return data, _pragmas(obj), {name: value for name, value in settings.items() if not left(value)}

    def put(self, obj: Any, content: Any) -> None:
        if content is None:
            obj.close()
            return
        data, pragmas, settings = content
        obj.rollback()
        obj.row_factory = None
        source = importlib.import_module("sqlite3").connect(":memory:")
        try:
            if data:
                source.deserialize(data)
            source.backup(obj, progress=_go_on)
        finally:
            source.close()
        for name, value in pragmas.items():
            obj.execute(f"pragma {name} = {value}")
        for name, value in settings.items():
            setattr(obj, name, value)


DATABASE = Database()


def in_memory(obj: Any) -> bool:
    """Whether ``obj`` is an open connection to a database in memory."""
    sqlite3 = loaded("sqlite3")
    if sqlite3 is None or type(obj) is not sqlite3.Connection or not hasattr(obj, "serialize"):
        return False
    try:
        return not _files(obj)[0]
    except sqlite3.Error:  # it is closed, or another thread's
        return False


def has_file(obj: Any) -> bool:
    """Whether a connection's database is a file, which is there after a resume. Raises sqlite3.ProgrammingError."""
    return bool(_files(obj)[0])


def made(content: Any) -> Any:
    """A connection with this content: graphs contain a call of this."""
    connection = importlib.import_module("sqlite3").connect(":memory:")
    DATABASE.put(connection, content)
    return connection


def reduced(obj: Any) -> Any:
    """How a pickle makes such a connection again."""
    fresh = importlib.import_module("sqlite3").connect(":memory:")
    try:
        if _functions(obj) != _functions(fresh):
            raise TypeError("a database with functions or collations of its own cannot be saved")
    finally:
        fresh.close()
    return made, (DATABASE.content(obj, lambda _: False),)


def _bytes_of(obj: Any) -> bytes | None:
    """What was committed; None if the connection is closed."""
    sqlite3: Any = loaded("sqlite3")
    try:
        if obj.in_transaction:
            raise NotLookedInto("a database in memory cannot be saved with an open transaction: commit in each turn")
        if len(_files(obj)) > 1:
            raise NotLookedInto("a database in memory with attached databases or temporary tables cannot be saved")
    except sqlite3.ProgrammingError:
        return None
    try:
        return bytes(obj.serialize())
    except sqlite3.OperationalError:  # nothing was ever written
        return b""


def _files(obj: Any) -> list[str]:
    """The file of each database of the connection, the main one first; of those in memory an empty text."""
    return [row[2] for row in _rows(obj, "pragma database_list")]


def _functions(obj: Any) -> tuple[list[Any], list[Any]]:
    names = "select distinct name, narg from pragma_function_list order by name, narg"
    return _rows(obj, names), sorted(row[1] for row in _rows(obj, "pragma collation_list"))


def _pragmas(obj: Any) -> dict[str, int]:
    found = {name: _rows(obj, f"pragma {name}") for name in _PRAGMAS}
    return {name: rows[0][0] for name, rows in found.items() if rows}


def _rows(obj: Any, text: str) -> list[Any]:
    """Rows as tuples, whatever the connection makes of them."""
    cursor = obj.cursor()
    cursor.row_factory = None
    text_factory, obj.text_factory = obj.text_factory, str
    try:
        return [tuple(row) for row in cursor.execute(text)]
    finally:
        obj.text_factory = text_factory
        cursor.close()


def _go_on(status: int, remaining: int, total: int) -> None:
    if status in _BUSY:  # it would wait for ever
        raise RuntimeError("a statement of the set-up still reads the database")


# ---------------------------------------------------------------------------------------------------------------------
# Files


def file_of(connection: Any) -> str:
    """The path of the connection's database; empty for one in memory. Raises sqlite3.Error."""
    return os.path.realpath(file) if (file := _files(connection)[0]) else ""


def copy(source: Any, target: Any, wait_s: float) -> None:
    """Copy a database as it was last committed, from one connection to another.

    Raises sqlite3.Error, also if it takes longer than ``wait_s``: by itself a copy waits for a lock without an end.
    """
    sqlite3 = importlib.import_module("sqlite3")
    latest = time.monotonic() + wait_s

    def go_on(status: int, remaining: int, total: int) -> None:
        if time.monotonic() > latest:
            raise sqlite3.OperationalError(f"the database could not be copied within {wait_s:g} seconds")

    source.backup(target, pages=_PAGES, progress=go_on)


def put_back(saved: Path, connection: Any, *, writes: bool) -> list[str]:
    """Insert the rows of the database ``saved`` that tables of the connection's database lack.

    A table with as many rows as before stays as it is. One that has a row which it did not have before is not that
    table emptied: it stays as well, and its name is returned. writes: False only finds tables with fewer rows.
    Raises sqlite3.Error; all tables are then as they were.
    """
    tables = "select name, sql from sqlite_master where type = 'table' and name not like 'sqlite\\_%' escape '\\'"
    connect = importlib.import_module("sqlite3").connect
    with contextlib.closing(connect(saved)) as source, _whole(connection, writes):
        there = dict(_rows(connection, tables))
        less = {
            name: sql
            for name, sql in _rows(source, tables)
            if name not in there or _count(connection, name) < _count(source, name)
        }
        if not less or not writes:
            return list(less)
        if _rows(connection, "select 1 from sqlite_master where type = 'trigger' or sql like 'create virtual%'"):
            return list(less)  # these would write into other tables
        return [name for name, sql in less.items() if not _fill(source, connection, name, sql, there.get(name))]


def _fill(source: Any, target: Any, name: str, sql: str, there: str | None) -> bool:
    """Insert the rows that a table lacks. there: the SQL that made it; None if it is not there. False if it cannot."""
    if sql.lower().startswith("create virtual") or there not in (None, sql):
        return False
    text = "'" + name.replace("'", "''") + "'"
    if there is None:
        made = f"select sql from sqlite_master where tbl_name = {text} and type = 'index' and sql is not null"
        for one in [sql, *(index for (index,) in _rows(source, made))]:
            _execute(target, one)
    names = [_quoted(column) for (column,) in _rows(target, f"select name from pragma_table_info({text})")]
    # A column's type, or a name with brackets, would have a connection convert the values: expressions have neither.
    query = f"select {', '.join(f'+{one} as c' for one in names)} from {_quoted(name)}"
    rest = Counter(_rows(target, query))
    missing = []
    for row in _rows(source, query):
        if rest[row]:
            rest[row] -= 1
        else:
            missing.append(row)
    if any(rest.values()):
        return False
    cursor = target.cursor()
    values = ", ".join("?" * len(names))
    cursor.executemany(f"insert into {_quoted(name)} ({', '.join(names)}) values ({values})", missing)
    cursor.close()
    return True


@contextlib.contextmanager
def _whole(connection: Any, writes: bool) -> Iterator[None]:
    """Do all of it or nothing; within the transaction that is open, if one is: what that has done may be undone."""
    if not writes:
        yield
        return
    is_within = connection.in_transaction
    _execute(connection, "savepoint workbench" if is_within else "begin immediate")
    try:
        yield
        _execute(connection, "release workbench" if is_within else "commit")
    except BaseException:
        for one in ("rollback to workbench", "release workbench") if is_within else ("rollback",):
            _execute(connection, one)
        raise


def _execute(connection: Any, text: str) -> None:
    cursor = connection.cursor()
    cursor.execute(text)
    cursor.close()


def _count(connection: Any, name: str) -> int:
    found: int = _rows(connection, f"select count(*) from {_quoted(name)}")[0][0]
    return found


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
