"""The queue of legs for slots: real engines in this process, on a backend whose legs end when the test says so."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from running import PLAIN, lines, spec_of, start, state

from workbench.cluster.backend import Sink, Slot
from workbench.engine import slots
from workbench.engine.engine import Engine
from workbench.engine.judging import faults
from workbench.engine.legs.inline import InlineBackend
from workbench.facts import StopAsked
from workbench.messages import Left, Order
from workbench.records import Scheduler, Spec
from workbench.space import uniform
from workbench.store import Store
from workbench.store.owner.lease import EngineLease

GONE = Left(outcome="died", cause="worker", reason="its worker is gone")
DONE = Left(outcome="reached", step=1, metrics={"score": 0.5})


class Held(InlineBackend):
    """Legs of which the test says how they end. One that is told to stop does so at once."""

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

    def stop(self, key: str, reason: str, keep_s: float | None) -> None:
        asyncio.get_running_loop().call_soon(self.end, key, Left(outcome="stopped"))

    def end(self, key: str, left: Left) -> None:
        """The leg of ``key`` ends like this."""
        self.there.pop(key).legs.remove(key)
        self._sink.heard(key, left)

    def lose_worker(self, worker: str) -> None:
        """A worker goes, with its legs."""
        (slot,) = [slot for slot in self.slots if slot.worker == worker]
        slot.closed = "it is gone"
        for key in [*slot.legs]:
            self.end(key, GONE)
        self._sink.slots_changed()


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


async def test_a_leg_that_is_stopped_before_it_has_a_slot_does_not_get_the_one_that_is_freed_with_it(
    tmp_path: Path,
) -> None:
    store, experiment = Store(tmp_path / "store"), spec(tmp_path, 2)
    async with going(store, experiment, 2) as (engine, backend):
        both = [*backend.started]
        loop = engine.loops[experiment.id]
        kept, lost = (next(trial for trial, leg in loop.legbook.legs.items() if leg.key == key) for key in both)
        backend.lose_worker(backend.there[both[1]].worker)
        await until(lambda: lost in loop.legbook.legs and loop.legbook.legs[lost].attempt == 2)
        loop.tell(*(StopAsked(trial, "asked to stop") for trial in (kept, lost)))
    assert backend.started == both
    assert not backend.there
    assert [line["outcome"] for line in lines(store, experiment, "LegLeft")] == ["died", "stopped", "stopped"]
