"""The queue of legs for slots: real engines in this process, on a backend whose legs end when the test says so."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from running import PLAIN, spec_of, start, state

from workbench.cluster.backend import Sink, Slot
from workbench.engine import slots
from workbench.engine.engine import Engine
from workbench.engine.judging import faults
from workbench.engine.legs.inline import InlineBackend
from workbench.messages import Left, Order
from workbench.records import Scheduler, Spec
from workbench.space import uniform
from workbench.store import Store
from workbench.store.owner.lease import EngineLease

DONE = Left(outcome="reached", step=1, metrics={"score": 0.5})


class Held(InlineBackend):
    """Legs of which the test says how they end."""

    def __init__(self, sink: Sink, count: int) -> None:
        super().__init__(sink)
        self.most_slots = count
        #: Of the legs that were started: all keys, and where those are that have not left.
        self.started: list[str] = []
        self.there: dict[str, Slot] = {}

    async def open(self) -> None:
        self.slots = [Slot(f"worker-{number}", 0, []) for number in range(self.most_slots)]

    def start(self, order: Order, slots: Sequence[Slot], priority: int) -> None:
        (slot,) = slots
        slot.legs.append(order.key)
        self.started.append(order.key)
        self.there[order.key] = slot

    def end(self, key: str, left: Left) -> None:
        """The leg of ``key`` ends like this."""
        self.there.pop(key).legs.remove(key)
        self._sink.heard(key, left)


def spec(folder: Path, trials: int) -> Spec:
    whole = Scheduler(kind="all", first=1, last=1)
    return spec_of(PLAIN, folder, space={"x": uniform(0.0, 1.0)}, scheduler=whole, trials=trials, probe=False,
                   verify=False)  # fmt: skip


@contextlib.asynccontextmanager
async def going(store: Store, spec: Spec, count: int) -> AsyncIterator[tuple[Engine, Held]]:
    """An engine of so many slots that trains ``spec``; at the end of the block it has left, since nothing is left to
    do."""
    start(store, spec)
    with EngineLease.acquire(store) as lease:
        engine = Engine(store, lease, lambda sink: Held(sink, count), idle_s=0.1)
        running = asyncio.create_task(engine.run())
        backend = engine.backend
        assert isinstance(backend, Held)
        await until(lambda: len(backend.started) == count)
        yield engine, backend
        await asyncio.wait_for(running, 20)


async def until(condition: Callable[[], Any]) -> None:
    async with asyncio.timeout(20):
        while not condition():  # noqa: ASYNC110 - turns of the same loop
            await asyncio.sleep(0)


async def test_legs_that_wait_for_a_time_are_looked_at_once_each_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(faults, "STORE_S", 0.5)
    looks, count = [], 14

    def looked(*given: Any) -> Any:
        looks.append(given)
        return share(*given)

    share = slots.share
    monkeypatch.setattr(slots, "share", looked)
    store, experiment = Store(tmp_path / "store"), spec(tmp_path, count)
    async with going(store, experiment, count) as (_, backend):
        first, loop = [*backend.started], asyncio.get_running_loop()
        before = len(looks)
        full = Left(outcome="died", cause="store", reason="no space left on device")
        for number, key in enumerate(first):  # each at a time of its own, as disks refuse
            loop.call_later(number * 0.02, backend.end, key, full)
        await until(lambda: len(backend.started) == 2 * count)
        assert len(looks) - before < 10 * count
        for key in [*backend.there]:
            backend.end(key, DONE)
    assert state(store, experiment) == "completed"
