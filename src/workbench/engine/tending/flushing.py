"""Points and tables on their way to the disk. Law: at once after a rest, and at most half of the time."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from workbench.engine.tending.disk import Disk
from workbench.pace import PASS_S

if TYPE_CHECKING:
    from workbench.engine.loop import ExperimentLoop

#: Seconds before a full disk is tried again.
AGAIN_S = 1.0


class Flushing:
    """Writes the series of all experiments for the viewers. broke: called if an experiment fails inside."""

    def __init__(
        self, loops: Mapping[str, ExperimentLoop], disk: Disk, broke: Callable[[str, BaseException], None]
    ) -> None:
        self._loops, self._disk, self._broke = loops, disk, broke
        #: Set when a series has something to write.
        self.news = asyncio.Event()

    async def keep(self) -> None:
        """Write what comes, until cancelled."""
        while True:
            await self.news.wait()
            self.news.clear()
            begun = time.monotonic()
            for loop in list(self._loops.values()):
                if loop.series.waits or loop.series.broken:
                    await self._flush(loop)
            took = time.monotonic() - begun
            await asyncio.sleep(max(PASS_S - took, took))

    async def _flush(self, loop: ExperimentLoop) -> None:
        try:
            await loop.mend()
        except OSError as error:
            self._disk.tell(f"what {loop.spec.label} has lost", error)
        except Exception as error:
            self._broke(loop.spec.id, error)
            return
        # On a full disk points wait in memory and are tried again.
        if not await self._disk.written(f"points of {loop.spec.label}", loop.series.flush):
            self.news.set()
            await asyncio.sleep(AGAIN_S)
        elif loop.series.broken:
            self.news.set()
