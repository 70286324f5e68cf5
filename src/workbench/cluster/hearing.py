"""Which messages of each worker were received. Law: each is taken once, in its worker's order; missing ones are seen.

A worker numbers its messages. An engine that joins an existing cluster first gets each worker's untold messages, up to
some number. Events that arrive meanwhile wait; those up to that number are skipped.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any


class Hearing:
    """By worker: the number of the newest message received."""

    def __init__(self, missed: Callable[[str, int], object]) -> None:
        """missed: called with a worker and a count, before the next message is taken, if messages before it never
        came."""
        self._missed = missed
        self._numbers: dict[str, int] = {}
        #: Events of workers that were not greeted yet.
        self._early: dict[str, list[Mapping[str, Any]]] = {}
        #: By worker: the number up to which it knows that its messages are on disk.
        self._kept: dict[str, int] = {}
        #: Set, and replaced, when a message was taken or a worker forgotten.
        self._moved = asyncio.Event()

    def take(self, event: Mapping[str, Any]) -> list[bytes]:
        """The new messages of ``event``; empty while its worker was not greeted."""
        worker, number, batch = event["worker"], event["n"], event["batch"]
        if worker not in self._numbers:
            self._early.setdefault(worker, []).append(event)
            return []
        before = self._numbers[worker]
        new = min(number - before, len(batch))
        if new <= 0:
            return []
        self._numbers[worker] = number
        self._move()
        if number - before > new:
            self._missed(worker, number - before - new)
        return list(batch[len(batch) - new :])

    def greeted(self, worker: str, number: int) -> list[bytes]:
        """``worker`` was heard up to ``number``. Returns its messages since."""
        self._numbers[worker] = number
        self._move()
        return [message for event in self._early.pop(worker, ()) for message in self.take(event)]

    def knows(self, worker: str) -> bool:
        """Whether ``worker`` was greeted."""
        return worker in self._numbers

    def unsure(self, worker: str) -> None:
        """What ``worker`` was told last may not have come."""
        self._kept.pop(worker, None)

    def forget(self, worker: str) -> None:
        """``worker`` is gone."""
        for numbers in (self._numbers, self._kept, self._early):
            numbers.pop(worker, None)
        self._move()

    def _move(self) -> None:
        self._moved.set()
        self._moved = asyncio.Event()

    async def until(self, worker: str, number: int, patience_s: float) -> bool:
        """Wait until ``worker`` was heard up to ``number``, or is gone. False if nothing comes for so many seconds."""
        while (heard := self._numbers.get(worker, number)) < number:
            try:
                async with asyncio.timeout(patience_s):
                    while self._numbers.get(worker, number) == heard:
                        await self._moved.wait()
            except TimeoutError:
                return False
        return True

    def marks(self) -> dict[str, int]:
        """Workers with messages that they do not know to be on disk, with the newest number of each."""
        return {worker: n for worker, n in self._numbers.items() if n > self._kept.get(worker, 0)}

    def kept(self, worker: str, number: int) -> None:
        """``worker`` knows that its messages up to ``number`` are on disk."""
        if worker in self._numbers:
            self._kept[worker] = number
