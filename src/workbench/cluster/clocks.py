"""Dask's streams of messages when the wall clock is set. Law: it only wakes what waits for a time that is wrong.

A stream sends in batches, and does not send again before a time of the wall clock (``distributed.batched``). Where the
clock is set back meanwhile, that time lies hours or days ahead, and so long its messages wait, ends of legs among them.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any

#: Seconds between looks.
LOOK_S = 2.0
#: Batches are milliseconds apart: a stream whose next one is this many seconds away, or overdue, is stuck.
FAR_S = 1.0


def wake(stream: Any) -> bool:
    """Have a ``BatchedSend`` send what waits, where its next time is wrong. Returns whether it was."""
    due = stream.next_deadline
    if due is None or abs(due - time.time()) < FAR_S:
        return False
    stream.next_deadline = None
    stream.waker.set()
    return True


def wake_all(dask_scheduler: Any) -> int:
    """Wake what is stuck of a scheduler's streams to workers and clients. Returns how many were."""
    streams = [*dask_scheduler.stream_comms.values(), *dask_scheduler.client_comms.values()]
    return sum(map(wake, streams))


async def watch(look: Callable[[], object]) -> None:
    """Call ``look`` again and again, until cancelled."""
    while True:
        await asyncio.sleep(LOOK_S)
        look()


class Drift:
    """By how much the wall clock has been set since the last look."""

    def __init__(self) -> None:
        self._apart = time.time() - time.monotonic()

    def is_set(self) -> bool:
        """Whether it was set since the last look."""
        before, self._apart = self._apart, time.time() - time.monotonic()
        return abs(self._apart - before) >= FAR_S
