"""What trials used over time, in the database of a series. Law: apart from all that was reported; bounded in size.

Training code reports points; a worker takes samples. They have a table of their own, so that whatever reads points
(searches, comparisons, replays, mirrors) never meets a sample. The table is made with the first sample: a store without
any stays as it was.

A sample is the value of one measure over a span of time. Spans of old samples are joined: they get at most
1 / :data:`PARTS` as long as they are old, so their number grows with the logarithm of a trial's age.
"""

from __future__ import annotations

import math
import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

#: measure, since and until when (seconds since 1970), value
Sample = tuple[str, float, float, float]
#: since and until when, value
Span = tuple[float, float, float]
#: What stands for a longer time: the mean over it, or the highest value.
Joins = Literal["mean", "peak"]

#: A span that joins others is at most so short a part of its age: under 1,500 spans of 5 s and more cover a week.
PARTS = 100
#: Old samples of a trial are joined after so many new ones.
OFTEN = 1000


@dataclass(frozen=True, slots=True)
class Measure:
    """One thing that is measured. unit: in which users see it, after a multiplication by ``scale``."""

    title: str
    joins: Joins
    unit: str
    scale: float = 1.0


#: By name, in the order in which they are shown. Stored are cores, bytes, shares of 1, and watts.
MEASURES: Mapping[str, Measure] = {
    "cpu": Measure("processor", "mean", "cores"),
    "memory": Measure("memory", "peak", "GB", 1e-9),
    "gpu": Measure("GPU", "mean", "%", 100.0),
    "gpu_memory": Measure("GPU memory", "peak", "GB", 1e-9),
    "gpu_power": Measure("GPU power", "mean", "W"),
    "waits": Measure("waits for data", "mean", "%", 100.0),
}

_TABLE = (
    "CREATE TABLE IF NOT EXISTS samples (trial INTEGER NOT NULL, measure TEXT NOT NULL, since REAL NOT NULL, "
    "until REAL NOT NULL, value REAL NOT NULL, PRIMARY KEY (measure, trial, since)) WITHOUT ROWID"
)
_PUT = "INSERT OR REPLACE INTO samples (measure, trial, since, until, value) VALUES (?, ?, ?, ?, ?)"


def write_samples(connection: sqlite3.Connection, rows: Sequence[tuple[int, Sample]], new: dict[int, int]) -> None:
    """Write samples, each with its trial, inside a transaction.

    new: by trial, how many were written since its old ones were joined. It is updated.
    """
    connection.execute(_TABLE)
    # One that is none would be refused by SQLite at this flush, and at each after it.
    sound = [(trial, one) for trial, one in rows if one[0] in MEASURES and all(map(math.isfinite, one[1:]))]
    connection.executemany(_PUT, [(name, trial, *span) for trial, (name, *span) in sound])
    for trial, _ in sound:
        new[trial] = new.get(trial, 0) + 1
    for trial in [trial for trial, count in new.items() if count >= OFTEN]:
        for name, measure in MEASURES.items():
            _join(connection, (name, trial), measure.joins)
        new[trial] = 0


def _join(connection: sqlite3.Connection, key: tuple[str, int], joins: Joins) -> None:
    """Join old samples of one measure of one trial."""
    where = "FROM samples WHERE measure = ? AND trial = ?"
    before = connection.execute(f"SELECT since, until, value {where} ORDER BY since", key).fetchall()
    connection.execute(f"DELETE {where}", key)
    connection.executemany(_PUT, [(*key, *span) for span in joined(before, joins)])


def joined(spans: Iterable[Span], joins: Joins) -> list[Span]:
    """``spans``, rising in time, with old ones joined."""
    own = list(spans)
    found: list[Span] = []
    for begin, end, value in own:
        since, until, before = found[-1] if found else (begin, begin, value)
        if not found or end - since > (own[-1][1] - end) / PARTS:
            found.append((begin, end, value))
            continue
        here, there = until - since, end - begin
        mean = (before * here + value * there) / max(here + there, 1e-9)
        found[-1] = (since, end, max(before, value) if joins == "peak" else mean)
    return found
