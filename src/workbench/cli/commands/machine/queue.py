"""`queue`: the slots of this machine, who trains in them, and who waits. Law: reads only; it needs no store."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from workbench.cli.verbs import OK
from workbench.cli.words import age, between, clean, cut, is_terminal, say, say_json, span, table
from workbench.cluster import devices
from workbench.compare.section import counted
from workbench.engine.leases import lack
from workbench.status.queue import Held, Queue, Waits
from workbench.status.queue import queue as read
from workbench.store.layout import FOLDER
from workbench.store.owner.slots import cores

#: Names in a row that are shown as a range, at least.
_RUN = 3
_KINDS = (("cpu", "core"), ("gpu-", "GPU"))


def queue(options: Any) -> int:
    """Show the queue, for people or as JSON."""
    found = read()
    every = [*devices.slot_names(), *cores()]
    taken = {one.holder.slot for one in found.held}
    free = [name for name in every if name not in taken and name not in found.drained]
    if options.json:
        say_json({"slots": [_slot(one) for one in found.held], "free": free, "drained": _ordered(found.drained),
                  "waiting": [_waiting(found, one) for one in found.waiting]})  # fmt: skip
        return OK
    if found.held:
        say(*_held_table(found.held))
        say(*(f"{_place(store)}: {words}." for store, words in _without_engine(found.held)))
        there = _amounts(free, {*every, *taken})
        say(f"free: {there}." if there else "no slot is free.")
    else:
        all_free = "free" if found.drained else "all slots of this machine are free"
        say(f"{all_free}: {_amounts(free, set(every))}." if free else "no slot is free.")
    if found.drained:
        say(f"drained: {clean(_named(found.drained))}. `workbench drain SLOT --undo` lets trials use it again.")
    if found.waiting:
        say("", *_waiting_table(found))
    return OK


def _slot(one: Held) -> dict[str, Any]:
    holder = one.holder
    return {
        "slot": holder.slot,
        "store": holder.store or None,
        "experiment": holder.experiment,
        "trial": one.trial,
        "pid": holder.pid or None,
        "since": holder.since or None,
        "has_engine": one.around.alive,
    }


def _waiting(found: Queue, one: Waits) -> dict[str, Any]:
    waiter = one.waiter
    return {
        "store": waiter.store,
        "experiments": list(one.experiments),
        "held": waiter.held,
        "lacks": waiter.lacks,
        "weight": waiter.weight,
        "priority": waiter.priority,
        "wants": _ordered(waiter.wants),
        "since": waiter.since,
        "why": _why(found, one),
    }


def _held_table(held: Sequence[Held]) -> list[str]:
    places = _ordered(one.holder.slot for one in held)
    rows = sorted(held, key=lambda one: places.index(one.holder.slot))
    return table(
        ["slot", "held by", "experiment", "trial", "since"],
        [
            [
                clean(one.holder.slot),
                _place(one.holder.store),
                _short(one.holder.experiment),
                _short(one.trial),
                age(one.holder.since),
            ]
            for one in rows
        ],
    )


def _without_engine(held: Iterable[Held]) -> Iterable[tuple[str, str]]:
    """Stores whose engine is gone, with how long their trials train on, in words."""
    return {one.holder.store: one.around.lacks for one in held if one.around.lacks}.items()


def _waiting_table(found: Queue) -> Iterator[str]:
    """A row for each waiting engine, and below it why it waits."""
    rows = []
    for one in found.waiting:
        seconds = between(one.waiter.since, None)
        rows.append([
            _place(one.waiter.store),
            _short(", ".join(one.experiments)),
            counted(one.waiter.held, "slot"),
            str(one.waiter.lacks),
            "–" if seconds is None else span(seconds),
            clean(_named(one.waiter.wants)),
        ])  # fmt: skip
    head, *lines = table(["waiting", "experiment", "has", "lacks", "for", "can use"], rows)
    yield head
    for line, one in zip(lines, found.waiting, strict=True):
        yield line
        yield f"  {clean(_why(found, one))}"


def _why(found: Queue, one: Waits) -> str:
    """Why the engine waits, in the words with which its experiments say so."""
    holders = [replace(held.holder, store=_place(held.holder.store)) for held in found.held]
    ours = {held.holder.slot for held in found.held if held.holder.store == one.waiter.store}
    return lack(holders, {*one.waiter.wants, *ours}, ours, found.drained)


def _short(text: str | None) -> str:
    return (cut(clean(text), 40) if is_terminal() else clean(text)) if text else "–"


def _place(root: str) -> str:
    """A store as people name it: ``~/nlp`` for ``/home/me/nlp/.workbench``."""
    folder = os.path.dirname(root) if os.path.basename(root) == FOLDER else root
    home = os.path.expanduser("~")
    if home != "/" and (folder == home or folder.startswith(f"{home}/")):
        folder = f"~{folder.removeprefix(home)}"
    return clean(folder or root or "another process")


def _amounts(free: Sequence[str], every: set[str]) -> str:
    """``2 of 4 cores (cpu2, cpu3)``, and the same of GPUs."""
    parts = []
    for prefix, kind in reversed(_KINDS):
        names = [name for name in free if name.startswith(prefix)]
        total = sum(name.startswith(prefix) for name in every)
        if names:
            amount = counted(total, kind) if len(names) == total else f"{len(names)} of {counted(total, kind)}"
            parts.append(f"{amount} ({_named(names)})")
    return ", ".join(parts)


def _named(names: Iterable[str]) -> str:
    """``cpu0–cpu7, gpu-UUID``: three names with numbers in a row, or more, are a range."""
    runs: list[list[tuple[str, int | None]]] = []
    for name in _ordered(names):
        prefix, number = _parted(name)
        before = runs[-1][-1] if runs else ("", None)
        if number is not None and before[1] is not None and (prefix, number - 1) == before:
            runs[-1].append((prefix, number))
        else:
            runs.append([(prefix, number)])
    parts = []
    for run in runs:
        words = [prefix if number is None else f"{prefix}{number}" for prefix, number in run]
        parts += words if len(words) < _RUN else [f"{words[0]}–{words[-1]}"]
    return ", ".join(parts) or "–"


def _ordered(names: Iterable[str]) -> list[str]:
    return sorted(names, key=lambda name: ((parted := _parted(name))[0], parted[1] if parted[1] is not None else -1))


def _parted(name: str) -> tuple[str, int | None]:
    """``("cpu", 12)`` for ``cpu12``; other names, such as a GPU's, have no number."""
    found = re.fullmatch(r"(cpu|more)(0|[1-9]\d{0,8})", name)
    return (name, None) if found is None else (found[1], int(found[2]))
