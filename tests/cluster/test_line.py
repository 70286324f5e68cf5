"""The line between an engine and a worker: in order, both ways, and whole; where it breaks, legs start again."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from by_hand import HOLDING, Cluster, World, client, held, lane_of
from distributed.core import Server, Status
from running import until

from workbench.cluster.workers.line import Line
from workbench.messages import Left, Level

pytestmark = pytest.mark.asyncio(loop_scope="module")


class Echo:
    """A server whose lines say again what they are told, and how it was told."""

    def __init__(self) -> None:
        self.server = Server({"talk": self._talk})
        self.heard: list[Any] = []
        self.line: Line | None = None
        self.ended = asyncio.Event()

    async def _talk(self, comm: Any) -> Status:
        self.line = line = Line(comm)

        def take(message: Any) -> None:
            self.heard.append(message)
            line.send(message)

        await line.answer()
        await line.serve(take)
        self.ended.set()
        return Status.dont_reply


async def test_messages_come_in_order_both_ways_until_one_end_is_closed() -> None:
    echo, heard, all_heard = Echo(), [], asyncio.Event()
    await echo.server.listen("tcp://127.0.0.1:0")

    def take(message: Any) -> None:
        heard.append(message)
        if len(heard) == 1000:
            all_heard.set()

    try:
        line = await Line.opened(echo.server.address, "talk")
        serving = asyncio.create_task(line.serve(take))
        for number in range(1000):
            line.send({"n": number, "rows": [[number, 0.5]] * (number % 7)})
            if number % 100 == 0:
                await asyncio.sleep(0)
        await asyncio.wait_for(all_heard.wait(), 20)
        assert [message["n"] for message in heard] == [message["n"] for message in echo.heard] == [*range(1000)]
        line.close()
        await asyncio.wait_for(asyncio.gather(serving, echo.ended.wait()), 20)
        line.send("to nobody")
    finally:
        await echo.server.close()


async def test_what_cannot_be_taken_concerns_no_other_message(caplog: pytest.LogCaptureFixture) -> None:
    echo, heard, last = Echo(), [], asyncio.Event()
    await echo.server.listen("tcp://127.0.0.1:0")

    def take(message: Any) -> None:
        heard.append(message)
        if message == "last":
            last.set()
        raise OSError("the disk is full")

    try:
        line = await Line.opened(echo.server.address, "talk")
        serving = asyncio.create_task(line.serve(take))
        for message in ("first", "second", "last"):
            line.send(message)
        await asyncio.wait_for(last.wait(), 20)
        assert heard == ["first", "second", "last"]
        assert "the disk is full" in caplog.text
        line.close()
        await asyncio.wait_for(serving, 20)
    finally:
        await echo.server.close()


async def test_a_line_ends_on_both_sides_if_it_is_given_what_cannot_be_sent(caplog: pytest.LogCaptureFixture) -> None:
    echo = Echo()
    await echo.server.listen("tcp://127.0.0.1:0")
    try:
        line = await Line.opened(echo.server.address, "talk")
        serving = asyncio.create_task(line.serve(lambda message: None))
        line.send("half of a pair: \udce9")
        await asyncio.wait_for(asyncio.gather(serving, echo.ended.wait()), 20)
        assert "could not be sent" in caplog.text
    finally:
        await echo.server.close()


async def test_no_worker_no_line() -> None:
    server = Server({})
    await server.listen("tcp://127.0.0.1:0")
    address = server.address
    await server.close()
    with pytest.raises(OSError, match=r"Timed out|connect"):
        await Line.opened(address, "talk", timeout=1)


async def test_a_line_is_open_when_the_other_end_uses_it() -> None:
    echo, may_answer = Echo(), asyncio.Event()

    async def talk(comm: Any) -> Status:
        await may_answer.wait()
        return await echo._talk(comm)

    echo.server.handlers["talk"] = talk
    await echo.server.listen("tcp://127.0.0.1:0")
    try:
        opening = asyncio.create_task(Line.opened(echo.server.address, "talk"))
        assert not (await asyncio.wait([opening], timeout=0.2))[0]
        may_answer.set()
        (await opening).close()
        await asyncio.wait_for(echo.ended.wait(), 20)
    finally:
        await echo.server.close()


def kinds(here: World, key: str) -> list[str]:
    """What a leg said, by type."""
    return [type(one).__name__ for one in here.ears.said[key]]


async def test_what_legs_say_does_not_pass_through_dasks_scheduler(cluster: Cluster, tmp_path: Path) -> None:
    async with cluster.world(tmp_path, HOLDING) as here:
        key, left = await here.train(0, 1, 0, 1)
        assert left.outcome == "reached"
        assert {"Begun", "Points", "Level", "Left"} <= set(kinds(here, key))
        events = await client(here).get_events("workbench")
        assert all(isinstance(event, str) for _, event in events)


async def test_a_result_that_overtakes_what_its_leg_said_waits_for_it(cluster: Cluster, tmp_path: Path) -> None:
    """Messages a third of a second late, which the result of the leg's future is not."""

    def delay(dask_worker: Any) -> None:
        line = dask_worker.plugins["workbench"]._outbox.line
        send = line.send
        line.send = lambda message: asyncio.get_running_loop().call_later(0.3, send, message)

    def hurry(dask_worker: Any) -> None:
        del dask_worker.plugins["workbench"]._outbox.line.send

    async with cluster.world(tmp_path, HOLDING) as here:
        await client(here).run(delay)
        try:
            key, left = await here.train(0, 1, 0, 3)
        finally:
            await client(here).run(hurry)
        assert left.outcome == "reached"
        assert [one.step for one in here.ears.said[key] if isinstance(one, Level)] == [1, 3]
        assert kinds(here, key)[-1] == "Left"


async def test_an_order_to_stop_that_overtakes_the_order_to_start_stops_it(cluster: Cluster, tmp_path: Path) -> None:
    async with cluster.world(tmp_path, HOLDING) as here:
        await here.train(0, 1, 0, 1)
        (tmp_path / "hold-1").touch()
        first = here.order(1, 1, 0, 1, is_short=True)
        await held(here, 1)
        key = f"t2-1-{here.spec.id}"
        assert not await here.backend._direct.stop(here.slot.worker, key, "its search has ended", None)
        assert here.order(2, 1, 0, 1, is_short=True) == key
        (tmp_path / "hold-1").unlink()
        assert (await here.ears.left(first)).outcome == "reached"
        left = await here.ears.left(key)
        assert (left.outcome, left.reason) == ("stopped", "its search has ended")
        assert "2" not in here.noted()


async def test_what_a_worker_asks_while_it_is_greeted_is_no_part_of_what_it_told(
    cluster: Cluster, tmp_path: Path
) -> None:
    """Otherwise the next engine would pass over the question, and the leg train without its secrets."""

    async def greeted(dask_worker: Any) -> tuple[int, int]:
        ours = dask_worker.plugins["workbench"]
        waiting = asyncio.ensure_future(ours._secrets.of("an-experiment", {"TOKEN": "digest"}))
        await asyncio.sleep(0)
        told = ours.take_over(ours.engine)
        waiting.cancel()
        return told.n, ours._outbox.count

    async with cluster.world(tmp_path, HOLDING) as here:
        ((told, said),) = (await client(here).run(greeted)).values()
        assert told == said - 1


async def test_a_leg_for_a_lane_that_was_given_up_is_ordered_again(cluster: Cluster, tmp_path: Path) -> None:
    async with cluster.world(tmp_path, HOLDING) as here:
        await here.train(0, 1, 0, 1)
        await here.train(1, 1, 0, 1, is_short=True)
        lane = await lane_of(here)

        def give_up(dask_worker: Any) -> None:
            dask_worker.plugins["workbench"]._early.forbid(lane, "given up")

        await client(here).run(give_up)
        _, left = await here.train(2, 1, 0, 1, is_short=True)
        assert (left.outcome, left.cause) == ("died", "cluster")
        assert "lane was given up" in str(left.reason)
        assert "2" not in here.noted()


async def test_legs_start_again_where_a_line_breaks_and_are_heard_by_the_scheduler(
    cluster: Cluster, tmp_path: Path
) -> None:
    """The last of this file, for its worker has no line afterwards."""

    def cut(dask_worker: Any) -> None:
        dask_worker.plugins["workbench"]._outbox.line.close()

    async with cluster.world(tmp_path, HOLDING) as here:
        await here.train(0, 1, 0, 1)
        (tmp_path / "hold-1").touch()
        keys = [here.order(1, 1, 0, 3), here.order(2, 1, 0, 3)]
        await held(here, 1)
        await client(here).run(cut)
        ends: list[Left] = [await here.ears.left(key) for key in keys]
        assert [(one.outcome, one.cause) for one in ends] == [("died", "cluster")] * 2
        assert ends[0].reason == "its line to the engine broke"
        (tmp_path / "hold-1").unlink()
        again, left = await here.train(1, 2, 0, 3)
        assert (left.outcome, left.step) == ("reached", 3)
        assert kinds(here, again)[-1] == "Left"
        short, left = await here.train(3, 1, 0, 1, is_short=True)
        assert left.outcome == "reached"
        await asyncio.to_thread(until, lambda: here.noted().count("1") >= 3, what="the second attempt's steps")
        events = await client(here).get_events("workbench")
        assert any(not isinstance(event, str) for _, event in events)
        assert kinds(here, short)[0] == "Begun"
