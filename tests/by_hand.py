"""Legs that a test orders by hand, without an engine's loop: a real cluster of one worker, and what its legs say."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, TypeVar

from distributed import Client
from running import spec_of, until

from workbench.cluster.backend import Slot
from workbench.cluster.dask import DaskBackend
from workbench.engine.legs.leg import Leg
from workbench.engine.legs.orders import leg_order
from workbench.facts import CapacityChanged
from workbench.messages import Begun, FromLeg, Left, Points
from workbench.records import Scheduler, Spec
from workbench.search import Search
from workbench.space import uniform
from workbench.store import Store, new_id
from workbench.store.owner.lease import EngineLease

Message = TypeVar("Message")

LADDER = Scheduler(kind="asha", first=1, last=9, eta=3)
#: A trial waits in its first step while there is a file that names it. It sleeps between looks: the test, which is
#: another process, has no event that training code could await.
HOLDING = """
x = uniform(0.0, 1.0)
import os, time
for epoch in trial.steps():
    with open("noted", "a") as file:
        file.write(f"{trial.number}\\n")
    while os.path.exists(f"hold-{trial.number}"):
        time.sleep(0.005)
    trial.report(score=x)
"""


class Ears:
    """What the legs of a backend say."""

    def __init__(self) -> None:
        self.said: dict[str, list[FromLeg]] = {}
        self._news = asyncio.Event()

    def heard(self, key: str, message: FromLeg) -> None:
        """Keep a message."""
        self.said.setdefault(key, []).append(message)
        self._news.set()

    def slots_changed(self) -> None:
        """Nothing to do."""

    async def hear(self, key: str, kind: type[Message]) -> Message:
        """Wait for the first message of this kind of the leg of ``key``."""
        while True:
            self._news.clear()
            for message in self.said.get(key, ()):
                if isinstance(message, kind):
                    return message
            await asyncio.wait_for(self._news.wait(), 60)

    async def left(self, key: str) -> Left:
        """Wait for the end of the leg of ``key``."""
        return await self.hear(key, Left)

    def begun(self, key: str) -> Begun:
        """The first message of that leg."""
        return next(message for message in self.said[key] if isinstance(message, Begun))

    def points(self, *keys: str) -> list[tuple[Any, ...]]:
        """What these legs reported: metric, step and value."""
        rows = (row for key in keys for one in self.said[key] if isinstance(one, Points) for row in one.rows)
        return sorted((name, step, value) for name, step, _, value, _ in rows)


class World:
    """A store, a cluster of one worker, and the legs of one experiment, ordered by hand."""

    def __init__(self, store: Store, spec: Spec, backend: DaskBackend, ears: Ears, folder: Path) -> None:
        self.store, self.spec, self.backend, self.ears, self.folder = store, spec, backend, ears, folder
        self.search = Search.of(spec)
        self.search.handle(CapacityChanged(4))

    @property
    def slot(self) -> Slot:
        """The only slot."""
        return self.backend.slots[0]

    def order(self, *numbers: int, may_wait: bool = True, is_short: bool = False, **fields: Any) -> str:
        """Order a leg, given its trial, attempt, first and last step; its key."""
        trial, attempt, start, upto = numbers
        leg, training = Leg(trial, attempt, start, upto, "", f"t{trial}-{attempt}-{self.spec.id}"), self.spec.training
        flags = {"may_wait": may_wait, "is_short": is_short}
        order = leg_order(self.store, self.spec, self.search, leg, training, start, **flags)
        self.backend.start(dataclasses.replace(order, **fields), [self.slot], 0)
        return leg.key

    async def train(self, *order: int, **fields: Any) -> tuple[str, Left]:
        """Order a leg and wait for its end."""
        key = self.order(*order, **fields)
        return key, await self.ears.left(key)

    def noted(self) -> list[str]:
        """What the training code noted."""
        return (self.folder / "noted").read_text().splitlines()

    def same_again(self) -> World:
        """The same experiment under another id, in the same slot."""
        spec = dataclasses.replace(self.spec, id=new_id())
        self.store.write_spec(spec)
        return World(self.store, spec, self.backend, self.ears, self.folder)


class Cluster:
    """A store and a cluster of one worker, for several worlds after one another."""

    def __init__(self, store: Store, backend: DaskBackend, ears: Ears) -> None:
        self.store, self.backend, self.ears = store, backend, ears

    @contextlib.asynccontextmanager
    async def world(self, folder: Path, code: str, **fields: Any) -> AsyncIterator[World]:
        """A world for this training code, which runs in ``folder``. Its slot is empty afterwards."""
        about = {"scheduler": LADDER, "trials": 4, "seed": 3, "verify": False}
        spec = spec_of(code, folder, space={"x": uniform(0.0, 1.0)}, **about, **fields)
        self.store.write_spec(spec)
        self.ears.said.clear()
        (slot,) = self.backend.slots
        slot.lease = await self.backend.lease(slot) or ""
        assert slot.lease
        try:
            yield World(self.store, spec, self.backend, self.ears, folder)
        finally:
            if any(one is slot for one in self.backend.slots):  # its worker lives
                await self.backend.release(slot)
                slot.lease = ""


@contextlib.asynccontextmanager
async def cluster(folder: Path, address: str | None = None) -> AsyncIterator[Cluster]:
    """A real cluster of one worker, with a store in ``folder``. It belongs to the event loop that opened it.

    address: of one that Workbench did not start.
    """
    store, ears = Store(folder / "store").create(), Ears()
    with EngineLease.acquire(store) as lease:
        backend = DaskBackend(str(store.root), lease.info.proof, ears, address=address, workers=1)
        await backend.open()
        try:
            yield Cluster(store, backend, ears)
        finally:
            await backend.close()


def client(here: World) -> Client:
    """Dask's client of the backend."""
    found: Any = here.backend._client
    assert isinstance(found, Client)
    return found


async def tasks(here: World) -> list[str]:
    """The names of the tasks that Dask's scheduler knows."""

    def known(dask_scheduler: Any) -> list[str]:
        return sorted(map(str, dask_scheduler.tasks))

    return list(await client(here).run_on_scheduler(known))


async def lane_of(here: World) -> str:
    """Wait until Dask's scheduler knows a lane: a leg before may still be known, too."""
    async with asyncio.timeout(20):
        while not (found := [name for name in await tasks(here) if "lane" in name]):  # noqa: ASYNC110 - it is another process
            await asyncio.sleep(0.01)
    (lane,) = found
    return lane


async def held(here: World, number: int) -> None:
    """Wait until a trial is inside its first step."""
    await asyncio.to_thread(until, lambda: str(number) in here.noted(), what="a trial's first step")
