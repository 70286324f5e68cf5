"""What a series was given and has not flushed yet. Law: it is written whole or given back whole, the older first."""

from __future__ import annotations

import json
import sqlite3
import threading
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from workbench.records import Json
from workbench.store.files import tables
from workbench.store.files.points import write_points
from workbench.store.files.samples import Sample, write_samples

_PUT_META = """
INSERT INTO meta VALUES (?, ?, ?) ON CONFLICT (key) DO UPDATE SET value = excluded.value, change = excluded.change
WHERE value IS NOT excluded.value
"""


class Taken(NamedTuple):
    """All that waited at one moment. rows: fields of trials and legs, by table and key. samples: each with its
    trial."""

    points: list[Sequence[Any]]
    rows: dict[tuple[str, tuple[int, ...]], dict[str, Any]]
    meta: dict[str, Json]
    samples: list[tuple[int, Sample]]


class Unwritten:
    """Takes what any thread brings, until a flush takes it.

    Each method that adds says whether nothing waited before.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting = Taken([], {}, {}, [])

    @property
    def is_empty(self) -> bool:
        """Whether nothing waits."""
        with self._lock:
            return self._is_empty()

    def _is_empty(self) -> bool:
        return not any(self._waiting)

    def add_points(self, rows: Iterable[Sequence[Any]]) -> bool:
        """Rows of points."""
        rows = list(rows)
        with self._lock:
            is_first = self._is_empty()
            self._waiting.points.extend(rows)
        return is_first

    def add_samples(self, trial: int, samples: Iterable[Sample]) -> bool:
        """What a trial was seen to use."""
        with self._lock:
            is_first = self._is_empty()
            self._waiting.samples.extend((trial, sample) for sample in samples)
        return is_first

    def put_row(self, table: str, key: tuple[int, ...], fields: dict[str, Any]) -> bool:
        """Fields of a trial or a leg; those that wait and are not named stay."""
        with self._lock:
            is_first = self._is_empty()
            self._waiting.rows.setdefault((table, key), {}).update(fields)
        return is_first

    def put_meta(self, key: str, value: Json) -> bool:
        """One fact about the experiment."""
        with self._lock:
            is_first = self._is_empty()
            self._waiting.meta[key] = value
        return is_first

    def take(self) -> Taken | None:
        """All that waits, which waits no more; None where nothing does."""
        with self._lock:
            if self._is_empty():
                return None
            taken, self._waiting = self._waiting, Taken([], {}, {}, [])
        return taken

    def give_back(self, taken: Taken) -> None:
        """Have what could not be written wait again, before all that came meanwhile."""
        with self._lock:
            later = self._waiting
            rows = taken.rows
            for key, fields in later.rows.items():
                rows.setdefault(key, {}).update(fields)
            points, samples = taken.points + later.points, taken.samples + later.samples
            self._waiting = Taken(points, rows, taken.meta | later.meta, samples)


def write(
    connection: sqlite3.Connection,
    taken: Taken,
    ids: dict[str, int],
    change: int,
    refused: list[tuple[Any, str]],
    sampled: dict[int, int],
) -> int:
    """Write what was taken, within a transaction; the newest number of the counter, which was ``change`` before.

    ids: numbers of the metrics' names; new ones are added. refused: points that are none are added, and why. sampled:
    see :func:`write_samples`.
    """
    if taken.points:
        change = write_points(connection, taken.points, ids, change, refused)
    for (table, key), fields in taken.rows.items():
        change += 1
        tables.write_row(connection, table, key, fields, change)
    for name, value in taken.meta.items():
        change += 1
        connection.execute(_PUT_META, (name, json.dumps(value, default=str), change))
    if taken.samples:
        write_samples(connection, taken.samples, sampled)
    return change
