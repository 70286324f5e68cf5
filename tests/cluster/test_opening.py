"""A cluster that goes away while it is being opened: the next one is taken, and a fault of ours is told."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from pathlib import Path
from typing import Any

import by_hand
import pytest
from by_hand import HOLDING
from running import PLAIN, dask_cluster, lines, spec_of, start, state

from workbench.cluster import client, dask
from workbench.engine.engine import Engine
from workbench.engine.legs.inline import InlineBackend
from workbench.space import uniform
from workbench.store import Store
from workbench.store.owner.lease import EngineLease


@pytest.mark.asyncio
async def test_a_cluster_of_our_own_that_dies_while_it_is_opened_is_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    greeted, killed = dask.greeted, []

    async def greeted_after_its_death(connected: Any, own: Any, *given: Any) -> Any:
        if not killed:
            killed.append(own.record.pid)
            os.kill(own.record.pid, signal.SIGKILL)
        return await greeted(connected, own, *given)

    monkeypatch.setattr(dask, "greeted", greeted_after_its_death)  # the real one, after a real kill at this moment
    async with asyncio.timeout(60), by_hand.cluster(tmp_path) as found, found.world(tmp_path, HOLDING) as here:
        _, left = await here.train(1, 1, 0, 1)
    assert left.outcome == "reached"
    assert killed


@pytest.mark.asyncio
async def test_a_scheduler_that_is_replaced_while_it_is_attached_is_attached(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "ANSWER_S", 30.0)  # the next one takes a second to start, or more on a busy machine
    subscribed, coming = dask.subscribed, []
    with contextlib.ExitStack() as stack:
        address, processes = await asyncio.to_thread(stack.enter_context, dask_cluster(tmp_path, workers=1))
        successor = dask_cluster(tmp_path, address.rpartition(":")[2], workers=1)

        async def subscribed_before_its_death(*given: Any) -> None:
            await subscribed(*given)
            if not coming:
                for process in processes:
                    process.kill()
                    process.wait()
                coming.append(asyncio.create_task(asyncio.to_thread(stack.enter_context, successor)))

        # The real one, with real kills just after it.
        monkeypatch.setattr(dask, "subscribed", subscribed_before_its_death)
        async with asyncio.timeout(60), by_hand.cluster(tmp_path, address) as found:
            await coming[0]
            while not found.backend.slots:  # noqa: ASYNC110 - they are other processes
                await asyncio.sleep(0.01)
            async with found.world(tmp_path, HOLDING) as here:
                _, left = await here.train(1, 1, 0, 1)
        assert left.outcome == "reached"


class Faulty(InlineBackend):
    """One with a fault of ours."""

    async def open(self) -> None:
        raise TypeError("not what was expected")


def test_a_fault_of_ours_while_the_cluster_is_opened_ends_searches_with_the_reason(tmp_path: Path) -> None:
    store = Store(tmp_path / "store")
    spec = spec_of(PLAIN, tmp_path, space={"x": uniform(0.0, 1.0)})
    start(store, spec)

    async def run(lease: EngineLease) -> None:
        async with asyncio.timeout(20):
            await Engine(store, lease, Faulty, idle_s=0.1).run()

    with EngineLease.acquire(store) as lease:
        asyncio.run(run(lease))
    assert state(store, spec) == "failed"
    (line,) = lines(store, spec, "Finish")
    assert "Workbench failed inside: TypeError('not what was expected'); engine.log says where" in str(line)
