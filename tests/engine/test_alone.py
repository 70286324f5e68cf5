"""Who ran out of memory beside others is alone on its machine until it has come to its level, whatever happens."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from running import PLAIN, spec_of

from workbench.engine.legs.leg import Leg
from workbench.engine.loop import ExperimentLoop
from workbench.facts import PauseAsked, ResumeAsked
from workbench.messages import Left
from workbench.records import Scheduler, Spec
from workbench.store import Store


class Room:
    """The slots and the engine as an experiment's loop needs them, without a cluster: ``leg`` is the newest one."""

    def __init__(self, store: Store, spec: Spec) -> None:
        self.legs: asyncio.Queue[Leg] = asyncio.Queue()
        self.told: asyncio.Queue[Leg] = asyncio.Queue()
        self.loop = ExperimentLoop(store, spec, self, self, lambda: "2026-01-01T00:00:00.000+00:00")
        self.loop.open()
        self.loop.set_capacity(1, 1)

    def dispatch(self, loop: ExperimentLoop, leg: Leg) -> None:
        self.legs.put_nowait(leg)

    def stop_leg(self, leg: Leg, reason: str, keep_s: float | None) -> None:
        self.told.put_nowait(leg)

    async def clean(self, loop: ExperimentLoop) -> None:
        pass

    def __getattr__(self, name: str) -> Any:
        return lambda *_, **__: None

    async def leg(self) -> Leg:
        return await asyncio.wait_for(self.legs.get(), 10)

    def left(self, leg: Leg, outcome: str, **fields: Any) -> None:
        self.loop.hear(leg, Left(outcome=outcome, **{"step": leg.start, **fields}))

    async def after(self, leg: Leg, outcome: str, **fields: Any) -> Leg:
        """The next leg, once ``leg`` has left."""
        self.left(leg, outcome, **fields)
        return await self.leg()


def test_a_trial_out_of_memory_is_alone_until_it_has_come_to_its_level(tmp_path: Path) -> None:
    store = Store(tmp_path / "store").create()
    spec = spec_of(PLAIN, tmp_path, scheduler=Scheduler(kind="asha", first=1, last=9, eta=3), trials=3, probe=False)
    store.write_spec(spec)

    async def trained() -> None:
        room = Room(store, spec)
        first = await room.leg()
        assert not first.alone
        leg = await room.after(first, "died", cause="memory")
        assert leg.alone
        leg = await room.after(leg, "died", cause="worker")
        assert leg.alone, "its worker's fault says nothing about memory"
        room.loop.tell(PauseAsked("lunch"))
        room.left(await asyncio.wait_for(room.told.get(), 10), "stopped")
        room.loop.tell(ResumeAsked("back"))
        leg = await room.leg()
        assert (leg.trial, leg.alone) == (0, True)
        await room.loop.kept()
        room.loop.abandon()

        room = Room(store, spec)
        leg = await room.leg()
        assert (leg.trial, leg.alone) == (0, True)
        # The others need not wait for a machine of its own, nor does it where it goes on later.
        for score in (0.9, 0.2, 0.1):
            leg = await room.after(leg, "reached", step=1, metrics={"score": score})
            assert not leg.alone
        assert (leg.trial, leg.start, leg.until) == (0, 1, 3)
        leg = await room.after(leg, "died", cause="memory")
        assert leg.alone, "it was not alone this time"
        room.left(leg, "died", cause="memory")
        await room.loop.kept()
        assert room.loop.search.trials[0].state == "failed"
        assert "once more, and it was alone on its machine" in room.loop.search.trials[0].reason
        room.loop.abandon()

    asyncio.run(trained())
