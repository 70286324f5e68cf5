"""What every medium must do through which engines share slots: the runtime folder, and Dask's scheduler."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any, Protocol

import pytest
from distributed import Client
from running import dask_cluster

from workbench.cluster.arbiter import Arbiter
from workbench.cluster.medium import AtScheduler, Folder, Medium
from workbench.store.owner.slots import Claimant, Lease, take


class Engine(Protocol):
    """One that shares slots, as far as these tests need it."""

    medium: Medium

    async def take(self, names: list[str]) -> str | None: ...

    async def give(self, name: str) -> None: ...

    async def die(self) -> None: ...


class AtFolder:
    """The part of an engine and of its workers, which hold the locks."""

    def __init__(self, store: str) -> None:
        self.medium, self._store = Folder(store), store
        self._leases: dict[str, Lease] = {}

    async def take(self, names: list[str]) -> str | None:
        lease = take(names, self._store)
        if lease is None:
            return None
        self._leases[lease.name] = lease
        return lease.name

    async def give(self, name: str) -> None:
        self._leases.pop(name).release()

    async def die(self) -> None:
        """As when its process ends: all locks are gone."""
        self.medium.release()
        for lease in self._leases.values():
            lease.release()


class OnCluster:
    """An engine's connection to a scheduler."""

    def __init__(self, client: Any, medium: AtScheduler) -> None:
        self._client, self.medium = client, medium
        self.take, self.give = medium.take, medium.give

    async def die(self) -> None:
        """As when its process ends: the connection is gone, and nothing is said over it."""
        self._client.scheduler_comm.comm.abort()
        await self._client._close(fast=True)


#: What is tried with two engines, of the stores /a and /b, and the names of two slots.
Try = Callable[[Engine, Engine, list[str]], Coroutine[Any, Any, None]]
Both = Callable[[Try], None]


@pytest.fixture(scope="module")
def scheduler(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a scheduler with one worker of two threads. An engine that has gone leaves nothing there."""
    with dask_cluster(tmp_path_factory.mktemp("dask"), workers=1, threads=2) as (address, _):
        yield address


@pytest.fixture(params=["folder", "scheduler"])
def both(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Both:
    """Runs what is tried with two engines."""
    if request.param == "folder":
        runtime = tmp_path / "runtime"
        runtime.mkdir(mode=0o700)
        monkeypatch.setenv("XDG_RUNTIME_DIR", str(runtime))
        monkeypatch.setenv("WORKBENCH_MACHINE", "off")
        return lambda tried: asyncio.run(tried(AtFolder("/a"), AtFolder("/b"), ["cpu0", "cpu1"]))

    async def connected(address: str, tried: Try) -> None:
        clients: list[Any] = [await Client(address, asynchronous=True, name=name) for name in ("a", "b")]
        try:
            await clients[0].wait_for_workers(1, timeout=60)
            (worker,) = clients[0].scheduler_info()["workers"]
            one, other = [
                OnCluster(client, await AtScheduler.joined(client, store, "workbench-none"))
                for client, store in zip(clients, ("/a", "/b"), strict=True)
            ]
            await tried(one, other, [f"{worker}/0", f"{worker}/1"])
        finally:
            for client in clients:
                await client.close()

    address = request.getfixturevalue("scheduler")
    return lambda tried: asyncio.run(connected(address, tried))


async def seen(engine: Engine, condition: Callable[[Medium], Any]) -> Any:
    """Look until ``condition`` gives something true; that."""
    async with asyncio.timeout(10):
        while True:
            await engine.medium.look()
            if found := condition(engine.medium):
                return found
            await asyncio.sleep(0.01)


def holders(medium: Medium) -> dict[str, str]:
    return {one.slot: one.store for one in medium.holders()}


def test_a_slot_has_one_holder(both: Both) -> None:
    async def tried(a: Engine, b: Engine, names: list[str]) -> None:
        assert await a.take(names) == names[0]
        assert await b.take(names[:1]) is None
        assert await b.take(names) == names[1]
        assert await a.take(names) is None
        for one in (a, b):
            await one.medium.look()
            assert holders(one.medium) == {names[0]: "/a", names[1]: "/b"}
        await a.give(names[0])
        assert await b.take(names) == names[0]

    both(tried)


def test_of_many_that_ask_at_once_one_gets_the_slot(both: Both) -> None:
    async def tried(a: Engine, b: Engine, names: list[str]) -> None:
        for _ in range(20):
            found = await asyncio.gather(a.take(names[:1]), b.take(names[:1]))
            assert sorted(map(bool, found)) == [False, True]
            await (a if found[0] else b).give(names[0])

    both(tried)


def test_each_sees_what_the_other_claims(both: Both) -> None:
    async def tried(a: Engine, b: Engine, names: list[str]) -> None:
        facts: dict[str, Any] = {"lacks": 1, "slots": 2, "weight": 3.0, "priority": 1, "debt": -1.5, "unit": 1}
        assert a.medium.mine is None
        mine = a.medium.claim(1, names[1:], experiments=("bert@1",), holds=frozenset(names[:1]), **facts)
        assert a.medium.mine == mine
        (other,) = await seen(b, lambda medium: medium.others())
        assert other == mine
        assert str(other) == "/a (bert@1)"
        await a.medium.look()
        assert not a.medium.others(), "its own claim is not among them"
        newer = a.medium.claim(2, (), holds=frozenset(names))
        assert await seen(b, lambda medium: list(medium.others()) == [newer])
        a.medium.again()
        since = a.medium.claim(2, (), holds=frozenset(names)).since
        assert since >= newer.since
        a.medium.release()
        assert a.medium.mine is None
        assert await seen(b, lambda medium: not medium.others())
        assert not b.medium.drained()

    both(tried)


def test_one_that_dies_leaves_neither_claim_nor_slot(both: Both) -> None:
    async def tried(a: Engine, b: Engine, names: list[str]) -> None:
        assert await a.take(names) == names[0]
        a.medium.claim(1, names[1:], lacks=1)
        assert await seen(b, lambda medium: medium.others())
        await a.die()
        assert await seen(b, lambda medium: not medium.others() and not medium.holders())
        assert await b.take(names) == names[0]

    both(tried)


def test_the_arbiter_knows_nothing_of_a_worker_that_is_gone_and_of_slots_of_others() -> None:
    arbiter = Arbiter()
    assert arbiter.take("a", ["tcp://one:1/0"], "/a", "now") == "tcp://one:1/0"
    assert arbiter.take("a", ["tcp://two:1/0"], "/a", "now") == "tcp://two:1/0"
    arbiter.give("b", "tcp://one:1/0")
    arbiter.train("b", {"tcp://one:1/0": "bert@1"})
    assert [(one.slot, one.experiment) for one in arbiter.holders()] == [
        ("tcp://one:1/0", None),
        ("tcp://two:1/0", None),
    ]
    arbiter.train("a", {"tcp://two:1/0": "bert@1"})
    arbiter.lost("tcp://one:1")
    assert [(one.slot, one.experiment) for one in arbiter.holders()] == [("tcp://two:1/0", "bert@1")]
    arbiter.claim("a", Claimant("a", "/a", "now", 1, frozenset()))
    arbiter.gone("a")
    assert not arbiter.claims()
    assert not arbiter.holders()


def test_an_engine_whose_connection_is_gone_gets_no_slot(scheduler: str) -> None:
    async def tried(address: str) -> None:
        async with Client(address, asynchronous=True) as client:
            await client.wait_for_workers(1, timeout=60)
            (worker,) = client.scheduler_info()["workers"]
            medium = await AtScheduler.joined(client, "/a", "workbench-none")
            late = {"names": [f"{worker}/0"], "store": "/gone"}
            assert await client.scheduler.workbench_slots_take(engine="gone", **late) is None
            claim = {"store": "/gone", "since": "", "wants": []}
            await client.scheduler.workbench_slots_look(engine="gone", claim=claim)
            await medium.look()
            assert not medium.others(), "its claim would not end either"
            assert await medium.take(["tcp://127.0.0.1:1/0"]) is None, "a worker that is not there"
            assert await medium.take(late["names"]) == f"{worker}/0"

    asyncio.run(tried(scheduler))
