"""What workers said and is on the disk. Law: a worker drops a message only after the engine has stored it."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping
from typing import TYPE_CHECKING

from workbench.cluster.backend import Backend

if TYPE_CHECKING:
    from workbench.engine.loop import ExperimentLoop

#: Seconds between two reports to the workers, and seconds to wait for one experiment's disk.
KEEP_S, KEPT_S = 2.0, 30.0


async def keep(backend: Backend, loops: Mapping[str, ExperimentLoop], at_work: asyncio.Event) -> None:
    """Tell workers which of their messages are stored, so that no later engine need hear them; until cancelled.

    at_work: set while an experiment is open.
    """
    while True:
        if not backend.marks():
            await at_work.wait()
        await asyncio.sleep(KEEP_S)
        marks = backend.marks()
        with contextlib.suppress(TimeoutError):  # the disk takes nothing now, or a loop has ended meanwhile
            for loop in list(loops.values()):
                if not loop.is_over:
                    await asyncio.wait_for(loop.kept(), KEPT_S)
            await backend.keep(marks)
