"""What an experiment was told and has not handled. Law: it keeps the order, and forgets nothing that was not taken."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Any

from workbench.facts import Fact


class Inbox:
    """Facts for an experiment's search, and lines for its journal."""

    def __init__(self) -> None:
        self.facts: deque[Fact] = deque()
        #: Lines that the journal gets with the next facts.
        self.lines: deque[dict[str, Any]] = deque()
        self._news = asyncio.Event()
        #: Callers that wait until what they told is on disk: what was not taken yet, and what was.
        self._keeping: list[asyncio.Future[None]] = []
        self._taken: list[asyncio.Future[None]] = []

    def __bool__(self) -> bool:
        """Whether anything waits."""
        return bool(self.facts or self.lines)

    def tell(self, *facts: Fact) -> None:
        """These facts happened."""
        self.facts.extend(facts)
        self.ring()

    def ring(self) -> None:
        """Have the experiment's loop look again at what is left to do."""
        self._news.set()

    async def news(self) -> None:
        """Wait until something was told since the last call."""
        await self._news.wait()
        self._news.clear()

    def kept(self) -> asyncio.Future[None]:
        """Is done once all that was told so far is on disk."""
        told: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._keeping.append(told)
        self.ring()
        return told

    def take(self) -> list[Fact]:
        """Remove the facts. :meth:`written` tells when they are on disk."""
        facts = list(self.facts)
        self.facts.clear()
        self._take_callers()
        return facts

    def written(self) -> None:
        """What was taken is on disk: wake the callers that wait for it."""
        taken, self._taken = self._taken, []
        for one in taken:
            if not one.done():
                one.set_result(None)

    def let_go(self) -> None:
        """Wake all callers that still wait: nothing more is written."""
        self._take_callers()
        self.written()

    def _take_callers(self) -> None:
        self._taken += self._keeping
        self._keeping = []
