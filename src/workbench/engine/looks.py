"""The cluster's state, written for viewers about once a second. Law: display only; nothing waits for it."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

from workbench.cluster.backend import Slot
from workbench.engine.slots import Slots
from workbench.errors import StoreError
from workbench.messages import Plain
from workbench.store import Store
from workbench.store.owner.cluster import write_cluster
from workbench.store.owner.lease import EngineLease
from workbench.store.owner.slots import facts_of, holders

log = logging.getLogger("workbench.engine")

#: Seconds between two looks at the slots, and at most between two writes.
LOOK_S, WRITE_S = 1.0, 5.0
#: Seconds between two writes while nothing runs, and between two looks at the machines, which cost more.
RESTING_S, RESTING_LOOK_S = 10.0, 30.0
#: Looking at machines takes at most this part of the engine's time.
SHARE = 0.02
#: Memory is rounded to so many bytes: smaller changes are not shown.
_ROUND = 1 << 20


class Looks:
    """Keeps ``cluster.json`` while the engine lives."""

    def __init__(self, store: Store, lease: EngineLease, slots: Slots, at_work: asyncio.Event) -> None:
        """at_work: set while an experiment is open."""
        self._store, self._lease, self._slots, self._at_work = store, lease, slots, at_work
        self._backend = slots.backend
        self._machines: list[Plain] = []
        self._looked = self._next_look = 0.0
        self._shown: dict[str, Any] = {}
        self._written = 0.0

    async def keep(self) -> None:
        """Look and write, until cancelled."""
        while True:
            await self._look()
            before = self._shown.get("slots")
            with contextlib.suppress(StoreError):  # a full disk: viewers see that the state is old
                self._write()
            await asyncio.sleep(LOOK_S)
            if self._shown.get("slots") == before and self._facts()["slots"] == before:
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._at_work.wait(), RESTING_S - LOOK_S)

    async def _look(self) -> None:
        begun = time.monotonic()
        rests = not self._at_work.is_set() and begun < self._looked + RESTING_LOOK_S
        if begun < self._next_look or (rests and self._machines):
            return
        try:
            self._machines = await self._backend.look()
        except Exception as error:  # an error of one machine must not end the engine
            log.warning("the machines cannot be inspected: %r", error)
        self._slots.saw(self._machines)
        now = time.monotonic()
        self._looked, self._next_look = now, now + max(LOOK_S, (now - begun) / SHARE)

    def _write(self) -> None:
        facts = self._facts()
        now = time.monotonic()
        if facts == self._shown and now - self._written < WRITE_S:
            return
        if self._lease.held and self._lease.is_ours:
            at = datetime.now(UTC).isoformat(timespec="milliseconds")
            write_cluster(self._store, self._lease.info, {"at": at, **facts})
            self._shown, self._written = facts, now

    def _facts(self) -> dict[str, Any]:
        slots = [self._slot(slot) for slot in self._backend.slots]
        workers = []
        for machine in self._machines:
            for address, one in machine["workers"].items():
                mine = [slot for slot in slots if slot["worker"] == address]
                used = sum(1 for slot in mine if slot["trial"] is not None)
                if mine:
                    workers.append({
                        "name": one.get("name") or address,
                        "address": address,
                        "host": machine["host"],
                        "slots": len(mine),
                        "used": used,
                        "memory": _rounded(one["memory"]),
                        "memory_limit": machine["memory"]["total"],
                        "cpu": one["cpu"],
                        "gpu": [{name: gpu[name] for name in gpu if name != "outside"} for gpu in one["gpu"]],
                    })  # fmt: skip
        lacks, divided = self._slots.lacks, self._slots.divided
        parts = ("total", "used", "others")
        memory = {part: _rounded(sum(one["memory"][part] for one in self._machines)) for part in parts}
        outside = [
            {"host": machine["host"], **one, "memory": _rounded(one["memory"])}
            for machine in self._machines
            for one in machine["memory"]["outside"]
        ]
        return {
            "workers": workers,
            "slots": slots,
            "memory": memory if self._machines else None,
            "held": self._held(),
            "dashboard": self._backend.dashboard,
            **({"outside": outside} if outside else {}),
            **({"lacks": {label: asdict(one) for label, one in lacks.items()}} if lacks else {}),
            **(
                {"divided": {label: {"parts": one[0], "why": one[1]} for label, one in divided.items()}}
                if divided
                else {}
            ),
            **self._attached(),
        }

    def _attached(self) -> dict[str, Any]:
        """What a cluster that was given by its address has, and who waits there."""
        medium = self._backend.arbiter
        if medium is None:
            return {}
        mine = [] if medium.mine is None else [medium.mine]
        names = {name for slot in self._backend.slots if not slot.closed for name in (*slot.names, slot.lease) if name}
        waiting = [facts_of(one) for one in (*mine, *medium.others()) if one.lacks]
        return {"attached": {"slots": sorted(names), "waiting": waiting}}

    def _held(self) -> list[dict[str, Any]]:
        """Shared slots and their holders, if this engine shares them with others."""
        if not any(slot.names for slot in self._backend.slots):
            return []
        with contextlib.suppress(StoreError):
            found = holders() if self._backend.arbiter is None else self._backend.arbiter.holders()
            return [asdict(holder) for holder in found]
        return []

    def _slot(self, slot: Slot) -> dict[str, Any]:
        held = self._slots.holders(slot)
        experiment, trial, since = held[0] if held else (None, None, None)
        at = None
        if since is not None:
            began = datetime.fromtimestamp(time.time() - (time.monotonic() - since), UTC)
            # Round to seconds: the two clocks drift by less, so the same time is shown as the same.
            at = began.replace(microsecond=0).isoformat()
        return {
            "worker": slot.worker,
            "slot": slot.index,
            "experiment": experiment,
            "trial": trial,
            "since": at,
            **({"beside": [trial for _, trial, _ in held[1:]]} if len(held) > 1 else {}),
            **({"lease": slot.lease} if slot.lease else {}),
            **({"closed": slot.closed} if slot.closed else {}),
        }


def _rounded(size: int) -> int:
    return size // _ROUND * _ROUND
