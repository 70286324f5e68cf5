"""Thins curves to what pixels can show. Law: minima, maxima and both ends are never lost; short curves are sent as they
are.

Points stay in memory as arrays, so that a page with a thousand curves only causes those to be read that grew.
"""

from __future__ import annotations

import itertools
import json
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, Literal, TypeVar

import numpy as np

from workbench.store.files.samples import MEASURES
from workbench.store.lists import system
from workbench.store.lists.glance import Glance

Json = Any
Array = Any  # of NumPy
V = TypeVar("V")

#: Points in one answer, over all curves. Beyond that each curve gets fewer columns.
MOST_POINTS = 250_000
#: The approximate number of points of a draft: they are read in a tenth of a second.
DRAFT_POINTS = 60_000
#: The fewest columns of a curve, however many curves there are.
LEAST_COLUMNS = 8
#: Bytes of arrays that stay in memory, over all experiments.
KEPT_BYTES = 256 << 20
#: Bytes of answers that stay in memory.
ANSWERS_BYTES = 32 << 20


class Kept(Generic[V]):
    """A cache of the most recently used values, up to a sum of bytes. It may be used from several threads."""

    def __init__(self, most: int, size: Callable[[V], int]) -> None:
        self._most, self._size = most, size
        self._values: OrderedDict[Hashable, V] = OrderedDict()
        self._using = threading.Lock()

    def get(self, key: Hashable) -> V | None:
        """The value, or None if it is not in the cache."""
        with self._using:
            if key in self._values:
                self._values.move_to_end(key)
            return self._values.get(key)

    def put(self, key: Hashable, value: V) -> V:
        """Keep ``value``, and drop the least recently used ones."""
        with self._using:
            self._values[key] = value
            self._values.move_to_end(key)
            while len(self._values) > 1 and sum(map(self._size, self._values.values())) > self._most:
                self._values.popitem(last=False)
        return value


@dataclass(slots=True)
class Metric:
    """All curves of a metric, read up to a cursor: each trial's x, rising, and its values."""

    cursor: int = 0
    curves: dict[int, tuple[Array, Array]] = field(default_factory=dict)
    #: One thread reads at a time; the others wait and use its result.
    reading: threading.Lock = field(default_factory=threading.Lock)

    @property
    def bytes(self) -> int:
        """The memory that it uses."""
        return sum(2 * xs.nbytes for xs, _ in list(self.curves.values()))


_metrics: Kept[Metric] = Kept(KEPT_BYTES, lambda metric: metric.bytes)
_answers: Kept[bytes] = Kept(ANSWERS_BYTES, len)


def curves(
    path: Path,
    metric: str,
    trials: Sequence[int] | None = None,
    low: float | None = None,
    high: float | None = None,
    width: int = 800,
    x: Literal["step", "time"] = "step",
    draft: bool = False,
) -> bytes:
    """The answer as JSON: curves of ``metric`` in ``path``, thinned to about two points for each of ``width`` columns.

    trials: None for all. low, high: the visible part, in units of ``x``: steps, or seconds (``time``) since the trial's
    first point. One more point on each side is included, so that lines run to the edge. draft: if many points were not
    read yet, answer at once with every n-th step; the answer says so.
    """
    with Glance(path) as glance:
        # Another file of the same name is another series: a store may be removed and created again.
        state = path.stat()
        if draft and x == "step" and _metrics.get((path, state.st_ino, metric, x)) is None:
            apart = glance.newest() // DRAFT_POINTS
            if apart > 1:
                rows = itertools.chain.from_iterable(glance.sample(metric, apart))
                found = _split(np.fromiter(rows, float), x)
                return _json(
                    0, x, [(trial, *found[trial], len(found[trial][0])) for trial in sorted(found)], draft=True
                )
        read = _read(glance, (path, state.st_ino, metric, x), metric, x)
    cursor, found = read.cursor, read.curves
    key = (path, state.st_ino, metric, None if trials is None else tuple(trials), low, high, width, x, cursor)
    answer = _answers.get(key)
    if answer is None:
        wanted = sorted(found) if trials is None else [trial for trial in trials if trial in found]
        shown = thinned({trial: found[trial] for trial in wanted}, low, high, width)
        answer = _answers.put(key, _json(cursor, x, shown))
    return answer


def system_curves(
    path: Path,
    measure: str,
    trials: Sequence[int] | None = None,
    low: float | None = None,
    high: float | None = None,
    width: int = 800,
) -> bytes:
    """The same for a measure of what trials used; x: seconds since the trial's start."""
    with Glance(path) as glance:
        found = system.curves(glance, measure, trials)
    scale = MEASURES[measure].scale
    arrays = {trial: (np.asarray(xs), np.asarray(ys) * scale) for trial, (xs, ys) in sorted(found.items())}
    return _json(0, "time", thinned(arrays, low, high, width))


def _read(glance: Glance, key: Hashable, metric: str, x: Literal["step", "time"]) -> Metric:
    """The metric's curves up to now: all of them the first time, then only those that grew."""
    kept = _metrics.get(key) or _metrics.put(key, Metric())
    with kept.reading:
        newest = glance.newest()
        if newest > kept.cursor:
            grown = None if kept.cursor == 0 else glance.changed(metric, kept.cursor)
            # A new dictionary: threads that still draw from the old one are not disturbed.
            rows = itertools.chain.from_iterable(glance.points(metric, x, grown))
            kept.curves = kept.curves | _split(np.fromiter(rows, float), x)
            kept.cursor = newest
        _metrics.put(key, kept)  # it grew: others may have to be dropped
        return Metric(kept.cursor, kept.curves)


def _split(flat: Array, x: str) -> dict[int, tuple[Array, Array]]:
    """Each trial's x and values from rows of (trial, x, value)."""
    trial, xs, ys = (np.ascontiguousarray(flat[column::3]) for column in range(3))
    starts = np.flatnonzero(np.diff(trial, prepend=-1.0)).tolist()
    found = {}
    for start, end in itertools.pairwise([*starts, len(trial)]):
        mine_x, mine_y = xs[start:end], ys[start:end]
        if x == "time":
            order = np.argsort(mine_x, kind="stable")
            mine_x, mine_y = mine_x[order] - mine_x[order[0]], mine_y[order]
        found[int(trial[start])] = (mine_x, mine_y)
    return found


def thinned(
    curves: dict[int, tuple[Array, Array]], low: float | None, high: float | None, width: int
) -> list[tuple[int, Array, Array, int]]:
    """(trial, x, y, points in view) for each curve; x rises in each. Curves with more than two points for each column
    are thinned to the minimum and maximum of each column, and both ends."""
    views = []
    for trial, (xs, ys) in curves.items():
        first = 0 if low is None else max(int(np.searchsorted(xs, low, "left")) - 1, 0)
        last = len(xs) if high is None else min(int(np.searchsorted(xs, high, "right")) + 1, len(xs))
        if first < last:
            views.append((trial, xs[first:last], ys[first:last]))
    columns = _columns([len(xs) for _, xs, _ in views], width)
    from_x = min((float(xs[0]) for _, xs, _ in views), default=0.0) if low is None else low
    to_x = max((float(xs[-1]) for _, xs, _ in views), default=1.0) if high is None else high
    scale = columns / max(to_x - from_x, 1e-12)
    found = []
    for trial, xs, ys in views:
        kept = slice(None) if len(xs) <= 2 * columns else _extremes(np.floor((xs - from_x) * scale), ys)
        found.append((trial, xs[kept], ys[kept], len(xs)))
    return found


def _columns(sizes: list[int], width: int) -> int:
    """The number of columns that keeps the answer within its limits: at most ``width``."""
    columns = width
    while columns > LEAST_COLUMNS and sum(min(size, 2 * columns) for size in sizes) > MOST_POINTS:
        columns = max(columns * 4 // 5, LEAST_COLUMNS)
    return columns


def _extremes(column: Array, ys: Array) -> Array:
    """The places of each column's minimum and maximum, and of both ends; nan counts only if a column has nothing else.

    ``column``: the column of each point, never falling.
    """
    starts = np.flatnonzero(np.diff(column, prepend=-np.inf))
    lengths = np.diff(starts, append=len(column))
    run = np.repeat(np.arange(len(starts)), lengths)
    keep = np.zeros(len(column), bool)
    keep[[0, -1]] = True
    for extreme in (np.fmin, np.fmax):
        # The first place of each column with its extreme value; a column of only nan keeps its first.
        there = np.flatnonzero(ys == extreme.reduceat(ys, starts)[run])
        keep[there[np.diff(run[there], prepend=-1) > 0]] = True
    nothing = np.logical_and.reduceat(np.isnan(ys), starts)
    keep[starts[nothing]] = True
    return np.flatnonzero(keep)


def _json(cursor: int, x: str, shown: list[tuple[int, Array, Array, int]], draft: bool = False) -> bytes:
    found = [
        {"trial": trial, "x": _whole(xs), "y": _finite(ys), "thinned": draft or len(xs) < points, "points": points}
        for trial, xs, ys, points in shown
    ]
    return json.dumps({"cursor": cursor, "x": x, "draft": draft, "curves": found}, separators=(",", ":")).encode()


def _whole(xs: Array) -> Json:
    """Steps as integers, which are half as long in JSON; seconds rounded to milliseconds."""
    whole = xs.astype(np.int64)
    return (whole if np.array_equal(whole, xs) else np.round(xs, 3)).tolist()


def _finite(ys: Array) -> list[Json]:
    plain: list[Json] = ys.tolist()
    for place in np.flatnonzero(~np.isfinite(ys)).tolist():
        plain[place] = "nan" if plain[place] != plain[place] else "inf" if plain[place] > 0 else "-inf"
    return plain
