"""Legs in the engine's process, one after another. Law: the same training code by the same path; pdb can stop in it.

Nothing is isolated: a segmentation fault ends the engine too. Use it for pdb, not for a week of training.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable, Collection, Sequence

from workbench.cluster.backend import Sink, Slot, Survivor
from workbench.cluster.workers.machine import survey_here
from workbench.messages import FromLeg, Left, LegOrder, Order, Plain, Points, StopOrder
from workbench.records import Training
from workbench.trial.process.leg import Legs
from workbench.trial.process.runner import Point


class InlineLink:
    """The link of a leg in this process: messages go directly to the engine."""

    def __init__(self, key: str, sink: Sink) -> None:
        self._key, self._sink = key, sink
        self._points: list[Point] = []
        self.order: StopOrder | None = None

    def report(self, points: Sequence[Point]) -> None:
        """Keep points for the next message."""
        self._points += points

    def send(self, message: FromLeg) -> None:
        """Send the points and then ``message``."""
        self.flush()
        self._sink.heard(self._key, message)

    def flush(self) -> None:
        """Send the waiting points."""
        if self._points:
            rows, self._points = self._points, []
            self._sink.heard(self._key, Points([list(row) for row in rows]))

    def stop(self) -> StopOrder | None:
        """The order to stop this leg, if there is one."""
        return self.order

    def verdict(self, step: int, patience_s: float) -> None:
        """Return at once: the engine decides when the training code has ended."""


def train_here(link: InlineLink, order: LegOrder) -> Left:
    """Train one leg in this process, which keeps its own ``__main__``."""
    main = sys.modules["__main__"]
    try:
        return Legs(link).run(order)
    finally:
        sys.modules["__main__"] = main


class InlineBackend:
    """One slot: this process. A leg blocks the event loop while it trains."""

    def __init__(self, sink: Sink, run: Callable[[InlineLink, LegOrder], Left] | None = None) -> None:
        self._sink = sink
        self._run = run or train_here
        self._links: dict[str, InlineLink] = {}
        self._closed = False
        self.slots: list[Slot] = []
        self.dashboard: str | None = None
        self.note: str | None = None
        self.arbiter = None
        self.most_slots = 1
        self.was_found = False
        self.survivors: list[Survivor] = []

    async def open(self) -> None:
        """There is nothing to start."""
        self.slots = [Slot("inline", 0, [])]

    def settle(self, adopted: Collection[str]) -> None:
        """Nothing to adopt: no leg outlives this process."""

    def marks(self) -> None:
        """Nothing to note: messages are not repeated."""

    async def keep(self, marks: None) -> None:
        """Nothing to keep."""

    def start(self, order: Order, slots: Sequence[Slot], priority: int) -> None:
        """Train the leg on the loop's next turn."""
        key, (slot,) = order.key, slots
        slot.legs.append(key)
        self._links[key] = InlineLink(key, self._sink)
        asyncio.get_running_loop().call_soon(self._train, order, slot)

    def stop(self, key: str, reason: str, keep_s: float | None) -> None:
        """Stop a leg: one that has not started never does; one that trains reads the order at its next turn."""
        link = self._links.get(key)
        if link is not None:
            link.order = link.order or StopOrder(reason, keep_s is not None)

    def go_on(self, key: str, level: int) -> None:
        """Nothing to tell: a leg never waits here."""

    def close_worker(self, worker: str, why: str) -> None:
        """Nothing to close: there is no other worker."""

    def open_worker(self, worker: str, why: str) -> None:
        """Nothing to open: it was never closed."""

    async def lease(self, slot: Slot) -> str | None:
        """This process has one slot, and shares it with no other engine."""
        return None

    async def release(self, slot: Slot) -> None:
        """Nothing is leased."""

    async def warm(self, training: Training) -> None:
        """There is nothing to warm."""

    async def look(self) -> list[Plain]:
        """This machine, and this process as its worker."""
        return [await survey_here({"inline": {"pid": os.getpid()}})]

    async def close(self) -> None:
        """Start no more legs."""
        self._closed = True

    def _train(self, order: Order, slot: Slot) -> None:
        if self._closed:
            return
        key = order.key
        link = self._links[key]
        if link.order is not None:
            left = Left(outcome="stopped")
        else:
            left = self._run(link, order.leg)
            link.flush()
        del self._links[key]
        slot.legs.remove(key)
        self._sink.heard(key, left)
