"""Who trains in which slot of this machine, and who waits for one, in all stores of this user. Law: it only reads, and
trusts no text in a runtime folder's file.

The locks in the runtime folder decide (:mod:`workbench.store.owner.slots`). What a store says of its engine and trials
is shown beside them, and left out where it does not agree with them.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from workbench.errors import WorkbenchError
from workbench.status import Around, Status
from workbench.store import Store
from workbench.store.lists.catalog import read_catalog
from workbench.store.owner.cluster import read_cluster
from workbench.store.owner.slots import Claimant, Holder, drained, holders, waiters

#: States of experiments that have legs in slots, or legs that wait for one.
_UNDER_WAY = ("waiting", "running")


@dataclass(frozen=True, slots=True)
class Held:
    """A slot that a worker holds, and the trial that trains there (a label); None if its engine does not say so."""

    holder: Holder
    trial: str | None
    #: The engine of the holder's store. Without one, workers train on for a while.
    around: Around


@dataclass(frozen=True, slots=True)
class Waits:
    """An engine that lacks slots, and the labels of its experiments that are under way."""

    waiter: Claimant
    experiments: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Queue:
    """The slots that are held, by name, and those who wait, in the order in which they get the next free slot.

    drained: names of slots that are taken out of use.
    """

    held: tuple[Held, ...]
    waiting: tuple[Waits, ...]
    drained: frozenset[str]


def queue() -> Queue:
    """The queue now. Raises StoreError if the runtime folder cannot be used."""
    trials, around, under_way = cache(_trials), cache(_around), cache(_under_way)
    held = []
    for holder in map(_checked, holders()):
        trial = trials(holder.store).get((holder.slot, holder.experiment)) if holder.experiment else None
        held.append(Held(holder, trial, around(holder.store)))
    waiting = tuple(Waits(one, one.experiments or under_way(one.store)) for one in waiters())
    return Queue(tuple(held), waiting, drained())


def _checked(holder: Holder) -> Holder:
    """``holder`` with each field of its type: a file may hold any JSON."""
    said: Mapping[str, Any] = {name: getattr(holder, name) for name in Holder.__slots__}
    texts = {name: said[name] if isinstance(said[name], str) else "" for name in ("store", "experiment", "since")}
    pid = said["pid"] if type(said["pid"]) is int and said["pid"] > 0 else 0
    return Holder(holder.slot, texts["store"], texts["experiment"] or None, pid, texts["since"])


def _store(root: str) -> Store | None:
    """The store at ``root``, if it is an absolute path of a folder."""
    return Store(root) if os.path.isabs(root) and os.path.isdir(root) else None


def _trials(root: str) -> dict[tuple[str, str], str]:
    """The trials that train in the machine's slots, by slot and experiment, as the store's engine says."""
    store = _store(root)
    found = {}
    with contextlib.suppress(WorkbenchError, OSError, AttributeError, TypeError):  # a damaged store hides no slot
        for slot in read_cluster(store)["slots"] if store is not None else ():
            if isinstance(slot.get("trial"), str):
                found[slot.get("lease"), slot.get("experiment")] = slot["trial"]
    return found


def _around(root: str) -> Around:
    store = _store(root)
    with contextlib.suppress(WorkbenchError, OSError):
        if store is not None:
            return Around.of(store)
    return Around(False)


def _under_way(root: str) -> tuple[str, ...]:
    store = _store(root)
    with contextlib.suppress(WorkbenchError, OSError):
        if store is not None:
            around = Around.of(store)
            entries = [one for one in read_catalog(store) if Status.of(one, {}, around).state in _UNDER_WAY]
            return tuple(str(one["label"]) for one in entries if one.get("label"))
    return ()
