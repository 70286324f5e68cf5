"""On how many slots the steps of a trial were trained. Law: pure; recorded legs in, counts out.

Results on another number of slots agree up to rounding only, so what trains a trial again needs the same numbers at the
same steps.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias

#: The most trials that train in one slot at the same time.
MOST_PER_SLOT = 16
#: Steps from which a trial was trained on so many slots: the first is where it began.
Sizes: TypeAlias = tuple[tuple[int, int], ...]


def slots_of_row(row: Mapping[str, Any]) -> int:
    """On how many slots a leg trained, by its row of the series."""
    return int(row.get("slots") or 1 + len(row.get("mates") or ()))


def trained(legs: Iterable[Mapping[str, Any]]) -> Sizes:
    """On how many slots the steps of a trial were trained, by its legs' rows: those steps that count in the end.

    A leg that was lost trains from its checkpoint again, so what it had trained beyond that does not count.
    """
    found: list[tuple[int, int]] = []
    for row in legs:
        start, step = int(row.get("start") or 0), row.get("step")
        has_begun = row.get("began") is not None or "slots" in row  # the second, if the series was restored
        if not has_begun or (step is not None and step <= start):
            continue
        while found and found[-1][0] >= start:
            found.pop()
        if not found or found[-1][1] != slots_of_row(row):
            found.append((start, slots_of_row(row)))
    return tuple(found)


def at(sizes: Sizes, step: int) -> int:
    """On how many slots the step after ``step`` was trained."""
    return next((slots for start, slots in reversed(sizes) if start <= step), sizes[0][1])


def until(sizes: Sizes, step: int, last: int) -> int:
    """Up to which step, ``last`` at most, a leg that starts at ``step`` trains on one number of slots."""
    return min((start for start, _ in sizes[1:] if step < start < last), default=last)
