"""Messages of legs that no engine has on disk yet. Law: bounded; a leg with missing messages is not adopted.

A worker keeps its legs' messages until the engine reports that they are on disk. If the engine dies, the next one gets
them again. Repeated messages do no harm: points have keys, and a level reported twice is one fact.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from workbench.messages import Begun, FromLeg, Left, Order, Points, Story

#: The most points of one leg that are kept, about 20 MB. An engine writes them to disk within seconds.
MOST_POINTS = 100_000


@dataclass(slots=True)
class _Said:
    order: Order
    #: Its first message: sent to each engine, no matter how old.
    begun: Begun | None = None
    #: The other messages by number, oldest first.
    messages: deque[tuple[int, FromLeg]] = field(default_factory=deque)
    points: int = 0
    #: The number of the newest message that was dropped for lack of space; 0: none is missing.
    gap: int = 0
    is_over: bool = False


class Unheard:
    """The messages of one worker's legs, by leg."""

    def __init__(self, most_points: int = MOST_POINTS) -> None:
        self._most = most_points
        self._legs: dict[str, _Said] = {}

    def begin(self, order: Order) -> None:
        """A leg was placed here."""
        self._legs[order.key] = _Said(order)

    def take(self, number: int, key: str, message: FromLeg) -> None:
        """Keep a message of the leg of ``key``; numbers rise."""
        said = self._legs.get(key)
        if said is None:
            return
        if isinstance(message, Begun):
            said.begun = message
            return
        said.is_over = said.is_over or isinstance(message, Left)
        if isinstance(message, Points):
            said.points += len(message.rows)
        if said.gap or said.points > self._most:
            said.gap, said.points = number, 0
            said.messages.clear()
        else:
            said.messages.append((number, message))

    def heard(self, number: int) -> None:
        """An engine has all messages up to ``number`` on disk."""
        for key, said in list(self._legs.items()):
            while said.messages and said.messages[0][0] <= number:
                _, message = said.messages.popleft()
                if isinstance(message, Points):
                    said.points -= len(message.rows)
            if said.gap <= number:
                said.gap = 0
            if said.is_over and not said.messages and not said.gap:
                del self._legs[key]

    def is_whole(self, key: str) -> bool:
        """Whether a new engine can get all messages of this leg."""
        said = self._legs.get(key)
        return said is not None and not said.gap

    def told(self) -> list[Story]:
        """The legs whose messages are complete, for a new engine."""
        return [_story(key, said) for key, said in self._legs.items() if not said.gap]


def _story(key: str, said: _Said) -> Story:
    leg, first = said.order.leg, () if said.begun is None else (said.begun,)
    return Story(
        key=key,
        experiment=leg.experiment,
        trial=leg.trial,
        attempt=leg.attempt,
        start=leg.start,
        until=leg.until,
        is_check=leg.check is not None,
        is_over=said.is_over,
        messages=(*first, *(message for _, message in said.messages)),
        rank=leg.rank.index if leg.rank else 0,
        ranks=leg.rank.size if leg.rank else 1,
        parts=leg.parts,
    )
