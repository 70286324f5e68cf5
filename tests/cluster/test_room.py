"""Room in a worker's slots for whole legs and for parts: none is given twice, and no leg is passed."""

from __future__ import annotations

import asyncio
from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from workbench.cluster.workers.room import Room


class Leg:
    """A leg that takes its room and keeps it until it is told to go."""

    def __init__(self, room: Room, parts: int) -> None:
        self.parts, self.stopped, self.go = parts, asyncio.Event(), asyncio.Event()
        self.has_room: bool | None = None
        self.task = asyncio.create_task(self._train(room))

    async def _train(self, room: Room) -> None:
        async with room.of(self.parts, self.stopped) as self.has_room:
            if self.has_room:
                await self.go.wait()

    @property
    def trains(self) -> bool:
        return bool(self.has_room) and not self.task.done()


async def settled() -> None:
    for _ in range(12):
        await asyncio.sleep(0)


def test_a_whole_leg_waits_for_all_parts_and_no_later_part_passes_it() -> None:
    async def act() -> None:
        room = Room(1)
        first, second, whole, late = (Leg(room, parts) for parts in (2, 2, 1, 2))
        await settled()
        assert [leg.trains for leg in (first, second, whole, late)] == [True, True, False, False]
        first.go.set()
        await settled()
        assert not late.trains, "it would fit, but came after the whole leg"
        second.go.set()
        await settled()
        assert (whole.trains, late.trains) == (True, False)
        whole.go.set()
        await settled()
        assert late.trains
        late.go.set()
        await settled()
        assert room.free == 1

    asyncio.run(act())


def test_one_that_is_stopped_while_another_leaves_takes_no_room_with_it() -> None:
    """However many turns of the loop lie between the two: the one that leaves gives its room to those that wait."""

    async def act(turns: int) -> None:
        room = Room(1)
        trains, stopped, waits = (Leg(room, 1) for _ in range(3))
        await settled()
        stopped.go.set()  # if it gets room at this very moment, it leaves at once
        stopped.stopped.set()
        for _ in range(turns):
            await asyncio.sleep(0)
        trains.go.set()
        await settled()
        assert waits.trains
        await asyncio.gather(trains.task, stopped.task)
        waits.go.set()
        await settled()
        assert room.free == 1

    for turns in range(10):
        asyncio.run(act(turns))


def test_one_that_is_stopped_while_it_waits_lets_those_behind_it_go_on() -> None:
    async def act() -> None:
        room = Room(1)
        part, whole, late = (Leg(room, parts) for parts in (2, 1, 2))
        await settled()
        whole.stopped.set()
        await settled()
        assert (whole.has_room, late.trains) == (False, True)
        for leg in (part, late):
            leg.go.set()
        await settled()
        assert room.free == 1

    asyncio.run(act())


@given(
    slots=st.integers(1, 3),
    moves=st.lists(st.tuples(st.sampled_from(["come", "go", "stop", "both"]), st.integers(0, 20)), max_size=40),
)
def test_no_room_is_given_twice_or_lost(slots: int, moves: list[tuple[str, int]]) -> None:
    async def act() -> None:
        room, legs = Room(slots), list[Leg]()
        for move, number in moves:
            if move == "come" or not legs:
                legs.append(Leg(room, (1, 2, 3, 16)[number % 4]))
            else:
                leg = legs[number % len(legs)]
                if move in ("go", "both"):
                    leg.go.set()
                if move in ("stop", "both"):
                    leg.stopped.set()
            if number % 2:
                await settled()
                taken = sum((Fraction(1, leg.parts) for leg in legs if leg.trains), Fraction())
                assert taken + room.free == slots
                assert room.free >= 0
        for leg in legs:
            leg.go.set()
        await asyncio.wait_for(asyncio.gather(*(leg.task for leg in legs)), 5)
        assert room.free == slots

    asyncio.run(act())
