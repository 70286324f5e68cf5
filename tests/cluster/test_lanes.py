"""Very short legs train in a lane: Dask's scheduler knows one long task of the slot, and each leg ends exactly once."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path
from typing import Any

import by_hand
import pytest
from by_hand import HOLDING, Cluster, World, client, held, lane_of, tasks

from workbench.messages import Begun, Left

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def until_tasks(here: World, count: int) -> list[str]:
    """Wait until Dask's scheduler knows so many tasks."""
    async with asyncio.timeout(20):
        while len(found := await tasks(here)) != count:  # noqa: ASYNC110 - it is another process
            await asyncio.sleep(0.01)
    return found


def lefts(here: World) -> dict[str, list[Left]]:
    """The ends of each leg."""
    return {key: [one for one in said if isinstance(one, Left)] for key, said in here.ears.said.items()}


async def test_short_legs_train_in_one_lane_that_goes_when_it_rests(cluster: Cluster, tmp_path: Path) -> None:
    async with cluster.world(tmp_path, HOLDING) as here:
        await here.train(0, 1, 0, 1)  # the worker has answered: a lane can be used
        first = [here.order(number, 1, 0, 1, is_short=True) for number in (1, 2, 3)]
        await asyncio.gather(*map(here.ears.left, first))
        assert not set(first) & set(await tasks(here))
        lane = await lane_of(here)
        second = [here.order(number, 2, 1, 3, is_short=True) for number in (1, 2, 3)]
        await asyncio.gather(*map(here.ears.left, second))
        assert not set(second) & set(await tasks(here))
        assert await lane_of(here) == lane
        assert here.noted() == ["0", "1", "2", "3", *("1", "1", "2", "2", "3", "3")]
        assert {key: [left.outcome for left in ends] for key, ends in lefts(here).items()} == {
            key: ["reached"] for key in lefts(here)
        }
        assert not here.slot.legs
        await until_tasks(here, 0)


async def test_what_a_short_leg_says_comes_in_order_and_is_whole(cluster: Cluster, tmp_path: Path) -> None:
    async with cluster.world(tmp_path, HOLDING) as here:
        await here.train(0, 1, 0, 1)
        key, _ = await here.train(0, 2, 1, 9, is_short=True)
        whole, _ = await here.same_again().train(0, 1, 0, 9)
        assert here.ears.points(key) == [row for row in here.ears.points(whole) if row[1] > 1]
        kinds = [type(one).__name__ for one in here.ears.said[key]]
        assert kinds[0] == "Begun"
        assert kinds[-1] == "Left"
        assert kinds.index("Saved") > kinds.index("Points")


async def test_a_leg_that_takes_longer_than_expected_is_heard_meanwhile(cluster: Cluster, tmp_path: Path) -> None:
    async with cluster.world(tmp_path, HOLDING) as here:
        await here.train(0, 1, 0, 1)
        (tmp_path / "hold-1").touch()
        key = here.order(1, 1, 0, 1, is_short=True)
        await here.ears.hear(key, Begun)
        (tmp_path / "hold-1").unlink()
        assert (await here.ears.left(key)).outcome == "reached"


async def test_one_leg_of_a_lane_is_stopped_and_the_others_go_on(cluster: Cluster, tmp_path: Path) -> None:
    async with cluster.world(tmp_path, HOLDING) as here:
        await here.train(0, 1, 0, 1)
        (tmp_path / "hold-1").touch()
        keys = [here.order(number, 1, 0, 3, is_short=True) for number in (1, 2, 3)]
        await held(here, 1)
        here.backend.stop(keys[1], "not promising", None)
        here.backend.stop(keys[0], "not promising", None)
        assert (await here.ears.left(keys[1])).outcome == "stopped"
        (tmp_path / "hold-1").unlink()
        ends = [await here.ears.left(key) for key in keys]
        assert [one.outcome for one in ends] == ["stopped", "stopped", "reached"]
        assert "2" not in here.noted()


async def test_a_leg_that_is_stopped_in_the_moment_it_is_ordered_ends_once(cluster: Cluster, tmp_path: Path) -> None:
    async with cluster.world(tmp_path, HOLDING, grace_s=0.2) as here:
        await here.train(0, 1, 0, 1)
        (tmp_path / "hold-1").touch()
        keys = [here.order(number, 1, 0, 9, is_short=True) for number in (1, 2)]
        here.backend.stop(keys[0], "changed its mind", None)
        assert (await here.ears.left(keys[0])).outcome == "stopped"
        assert (await here.ears.left(keys[1])).outcome == "completed"
        assert all(len(ends) == 1 for ends in lefts(here).values())


async def test_other_legs_get_the_slot_when_the_lane_is_empty(cluster: Cluster, tmp_path: Path) -> None:
    async with cluster.world(tmp_path, HOLDING) as here:
        await here.train(0, 1, 0, 1)
        (tmp_path / "hold-1").touch()
        short = here.order(1, 1, 0, 1, is_short=True)
        await held(here, 1)
        long = here.order(2, 1, 0, 3)
        (lane,) = [name for name in await until_tasks(here, 2) if "lane" in name]
        (tmp_path / "hold-1").unlink()
        assert (await here.ears.left(short)).outcome == "reached"
        assert (await here.ears.left(long)).outcome == "reached"
        assert lane not in await until_tasks(here, 0)
        again, left = await here.train(1, 2, 1, 3, is_short=True)
        assert (left.outcome, here.ears.begun(again).step) == ("reached", 1)


async def test_cancelling_a_lane_from_outside_stops_its_legs(cluster: Cluster, tmp_path: Path) -> None:
    async with cluster.world(tmp_path, HOLDING) as here:
        await here.train(0, 1, 0, 1)
        (tmp_path / "hold-1").touch()
        keys = [here.order(number, 1, 0, 3, is_short=True) for number in (1, 2)]
        await held(here, 1)
        lane = await lane_of(here)

        def cancel(dask_scheduler: Any) -> None:
            (wants,) = dask_scheduler.tasks[lane].who_wants
            dask_scheduler.client_releases_keys([lane], client=wants.client_key)

        await client(here).run_on_scheduler(cancel)

        def is_told(dask_worker: Any) -> bool:
            task = dask_worker.state.tasks.get(lane)
            return task is None or task.state == "cancelled"

        async with asyncio.timeout(20):
            while not all((await client(here).run(is_told)).values()):  # noqa: ASYNC110 - it is another process
                await asyncio.sleep(0.01)
        (tmp_path / "hold-1").unlink()
        await until_tasks(here, 0)
        ends = [await here.ears.left(key) for key in keys]
        assert [one.outcome for one in ends] == ["stopped", "stopped"]
        assert "2" not in here.noted()


async def test_a_worker_that_dies_takes_the_legs_of_its_lane_with_it(tmp_path: Path) -> None:
    async with by_hand.cluster(tmp_path) as own, own.world(tmp_path, HOLDING) as here:
        await here.train(0, 1, 0, 1)
        (tmp_path / "hold-1").touch()
        keys = [here.order(number, 1, 0, 3, is_short=True) for number in (1, 2)]
        await held(here, 1)
        pids = await client(here).run(os.getpid)
        os.kill(pids[here.slot.worker], signal.SIGKILL)
        ends = [await here.ears.left(key) for key in keys]
        assert [(one.outcome, one.cause) for one in ends] == [("died", "worker")] * 2
        assert all(len(one) == 1 for one in lefts(here).values() if one)
