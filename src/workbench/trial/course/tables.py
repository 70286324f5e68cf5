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
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from workbench.trial.course.apart import Unseen
from workbench.trial.looking import databases

#: Larger databases, in bytes, are data rather than logs, and a copy would take long.
_MOST = 1 << 26
#: A set-up waits so long for a database that another process has locked.
_BUSY_S = 5.0
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
        self._own = os.path.join(os.path.realpath(own), "")
        self.copies: dict[str, Path] = {}
        self._connections: list[Any] = []
        self._is_ours = False
        #: Databases whose rows are lost, and why.
        self.lost: dict[str, str] = {}

    def connects(self, path: Any) -> None:
        """The set-up is about to connect to a database."""
        if self._is_ours or not isinstance(path, str | bytes | os.PathLike):
            return
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
                    _copy(name, half)
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
                return SHARED if databases.put_back(copy, connection, writes=False) else ""
            lost = databases.put_back(copy, connection, writes=True)
        return NOT_PUT.format(ROWS.format(", ".join(lost))) if lost else ""

    @contextlib.contextmanager
    def _within(self) -> Iterator[None]:
        self._is_ours = True
        try:
            with self._unseen():
                yield
        finally:
            self._is_ours = False


def _copy(name: str, to: Path) -> None:
    connect = sys.modules["sqlite3"].connect
    with contextlib.closing(connect(name, timeout=1.0)) as source, contextlib.closing(connect(to)) as target:
        databases.copy(source, target, _BUSY_S)


def _file_of(connection: Any) -> str:
    """The connection's file; an empty text if it is closed, or another thread's."""
    try:
        return databases.file_of(connection)
    except sys.modules["sqlite3"].Error:
        return ""
