"""Fast access to many points, for drawing. Law: it reads; SQLite aggregates, and rows are streamed, never listed.

A thousand curves of a thousand points are a million rows: as Python objects they would take a second and 200 MB.
"""

from __future__ import annotations

import itertools
import math
import sqlite3
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Literal

from workbench.records import Goal
from workbench.store.files import database
from workbench.store.files.database import telling_sqlite

#: The maximum number of rows in memory as Python objects.
BATCH = 4096
#: The order of a trial's points: those that were logged within a step come before its report.
_IN_TIME = "step, idx <= 0, idx"


class Glance:
    """A reader's own connection to one experiment's points. Close it after use; one thread uses it at a time.

    Raises StoreError and the like if the series is damaged.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        with telling_sqlite(path):
            self._opened = database.open_reader(path)

    def __enter__(self) -> Glance:
        return self

    def __exit__(self, *_: object) -> None:
        self._opened.close()

    def newest(self) -> int:
        """The number of the newest point; 0 if there is none. Call it before reading, so that no point is missed."""
        return int(next(self._rows("SELECT max(id) FROM points"), (0,))[0] or 0)

    def number(self, metric: str) -> int | None:
        """The number of ``metric`` in the series, or None if it was never reported."""
        found = next(self._rows("SELECT id FROM names WHERE name = ?", (metric,)), None)
        return None if found is None else int(found[0])

    def reported(self, trials: Iterable[int]) -> list[str]:
        """The metrics that one of ``trials`` has reported, in the order of the experiment's first reports."""
        query = (
            "SELECT id, name FROM names WHERE EXISTS "
            "(SELECT 1 FROM points WHERE points.name = names.id AND points.trial = ?)"
        )
        found = itertools.chain.from_iterable(self._rows(query, (trial,)) for trial in set(trials))
        return [name for _, name in sorted(set(found))]

    def changed(self, metric: str, after: int) -> set[int]:
        """Trials with a point of ``metric`` that is newer than the number ``after``."""
        query = "SELECT DISTINCT trial FROM points WHERE id > ? AND name = ?"
        return {trial for (trial,) in self._rows(query, (after, self.number(metric)))}

    def points(
        self, metric: str, x: Literal["step", "time"], trials: Iterable[int] | None = None
    ) -> Iterator[tuple[int, float, float | None]]:
        """(trial, x, value) by trial and step, with a step's report last. x: steps, or seconds since 1970. None means
        nan."""
        query = f"SELECT trial, {'time' if x == 'time' else 'step'}, value FROM points WHERE name = ?"
        number = self.number(metric)
        if trials is None:
            # Sorting a million takes two seconds: not where the order of the table is the same for all points.
            is_logged = next(self._rows("SELECT 1 FROM points WHERE name = ? AND idx > 0 LIMIT 1", (number,)), None)
            return self._rows(f"{query} ORDER BY trial, {'step, idx' if is_logged is None else _IN_TIME}", (number,))
        query += f" AND trial = ? ORDER BY {_IN_TIME}"
        return itertools.chain.from_iterable(self._rows(query, (number, trial)) for trial in sorted(set(trials)))

    def sample(self, metric: str, apart: int) -> Iterator[tuple[int, float, float | None]]:
        """(trial, step, value) of steps 1, 1 + ``apart``, …, by trial and step: fast even for many points."""
        query = "SELECT trial, step, value FROM points WHERE name = ? AND step % ? = 1"
        return self._rows(f"{query} ORDER BY trial, {_IN_TIME}", (self.number(metric), apart))

    def touched(self, after: int) -> set[int]:
        """Trials with a point of any metric that is newer than the number ``after``."""
        return {trial for (trial,) in self._rows("SELECT DISTINCT trial FROM points WHERE id > ?", (after,))}

    def summed(self, metric: str, trial: int) -> tuple[float, float | None, float | None] | None:
        """A trial's last value of ``metric``, and its smallest and largest finite one; None if it has no value.

        Points that were logged within a step come before the report of the step.
        """
        known = (self.number(metric), trial)
        query = "SELECT value FROM points WHERE name = ? AND trial = ? ORDER BY step DESC, idx > 0, idx DESC LIMIT 1"
        last = next(self._rows(query, known), None)
        if last is None:
            return None
        query = "SELECT min(value), max(value) FROM points WHERE name = ? AND trial = ? AND abs(value) < 9e999"
        low, high = next(self._rows(query, known))
        return math.nan if last[0] is None else last[0], low, high

    def best(self, goal: Goal, trial: int) -> tuple[int, float] | None:
        """The first step at which a trial reported its best finite value of the goal, and that value."""
        query = (
            "SELECT step, value FROM points WHERE name = ? AND trial = ? AND idx <= 0 AND abs(value) < 9e999 "
            f"ORDER BY value {'DESC' if goal.mode == 'max' else 'ASC'}, step LIMIT 1"
        )
        return next(self._rows(query, (self.number(goal.metric), trial)), None)

    def at(self, metric: str, trial: int, step: int) -> float | None:
        """A trial's value of ``metric`` at a step, or its last one before; None if it has none."""
        query = (
            "SELECT value FROM points WHERE name = ? AND trial = ? AND step <= ? "
            "ORDER BY step DESC, idx > 0, idx DESC LIMIT 1"
        )
        found = next(self._rows(query, (self.number(metric), trial, step)), None)
        return None if found is None else math.nan if found[0] is None else float(found[0])

    def best_so_far(self, goal: Goal, parts: int) -> list[float]:
        """The best value of the goal over time: the best until the end of each of ``parts`` equal spans of time.

        Spans before the first finite value are left out.
        """
        ends = [next(self._rows(f"SELECT time FROM points ORDER BY id {way} LIMIT 1"), None) for way in ("", "DESC")]
        if ends[0] is None or ends[1] is None:
            return []
        first, last = float(ends[0][0] or 0), float(ends[1][0] or 0)
        span, best = max(last - first, 1e-9) / parts, "max" if goal.mode == "max" else "min"
        query = (
            f"SELECT min(max(CAST((time - ?) / ? AS INTEGER), 0), ?) AS part, {best}(value) FROM points "
            "WHERE name = ? AND idx <= 0 AND abs(value) < 9e999 GROUP BY part ORDER BY part"
        )
        found: list[float] = []
        until = 0
        for part, value in self._rows(query, (first, span, parts - 1, self.number(goal.metric))):
            if found:
                found += [found[-1]] * (part - until)
            found.append(value if not found or goal.better(value, found[-1]) else found[-1])
            until = part + 1
        return found

    def samples(self, measure: str, trials: Iterable[int] | None = None) -> Iterator[tuple[int, float, float, float]]:
        """(trial, since, until, value) of what trials used, by trial and time."""
        query = "SELECT trial, since, until, value FROM samples WHERE measure = ?"
        if trials is None:
            return self._rows(f"{query} ORDER BY trial, since", (measure,))
        query += " AND trial = ? ORDER BY since"
        return itertools.chain.from_iterable(self._rows(query, (measure, trial)) for trial in sorted(set(trials)))

    def sampled(self, measure: str) -> Iterator[tuple[int, float, float]]:
        """Of each trial whose use was sampled: its mean over the time, and the peak."""
        mean = "sum(value * (until - since)) / max(sum(until - since), 1e-9)"
        return self._rows(f"SELECT trial, {mean}, max(value) FROM samples WHERE measure = ? GROUP BY trial", (measure,))

    def has_samples(self, measure: str, trials: Iterable[int] | None = None) -> bool:
        """Whether the use of it was sampled of any trial, or of one of ``trials``."""
        query = "SELECT 1 FROM samples WHERE measure = ?"
        if trials is None:
            return next(self._rows(f"{query} LIMIT 1", (measure,)), None) is not None
        query += " AND trial = ? LIMIT 1"
        return any(next(self._rows(query, (measure, trial)), None) is not None for trial in trials)

    def started(self, trials: Iterable[int]) -> Iterator[tuple[int, str]]:
        """When each of these trials started, if it has."""
        query = "SELECT number, started FROM trials WHERE number = ? AND started IS NOT NULL"
        return itertools.chain.from_iterable(self._rows(query, (trial,)) for trial in trials)

    def _rows(self, query: str, values: Iterable[Any] = ()) -> Iterator[tuple[Any, ...]]:
        # No Python code between two rows: for half a million of them it took as long as SQLite itself.
        return itertools.chain.from_iterable(self._batches(query, tuple(values)))

    def _batches(self, query: str, values: tuple[Any, ...]) -> Iterator[list[tuple[Any, ...]]]:
        with telling_sqlite(self.path):
            try:
                if self._opened.state not in (None, database.state_of(self.path)):
                    self._opened.close()  # a writer has opened it since
                    self._opened = database.open_reader(self.path)
                rows = self._opened.connection.execute(query, values)
                while batch := rows.fetchmany(BATCH):
                    yield batch
            except sqlite3.OperationalError as error:
                # When the engine opens the experiment, it recreates the table and fills it from the journal.
                if "no such table" not in str(error):
                    raise
