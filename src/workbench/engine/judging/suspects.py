"""Finds workers that make trials fail. Law: pure; in doubt a worker stays in use.

A worker is suspect if three trials of different configuration died on it in the same way, no leg succeeded there in
between, and none died in that way on another worker. A worker stays in use whose slots a trial needs.
"""

from __future__ import annotations

from dataclasses import dataclass, field

#: The number of different trials that must have died in the same way.
ENOUGH = 3
#: Causes that say nothing about a worker.
_INNOCENT = frozenset(
    {"worker", "preempted", "engine", "stale_attempt", "store", "refused", "bad_metric", "missing_goal"}
)

#: An experiment's id and a trial's number.
Who = tuple[str, int]
#: The cause, and the error's type if there is one.
Way = tuple[str, str]


@dataclass(slots=True)
class Suspects:
    """The deaths on each worker since a leg last succeeded there."""

    _deaths: dict[str, dict[Way, set[Who]]] = field(default_factory=dict)

    def well(self, worker: str) -> None:
        """A leg succeeded on ``worker``."""
        self._deaths.pop(worker, None)

    def died(self, worker: str, who: Who, way: Way, *, is_needed: bool) -> str | None:
        """A leg of ``who`` died on ``worker``. Returns why to stop using it, or None.

        is_needed: without the worker's slots the trials of an experiment could not train.
        """
        if way[0] in _INNOCENT:
            return None
        dead = self._deaths.setdefault(worker, {}).setdefault(way, set())
        dead.add(who)
        elsewhere = any(way in ways for name, ways in self._deaths.items() if name != worker)
        if len(dead) < ENOUGH or elsewhere or is_needed:
            return None
        del self._deaths[worker]
        said = way[1] or way[0]
        return f"{len(dead)} trials of different configuration died there in the same way ({said}), and none elsewhere"
