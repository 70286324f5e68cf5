"""The slots of a cluster that engines share: who claims them and who holds which. Law: a slot has at most one holder.

It lives in Dask's scheduler, which all engines of the cluster reach. It keeps names, weights and counts, and no code.
Engines compute from all claims who should have how many slots (:mod:`workbench.engine.fair`), as those of one machine
do. A lease ends with its engine's connection. All of it is gone with the scheduler, and so is all that trained by it:
engines connect to the next one, and claim again.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from typing import Any

from distributed import Scheduler
from distributed.diagnostics.plugin import SchedulerPlugin

from workbench.messages import Plain
from workbench.store.owner.slots import Claimant, Holder, claimant_of, facts_of, now


class Arbiter:
    """The claims and leases of engines, each known by the name of its connection. Pure."""

    def __init__(self) -> None:
        self._claims: dict[str, Claimant] = {}
        #: By name of the slot: whose it is, and since when.
        self._leases: dict[str, tuple[str, Holder]] = {}

    def claim(self, engine: str, claimant: Claimant | None) -> None:
        """What ``engine`` claims from now on; None: nothing."""
        if claimant is None:
            self._claims.pop(engine, None)
        else:
            self._claims[engine] = claimant

    def take(self, engine: str, names: Iterable[str], store: str, since: str) -> str | None:
        """Lease the first free one of these slots to ``engine``, which works in ``store``; its name, or None."""
        name = next((name for name in names if name not in self._leases), None)
        if name is not None:
            self._leases[name] = (engine, Holder(name, store, since=since))
        return name

    def give(self, engine: str, name: str) -> None:
        """``engine`` gives the slot back, if it has it."""
        if name in self._leases and self._leases[name][0] == engine:
            del self._leases[name]

    def gone(self, engine: str) -> None:
        """``engine`` is gone: its slots are free."""
        self._claims.pop(engine, None)
        self._leases = {name: lease for name, lease in self._leases.items() if lease[0] != engine}

    def lost(self, worker: str) -> None:
        """The worker at this address is gone, and so are its slots."""
        self._leases = {name: lease for name, lease in self._leases.items() if worker_of(name) != worker}

    def claims(self) -> list[Claimant]:
        """All claims, the oldest first."""
        return sorted(self._claims.values(), key=lambda one: (one.since, one.name))

    def holders(self) -> list[Holder]:
        """The slots that are held, by name."""
        return [self._leases[name][1] for name in sorted(self._leases)]

    def train(self, engine: str, experiments: Mapping[str, str]) -> None:
        """Note which experiment (its label) trains in each of these slots of ``engine``."""
        for name, experiment in experiments.items():
            if name in self._leases and self._leases[name][0] == engine:
                holder = self._leases[name][1]
                self._leases[name] = (engine, Holder(name, holder.store, experiment, since=holder.since))


def worker_of(name: str) -> str:
    """The address of the worker that a cluster's slot belongs to."""
    return name.rpartition("/")[0]


class SharedSlots(SchedulerPlugin):  # type: ignore[misc]  # Dask has no types
    """The arbiter in Dask's scheduler. Engines reach it by handlers whose names begin with ``workbench_slots``."""

    name = "workbench-slots"
    #: The first engine brings it; it stays for the others.
    idempotent = True

    def __init__(self) -> None:
        self._arbiter = Arbiter()
        #: The plugin on the workers of each engine.
        self._topics: dict[str, str] = {}
        self._tasks: set[asyncio.Task[Any]] = set()

    def start(self, scheduler: Scheduler) -> None:
        """Called by Dask. It awaits nothing, so that of two engines that come at once only one brings it."""
        self._scheduler = scheduler
        scheduler.handlers["workbench_slots_join"] = self.join
        scheduler.handlers["workbench_slots_look"] = self.look
        scheduler.handlers["workbench_slots_take"] = self.take
        scheduler.handlers["workbench_slots_give"] = self.give

    def join(self, engine: str, topic: str) -> None:
        """An engine is connected, whose plugin on the workers has the name ``topic``: it goes with the engine."""
        self._topics[engine] = topic

    def look(self, engine: str, claim: Plain | None) -> dict[str, list[Plain]]:
        """Take note of what an engine claims, and tell it what all claim and hold."""
        with contextlib.suppress(KeyError, TypeError, ValueError, OverflowError):
            claimant = None if claim is None else claimant_of(engine, claim)
            if engine in self._scheduler.clients:
                self._arbiter.claim(engine, claimant)
                if claimant is not None and claimant.experiments:
                    self._arbiter.train(engine, dict.fromkeys(claimant.holds, claimant.experiments[0]))
        claims, holders = self._arbiter.claims(), self._arbiter.holders()
        return {"claims": [facts_of(one) for one in claims], "holders": [asdict(one) for one in holders]}

    def take(self, engine: str, names: list[str], store: str) -> str | None:
        """As :meth:`Arbiter.take`; an engine that is gone gets none, since its lease would not end."""
        if engine not in self._scheduler.clients:
            return None
        there = [name for name in names if worker_of(name) in self._scheduler.workers]
        return self._arbiter.take(engine, there, store, now())

    def give(self, engine: str, name: str) -> None:
        """As :meth:`Arbiter.give`."""
        self._arbiter.give(engine, name)

    def remove_client(self, scheduler: Scheduler, client: str) -> None:
        """Called by Dask, within milliseconds of an engine's death."""
        self._arbiter.gone(client)
        topic = self._topics.pop(client, None)
        if topic in scheduler.worker_plugins:
            task = asyncio.get_running_loop().create_task(scheduler.unregister_worker_plugin(None, topic))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    def remove_worker(self, scheduler: Scheduler, worker: str, *, stimulus_id: str, **kwargs: Any) -> None:
        """Called by Dask."""
        self._arbiter.lost(worker)
