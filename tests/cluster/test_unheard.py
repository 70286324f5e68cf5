"""What a worker keeps for an engine that comes later, and how an engine takes it. No process is needed for either."""

from __future__ import annotations

import asyncio
from typing import Any

from workbench.cluster.hearing import Hearing
from workbench.cluster.workers.unheard import Unheard
from workbench.messages import Begun, Left, LegOrder, Level, Order, Points
from workbench.records import Training


def order(key: str) -> Order:
    leg = LegOrder(
        store="/s",
        experiment="e",
        trial=0,
        attempt=1,
        start=0,
        until=9,
        levels=frozenset({9}),
        max_steps=9,
        configuration={},
        known_step=0,
        resume=False,
    )
    training = Training(python="python", cwd="/")
    return Order(
        key=key,
        experiment="e",
        label="e@1",
        attempt=1,
        start=0,
        grace_s=1.0,
        strict=False,
        log="/l",
        training=training,
        leg=leg,
    )


def points(count: int) -> Points:
    return Points([["score", step, 0, 0.5, 0.0] for step in range(count)])


def told(unheard: Unheard) -> list[list[type]]:
    return [[type(message) for message in story.messages] for story in unheard.told()]


def test_what_is_on_the_disk_is_not_told_again_but_how_the_leg_began() -> None:
    unheard = Unheard()
    unheard.begin(order("a"))
    for number, message in enumerate((Begun(step=0), points(1), Level(1, {})), 1):
        unheard.take(number, "a", message)
    assert told(unheard) == [[Begun, Points, Level]]
    unheard.heard(2)
    assert told(unheard) == [[Begun, Level]]
    unheard.heard(3)
    assert told(unheard) == [[Begun]]


def test_a_leg_that_ended_is_told_until_its_end_is_on_the_disk() -> None:
    unheard = Unheard()
    unheard.begin(order("a"))
    unheard.take(1, "a", Left(outcome="reached"))
    unheard.heard(0)
    assert [story.is_over for story in unheard.told()] == [True]
    unheard.heard(1)
    assert unheard.told() == []


def test_a_flood_of_points_is_not_kept_and_its_leg_is_not_adopted_until_an_engine_has_heard_it() -> None:
    unheard = Unheard(most_points=10)
    unheard.begin(order("a"))
    unheard.begin(order("b"))
    for number in range(1, 6):
        unheard.take(number, "a", points(3))
    unheard.take(6, "b", points(3))
    assert not unheard.is_whole("a")
    assert unheard.is_whole("b")
    assert told(unheard) == [[Points]]
    unheard.heard(4)
    assert not unheard.is_whole("a")
    unheard.heard(6)
    assert unheard.is_whole("a")
    unheard.take(7, "a", points(3))
    assert [Points] in told(unheard)


def test_a_leg_that_is_not_known_here_keeps_nothing() -> None:
    unheard = Unheard()
    unheard.take(1, "check", points(3))
    assert unheard.told() == []
    assert not unheard.is_whole("check")


def event(number: int, *names: str) -> dict[str, Any]:
    return {"worker": "w", "n": number, "batch": [{"op": name} for name in names]}


def never(worker: str, count: int) -> None:
    raise AssertionError(f"{count} messages of {worker} are missing")


def names(messages: list[dict[str, Any]]) -> list[str]:
    return [message["op"] for message in messages]


def test_events_that_come_before_the_greeting_wait_and_none_is_taken_twice() -> None:
    hearing = Hearing(never)
    assert hearing.take(event(3, "a", "b", "c")) == []
    assert hearing.take(event(5, "d", "e")) == []
    # The worker told what it had up to its fourth message.
    assert names(hearing.greeted("w", 4)) == ["e"]
    assert names(hearing.take(event(5, "d", "e"))) == []
    assert names(hearing.take(event(7, "f", "g"))) == ["f", "g"]
    assert hearing.marks() == {"w": 7}


def test_missing_messages_are_noticed_before_the_next_is_taken() -> None:
    missed: list[tuple[str, int]] = []
    hearing = Hearing(lambda *told: missed.append(told))
    hearing.take(event(5, "e"))
    # The worker told what it had up to its second message: the third and the fourth never came.
    assert names(hearing.greeted("w", 2)) == ["e"]
    assert missed == [("w", 2)]
    assert names(hearing.take(event(7, "f", "g"))) == ["f", "g"]
    assert names(hearing.take(event(9, "i"))) == ["i"]
    assert missed == [("w", 2), ("w", 1)]
    assert names(hearing.take(event(9, "i"))) == []
    assert missed == [("w", 2), ("w", 1)]


async def test_waiting_for_a_message_lasts_while_others_come() -> None:
    hearing = Hearing(never)
    hearing.greeted("w", 0)
    waiting = asyncio.create_task(hearing.until("w", 3, 1.0))
    for number in (1, 2, 3):
        await asyncio.sleep(0.4)  # longer together than one may take
        hearing.take(event(number, "a"))
    assert await waiting
    assert not await hearing.until("w", 4, 0.05)
    leaving = asyncio.create_task(hearing.until("w", 4, 20))
    await asyncio.sleep(0)
    hearing.forget("w")
    assert await asyncio.wait_for(leaving, 5)


def test_what_is_kept_is_said_once() -> None:
    hearing = Hearing(never)
    hearing.greeted("w", 0)
    assert hearing.marks() == {}
    hearing.take(event(2, "a", "b"))
    hearing.kept("w", 2)
    assert hearing.marks() == {}
    hearing.forget("w")
    assert not hearing.knows("w")
    assert hearing.take(event(1, "a")) == []
