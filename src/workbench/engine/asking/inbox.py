"""What an experiment was told and has not handled. Law: it keeps the order, and forgets nothing that was not taken."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Any, TypeAlias

from workbench.facts import Fact

#: Callers that wait until what they told is on disk.
Keeping: TypeAlias = list[asyncio.Future[None]]


class Inbox:
    """Facts for an experiment's search, and lines for its journal."""

    def __init__(self) -> None:
        self.facts: deque[Fact] = deque()
        #: Lines that the journal gets with the next facts.
        self.lines: deque[dict[str, Any]] = deque()
        self._news = asyncio.Event()
        self._keeping: Keeping = []

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

    def take(self) -> tuple[list[Fact], Keeping]:
        """Remove the facts, and the callers that wait for what was told so far."""
        facts, keeping = list(self.facts), self._keeping
        self.facts.clear()
        self._keeping = []
        return facts, keeping

    def let_go(self) -> None:
        """Wake the callers that still wait: nothing more is written."""
        let_go(self._keeping)


def let_go(keeping: Keeping) -> None:
    """Wake the callers that wait, as far as they still do."""
    for one in keeping:
        if not one.done():
            one.set_result(None)
