"""Tables of a database that the set-up of a resumed leg empties or removes. Law: rows that earlier steps wrote stay.

``drop table`` and ``delete from`` empty a table, as ``"w"`` does a log. So a database is copied before the set-up
connects to it, and put back when that is done, if the copy holds all rows that are there then.
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
_BUSY_S = 10.0


class Tables:
    """The databases that one set-up connects to."""

    def __init__(self, copy_of: Callable[[str], Path | None], unseen: Unseen, begun_ns: int) -> None:
        """copy_of: where the copy of a file lies; None for a file that is not to be copied. begun_ns: when the set-up
        began: what is made later is its own."""
        self._copy_of, self._unseen, self._begun_ns = copy_of, unseen, begun_ns
        self._copies: dict[str, Path] = {}
        self._connections: list[Any] = []
        self._is_ours = False

    def connects(self, path: Any) -> None:
        """The set-up is about to connect to a database."""
        if self._is_ours or not isinstance(path, str | bytes | os.PathLike):
            return
        name = os.path.realpath(os.fsdecode(path))
        if name in self._copies or not os.path.isfile(name) or (copy := self._copy_of(name)) is None:
            return
        if not copy.exists():  # otherwise a killed process has left it
            stat = os.stat(name)
            if stat.st_ctime_ns >= self._begun_ns or not 0 < stat.st_size <= _MOST:
                return
            copy.parent.mkdir(parents=True, exist_ok=True)
            half = copy.with_suffix(".half")
            half.unlink(missing_ok=True)
            with self._within():
                databases.copy(name, half)
            os.replace(half, copy)
        self._copies[name] = copy

    def connected(self, connection: Any) -> None:
        """The set-up has connected."""
        if not self._is_ours:
            self._connections.append(connection)

    def put_back(self, goes_on: bool) -> None:
        """The set-up is done. goes_on: False if the trial begins again from its start."""
        connections, self._connections = self._connections, []
        copies, self._copies = self._copies, {}
        if not copies or not goes_on:
            return
        error: type[Exception] = sys.modules["sqlite3"].Error
        for connection in connections:
            with contextlib.suppress(error):  # it is closed, or another thread's
                if connection.in_transaction and databases.file_of(connection) in copies:
                    connection.commit()  # otherwise a later commit would remove the rows
        with self._within():
            for name, copy in copies.items():
                with contextlib.suppress(error):
                    databases.put_back(copy, name, _BUSY_S)

    @contextlib.contextmanager
    def _within(self) -> Iterator[None]:
        self._is_ours = True
        try:
            with self._unseen():
                yield
        finally:
            self._is_ours = False
