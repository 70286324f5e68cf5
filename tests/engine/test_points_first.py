"""What is on disk when an engine is killed: never a fact without the points before it."""

from __future__ import annotations

import asyncio
from pathlib import Path

from engine.test_alone import Room
from running import PLAIN, spec_of

from workbench.messages import Begun, Points
from workbench.records import Scheduler
from workbench.store import Store
from workbench.store.series import Series


def test_whatever_commits_the_journal_the_points_are_stored_first(tmp_path: Path) -> None:
    """The retention rule commits lines, too, in a thread of its own: those of the loop with them, which are facts."""
    store = Store(tmp_path / "store").create()
    spec = spec_of(PLAIN, tmp_path, scheduler=Scheduler(kind="asha", first=1, last=9, eta=3), trials=3, probe=False)
    store.write_spec(spec)

    async def trained() -> None:
        room = Room(store, spec)
        leg, loop = await room.leg(), room.loop
        await loop.kept()
        loop.hear(leg, Begun(step=0))
        loop.hear(leg, Points([["score", 1, 0, 0.5, 1.0], ["noise", 1, 0, 0.25, 1.0]]))
        loop.journal.append({"kind": "Removed", "checkpoints": {}, "why": "the rule"})
        loop.journal.commit()
        with Series.read(loop.paths.series) as series:
            assert [row[:5] for row in series.points()] == [(0, "score", 1, 0, 0.5), (0, "noise", 1, 0, 0.25)]
        loop.abandon()

    asyncio.run(trained())
