"""Tables of a database that the set-up of a resumed leg empties or removes. Law: rows that earlier steps wrote stay.

``drop table`` and ``delete from`` empty a table, as ``"w"`` does a log. So a database is copied before the set-up
connects to it, and the rows that are missing when the set-up is done are inserted again, in ``trial.folder``. Elsewhere
other trials may write the same file. Rows that they have removed must not come back, and SQLite does not say who has
removed a row: such a database is left alone, and named as resumed inexactly.
"""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from workbench.trial.course.apart import Unseen
from workbench.trial.looking.databases import files_of, rows_of

#: Larger databases, in bytes, are data rather than logs, and a copy would take long.
_MOST = 1 << 26
#: A set-up waits this many seconds at most for a database that another process has locked.
_BUSY_S = 5.0
#: Pages that are copied at a time: after each of these the deadline is looked at.
_PAGES = 1 << 10
SHARED = (
    "the set-up empties tables of it, and rows that earlier steps wrote are lost: other trials may write this file, so "
    "nothing is put back; keep the file in trial.folder, or leave these rows there"
)
NOT_PUT = "the set-up empties tables of it, and rows that earlier steps wrote could not be put back ({})"
ROWS = "in {} the set-up has written other rows"
NOT_COPIED = "a copy of it could not be made before the set-up ({}): rows that the set-up has removed are lost"


class Tables:
    """The databases that one set-up connects to."""

    def __init__(self, copy_of: Callable[[str], Path | None], own: str, unseen: Unseen, begun_ns: int) -> None:
        """copy_of: where the copy of a file lies; None for a file that is not to be copied. own: the folder of the
        trial's files, where no other process writes. begun_ns: when the set-up began: what is made later is its own."""
        self._copy_of, self._unseen, self._begun_ns = copy_of, unseen, begun_ns
        self._given, self._own = own, ""
        self.copies: dict[str, Path] = {}
        self._connections: list[Any] = []
        self._is_ours = False
        #: Databases whose rows are lost, and why.
        self.lost: dict[str, str] = {}

    def connects(self, path: Any) -> None:
        """The set-up is about to connect to a database."""
        if self._is_ours or not isinstance(path, str | bytes | os.PathLike):
            return
        self._own = self._own or os.path.join(os.path.realpath(self._given), "")  # as long as it is where it was
        name = os.path.realpath(os.fsdecode(path))
        if name in self.copies or (copy := self._copy_of(name)) is None:
            return
        if not copy.exists():  # otherwise a killed process has left it, or the set-up has removed the file
            if not os.path.isfile(name):
                return
            stat = os.stat(name)
            if stat.st_ctime_ns >= self._begun_ns or not 0 < stat.st_size <= _MOST:
                return
            copy.parent.mkdir(parents=True, exist_ok=True)
            half = copy.with_suffix(".half")
            half.unlink(missing_ok=True)
            try:
                with self._within():
                    copy_database(name, half, sys.modules["sqlite3"].connect)
            except sys.modules["sqlite3"].Error as error:
                if "not a database" not in str(error):
                    self.lost[name] = NOT_COPIED.format(error)
                return
            os.replace(half, copy)
        self.copies[name] = copy

    def connected(self, connection: Any) -> None:
        """The set-up has connected."""
        if not self._is_ours:  # it does not know its file yet
            self._connections.append(connection)

    def put_back(self, goes_on: bool) -> None:
        """The set-up is done. goes_on: False if the trial begins again from its start."""
        connections, self._connections = self._connections, []
        if not goes_on or not (self.copies or self.lost):
            self.lost.clear()
            return
        error: type[Exception] = sys.modules["sqlite3"].Error
        for name, copy in self.copies.items():
            if not os.path.isfile(name):  # the set-up has removed it
                continue
            try:
                with self._within():
                    why = self._put_back(name, copy, connections)
            except error as problem:
                why = NOT_PUT.format(problem)
            if why:
                self.lost[name] = why

    def _put_back(self, name: str, copy: Path, connections: list[Any]) -> str:
        """Why rows of a database are lost; an empty text if none are."""
        with contextlib.ExitStack() as after:
            # Through the set-up's own connection, which may hold a lock, or have an open transaction.
            connection = next((one for one in reversed(connections) if _file_of(one) == name), None)
            if connection is None:
                connection = sys.modules["sqlite3"].connect(name, timeout=_BUSY_S)
                after.callback(connection.close)
            if not name.startswith(self._own):
                return SHARED if _insert_missing(copy, connection, writes=False) else ""
            lost = _insert_missing(copy, connection, writes=True)
        return NOT_PUT.format(ROWS.format(", ".join(lost))) if lost else ""

    @contextlib.contextmanager
    def _within(self) -> Iterator[None]:
        self._is_ours = True
        try:
            with self._unseen():
                yield
        finally:
            self._is_ours = False


def copy_database(name: str, to: Path | str, connect: Callable[..., Any]) -> None:
    """Copy a database as it was last committed, into a new file. connect: ``sqlite3.connect``.

    Raises sqlite3.Error, also if it takes too long: by itself a copy waits for a lock without an end.
    """
    latest = time.monotonic() + _BUSY_S

    def go_on(status: int, remaining: int, total: int) -> None:
        if time.monotonic() > latest:
            raise sys.modules["sqlite3"].OperationalError(
                f"the database could not be copied within {_BUSY_S:g} seconds"
            )

    with contextlib.closing(connect(name, timeout=1.0)) as source, contextlib.closing(connect(to)) as target:
        source.backup(target, pages=_PAGES, progress=go_on)


def _file_of(connection: Any) -> str:
    """The path of the connection's database; an empty text if it has none, is closed, or is another thread's."""
    try:
        return os.path.realpath(file) if (file := files_of(connection)[0]) else ""
    except sys.modules["sqlite3"].Error:
        return ""


def _insert_missing(saved: Path, connection: Any, *, writes: bool) -> list[str]:
    """Insert the rows of the database ``saved`` that tables of the connection's database lack.

    A table with as many rows as before stays as it is. One that has a row which it did not have before is not that
    table emptied: it stays as well, and its name is returned. writes: False only finds tables with fewer rows.
    Raises sqlite3.Error; all tables are then as they were.
    """
    tables = "select name, sql from sqlite_master where type = 'table' and name not like 'sqlite\\_%' escape '\\'"
    with contextlib.closing(sys.modules["sqlite3"].connect(saved)) as source, _whole(connection, writes):
        there = dict(rows_of(connection, tables))
        less = {
            name: sql
            for name, sql in rows_of(source, tables)
            if name not in there or _count(connection, name) < _count(source, name)
        }
        if not less or not writes:
            return list(less)
        if rows_of(connection, "select 1 from sqlite_master where type = 'trigger' or sql like 'create virtual%'"):
            return list(less)  # these would write into other tables
        return [name for name, sql in less.items() if not _fill(source, connection, name, sql, there.get(name))]


def _fill(source: Any, target: Any, name: str, sql: str, there: str | None) -> bool:
    """Insert the rows that a table lacks. there: the SQL that made it; None if it is not there. False if it cannot."""
    if sql.lower().startswith("create virtual") or there not in (None, sql):
        return False
    text = "'" + name.replace("'", "''") + "'"
    if there is None:
        made = f"select sql from sqlite_master where tbl_name = {text} and type = 'index' and sql is not null"
        for one in [sql, *(index for (index,) in rows_of(source, made))]:
            _execute(target, one)
    names = [_quoted(column) for (column,) in rows_of(target, f"select name from pragma_table_info({text})")]
    # A column's type, or a name with brackets, would have a connection convert the values: expressions have neither.
    query = f"select {', '.join(f'+{one} as c' for one in names)} from {_quoted(name)}"
    rest = Counter(rows_of(target, query))
    missing = []
    for row in rows_of(source, query):
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
    found: int = rows_of(connection, f"select count(*) from {_quoted(name)}")[0][0]
    return found


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
