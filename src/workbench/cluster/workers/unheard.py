"""What legs have said and no engine has on the disk yet. Law: bounded; a leg with a gap in what it said is not adopted.

A worker keeps the messages of its legs until the engine says that they are on the disk. Where the engine dies, the next
one hears them again: points have keys and a level told twice is one fact, so hearing something twice does no harm.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from workbench.cluster.backend import Message

#: Points of one leg that are kept at most, about 20 MB. An engine has them on the disk within seconds.
MOST_POINTS = 100_000


@dataclass(slots=True)
class _Story:
    order: Message
    #: How it began: told to every engine, however long ago it was.
    begun: Message | None = None
    #: The other messages by their numbers, oldest first.
    messages: deque[tuple[int, Message]] = field(default_factory=deque)
    points: int = 0
    #: The number of the newest message that was dropped for want of room; 0: none is missing.
    gap: int = 0
    is_over: bool = False


def identity(order: Message) -> Message:
    """What an engine knows a leg by: its key, experiment, trial, attempt, and the steps it is to train."""
    leg = order["leg"]
    names = ("experiment", "trial", "attempt", "start", "until")
    return {"key": order["key"], "is_check": "check" in leg, **{name: leg[name] for name in names}}


class Unheard:
    """The messages of one worker's legs, by leg."""

    def __init__(self, most_points: int = MOST_POINTS) -> None:
        self._most = most_points
        self._stories: dict[str, _Story] = {}

    def begin(self, key: str, order: Message) -> None:
        """A leg came here. order: what an engine needs to know it again."""
        self._stories[key] = _Story(order)

    def take(self, number: int, message: Message) -> None:
        """Keep a message; numbers rise."""
        story = self._stories.get(message.get("key", ""))
        if story is None:
            return
        if message["op"] == "begun":
            story.begun = message
            return
        story.is_over = story.is_over or message["op"] == "left"
        if message["op"] == "points":
            story.points += len(message["rows"])
        if story.gap or story.points > self._most:
            story.gap, story.points = number, 0
            story.messages.clear()
        else:
            story.messages.append((number, message))

    def heard(self, number: int) -> None:
        """An engine has all messages up to ``number`` on the disk."""
        for key, story in list(self._stories.items()):
            while story.messages and story.messages[0][0] <= number:
                _, message = story.messages.popleft()
                if message["op"] == "points":
                    story.points -= len(message["rows"])
            if story.gap <= number:
                story.gap = 0
            if story.is_over and not story.messages and not story.gap:
                del self._stories[key]

    def is_whole(self, key: str) -> bool:
        """Whether an engine that comes now can hear all that this leg said."""
        story = self._stories.get(key)
        return story is not None and not story.gap

    def told(self) -> list[Message]:
        """For an engine that comes: of each leg its order, whether it has ended, and what it said, oldest first."""
        return [
            {
                "order": story.order,
                "is_over": story.is_over,
                "messages": [*([story.begun] if story.begun else []), *(message for _, message in story.messages)],
            }
            for story in self._stories.values()
            if not story.gap
        ]
