"""What the engine tells workers directly, past Dask's scheduler: one hop instead of three. Law: one method, one call.

A worker that is gone raises OSError where an answer is needed, and otherwise hears nothing. Where the engine has a line
to the worker (``workers/line.py``), what needs no answer goes by it.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import pickle
from collections.abc import Callable, Sequence
from typing import Any

from workbench.cluster.workers.line import Line
from workbench.messages import Order
from workbench.records.texts import written

log = logging.getLogger("workbench.cluster")

#: Seconds to wait until a worker has taken note of something.
ANSWER_S = 5.0


class Direct:
    """The workers of one cluster."""

    def __init__(self, client: Any, topic: str = "") -> None:
        """client: Dask's, connected to the cluster. topic: the name of this engine's plugin on the workers."""
        self._client, self._topic = client, topic
        #: Workers that have answered.
        self._reached: set[str] = set()
        self._lines: dict[str, Line] = {}
        #: By worker to which a line is being opened: set when it is open, or cannot be.
        self._opening: dict[str, asyncio.Event] = {}

    def _handler(self, worker: str, name: str) -> Any:
        return getattr(self._client.rpc(worker), f"{self._topic}_{name}")

    def has_reached(self, worker: str) -> bool:
        """Whether ``worker`` has answered before: a firewall may let only the scheduler through."""
        return worker in self._reached

    async def open_line(self, worker: str) -> Line | None:
        """A line to ``worker``, by which from now on goes what needs no answer; None if there is one already, or can be
        none."""
        if (opening := self._opening.get(worker)) is not None:
            await opening.wait()
        if worker in self._lines:
            return None
        opened = self._opening[worker] = asyncio.Event()
        try:
            made = Line.opened(worker, f"{self._topic}_line", **self._client.connection_args)
            line = self._lines[worker] = await asyncio.wait_for(made, ANSWER_S)
        except OSError as error:
            log.warning("worker %s is heard by Dask's scheduler: there is no line to it (%r)", worker, error)
            return None
        finally:
            del self._opening[worker]
            opened.set()
        self._reached.add(worker)
        return line

    async def listen(self, worker: str, line: Line, take: Callable[[Any], object]) -> None:
        """Call ``take`` with what comes by the line of ``worker``, until it ends."""
        try:
            await line.serve(take)
        finally:
            del self._lines[worker]

    async def start(self, worker: str, orders: Sequence[Order]) -> bool:
        """Have ``worker`` start legs, whose future may be on its way there; False if it does not answer."""
        return await self._say(worker, "start", orders=pickle.dumps(list(orders)))

    async def _say(self, worker: str, name: str, **given: Any) -> bool:
        """Give an order that has no result; False if the worker does not answer."""
        if (line := self._lines.get(worker)) is not None:
            line.send({"name": name, "given": given})
            return True
        try:
            await self._handler(worker, name)(**given)
        except OSError:
            self._reached.discard(worker)
            return False
        self._reached.add(worker)
        return True

    async def stop(self, worker: str, key: str, reason: str, keep_s: float | None) -> bool:
        """Make a leg leave; False if it is not there, or its worker does not answer: it may be frozen, or reached by
        Dask's scheduler only."""
        asked = self._handler(worker, "stop")(key=key, reason=reason, keep_s=keep_s)
        try:
            here: bool = await asyncio.wait_for(asked, ANSWER_S)
        except OSError:
            return False
        return here

    async def go_on(self, worker: str, key: str, level: int) -> None:
        """Tell a leg that the search has not stopped it at this level."""
        await self._say(worker, "go_on", key=key, level=level)

    async def heard(self, worker: str, number: int) -> bool:
        """Tell a worker that all its messages up to this number are on disk; False if it cannot be told."""
        with contextlib.suppress(Exception):  # it is gone, or the cluster is, and what it kept with it
            return await asyncio.wait_for(self._say(worker, "heard", number=number), ANSWER_S)
        return False

    async def give_secrets(self, worker: str, experiment: str, values: Any) -> None:
        """Tell a worker the secrets of an experiment: Dask's scheduler neither sees nor keeps them."""
        with contextlib.suppress(OSError):  # another worker will ask
            await self._handler(worker, "secrets")(experiment=experiment, values=values)

    async def lease(self, worker: str, names: Sequence[str], store: str) -> str | None:
        """Have a worker hold one of its machine's slots; which. store: the path that people are shown."""
        held: str | None = await self._handler(worker, "lease")(names=list(names), store=written(store))
        return held

    async def release(self, worker: str) -> None:
        """Have a worker release the slot that it holds."""
        await self._handler(worker, "release")()

    async def clear(self, worker: str) -> None:
        """Have a worker end what waits in a slot that this engine has given back."""
        with contextlib.suppress(Exception):  # it is gone, or the cluster is; and what waits ends by itself, too
            await asyncio.wait_for(self.release(worker), ANSWER_S)
