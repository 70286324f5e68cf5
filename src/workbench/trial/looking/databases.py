"""SQLite's databases in memory. Law: what was committed is state, as in a list; files stay on their disk.

A connection whose database is more than that (attached files, temporary tables), or has an open transaction, is not
saved: the reason is named.
"""

from __future__ import annotations

import importlib
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
        return not files_of(obj)[0]
    except sqlite3.Error:  # it is closed, or another thread's
        return False


def has_file(obj: Any) -> bool:
    """Whether a connection's database is a file, which is there after a resume. Raises sqlite3.ProgrammingError."""
    return bool(files_of(obj)[0])


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
        if len(files_of(obj)) > 1:
            raise NotLookedInto("a database in memory with attached databases or temporary tables cannot be saved")
    except sqlite3.ProgrammingError:
        return None
    try:
        return bytes(obj.serialize())
    except sqlite3.OperationalError:  # nothing was ever written
        return b""


def files_of(obj: Any) -> list[str]:
    """The file of each database of the connection, the main one first; of those in memory an empty text."""
    return [row[2] for row in rows_of(obj, "pragma database_list")]


def _functions(obj: Any) -> tuple[list[Any], list[Any]]:
    names = "select distinct name, narg from pragma_function_list order by name, narg"
    return rows_of(obj, names), sorted(row[1] for row in rows_of(obj, "pragma collation_list"))


def _pragmas(obj: Any) -> dict[str, int]:
    found = {name: rows_of(obj, f"pragma {name}") for name in _PRAGMAS}
    return {name: rows[0][0] for name, rows in found.items() if rows}


def rows_of(obj: Any, text: str) -> list[Any]:
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
