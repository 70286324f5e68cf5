"""A cluster that Workbench did not start: its workers have other work too, freeze, and may not see the store."""

from __future__ import annotations

import asyncio
import contextlib
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import by_hand
import pytest
import pytest_asyncio
from by_hand import HOLDING, Cluster
from distributed import Client
from running import dask_cluster

from workbench.cluster import dask

pytestmark = pytest.mark.asyncio(loop_scope="module")

#: A Dask worker on a machine that does not see the engine's store.
ELSEWHERE = """
import sys
from workbench.cluster.workers import calls
calls.read_engine = lambda store: None
from distributed.cli.dask_worker import main
main(sys.argv[1:])
"""
#: One that has an older Workbench.
OLDER = """
import sys
from workbench.cluster.workers import calls, worker
calls.PROTOCOL = worker.PROTOCOL = 0
from distributed.cli.dask_worker import main
main(sys.argv[1:])
"""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def attached(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[tuple[str, Cluster]]:
    """The address of a cluster of one worker with one thread, and what is attached to it."""
    folder = tmp_path_factory.mktemp("attached")
    with contextlib.ExitStack() as stack:
        made = dask_cluster(folder, workers=1)
        address, _ = await asyncio.to_thread(stack.enter_context, made)
        async with by_hand.cluster(folder, address) as found:
            await until_slots(found)
            yield address, found


async def until_true(condition: Callable[[], Awaitable[bool]]) -> None:
    """Wait until ``condition`` holds, which is about other processes."""
    async with asyncio.timeout(20):
        while not await condition():  # noqa: ASYNC110 - they are other processes
            await asyncio.sleep(0.01)


async def until_slots(cluster: Cluster) -> None:
    """Wait until ``cluster`` can train."""

    async def has_slots() -> bool:
        return bool(cluster.backend.slots)

    await until_true(has_slots)


async def test_workers_that_cannot_train_are_left_out_when_the_cluster_is_attached_again(tmp_path: Path) -> None:
    with contextlib.ExitStack() as stack:
        address, _ = await asyncio.to_thread(stack.enter_context, dask_cluster(tmp_path, workers=1))
        async with by_hand.cluster(tmp_path, address) as own, Client(address, asynchronous=True) as looking:
            await until_slots(own)
            (good,) = own.backend.slots
            for program in (ELSEWHERE, OLDER):
                line = [sys.executable, "-c", program, address, "--no-nanny", "--no-dashboard"]
                stack.enter_context(ended(line))
            await looking.wait_for_workers(3, timeout=30)
            own.backend.lose_scheduler()
            await until_slots(own)
            assert [slot.worker for slot in own.backend.slots] == [good.worker]
            async with own.world(tmp_path, HOLDING) as here:
                _, left = await here.train(1, 1, 0, 1)
            assert left.outcome == "reached"


async def test_attempts_to_attach_again_leave_no_connection(
    attached: tuple[str, Cluster], monkeypatch: pytest.MonkeyPatch
) -> None:
    _, cluster = attached
    attempts, subscribed = iter(range(3)), dask.subscribed

    async def breaking(*given: Any) -> None:
        await subscribed(*given)
        if next(attempts) < 2:
            raise OSError("the connection broke")

    monkeypatch.setattr(dask, "subscribed", breaking)
    monkeypatch.setattr(dask, "REATTACH_S", 0.01)
    cluster.backend.lose_scheduler()
    await until_slots(cluster)
    assert next(attempts, None) is None

    def engines(dask_scheduler: Any) -> int:
        return sum("workbench-engine" in name for name in dask_scheduler.clients)

    async def is_alone() -> bool:
        return await cluster.backend._client.run_on_scheduler(engines) == 1

    await until_true(is_alone)


@contextlib.contextmanager
def ended(line: list[str]) -> Iterator[None]:
    """A process of this command line, which is gone afterwards."""
    with subprocess.Popen(line, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            yield
        finally:
            process.kill()
