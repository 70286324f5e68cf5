"""Reading a database that another person may have made. Law: it runs no query of the file's own, and each of ours ends.

A database can hold more than rows: a view computes them, a trigger runs when one is written, and pages that refer to
each other in a circle have no end. Workbench writes plain tables and their indexes only.
"""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

from workbench.errors import Broken

#: After so many steps of SQLite's machine, the steps of a query are counted: 10 to 50 ms of work.
_TICK = 1_000_000
#: The most steps of a query: this many, and as many for each byte of the file. Queries here take at most 4 a byte.
_STEPS, _STEPS_A_BYTE = 20 * _TICK, 20
#: How SQLite writes down what it has created, if that is a plain table or an index.
_PLAIN = ("CREATE TABLE *", "CREATE INDEX *", "CREATE UNIQUE INDEX *")
#: Rows in which a column is computed from others, or hidden.
_COMPUTED = (
    "SELECT tables.name FROM sqlite_master AS tables, pragma_table_xinfo(tables.name) AS columns "
    "WHERE tables.type = 'table' AND columns.hidden <> 0 LIMIT 1"
)


class Forged(Broken):
    """A database that holds more than plain tables. ``what`` says what."""

    def __init__(self, path: Path, what: str) -> None:
        super().__init__(
            f"{path}: {what}, and nothing in it is read. Delete the experiment (workbench delete), or restore the file "
            "from a copy."
        )
        self.what = what


class _Steps:
    """Counts the steps of a query. It is not the connection itself, which would then refer to itself."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.ticks = 0

    def are_too_many(self) -> bool:
        self.ticks += 1
        if self.ticks * _TICK <= _STEPS:
            return False
        try:
            # The file may have grown since the connection was opened.
            size = sum(file.stat().st_size for file in (self.path, Path(f"{self.path}-wal")) if file.exists())
        except OSError:
            size = 0
        return self.ticks * _TICK > _STEPS + _STEPS_A_BYTE * size


class Reader(sqlite3.Connection):
    """A connection on which a query that takes more steps than the file has content for is interrupted."""

    _steps: _Steps | None = None

    def count_steps(self, path: Path) -> None:
        """From now on, interrupt queries of the database at ``path`` that take too many steps."""
        self._steps = _Steps(path)
        self.set_progress_handler(self._steps.are_too_many, _TICK)

    def execute(self, sql: str, parameters: Any = (), /) -> sqlite3.Cursor:
        """The same as of any connection; its steps are counted from 0."""
        if self._steps is not None:
            self._steps.ticks = 0
        return super().execute(sql, parameters)


def found_in(connection: sqlite3.Connection) -> str | None:
    """What the database holds that Workbench does not write and that would run code of its author; None if nothing."""
    plain = " OR ".join("sql GLOB ?" for _ in _PLAIN)
    # The text is what SQLite executes when it opens the file; the column ``type`` may say something else.
    row = connection.execute(f"SELECT name FROM sqlite_master WHERE NOT ({plain}) LIMIT 1", _PLAIN).fetchone()
    if row is None:
        row = connection.execute(_COMPUTED).fetchone()
    return None if row is None else f"{str(row[0])[:80]!r} in it is not a plain table: Workbench did not write it so"
