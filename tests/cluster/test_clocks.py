"""A stream that waits for a wrong time of the wall clock is woken; one that waits for a right time is left alone."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from distributed.batched import BatchedSend
from distributed.comm import connect, listen

from workbench.cluster.clocks import Drift, wake, wake_all


@asynccontextmanager
async def stream(interval: str = "1ms") -> AsyncIterator[tuple[BatchedSend, asyncio.Queue[Any]]]:
    """A stream of Dask's over a real connection, and what comes out at its other end."""
    heard: asyncio.Queue[Any] = asyncio.Queue()

    async def take(comm: Any) -> None:
        while True:
            for message in await comm.read():
                heard.put_nowait(message)

    async with listen("tcp://127.0.0.1:0", take) as listener:
        sending = BatchedSend(interval=interval)
        sending.start(await connect(listener.contact_address))
        sending.send("before")
        assert await asyncio.wait_for(heard.get(), 5) == "before"
        yield sending, heard
        sending.abort()


@pytest.mark.parametrize("off", [7200.0, 40 * 86400.0, -7200.0])
async def test_a_message_behind_a_clock_that_was_set_is_sent_when_it_is_woken(off: float) -> None:
    async with stream("1h") as (sending, heard):  # as if the clock had been set back: the next batch is far away
        assert sending.next_deadline is not None
        sending.next_deadline = time.time() + off
        sending.send("after")
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(heard.get(), 0.3)
        assert wake(sending)
        assert await asyncio.wait_for(heard.get(), 5) == "after"


async def test_a_stream_whose_next_batch_is_soon_is_left_alone() -> None:
    async with stream("500ms") as (sending, heard):
        assert not wake(sending)
        sending.send("after")
        assert not wake(sending)
        assert await asyncio.wait_for(heard.get(), 5) == "after"


async def test_all_streams_of_a_scheduler_are_looked_at() -> None:
    async with stream("1h") as (one, _), stream("1ms") as (other, _):

        class Scheduler:
            stream_comms = {"worker": one}
            client_comms = {"client": other}

        assert wake_all(Scheduler) == 1
        assert wake_all(Scheduler) == 0


def test_a_clock_that_is_set_is_noticed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    drift, real = Drift(), time.time
    assert not drift.is_set()
    # The machine's own clock is not set for a test.
    monkeypatch.setattr(time, "time", lambda: real() - 7200)
    assert drift.is_set()
    assert not drift.is_set()
