"""What the engine tells workers directly, past Dask's scheduler: one hop instead of three. Law: one method, one call.

A worker that is gone raises OSError where an answer is needed, and otherwise hears nothing.
"""

from __future__ import annotations

import asyncio
import contextlib
import pickle
from collections.abc import Sequence
from typing import Any

from workbench.messages import Order

#: Seconds to wait until a worker has taken note of something.
ANSWER_S = 5.0


class Direct:
    """The workers of one cluster."""

    def __init__(self, client: Any, topic: str = "") -> None:
        """client: Dask's, connected to the cluster. topic: the name of this engine's plugin on the workers."""
        self._client, self._topic = client, topic
        #: Workers that have answered.
        self._reached: set[str] = set()

    def _handler(self, worker: str, name: str) -> Any:
        return getattr(self._client.rpc(worker), f"{self._topic}_{name}")

    def has_reached(self, worker: str) -> bool:
        """Whether ``worker`` has answered before: a firewall may let only the scheduler through."""
        return worker in self._reached

    async def start(self, worker: str, orders: Sequence[Order]) -> bool:
        """Have ``worker`` start legs, whose future may be on its way there; False if it does not."""
        try:
            begun: bool = await self._handler(worker, "start")(orders=pickle.dumps(list(orders)))
        except OSError:
            self._reached.discard(worker)
            return False
        self._reached.add(worker)
        return begun

    async def stop(self, worker: str, key: str, reason: str, keep_s: float | None) -> bool:
        """Make a leg leave; False if it is not there."""
        try:
            here: bool = await self._handler(worker, "stop")(key=key, reason=reason, keep_s=keep_s)
        except OSError:
            return False
        return here

    async def go_on(self, worker: str, key: str, level: int) -> None:
        """Tell a leg that the search has not stopped it at this level."""
        with contextlib.suppress(OSError):
            await self._handler(worker, "go_on")(key=key, level=level)

    async def heard(self, worker: str, number: int) -> bool:
        """Tell a worker that all its messages up to this number are on disk; False if it did not take note."""
        with contextlib.suppress(Exception):  # it is gone, or the cluster is, and what it kept with it
            await asyncio.wait_for(self._handler(worker, "heard")(n=number), ANSWER_S)
            return True
        return False

    async def give_secrets(self, worker: str, experiment: str, values: Any) -> None:
        """Tell a worker the secrets of an experiment: Dask's scheduler neither sees nor keeps them."""
        with contextlib.suppress(OSError):  # another worker will ask
            await self._handler(worker, "secrets")(experiment=experiment, values=values)

    async def lease(self, worker: str, names: Sequence[str], store: str) -> str | None:
        """Have a worker hold one of its machine's slots; which."""
        held: str | None = await self._handler(worker, "lease")(names=list(names), store=store)
        return held

    async def release(self, worker: str) -> None:
        """Have a worker release the slot that it holds."""
        await self._handler(worker, "release")()
