"""Lanes: a long Dask future for each slot in which very short legs train. Law: it carries no leg, and decides nothing.

From a future's submission to its result Dask takes as long as such a leg trains. So the engine orders these legs
directly from the slot's worker, and one future without work stands for them in Dask's scheduler. If it is cancelled
there, the legs stop. A slot that gets other legs, or none for some time, gives its lane up.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any

from workbench.cluster.backend import Slot
from workbench.cluster.workers.calls import hold_lane

#: Seconds for which a lane without legs stays.
REST_S = 1.0


@dataclass(slots=True, eq=False)
class Lane:
    """The lane of a slot. key: of its Dask task."""

    key: str
    future: Any
    #: It is given up then; None while legs train in it.
    ending: asyncio.TimerHandle | None = None


class Lanes:
    """The lanes of one cluster."""

    def __init__(self, client: Any, later: Callable[[Coroutine[Any, Any, Any]], object], topic: str) -> None:
        """client: Dask's, connected to the cluster. later: runs a coroutine in the background. topic: the name of this
        engine's plugin on the workers."""
        self._client, self._later, self._topic = client, later, topic
        self._lanes: dict[Slot, Lane] = {}
        self._count = itertools.count()

    def of(self, slot: Slot) -> Lane:
        """The lane of ``slot``, which gets a leg now."""
        lane = self._lanes.get(slot)
        if lane is None or lane.future.done():
            lane = self._lanes[slot] = self._open(slot)
        elif lane.ending is not None:
            lane.ending.cancel()
            lane.ending = None
        return lane

    def rests(self, slot: Slot, future: Any) -> bool:
        """The last leg of ``future`` in ``slot`` has left. Returns whether it is a lane, which may get others."""
        lane = self._lanes.get(slot)
        if lane is None or lane.future is not future:
            return False
        # Other legs of the slot wait in Dask for the lane's end.
        rest_s = 0 if slot.legs else REST_S
        lane.ending = asyncio.get_running_loop().call_later(rest_s, self.leave, slot)
        return True

    def leave(self, slot: Slot) -> None:
        """Give up the lane of ``slot``, unless legs train in it."""
        lane = self._lanes.get(slot)
        if lane is not None and lane.ending is not None:
            lane.ending.cancel()
            del self._lanes[slot]
            self._later(lane.future.cancel())

    def drop(self) -> None:
        """Forget all lanes: the cluster is gone, or closed."""
        for lane in self._lanes.values():
            if lane.ending is not None:
                lane.ending.cancel()
        self._lanes = {}

    def _open(self, slot: Slot) -> Lane:
        key = f"workbench-lane-{slot.index}-{next(self._count)}-{self._client.id}"
        future = self._client.submit(
            hold_lane,
            key,
            self._topic,
            key=key,
            workers=[slot.worker],
            allow_other_workers=False,
            pure=False,
            retries=0,
        )
        return Lane(key, future)
