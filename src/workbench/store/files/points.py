"""Writing points into a series. Law: one invalid row does not prevent the others."""

from __future__ import annotations

import operator
import sqlite3
from collections.abc import Iterable, Sequence
from typing import Any

# An equal value keeps its number, so that a repeated report is not news for viewers.
_PUT_POINT = """
INSERT INTO points (id, name, trial, step, idx, value, time) VALUES (?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (name, trial, step, idx) DO UPDATE SET id = excluded.id, value = excluded.value, time = excluded.time
WHERE value IS NOT excluded.value
"""
_NO_POINT = (
    *(TypeError, ValueError, IndexError, OverflowError),
    *(sqlite3.IntegrityError, sqlite3.InterfaceError, sqlite3.ProgrammingError),
)


def write_points(
    connection: sqlite3.Connection,
    points: list[Sequence[Any]],
    ids: dict[str, int],
    change: int,
    refused: list[tuple[Any, str]],
) -> int:
    """Write ``points`` inside a transaction, numbered from ``change`` on; return the newest number.

    ids: numbers of the metrics' names, to which new ones are added. refused: gets invalid rows, and why.
    """
    try:
        _put_points(connection, points, ids, change)
    except _NO_POINT:
        # One invalid row must not block the others, now and at every later flush.
        points, more = _sifted(points)
        refused += more
        _put_points(connection, points, ids, change)
    return change + len(points)


def _put_points(
    connection: sqlite3.Connection, points: Iterable[Sequence[Any]], ids: dict[str, int], change: int
) -> None:
    for name in dict.fromkeys([row[1] for row in points]):
        if name not in ids:
            connection.execute("INSERT INTO names VALUES (?, ?)", (len(ids) + 1, name))
            ids[name] = len(ids) + 1
    numbered = enumerate(points, change + 1)
    connection.executemany(
        _PUT_POINT, [(n, ids[name], t, s, i, float(value), at) for n, (t, name, s, i, value, at) in numbered]
    )


def _sifted(points: list[Sequence[Any]]) -> tuple[list[Sequence[Any]], list[tuple[Any, str]]]:
    """The valid rows as plain values, and the invalid ones, each with the reason."""
    sound: list[Sequence[Any]] = []
    refused = []
    for row in points:
        try:
            trial, name, step, index, value, time = row
            if not isinstance(name, str):
                raise TypeError(f"a metric's name is text, and this is {name!r}")
            name.encode()
            numbers = [operator.index(number) for number in (trial, step, index)]
            if any(abs(number) >= 1 << 63 for number in numbers):
                raise ValueError("a number is too large")
            sound.append((numbers[0], name, numbers[1], numbers[2], float(value), float(time)))
        except (TypeError, ValueError, OverflowError) as error:
            refused.append((row, str(error)))
    return sound, refused
