"""What the engine asks of whatever trains its legs. Law: an interface; Dask and inline both stand behind it."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, Protocol

from workbench.messages import FromLeg, Order, Plain, Story
from workbench.records import Training


class Sink(Protocol):
    """Where a backend's answers go: the engine."""

    def heard(self, key: str, message: FromLeg) -> None:
        """What the leg of ``key`` says."""

    def slots_changed(self) -> None:
        """There are other slots now."""


@dataclass(slots=True, eq=False)
class Slot:
    """A share of the cluster that runs one process."""

    worker: str
    index: int
    #: Keys of legs given to it and not yet told to be gone: one training, the others queued behind it.
    legs: list[str]
    #: Why no leg is given to it any more; empty while it is used.
    closed: str = ""
    #: Slots of this machine of which its worker must hold one, by name; none where the cluster's slots are its own.
    names: tuple[str, ...] = ()
    #: The one that its worker holds; empty where it holds none.
    lease: str = ""
    #: It goes to another engine when its last leg has left.
    giving: bool = False

    @property
    def is_usable(self) -> bool:
        """Whether a leg may be given to it now."""
        return not self.closed and not self.giving and (bool(self.lease) or not self.names)

    @property
    def name(self) -> str:
        """``address/index``, for people."""
        return f"{self.worker}/{self.index}"


@dataclass(frozen=True, slots=True)
class Survivor:
    """A leg of an engine before: it trains on, or has ended since, and what it said is still to be heard."""

    story: Story
    #: Where it trains, or did; it is among the slot's legs as long as it does.
    slot: Slot


class Backend(Protocol):
    """Starts legs in slots and stops them. Its answers come to a sink."""

    #: The slots there are now; the sink is told when they change.
    slots: list[Slot]
    #: Where Dask's own pages are, and what a person is told of the cluster; None where there is nothing.
    dashboard: str | None
    note: str | None

    #: Whether legs of an engine before may train on here, so that :meth:`open` is to be awaited before anything else.
    was_found: bool
    #: Those legs, once it is open.
    survivors: list[Survivor]

    async def open(self) -> None:
        """Be ready to take legs. Raises ClusterError. Nothing is heard of survivors until :meth:`settle`."""

    def settle(self, adopted: Collection[str]) -> None:
        """Go on with the survivors of these keys, whose next messages follow; the others are told to leave."""

    def marks(self) -> Any:
        """How far each worker has been heard."""

    async def keep(self, marks: Any) -> None:
        """What was heard up to these marks is on the disk: no later engine need hear it."""

    def start(self, order: Order, slot: Slot, priority: int) -> None:
        """Train the leg that ``order`` describes in ``slot``. Its end comes as ``Left`` with its key, exactly once."""

    def stop(self, key: str, reason: str, keep_s: float | None) -> None:
        """Make the leg leave: at its next turn, by a kill after the grace time. Its end still comes as ``Left``.

        keep_s: seconds in which it may come to the end of its turn and leave with a checkpoint; None: without.
        """

    def close_worker(self, worker: str, why: str) -> None:
        """Give no more legs to ``worker``; those that it has go on."""

    async def lease(self, slot: Slot) -> str | None:
        """Have the worker of ``slot`` hold one of the slots of this machine that it needs; the one, or None.

        Raises StoreError where slots cannot be shared, OSError where the worker is gone.
        """

    async def release(self, slot: Slot) -> None:
        """Have the worker of ``slot``, which has no legs, give back what it holds."""

    async def warm(self, training: Training) -> None:
        """Make ready for legs of this training environment."""

    async def look(self) -> list[Plain]:
        """The cluster's machines now: of each its host, its memory, and its workers, as ``machine.survey`` has them."""

    async def close(self) -> None:
        """End everything that was started."""
