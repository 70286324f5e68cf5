"""A cluster that Workbench did not start: its workers have other work too, freeze, and may not see the store."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import by_hand
import pytest
import pytest_asyncio
from by_hand import HOLDING, Cluster, World, client, tasks
from distributed import Client
from running import dask_cluster

from workbench.cluster import dask, direct
from workbench.messages import Begun

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


async def until_state(here: World, key: str, state: str) -> None:
    """Wait until the task of ``key`` is in this state on the worker: `ready` if it waits for a thread there."""

    def found(dask_worker: Any) -> str | None:
        task = dask_worker.state.tasks.get(key)
        return None if task is None else str(task.state)

    async def is_there() -> bool:
        return state in (await client(here).run(found)).values()

    await until_true(is_there)


async def test_a_leg_that_is_stopped_before_its_task_begins_ends(attached: tuple[str, Cluster], tmp_path: Path) -> None:
    async with attached[1].world(tmp_path, HOLDING) as here:
        (tmp_path / "hold-1").touch()
        first = here.order(1, 1, 0, 1)
        await here.ears.hear(first, Begun)
        second = here.order(2, 1, 0, 1)
        await until_state(here, second, "ready")
        here.backend.stop(second, "a person asked", None)
        async with asyncio.timeout(10):
            left = await here.ears.left(second)
        assert (left.outcome, left.reason) == ("stopped", "a person asked")
        (tmp_path / "hold-1").unlink()
        assert (await here.ears.left(first)).outcome == "reached"
        assert here.noted() == ["1"]


async def test_a_leg_that_trains_before_its_task_begins_leaves_when_that_is_cancelled(
    attached: tuple[str, Cluster], tmp_path: Path
) -> None:
    """Another program's task has the only thread, so Dask has not started the leg's when it is cancelled."""
    address, cluster = attached

    def wait(path: str) -> None:
        import os
        import time

        while os.path.exists(path):
            time.sleep(0.01)  # this is the other program: it has only a file to look at

    def legs(dask_worker: Any) -> int:
        [ours] = [one for one in dask_worker.plugins.values() if type(one).__name__ == "Workplace"]
        return len(ours._legs)

    (tmp_path / "theirs").touch()
    async with (
        Client(address, asynchronous=True) as other,
        cluster.world(tmp_path, HOLDING, grace_s=0.2) as here,
    ):
        theirs = other.submit(wait, str(tmp_path / "theirs"))
        await until_state(here, theirs.key, "executing")
        (tmp_path / "hold-1").touch()
        key = here.order(1, 1, 0, 9)
        await here.ears.hear(key, Begun)
        await until_state(here, key, "ready")

        def cancel(dask_scheduler: Any) -> None:
            (wants,) = dask_scheduler.tasks[key].who_wants
            dask_scheduler.client_releases_keys([key], client=wants.client_key)

        await client(here).run_on_scheduler(cancel)

        async def is_empty() -> bool:
            return sum((await client(here).run(legs)).values()) == 0

        await until_true(is_empty)
        (tmp_path / "theirs").unlink()
        await theirs


async def test_a_worker_that_is_frozen_holds_up_neither_a_stop_nor_what_is_given_back(
    attached: tuple[str, Cluster], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(direct, "ANSWER_S", 0.2)  # a frozen worker never answers: the wait is all there is
    async with attached[1].world(tmp_path, HOLDING) as here:
        (tmp_path / "hold-1").touch()
        key = here.order(1, 1, 0, 9)
        await here.ears.hear(key, Begun)
        (pid,) = (await client(here).run(os.getpid)).values()
        os.kill(pid, signal.SIGSTOP)
        try:
            here.backend.stop(key, "a person asked", None)

            async def is_cancelled() -> bool:
                return not await tasks(here)

            await until_true(is_cancelled)
            async with asyncio.timeout(10):
                await here.backend.release(here.slot)
        finally:
            os.kill(pid, signal.SIGCONT)
        assert (await here.ears.left(key)).outcome == "stopped"


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

    # The real one, and a connection that breaks just after it: no kill can be timed for that moment.
    monkeypatch.setattr(dask, "subscribed", breaking)
    monkeypatch.setattr(dask, "REATTACH_S", 0.01)  # two attempts fail on purpose: the test need not wait for them
    cluster.backend.lose_scheduler()
    await until_slots(cluster)
    assert next(attempts, None) is None

    def engines(dask_scheduler: Any) -> int:
        return sum("workbench-engine" in name for name in dask_scheduler.clients)

    async def is_alone() -> bool:
        return await cluster.backend._client.run_on_scheduler(engines) == 1

    await until_true(is_alone)


async def test_what_is_left_of_the_connection_before_takes_nothing_from_the_next_one(
    attached: tuple[str, Cluster], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where a network fails, the scheduler may hear of it long after the engine."""
    _, cluster = attached
    before = cluster.backend._client

    async def unheard(client: Any) -> None:
        """Its end does not come to the scheduler."""

    monkeypatch.setattr(dask, "closed", unheard)  # on one machine the scheduler hears of every end at once
    cluster.backend.lose_scheduler()
    await until_slots(cluster)
    monkeypatch.undo()  # what is closed from here on is closed for good

    async def plugins() -> int:
        names = lambda dask_worker: [name for name in dask_worker.plugins if "workbench-" in name]  # noqa: E731
        (found,) = (await cluster.backend._client.run(names)).values()
        return len(found)

    count = await plugins()
    await before.close()

    async def is_settled() -> bool:
        return await plugins() == count - 1

    await until_true(is_settled)
    async with cluster.world(tmp_path, HOLDING) as here:
        _, left = await here.train(1, 1, 0, 1)
    assert left.outcome == "reached"


@contextlib.contextmanager
def ended(line: list[str]) -> Iterator[None]:
    """A process of this command line, which is gone afterwards."""
    with subprocess.Popen(line, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            yield
        finally:
            process.kill()
