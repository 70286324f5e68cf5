"""Which worker is the trouble, and not what trains on it. Law: pure; in doubt a worker stays in use.

Three trials of different configuration that die in the same way on one worker, with none coming to a good end there in
between and none dying so elsewhere: the machine has something. The last worker is never set aside.
"""

from __future__ import annotations

from dataclasses import dataclass, field

#: So many different trials must have died in the same way.
ENOUGH = 3
#: Ways to die that say nothing about a worker.
_INNOCENT = frozenset(
    {"worker", "preempted", "engine", "stale_attempt", "store", "refused", "bad_metric", "missing_goal"}
)

#: An experiment's id and a trial's number.
Who = tuple[str, int]
#: The cause, and the error's type where there is one.
Way = tuple[str, str]


@dataclass(slots=True)
class Suspects:
    """The deaths on each worker since something last came to a good end there."""

    _deaths: dict[str, dict[Way, set[Who]]] = field(default_factory=dict)

    def well(self, worker: str) -> None:
        """A leg came to a good end on ``worker``."""
        self._deaths.pop(worker, None)

    def died(self, worker: str, who: Who, way: Way, others: int) -> str | None:
        """A leg died on ``worker``, beside which there are ``others`` in use. Why it is set aside, or None."""
        if way[0] in _INNOCENT:
            return None
        dead = self._deaths.setdefault(worker, {}).setdefault(way, set())
        dead.add(who)
        elsewhere = any(way in ways for name, ways in self._deaths.items() if name != worker)
        if len(dead) < ENOUGH or elsewhere or not others:
            return None
        del self._deaths[worker]
        said = way[1] or way[0]
        return f"{len(dead)} trials of different configuration died there in the same way ({said}), and none elsewhere"
