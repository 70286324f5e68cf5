"""The engine's interface to what trains its legs. Law: an interface; Dask and inline both implement it."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from workbench.cluster.medium import AtScheduler
from workbench.messages import FromLeg, Order, Plain, Story
from workbench.records import Training


class Sink(Protocol):
    """Receives a backend's messages: the engine."""

    def heard(self, key: str, message: FromLeg) -> None:
        """A message of the leg of ``key``."""

    def slots_changed(self) -> None:
        """The slots have changed."""


@dataclass(slots=True, eq=False)
class Slot:
    """A share of the cluster that runs one process."""

    worker: str
    index: int
    #: Keys of legs that were placed in it and have not left: one trains, the others are queued behind it. A leg of
    #: several slots has a key for each of its ranks (:func:`rank_key`).
    legs: list[str]
    #: Why it gets no more legs; empty while it is used.
    closed: str = ""
    #: Names of shared slots of which one must be leased for it; empty if the cluster does not share slots.
    names: tuple[str, ...] = ()
    #: The name of the one that is leased; empty if none is.
    lease: str = ""
    #: Whether it goes to another engine when its last leg has left.
    giving: bool = False

    @property
    def is_usable(self) -> bool:
        """Whether it may get a leg now."""
        return not self.closed and not self.giving and (bool(self.lease) or not self.names)

    @property
    def name(self) -> str:
        """``address/index``, for users."""
        return f"{self.worker}/{self.index}"


@dataclass(frozen=True, slots=True)
class Survivor:
    """A leg of an earlier engine: it still trains, or has ended since, and its messages must still be handled."""

    story: Story
    #: Where it trains or trained; it is among the slot's legs while it does.
    slot: Slot
    #: The same for its other ranks.
    mates: list[Slot] = field(default_factory=list)


def rank_key(key: str, rank: int) -> str:
    """The key of one rank of the leg of ``key``."""
    return f"{key}#{rank}" if rank else key


def leader(key: str) -> str:
    """The key of the leg that the rank of ``key`` belongs to."""
    return key.partition("#")[0]


class Backend(Protocol):
    """Starts and stops legs in slots. Its messages go to a sink."""

    #: The current slots; the sink is told when they change.
    slots: list[Slot]
    #: The address of Dask's own pages, and a note about the cluster for users; None if there is none.
    dashboard: str | None
    note: str | None
    #: The arbiter of a cluster that engines share; None if its slots are this machine's, or shared with no engine.
    arbiter: AtScheduler | None

    #: Whether legs of an earlier engine may still train here, so that :meth:`open` must be awaited before anything
    #: else.
    was_found: bool
    #: Those legs, once it is open.
    survivors: list[Survivor]

    @property
    def most_slots(self) -> int | None:
        """How many slots it will ever have; None if other machines may join it."""

    async def open(self) -> None:
        """Get ready to take legs. Raises ClusterError. Survivors' messages do not arrive before :meth:`settle`."""

    def settle(self, adopted: Collection[str]) -> None:
        """Continue with the survivors of these keys, whose next messages follow; the others are told to leave."""

    def marks(self) -> Any:
        """The number of the newest message that was received from each worker."""

    async def keep(self, marks: Any) -> None:
        """The messages up to these marks are on disk: no later engine needs them."""

    def start(self, order: Order, slots: Sequence[Slot], priority: int) -> None:
        """Train the leg that ``order`` describes, with one rank in each of ``slots``. Its end is sent as ``Left`` with
        its key, exactly once, when the last rank has left."""

    def stop(self, key: str, reason: str, keep_s: float | None) -> None:
        """Make the leg leave: at its next turn, or by a kill after the grace time. Its end is still sent as ``Left``.

        keep_s: seconds in which it may finish its turn and leave with a checkpoint; None: without one.
        """

    def go_on(self, key: str, level: int) -> None:
        """Tell the leg that the search has not stopped it at this level."""

    def close_worker(self, worker: str, why: str) -> None:
        """Give no more legs to ``worker``; its current legs continue."""

    def open_worker(self, worker: str, why: str) -> None:
        """Give legs to ``worker`` again, if it was closed for this reason."""

    async def lease(self, slot: Slot) -> str | None:
        """Lease one of the slots that ``slot`` needs, for its worker or this engine. Returns its name, or None.

        Raises StoreError if slots cannot be shared, OSError if the worker is gone.
        """

    async def release(self, slot: Slot) -> None:
        """Give back what was leased for ``slot``, which has no legs."""

    async def warm(self, training: Training) -> None:
        """Prepare for legs of this training environment."""

    async def look(self) -> list[Plain]:
        """The cluster's machines now: each one's host, memory and workers, in the form of ``machine.survey``."""

    async def close(self) -> None:
        """End everything that was started."""
