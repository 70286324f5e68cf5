"""Through what engines share slots: a machine's runtime folder, or Dask's scheduler. Law: an engine sees no
difference.

An engine says what it claims, and reads what others claim and hold (:mod:`workbench.engine.leases`).
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, Protocol

from workbench.cluster.arbiter import SharedSlots
from workbench.errors import BadMessage, ClusterError
from workbench.store.owner import slots
from workbench.store.owner.listed import account
from workbench.store.owner.machine import shared
from workbench.store.owner.slots import Claimant, Claiming, Holder, claimant_of, facts_of

#: Seconds until a scheduler is asked again that did not answer.
AGAIN_S = 0.1


class Medium(Protocol):
    """What an engine needs to share slots with others. Raises StoreError if it cannot be used, OSError if it is gone
    for now."""

    #: Whether its slots are those of this machine, which users may share and a person may drain.
    is_local: bool

    @property
    def mine(self) -> Claimant | None:
        """What this engine claims; None if it claims nothing."""

    async def look(self) -> None:
        """See the present state, which :meth:`others`, :meth:`holders` and :meth:`drained` then give."""

    def others(self) -> Sequence[Claimant]:
        """What other engines claim, the oldest claim first."""

    def holders(self) -> Sequence[Holder]:
        """The slots that are held, by name."""

    def drained(self) -> frozenset[str]:
        """The names of slots that a person took out of use."""

    def claim(self, held: int, wants: Iterable[str], **facts: Any) -> Claimant:
        """Say how many slots this engine has, which others it can use, and other fields of ``Claimant``."""

    def again(self) -> None:
        """Move behind equal claims, after getting a slot."""

    def release(self) -> None:
        """Claim nothing any more. Slots that are held stay held."""


class Folder:
    """The runtime folder of this user on this machine."""

    is_local = True

    def __init__(self, store: str) -> None:
        self._store = store
        self._mark: Claiming | None = None
        self.mine: Claimant | None = None

    async def look(self) -> None:
        """Nothing to do: files are read when they are asked for."""

    def others(self) -> Sequence[Claimant]:
        """See :meth:`Medium.others`."""
        return slots.claimants(self._mark)

    def holders(self) -> Sequence[Holder]:
        """See :meth:`Medium.holders`."""
        return slots.holders()

    def drained(self) -> frozenset[str]:
        """See :meth:`Medium.drained`."""
        return slots.drained()

    def claim(self, held: int, wants: Iterable[str], **facts: Any) -> Claimant:
        """See :meth:`Medium.claim`. Where users share the machine, they see a part of it."""
        if self._mark is None:
            self._mark = Claiming(self._store)
        self.mine = self._mark.tell(held, wants, **facts)
        self._mark.show(shared(), self.mine)
        return self.mine

    def again(self) -> None:
        """See :meth:`Medium.again`."""
        if self._mark is not None:
            self._mark.again()

    def release(self) -> None:
        """See :meth:`Medium.release`."""
        if self._mark is not None:
            self._mark.release()
        self._mark = self.mine = None


class AtScheduler:
    """The arbiter in the Dask scheduler of a cluster that was given by its address."""

    is_local = False

    def __init__(self, client: Any, store: str) -> None:
        """client: Dask's, connected. Its connection is what a lease ends with."""
        self._client, self._store, self._owner = client, store, account()
        self.mine: Claimant | None = None
        self._since = slots.now()
        self._others: list[Claimant] = []
        self._holders: list[Holder] = []
        #: One claim is told at a time, so that the newest is the last.
        self._telling = asyncio.Lock()
        self._tasks: set[asyncio.Task[None]] = set()

    @classmethod
    async def joined(cls, client: Any, store: str, topic: str) -> AtScheduler:
        """Bring the arbiter to the scheduler, if it is not there. topic: the name of this engine's plugin on workers.

        Raises ClusterError for a scheduler without Workbench.
        """
        try:
            await client.register_plugin(SharedSlots())
            await client.scheduler.workbench_slots_join(engine=client.id, topic=topic)
        except OSError:
            raise
        except Exception as error:  # what the scheduler raised: it cannot import Workbench, or must load no pickles
            raise ClusterError(
                f"the Dask scheduler at {client.scheduler.address} cannot load Workbench ({error}). Install the same "
                "Workbench version in the scheduler's environment, and start it again."
            ) from error
        return cls(client, store)

    async def look(self) -> None:
        """See :meth:`Medium.look`."""
        async with self._telling:
            claim = None if self.mine is None else facts_of(self.mine)
            told = await self._client.scheduler.workbench_slots_look(engine=self._client.id, claim=claim)
        try:
            claims = [claimant_of(str(one["name"]), one) for one in told["claims"]]
            self._holders = [Holder(**one) for one in told["holders"]]
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            raise BadMessage(f"the slots that the Dask scheduler tells cannot be read: {error!r}") from error
        self._others = [one for one in claims if one.name != self._client.id]

    def others(self) -> Sequence[Claimant]:
        """See :meth:`Medium.others`."""
        return self._others

    def holders(self) -> Sequence[Holder]:
        """See :meth:`Medium.holders`."""
        return self._holders

    def drained(self) -> frozenset[str]:
        """See :meth:`Medium.drained`. A worker of a cluster is not drained, but retired by Dask."""
        return frozenset()

    def claim(self, held: int, wants: Iterable[str], **facts: Any) -> Claimant:
        """See :meth:`Medium.claim`."""
        claimant = Claimant(
            self._client.id, self._store, self._since, held, frozenset(wants), owner=self._owner, **facts
        )
        before, self.mine = self.mine, claimant
        if before is None or replace(before, debt=claimant.debt) != claimant:
            self._tell_soon()  # a debt alone may wait for the next look
        return claimant

    def again(self) -> None:
        """See :meth:`Medium.again`."""
        self._since = slots.now()

    def release(self) -> None:
        """See :meth:`Medium.release`."""
        if self.mine is not None:
            self.mine = None
            self._tell_soon()

    def _tell_soon(self) -> None:
        task = asyncio.get_running_loop().create_task(self._tell())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _tell(self) -> None:
        with contextlib.suppress(OSError, BadMessage):  # the scheduler is gone: the next one is told
            await self.look()

    async def take(self, names: Sequence[str]) -> str | None:
        """Lease the first free one of these slots; its name, or None."""
        scheduler = self._client.scheduler
        held: str | None = await scheduler.workbench_slots_take(
            engine=self._client.id, names=list(names), store=self._store
        )
        return held

    async def give(self, name: str) -> None:
        """Give a slot back. Raises OSError if the scheduler is gone, and all leases with it."""
        while True:
            try:
                await self._client.scheduler.workbench_slots_give(engine=self._client.id, name=name)
                return
            except OSError:
                if self._client.status != "running":
                    raise
            await asyncio.sleep(AGAIN_S)
