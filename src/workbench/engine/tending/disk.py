"""What the disk does not take now. Law: it is logged once, and once more when the disk takes it; the engine goes on."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any

log = logging.getLogger("workbench.engine")


class Disk:
    """The store's disk, as the engine's writers find it."""

    def __init__(self) -> None:
        #: What was not taken when it was last written.
        self._refused: set[str] = set()

    async def written(self, what: str, write: Callable[[], Any]) -> bool:
        """Call ``write`` in a thread; False if the disk does not take ``what`` now."""
        try:
            await asyncio.get_running_loop().run_in_executor(None, write)
        except OSError as error:
            self.tell(what, error)
            return False
        self.tell(what, None)
        return True

    def tell(self, what: str, error: Exception | None) -> None:
        """Note whether ``what`` was taken (None) or refused."""
        if error is not None and what not in self._refused:
            self._refused.add(what)
            log.warning("%s waits, and the engine goes on: %s", what, error)
        elif error is None and what in self._refused:
            self._refused.discard(what)
            log.warning("%s is written again", what)
