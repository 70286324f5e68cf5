"""Legs under way, as the engine's side of Dask sees them. Law: each leg's end is told exactly once.

A leg is a future; very short legs train in their slot's lane. A leg ends by its worker's word, or by the end of its
future, its worker or the scheduler.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import dataclasses
import logging
from collections.abc import Coroutine, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import dask
from distributed import wait

from workbench.cluster.backend import Slot
from workbench.cluster.direct import Direct
from workbench.cluster.lanes import Lanes
from workbench.cluster.workers.calls import run_legs
from workbench.cluster.workers.legs import TOPIC
from workbench.messages import Ends, FromLeg, Left, Order
from workbench.records.texts import written

log = logging.getLogger("workbench.cluster")

#: Seconds before a leg that has not come to its worker yet is told again to stop.
UNDER_WAY_S = 0.02


@dataclass(slots=True)
class Flight:
    """One leg under way: its future (that of a lane, or shared with others, if it is short) and where it was sent."""

    future: Any
    slot: Slot
    is_alone: bool
    stopped: bool = False
    #: It was told to leave, and has time to finish its turn.
    has_time: bool = False


def is_queued(key: str, slot: Slot, flights: Mapping[str, Flight]) -> bool:
    """Whether the leg of ``key`` must wait for others of its slot that were not told to stop."""
    others = (flights.get(one) for one in slot.legs if one != key)
    return any(flight is None or not flight.stopped for flight in others)


class Host(Protocol):
    """The backend, as its flights need it."""

    #: The current slots, and whether the backend is being closed.
    slots: list[Slot]
    is_closing: bool

    def tell(self, key: str, message: FromLeg) -> None:
        """Pass on a message of the leg of ``key``."""

    def later(self, coroutine: Coroutine[Any, Any, Any]) -> object:
        """Run ``coroutine`` in the background."""

    def gone(self, worker: str) -> Left:
        """The end of a leg whose worker is gone."""

    async def heard_until(self, worker: str, n: int) -> bool:
        """Wait until ``worker`` was heard up to its message ``n``, or is gone; False if it is silent for too long."""

    def lose_scheduler(self) -> None:
        """Dask's scheduler is gone."""


class Flights:
    """The legs under way on one cluster."""

    def __init__(self, host: Host, nonce: str) -> None:
        """nonce: what proves who the engine is."""
        self._host, self._nonce, self._topic = host, nonce, ""
        self._client: Any = None
        self._direct = Direct(None)
        self._lanes = Lanes(None, host.later, "")
        self._flights: dict[str, Flight] = {}
        #: Legs ordered in this turn of the event loop, by slot.
        self._ordered: dict[Slot, list[tuple[Order, int]]] = {}
        #: The legs of each future.
        self._futures: dict[Any, set[str]] = {}

    def attach(self, client: Any, direct: Direct, topic: str) -> None:
        """Send legs by Dask's ``client``, which is connected, and ``direct`` from now on. topic: the name of the
        engine's plugin on the workers."""
        self._client, self._direct, self._topic = client, direct, topic
        self._lanes.drop()
        self._lanes = Lanes(client, self._host.later, self._topic)

    def close(self) -> None:
        """The cluster is about to be closed."""
        self._lanes.drop()

    def rest(self, slot: Slot) -> None:
        """No leg comes to ``slot`` for now: nothing of ours stays in it."""
        self._lanes.leave(slot)

    def __contains__(self, key: str) -> bool:
        return key in self._flights

    def adopt(self, key: str, slot: Slot) -> None:
        """A leg that an earlier engine started trains in ``slot``."""
        slot.legs.append(key)
        self._flights[key] = Flight(None, slot, is_alone=False)

    # -- starting -----------------------------------------------------------------------------------------------------

    def start(self, order: Order, slot: Slot, priority: int) -> None:
        """Order one leg, pinned to its slot's worker. It is sent with what else this turn orders there."""
        slot.legs.append(order.key)
        if not self._ordered:
            asyncio.get_running_loop().call_soon(self._send)
        self._ordered.setdefault(slot, []).append((order, priority))

    def _send(self) -> None:
        ordered, self._ordered = self._ordered, {}
        for slot, legs in ordered.items():
            orders = [order for order, _ in legs]
            if slot not in self._host.slots:  # its worker went away in this very turn
                for order in orders:
                    slot.legs.remove(order.key)
                    self._host.tell(order.key, self._host.gone(slot.worker))
            elif all(order.leg.is_short for order in orders) and self._direct.has_reached(slot.worker):
                self._by_lane(slot, orders)
            elif orders[0].leg.parts > 1:  # they train side by side, and those of one future one after another
                for order, priority in legs:
                    self._submit(slot, [order], priority)
            else:
                self._submit(slot, orders, max(priority for _, priority in legs))

    def _by_lane(self, slot: Slot, orders: list[Order]) -> None:
        lane = self._lanes.of(slot)
        keys = self._futures.get(lane.future)
        if keys is None:
            keys = self._futures[lane.future] = set()
            self._host.later(self._watch(lane.future, keys))
        for order in orders:
            keys.add(order.key)
            self._flights[order.key] = Flight(lane.future, slot, is_alone=False)
        self._host.later(self._sent(slot.worker, self._stamped(orders, lane.key)))

    async def _sent(self, worker: str, orders: list[Order]) -> None:
        if not await self._direct.start(worker, orders):
            for order in orders:
                self.end(order.key, lost(f"its worker {worker} does not answer the engine"))

    def _submit(self, slot: Slot, orders: list[Order], priority: int) -> None:
        self._lanes.leave(slot)
        key = orders[0].key
        orders = self._stamped(orders, key)
        if len(orders) == 1 and (orders[0].leg.parts > 1 or not is_queued(key, slot, self._flights)):
            # Its worker starts it now, or when the leg before it has left. Its future will find it there.
            self._host.later(self._direct.start(slot.worker, orders))
        with dask.annotate(**{TOPIC: self._topic}):
            future = self._client.submit(
                run_legs,
                orders,
                self._topic,
                key=key,
                workers=[slot.worker],
                allow_other_workers=False,
                priority=priority,
                pure=False,
                retries=0,
            )
        keys = self._futures[future] = {order.key for order in orders}
        for one in keys:
            self._flights[one] = Flight(future, slot, is_alone=len(orders) == 1)
        self._host.later(self._watch(future, keys))

    def _stamped(self, orders: list[Order], task: str) -> list[Order]:
        return [dataclasses.replace(order, task=task, engine=self._nonce) for order in orders]

    # -- while it trains ----------------------------------------------------------------------------------------------

    def stop(self, key: str, reason: str, keep_s: float | None) -> None:
        """Cancel the future, and tell the worker directly, which is a hop nearer; whichever comes first counts. A leg
        that was told before is told again only where it has no time any more."""
        reason = written(reason)  # Dask's messages hold UTF-8 only
        flight = self._flights.get(key)
        if flight is None:  # ordered in this very turn
            self._host.later(self._stop_sent(key, reason, keep_s))
        elif not flight.stopped or (flight.has_time and keep_s is None):
            flight.stopped, flight.has_time = True, keep_s is not None
            self._host.later(self._stop(key, flight, reason, keep_s))

    async def _stop_sent(self, key: str, reason: str, keep_s: float | None) -> None:
        if key in self._flights:
            self.stop(key, reason, keep_s)

    async def _stop(self, key: str, flight: Flight, reason: str, keep_s: float | None) -> None:
        while True:
            here = await self._direct.stop(flight.slot.worker, key, reason, keep_s)
            if flight.is_alone and not (here and keep_s is not None):
                await flight.future.cancel(reason="workbench", msg=reason)
                return
            if here or key not in self._flights:
                return
            # It is still on its way, with others that must not be cancelled.
            await asyncio.sleep(UNDER_WAY_S)

    def go_on(self, key: str, level: int) -> None:
        """Tell the leg, which waits for it, that the search has not stopped it at this level."""
        if (flight := self._flights.get(key)) is not None:
            self._host.later(self._direct.go_on(flight.slot.worker, key, level))

    # -- ending -------------------------------------------------------------------------------------------------------

    async def _watch(self, future: Any, keys: set[str]) -> None:
        """The second way in which the ends of legs are heard: their future, where their messages were lost."""
        try:
            await wait(future)  # not its result, which would be fetched: that is seldom needed
            if not keys:
                return
            told: Ends = await future
            # What their worker said before may come by another way than this.
            if keys and not await self._host.heard_until(self._flights[next(iter(keys))].slot.worker, told.n):
                told = Ends(lefts=dict.fromkeys(keys, lost("what its worker said before its end did not come")))
        except (asyncio.CancelledError, concurrent.futures.CancelledError):
            if self._host.is_closing:
                return
            if self._client.status != "running":
                self._host.lose_scheduler()
            for key in list(keys):
                flight = self._flights.get(key)
                # Cancelled by us: its end comes as an event, when the process is gone.
                if flight is not None and not flight.stopped:
                    self.end(key, lost("the cluster cancelled it"))
            return
        except Exception as error:
            log.warning("legs %s: %r", sorted(keys), error)
            for key in list(keys):
                self.end(key, lost(f"Dask says {type(error).__name__}: {error}"))
            return
        finally:
            if not keys:
                self._futures.pop(future, None)
        for key, left in told.lefts.items():
            self.end(key, left)

    def end(self, key: str, left: Left) -> None:
        """The leg of ``key`` has ended, if that was not told before."""
        flight = self._flights.pop(key, None)
        if flight is None:
            return
        flight.slot.legs.remove(key)
        others = self._futures.get(flight.future, set())
        others.discard(key)
        if not others and not self._lanes.rests(flight.slot, flight.future):
            self._futures.pop(flight.future, None)
            # Not released explicitly, since a task may await it: dropping the last reference releases it.
        self._host.tell(key, left)

    def end_all(self, why: str) -> None:
        """The scheduler is gone, with all that ran there."""
        for key in list(self._flights):
            self.end(key, lost(why))

    def lose(self, slot: Slot) -> None:
        """The worker of ``slot`` is gone."""
        for key in list(slot.legs):
            flight = self._flights.get(key)
            if flight is not None:
                if flight.future is not None:
                    self._host.later(flight.future.cancel())
                self.end(key, self._host.gone(slot.worker))
        self._lanes.leave(slot)


def lost(reason: str, cause: str = "cluster") -> Left:
    """The end of a leg about which nothing more is known."""
    return Left(outcome="died", cause=cause, reason=reason)
