"""Who trains in which slot of this machine, and who waits for one, in all stores of this user. Law: it only reads, and
trusts no text in a runtime folder's file.

The locks in the runtime folder decide (:mod:`workbench.store.owner.slots`). What a store says of its engine and trials
is shown beside them, and left out where it does not agree with them.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from functools import cache
from typing import Any

from workbench.cluster import devices
from workbench.errors import NotFound, WorkbenchError
from workbench.status import Around, Status
from workbench.status.clusters import Attached, clusters
from workbench.status.load import Loads
from workbench.status.places import place
from workbench.store import Store
from workbench.store.lists.catalog import read_catalog
from workbench.store.owner import machine
from workbench.store.owner.cluster import read_cluster
from workbench.store.owner.promised import Promise, lack, promise_of
from workbench.store.owner.slots import Claimant, Holder, cores, drain, drained, holders, use_again, waiters

#: States of experiments that have legs in slots, or legs that wait for one.
_UNDER_WAY = ("waiting", "running")


@dataclass(frozen=True, slots=True)
class Held:
    """A slot that a worker holds, and the trial that trains there (a label); None if its engine does not say so."""

    holder: Holder
    trial: str | None
    #: The engine of the holder's store. Without one, workers train on for a while.
    around: Around
    #: The other trials that have parts of the slot.
    beside: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Waits:
    """An engine or another user that lacks slots, and the labels of its experiments that are under way, if known."""

    waiter: Claimant
    experiments: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Lacks:
    """An experiment (its label) of a store that waits for memory, or for slots kept for another of its engine."""

    store: str
    experiment: str
    why: str
    promised: tuple[Promise, ...] = ()


@dataclass(frozen=True, slots=True)
class Divided:
    """How many trials of an experiment share a slot, where that is measured, and the reason in words."""

    store: str
    experiment: str
    parts: int
    why: str


@dataclass(frozen=True, slots=True)
class Queue:
    """The slots that are held, by name, and those who wait, in the order in which they get the next free slot.

    drained: names of slots that are taken out of use. clusters: those that engines of this user are attached to.
    """

    held: tuple[Held, ...]
    waiting: tuple[Waits, ...]
    drained: frozenset[str]
    lacks: tuple[Lacks, ...] = ()
    divided: tuple[Divided, ...] = ()
    clusters: tuple[Attached, ...] = ()


def queue() -> Queue:
    """The queue now. Raises StoreError if the runtime folder cannot be used."""
    trials, around, under_way = cache(_trials), cache(_around), cache(_under_way)
    held = []
    for holder in map(_checked, holders()):
        there = trials(holder.store).get((holder.slot, holder.experiment), ()) if holder.experiment else ()
        held.append(Held(holder, there[0] if there else None, around(holder.store), there[1:]))
    attached = clusters()
    lacking = (Waits(one, () if one.user else one.experiments or under_way(one.store)) for one in waiters())
    # A search that has all the slots there are waits for its own trials; several wait for each other.
    waiting = tuple(one for one in lacking if one.waiter.wants or len(one.experiments) > 1)
    roots = [*(one.holder.store for one in held), *(one.waiter.store for one in waiting)]
    roots += [root for cluster in attached for root in cluster.stores]
    said = [_said(root) for root in dict.fromkeys(roots) if root]
    lacks = tuple(one for found, _ in said for one in found)
    divided = tuple(one for _, found in said for one in found)
    return Queue(tuple(held), waiting, drained(), lacks, divided, attached)


def slot_names() -> list[str]:
    """The slots that this machine has, free or not: its GPUs, and the cores that this process may use.

    Where users share the machine, those of them that they share.
    """
    every, shared = [*devices.slot_names(), *cores()], machine.shared()
    return every if shared is None else [name for name in every if name in shared.slots]


def free(found: Queue) -> list[str]:
    """The slots of this machine in which a trial could start now."""
    taken = {one.holder.slot for one in found.held}
    return [name for name in slot_names() if name not in taken and name not in found.drained]


def ordered(names: Iterable[str]) -> list[str]:
    """Names of slots by number: cpu2 before cpu10."""
    return sorted(names, key=lambda name: ((one := parted(name))[0], one[1] if one[1] is not None else -1))


def parted(name: str) -> tuple[str, int | None]:
    """``("cpu", 12)`` for ``cpu12``; other names, such as a GPU's, have no number."""
    found = re.fullmatch(r"(cpu|more)(0|[1-9]\d{0,8})", name)
    return (name, None) if found is None else (found[1], int(found[2]))


def why(found: Queue, one: Waits) -> str:
    """Why the engine waits, in the words with which its experiments say so."""
    who = [replace(held.holder, store=place(held.holder.store)) for held in found.held]
    waiter, whose = one.waiter, (one.waiter.user, one.waiter.store)
    ours = {held.holder.slot for held in found.held if (held.holder.user, held.holder.store) == whose}
    return lack(who, {*waiter.wants, *ours}, ours, found.drained, waiter.unit, waiter.held, waiter.placed(place))


def told(found: Queue, loads: Loads) -> dict[str, Any]:
    """The queue as plain data, the same for programs and for the panel. loads: what its slots use."""
    return {
        "slots": [_slot(one, loads) for one in found.held],
        "free": free(found),
        "drained": ordered(found.drained),
        "waiting": [_waiting(found, one) for one in found.waiting],
        "outside": [asdict(one) for one in loads.outside],
        "lacks": [
            {"store": one.store, "place": place(one.store), "experiment": one.experiment, "why": one.why,
             "promised": _promised(one.promised)}
            for one in found.lacks
        ],
        "divided": [
            {"store": one.store, "place": place(one.store), "experiment": one.experiment, "parts": one.parts,
             "why": one.why}
            for one in found.divided
        ],
        "clusters": [_cluster(one) for one in found.clusters],
    }  # fmt: skip


def _cluster(one: Attached) -> dict[str, Any]:
    trials = one.trials or {}
    return {
        "address": one.address,
        "stores": list(one.stores),
        "trouble": one.trouble or None,
        "slots": [
            {
                "slot": held.slot,
                "store": held.store or None,
                "place": held.user or place(held.store),
                "experiment": held.experiment,
                "trial": trials.get((held.slot, held.experiment)),
                "since": held.since or None,
            }
            for held in one.held
        ],
        "free": one.free,
        "waiting": [_claim(waiter, waiter.experiments, one.why(waiter)) for waiter in one.waiting],
    }


def _promised(found: Iterable[Promise]) -> list[dict[str, Any]]:
    return [
        {
            "place": place(one.store) if one.store else one.user or None,
            "experiment": one.experiment,
            "user": one.user or None,
            "slots": one.slots,
            "since": one.since or None,
        }
        for one in found
    ]


def _slot(one: Held, loads: Loads) -> dict[str, Any]:
    holder, used = one.holder, loads.slots.get(one.holder.slot)
    return {
        "slot": holder.slot,
        "user": holder.user or None,
        "store": holder.store or None,
        "place": holder.user or place(holder.store),
        "experiment": holder.experiment,
        "trial": one.trial,
        "beside": list(one.beside),
        "pid": holder.pid or None,
        "since": holder.since or None,
        "has_engine": None if holder.user else one.around.alive,
        "trouble": None if holder.user else one.around.lacks or None,
        "utilisation": used.utilisation if used else None,
        "memory_bytes": used.memory_bytes if used else None,
        "gpu": asdict(used.gpu) if used and used.gpu else None,
    }


def _waiting(found: Queue, one: Waits) -> dict[str, Any]:
    return _claim(one.waiter, one.experiments, why(found, one))


def _claim(waiter: Claimant, experiments: Iterable[str], words: str) -> dict[str, Any]:
    return {
        "user": waiter.user or None,
        "store": waiter.store or None,
        "place": waiter.user or place(waiter.store),
        "experiments": list(experiments),
        "held": waiter.held,
        "lacks": waiter.lacks,
        "unit": waiter.unit,
        "weight": waiter.weight,
        "priority": waiter.priority,
        "wants": ordered(waiter.wants),
        "since": waiter.since,
        "promised": _promised(waiter.promised),
        "why": words,
    }


def use(name: str, is_used: bool) -> bool:
    """Take a slot out of use, for all engines of this user, or use it again. Returns :func:`is_free`.

    The administrator of a machine that users share does so for all users. Trials in a drained slot save and make room,
    which may take a while. Raises NotFound for a slot that this machine does not have, and StoreError.
    """
    known = dict.fromkeys([*slot_names(), *(holder.slot for holder in holders()), *sorted(drained())])
    if name not in known:
        raise NotFound(f"slot {name!r} is not on this machine. Its slots: {', '.join(known)}.")
    if is_used:
        use_again(name)
    else:
        drain(name)
    return is_free(name)


def is_for_all() -> bool:
    """Whether a slot that is drained here is out of use for every user of this machine."""
    shared = machine.shared()
    return shared is None or shared.is_mine


def is_free(name: str) -> bool:
    """Whether nothing trains in the slot now; where users share the machine, none of the own trials, but for its
    administrator."""
    for_all = is_for_all()
    return not any(holder.slot == name and (for_all or not holder.user) for holder in holders())


def _checked(holder: Holder) -> Holder:
    """``holder`` with each field of its type: a file may hold any JSON."""
    said: Mapping[str, Any] = {name: getattr(holder, name) for name in Holder.__slots__}
    texts = {name: said[name] if isinstance(said[name], str) else "" for name in ("store", "experiment", "since")}
    pid = said["pid"] if type(said["pid"]) is int and said["pid"] > 0 else 0
    return Holder(holder.slot, texts["store"], texts["experiment"] or None, pid, texts["since"], holder.user)


def _store(root: str) -> Store | None:
    """The store at ``root``, if it is an absolute path of a folder."""
    return Store(root) if os.path.isabs(root) and os.path.isdir(root) else None


def _trials(root: str) -> dict[tuple[str, str], tuple[str, ...]]:
    """The trials that train in the machine's slots, by slot and experiment, as the store's engine says."""
    store = _store(root)
    found = {}
    with contextlib.suppress(WorkbenchError, OSError, AttributeError, TypeError):  # a damaged store hides no slot
        for slot in read_cluster(store)["slots"] if store is not None else ():
            if isinstance(slot.get("trial"), str):
                beside = [one for one in slot.get("beside", ()) if isinstance(one, str)]
                found[slot.get("lease"), slot.get("experiment")] = (slot["trial"], *beside)
    return found


def _said(root: str) -> tuple[list[Lacks], list[Divided]]:
    """The experiments of a store that wait, and why, and how many of their trials share a slot, as its engine says."""
    store, lacks, divided = _store(root), [], []
    with contextlib.suppress(WorkbenchError, OSError, AttributeError, TypeError, KeyError, ValueError, OverflowError):
        told = read_cluster(store) if store is not None else {}
        for label, one in told.get("divided", {}).items():
            divided.append(Divided(root, str(label), int(one["parts"]), str(one["why"])))
        for label, one in told.get("lacks", {}).items():
            if isinstance(one, str):  # an engine of an earlier version
                lacks.append(Lacks(root, str(label), one))
            else:
                promised = tuple(replace(promise_of(each), store=root) for each in one["promised"])
                lacks.append(Lacks(root, str(label), str(one["why"]), promised))
    return lacks, divided


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
