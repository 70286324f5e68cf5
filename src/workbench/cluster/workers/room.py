"""Room for legs in a worker's slots. Law: first come, first served; a leg for a whole slot is never passed by others.

A leg takes a slot or a part of one. One that came later waits behind one that needs more, even where it would fit.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import AsyncIterator
from fractions import Fraction
from typing import Any
from weakref import WeakKeyDictionary

#: The room of each Dask worker of this process. Engines that share a cluster share it, so that a leg of one starts when
#: that of another has left.
_rooms: WeakKeyDictionary[Any, Room] = WeakKeyDictionary()


class Room:
    """The slots of one worker."""

    def __init__(self, slots: int) -> None:
        #: How many slots are free; parts of them count.
        self.free = Fraction(slots)
        #: Legs that wait, in the order in which they came: the size of each, and what tells it that it has its room.
        self._waiting: deque[tuple[Fraction, asyncio.Future[None]]] = deque()

    @contextlib.asynccontextmanager
    async def of(self, parts: int, stopped: asyncio.Event) -> AsyncIterator[bool]:
        """Room for a leg in one of so many ``parts`` of a slot. Yields whether it got it before it was ``stopped``."""
        size = Fraction(1, parts)
        loop = asyncio.get_running_loop()
        taking, stopping = loop.create_task(self._take(size)), loop.create_task(stopped.wait())
        try:
            await asyncio.wait({taking, stopping}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            stopping.cancel()
            if not taking.done():
                taking.cancel()
        if not taking.done():
            yield False
            return
        try:
            yield True
        finally:
            self._give(size)

    async def _take(self, size: Fraction) -> None:
        if not self._waiting and size <= self.free:
            self.free -= size
            return
        told: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((size, told))
        try:
            await told
        except asyncio.CancelledError:
            if not told.cancelled():  # it got its room at this very moment
                self._give(size)
            else:
                with contextlib.suppress(ValueError):  # another leg left meanwhile, and passed it over
                    self._waiting.remove((size, told))
                self._pass_on()
            raise

    def _give(self, size: Fraction) -> None:
        self.free += size
        self._pass_on()

    def _pass_on(self) -> None:
        while self._waiting and (self._waiting[0][1].cancelled() or self._waiting[0][0] <= self.free):
            size, told = self._waiting.popleft()
            if not told.cancelled():  # else it was stopped just now, and does not know it yet
                self.free -= size
                told.set_result(None)


def room_of(worker: Any, slots: int) -> Room:
    """The room of a Dask worker with so many ``slots``, the same for all who ask."""
    return _rooms.setdefault(worker, Room(slots))
