"""`queue`: the slots of this machine, who trains in them, what they use, and who waits. Law: reads only; it needs no
store."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from workbench.cli.codes import OK
from workbench.cli.words import age, between, clean, cut, is_terminal, say, say_json, span, table
from workbench.compare.section import counted, size
from workbench.status import load
from workbench.status.clusters import Attached
from workbench.status.load import Gpu, Loads, Outside
from workbench.status.places import place
from workbench.status.queue import Held, free, ordered, parted, slot_names, told, why
from workbench.status.queue import queue as read
from workbench.store.owner import machine
from workbench.store.owner.slots import Claimant, Holder

#: Names in a row that are shown as a range, at least.
_RUN = 3
_KINDS = (("cpu", "core"), ("gpu-", "GPU"))
_GPU_HEAD = ("GPU", "GPU memory", "power")


def queue(options: Any) -> int:
    """Show the queue, for people or as JSON."""
    found = read()
    loads = load.read(one.holder for one in found.held)
    if options.json:
        say_json(told(found, loads))
        return OK
    every, unused = slot_names(), free(found)
    taken = {one.holder.slot for one in found.held}
    if found.held:
        say(*_held_table(found.held, loads))
        say(*(f"{place(store)}: {words}." for store, words in _without_engine(found.held)))
        there = _amounts(unused, {*every, *taken})
        say(f"free: {there}." if there else "no slot is free.")
    else:
        all_free = "free" if found.drained else "all slots of this machine are free"
        say(f"{all_free}: {_amounts(unused, set(every))}." if unused else "no slot is free.")
    if found.drained:
        say(f"drained: {clean(named(found.drained))}. `workbench drain SLOT --undo` lets trials use it again.")
    say(*map(_outside, loads.outside))
    say(*(f"{place(one.store)} ({clean(one.experiment)}) {clean(one.why)}." for one in found.lacks))
    say(*(f"{place(one.store)} ({clean(one.experiment)}): {clean(one.why)}." for one in found.divided))
    say(*map(clean, _sharing()))
    if found.waiting:
        say("", *_waiting_table([(one.waiter, one.experiments, why(found, one)) for one in found.waiting]))
    for cluster in found.clusters:
        say("", *_cluster(cluster))
    return OK


def _cluster(one: Attached) -> Iterator[str]:
    """The slots of a cluster that was given by its address, and who waits there."""
    yield f"cluster at {clean(one.address)}, used by {', '.join(map(place, one.stores))}"
    if one.trouble:
        yield f"{clean(one.trouble)}."
    trials = one.trials or {}
    if one.held:
        yield from table(
            ["slot", "held by", "experiment", "trial", "since"],
            [
                [
                    clean(held.slot),
                    _whose(held),
                    _short(held.experiment),
                    _short(trials.get((held.slot, held.experiment))),
                    age(held.since),
                ]
                for held in one.held
            ],
        )
    if one.slots:
        yield f"{len(one.free)} of {counted(len(one.slots), 'slot')} {'is' if len(one.free) == 1 else 'are'} free."
    if one.waiting:
        yield from _waiting_table([(waiter, waiter.experiments, one.why(waiter)) for waiter in one.waiting])


def _sharing() -> Iterator[str]:
    """How users share the machine, if they do, and what is wrong with that."""
    shared, trouble = machine.shared(), machine.trouble()
    if shared is not None:
        weights, trouble = shared.weights()
        named = ", ".join(f"{name} {weight:g}" for name, weight in sorted(weights.items()))
        yield f"users share this machine ({shared.place}){f'; weights: {named}, others 1' if named else ''}."
    if trouble is not None:
        yield trouble


def _held_table(held: Sequence[Held], loads: Loads) -> list[str]:
    places = ordered(one.holder.slot for one in held)
    rows = sorted(held, key=lambda one: places.index(one.holder.slot))
    used = [loads.slots.get(one.holder.slot) for one in rows]
    has_gpus = any(one is not None and one.gpu for one in used)
    return table(
        ["slot", "held by", "experiment", "trial", "core", "memory", *(_GPU_HEAD if has_gpus else ()), "since"],
        [
            [
                clean(one.holder.slot),
                _whose(one.holder),
                _short(one.holder.experiment),
                _short(", ".join(filter(None, [one.trial, *one.beside]))),
                _percent(use.utilisation if use else None),
                size(use.memory_bytes) if use else "–",
                *(_gpu_cells(use.gpu if use else None) if has_gpus else ()),
                age(one.holder.since),
            ]
            for one, use in zip(rows, used, strict=True)
        ],
    )


def _gpu_cells(gpu: Gpu | None) -> tuple[str, str, str]:
    if gpu is None:
        return "–", "–", "–"
    memory = f"{size(gpu.memory_bytes)} of {size(gpu.memory_total_bytes)}"
    return _percent(gpu.utilisation), memory, "–" if gpu.power_w is None else f"{gpu.power_w:.0f} W"


def _percent(share: float | None) -> str:
    return "–" if share is None else f"{share:.0%}"


def _outside(one: Outside) -> str:
    """A program that is not Workbench's holds memory of a GPU."""
    amount = "memory" if one.memory_bytes is None else size(one.memory_bytes)
    return f"{clean(one.gpu)}: {amount} is held outside of Workbench, by {clean(one.name)} (process {one.pid})."


def _without_engine(held: Iterable[Held]) -> Iterable[tuple[str, str]]:
    """Stores whose engine is gone, with how long their trials train on, in words."""
    return {one.holder.store: one.around.lacks for one in held if one.around.lacks and not one.holder.user}.items()


def _waiting_table(found: Sequence[tuple[Claimant, Sequence[str], str]]) -> Iterator[str]:
    """A row for each waiting engine, its experiments, and below it why it waits."""
    rows = []
    for waiter, experiments, _ in found:
        seconds = between(waiter.since, None)
        rows.append([
            _whose(waiter),
            _short(", ".join(experiments)),
            counted(waiter.held, "slot"),
            str(waiter.lacks),
            "–" if seconds is None else span(seconds),
            clean(named(waiter.wants)),
        ])  # fmt: skip
    head, *lines = table(["waiting", "experiment", "has", "lacks", "for", "can use"], rows)
    yield head
    for line, (_, _, words) in zip(lines, found, strict=True):
        yield line
        yield f"  {clean(words)}"


def _whose(one: Holder | Claimant) -> str:
    """The store, or the other user."""
    return clean(one.user) or place(one.store)


def _short(text: str | None) -> str:
    return (cut(clean(text), 40) if is_terminal() else clean(text)) if text else "–"


def _amounts(free: Sequence[str], every: set[str]) -> str:
    """``2 of 4 cores (cpu2, cpu3)``, and the same of GPUs."""
    parts = []
    for prefix, kind in reversed(_KINDS):
        names = [name for name in free if name.startswith(prefix)]
        total = sum(name.startswith(prefix) for name in every)
        if names:
            amount = counted(total, kind) if len(names) == total else f"{len(names)} of {counted(total, kind)}"
            parts.append(f"{amount} ({named(names)})")
    return ", ".join(parts)


def named(names: Iterable[str]) -> str:
    """These slots in words: ``cpu0–cpu7, gpu-UUID``: three names with numbers in a row, or more, are a range."""
    runs: list[list[tuple[str, int | None]]] = []
    for name in ordered(names):
        prefix, number = parted(name)
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
