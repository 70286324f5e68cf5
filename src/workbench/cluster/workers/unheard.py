"""What legs have said and no engine has on the disk yet. Law: bounded; a leg with a gap in what it said is not adopted.

A worker keeps the messages of its legs until the engine says that they are on the disk. Where the engine dies, the next
one hears them again: points have keys and a level told twice is one fact, so hearing something twice does no harm.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from workbench.messages import Begun, FromLeg, Left, Order, Points, Story

#: Points of one leg that are kept at most, about 20 MB. An engine has them on the disk within seconds.
MOST_POINTS = 100_000


@dataclass(slots=True)
class _Said:
    order: Order
    #: How it began: told to every engine, however long ago it was.
    begun: Begun | None = None
    #: The other messages by their numbers, oldest first.
    messages: deque[tuple[int, FromLeg]] = field(default_factory=deque)
    points: int = 0
    #: The number of the newest message that was dropped for want of room; 0: none is missing.
    gap: int = 0
    is_over: bool = False


class Unheard:
    """The messages of one worker's legs, by leg."""

    def __init__(self, most_points: int = MOST_POINTS) -> None:
        self._most = most_points
        self._legs: dict[str, _Said] = {}

    def begin(self, order: Order) -> None:
        """A leg came here."""
        self._legs[order.key] = _Said(order)

    def take(self, number: int, key: str, message: FromLeg) -> None:
        """Keep what the leg of ``key`` says; numbers rise."""
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
        """An engine has all messages up to ``number`` on the disk."""
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
        """Whether an engine that comes now can hear all that this leg said."""
        said = self._legs.get(key)
        return said is not None and not said.gap

    def told(self) -> list[Story]:
        """For an engine that comes: the legs of which it can hear all."""
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
    )
