"""The clusters that engines of this user's stores on this machine are attached to. Law: it only reads, starts nothing,
and waits for an answer of a scheduler for two seconds at most.

What is held there and who waits is what the engines have written (:mod:`workbench.store.owner.cluster`), as
``workbench engine status`` shows it. The scheduler is asked for nothing but a sign of life.
"""

from __future__ import annotations

import contextlib
import socket
import ssl
import time
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from workbench.errors import WorkbenchError
from workbench.status.places import place
from workbench.store import Store
from workbench.store.owner.cluster import read_cluster
from workbench.store.owner.lease import read_engine
from workbench.store.owner.ownership import known
from workbench.store.owner.promised import lack
from workbench.store.owner.slots import Claimant, Holder, claimant_of

#: Seconds within which a scheduler must give a sign of life.
ANSWER_S = 2.0


@dataclass(frozen=True, slots=True)
class Attached:
    """A Dask cluster that was given by its address.

    stores: those whose engines are attached to it. slots: names of all of its slots. held: those that are held.
    trials: labels, by slot and experiment, as this user's engines say. waiting: claims that lack slots, in the order in
    which they get the next free one. trouble: why this may be old, in words; empty if the scheduler answers.
    """

    address: str
    stores: tuple[str, ...]
    slots: tuple[str, ...] = ()
    held: tuple[Holder, ...] = ()
    trials: Mapping[tuple[str, str | None], str] | None = None
    waiting: tuple[Claimant, ...] = ()
    trouble: str = ""

    @property
    def free(self) -> list[str]:
        """Slots in which a trial could start now."""
        taken = {one.slot for one in self.held}
        return [name for name in self.slots if name not in taken]

    def why(self, one: Claimant) -> str:
        """Why the engine waits, in words."""
        ours = {held.slot for held in self.held if held.store == one.store}
        return lack(map(placed, self.held), {*one.wants, *ours}, ours, (), one.unit, one.held, one.placed(place))


def placed(holder: Holder) -> Holder:
    """``holder`` with its store as people name it."""
    return Holder(holder.slot, place(holder.store) if holder.store else "", holder.experiment, user=holder.user)


def clusters() -> tuple[Attached, ...]:
    """The clusters that this user's engines on this machine are attached to, by address."""
    found: dict[str, list[tuple[Store, dict[str, Any]]]] = {}
    host = socket.gethostname()
    for root in known():
        store = Store(root)
        with contextlib.suppress(WorkbenchError, OSError):
            info = read_engine(store)
            if info is not None and info.alive and info.address and info.host == host:
                found.setdefault(info.address, []).append((store, read_cluster(store)))
    troubles = _troubles(found)
    return tuple(_attached(address, found[address], troubles[address]) for address in sorted(found))


def _attached(address: str, engines: list[tuple[Store, dict[str, Any]]], trouble: str) -> Attached:
    newest = max((cluster for _, cluster in engines), key=lambda one: str(one["at"] or ""))
    told = newest.get("attached")
    told = told if isinstance(told, Mapping) else {}
    held, trials, waiting = [], {}, []
    for one in _rows(newest.get("held")):
        with contextlib.suppress(TypeError):
            held.append(Holder(**one))
    for _, cluster in engines:
        for slot in _rows(cluster.get("slots")):
            if isinstance(slot.get("trial"), str) and isinstance(slot.get("lease"), str):
                trials[slot["lease"], slot.get("experiment")] = slot["trial"]
    for one in _rows(told.get("waiting")):
        with contextlib.suppress(KeyError, TypeError, ValueError, OverflowError):
            waiting.append(claimant_of(str(one["name"]), one))
    names = [one for one in told.get("slots") or () if isinstance(one, str)]
    every = tuple(dict.fromkeys([*names, *(one.slot for one in held)]))
    if not trouble and newest["at"] is None:
        trouble = "its engine has not looked at it yet"
    waiting.sort(key=lambda one: (-one.priority, one.debt, one.since))
    stores = tuple(str(store.root) for store, _ in engines)
    return Attached(address, stores, every, tuple(held), trials, tuple(waiting), trouble)


def _rows(found: Any) -> list[dict[str, Any]]:
    return [one for one in found if isinstance(one, dict)] if isinstance(found, list) else []


def _troubles(addresses: Iterable[str]) -> dict[str, str]:
    """Which schedulers do not answer, and how, in words; all are asked at once."""
    every, until = list(addresses), time.monotonic() + ANSWER_S
    if not every:
        return {}
    pool = ThreadPoolExecutor(len(every))
    asked = {address: pool.submit(_trouble, address) for address in every}
    # A name server that does not answer holds its thread up for longer: it is left alone.
    pool.shutdown(wait=False)
    found = {}
    for address, answer in asked.items():
        try:
            found[address] = answer.result(max(0.0, until - time.monotonic()) + 0.1)
        except TimeoutError:
            found[address] = _LATE
    return found


_LATE = f"its scheduler does not answer within {ANSWER_S:g} s; this is what its engine saw last"


def _trouble(address: str) -> str:
    """Why the scheduler at ``address`` gives no sign of life; empty if it does. Dask's speaks first."""
    host, _, port = address.rpartition("://")[2].partition("/")[0].rpartition(":")
    try:
        with socket.create_connection((host.strip("[]"), int(port)), timeout=ANSWER_S) as connection:
            connection.settimeout(ANSWER_S)
            if address.startswith("tls://"):
                context = ssl.create_default_context()
                context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
                # It may refuse this client, which has no certificate: that is an answer too.
                with contextlib.suppress(ssl.SSLError):
                    context.wrap_socket(connection)
            else:
                connection.recv(1)
    except TimeoutError:
        return _LATE
    except (OSError, ValueError) as error:
        words = getattr(error, "strerror", None) or error
        return f"its scheduler does not answer ({words}); this is what its engine saw last"
    return ""
