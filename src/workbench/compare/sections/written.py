"""What the user wrote: hyperparameters, options, seeds, settings."""

from __future__ import annotations

import dataclasses
import shlex
from typing import Any

from workbench.compare.section import Item, Section, change
from workbench.compare.sections.makers import Makers
from workbench.compare.sides import Side
from workbench.records import Goal, Scheduler, Searcher, Spec
from workbench.search.plan import given_of
from workbench.snapshot.secrets.masking import masked
from workbench.space import Space

#: Options that change how to wait, or how many slots are used, but never a result.
_IDLE = frozenset({"--wait", "--again", "--plan", "--try", "--parallel", "--for"})


def configuration(a: Side, b: Side) -> Section | None:
    """Hyperparameters, and plain values that the cell takes from the notebook."""
    section = Section("configuration", [])
    if a.trial is not None and b.trial is not None:
        one, other = _values(a), _values(b)
    else:
        one, other = _space(a), _space(b)
    follows = drawn(a, b)
    for name in {**one, **other}:
        if (name in one, one.get(name)) != (name in other, other.get(name)):
            note = "drawn by the search, which has another seed" if name in follows else ""
            note = note if name in one and name in other else "no hyperparameter on the other side"
            section.items.append(Item(name, one.get(name), other.get(name), note))
            section.short.append(_told(name, one, other))
    makers: Makers | None = None
    for name in {**a.captured, **b.captured}:
        left, right = a.captured.get(name), b.captured.get(name)
        if "value" not in {side.kind for side in (left, right) if side is not None}:
            continue
        if left is not None and right is not None and left.digest == right.digest:
            continue
        shown = [
            None if side is None else side.value if side.value is not None else side.words for side in (left, right)
        ]
        makers = makers or Makers(a, b)
        words = ", ".join(part for part in ("a value of the notebook", makers.note(name)) if part)
        section.items.append(Item(name, shown[0], shown[1], words))
        told = _told(name, {name: shown[0]} if left else {}, {name: shown[1]} if right else {})
        section.short.append(told + makers.short(name))
    return section if section.items else None


def drawn(a: Side, b: Side) -> frozenset[str]:
    """The hyperparameters of two trials that differ only because the searches' seeds differ."""
    if a.trial is None or b.trial is None or a.spec.seed == b.spec.seed:
        return frozenset()
    one, other = _values(a), _values(b)
    names = [
        {entry["name"] for entry in side.spec.space.get("parameters", ()) if entry.get("kind") != "constant"}
        - given_of(side.spec, side.trial or 0).keys()
        for side in (a, b)
        if side.spec.searcher.kind != "grid"  # a grid goes through all of them in order
    ]
    common = names[0] & names[1] if len(names) == 2 else set()
    return frozenset(name for name in common if one.get(name) != other.get(name))


def _values(side: Side) -> dict[str, Any]:
    return dict(side.row.get("configuration") or {})


def _space(side: Side) -> dict[str, Any]:
    try:
        lines = Space.from_json(side.spec.space).describe().splitlines()
    except Exception:  # a space of a later version: its hyperparameters are not compared
        return {}
    return dict(line.split(" = ", 1) for line in lines if " = " in line)


def _told(name: str, one: dict[str, Any], other: dict[str, Any]) -> str:
    if name not in one:
        return f"{name} added"
    if name not in other:
        return f"{name} removed"
    return change(name, one[name], other[name])


def arguments(a: Side, b: Side) -> Section | None:
    """The options of the magic line, as expanded, and a script's arguments, except its hyperparameters; those that
    change no result are left out."""
    one, other = _options(a), _options(b)
    items = [
        Item(name, one.get(name), other.get(name))
        for name in {**one, **other}
        if name not in _IDLE and one.get(name) != other.get(name)
    ]
    if not items:
        return None
    short = [
        f"{item.name} {item.b} added" if item.a is None
        else f"{item.name} {item.a} removed" if item.b is None
        else change(item.name, item.a, item.b)
        for item in items
    ]  # fmt: skip
    return Section("arguments", items, [word.replace("  ", " ") for word in short])


def _options(side: Side) -> dict[str, str]:
    line = side.snapshot.get("expanded") or side.snapshot.get("typed") or masked(side.spec.expanded or side.spec.typed)
    try:
        words = shlex.split(str(line or ""), comments=False)
    except ValueError:
        words = str(line).split()
    given = [one.text for one in side.spec.program.arguments if one.name is None]
    found: dict[str, str] = {}
    option = ""
    for word in [*(words[: words.index("--")] if "--" in words else words), *given]:
        if word.startswith("--") or (word in given and "=" in word):
            option, _, value = word.partition("=")
            found[option] = value
        elif option:
            found[option] = f"{found[option]} {word}".strip()
    return found


def seeds(a: Side, b: Side) -> Section | None:
    """The experiments' seeds; for two trials, what their own seeds are derived from."""
    one, other = (side.spec for side in (a, b))
    items = []
    if a.trial is not None and b.trial is not None:
        left, right = one.seeds_of(a.trial), other.seeds_of(b.trial)
        if left[0] != right[0]:
            items.append(Item("seed", left[0], right[0]))
        if left[1] != right[1]:
            items.append(Item("trial", left[1], right[1], "a trial's seeds come from the seed and its number"))
    elif one.seed != other.seed:
        items.append(Item("seed", one.seed, other.seed))
    if one.training.hash_seed != other.training.hash_seed:
        items.append(Item("hash seed", one.training.hash_seed, other.training.hash_seed))
    if not items:
        return None
    short = [
        "other trial, other seeds" if item.name == "trial" else change(item.name, item.a, item.b) for item in items
    ]
    return Section("seeds", items, short)


def settings(a: Side, b: Side) -> Section | None:
    """The search settings. For two trials only those that affect the training code: its length and the kind of
    determinism."""
    one, other = a.spec, b.spec
    pairs: list[tuple[str, Any, Any]] = [("goal", one.goal, other.goal)]
    if a.trial is not None and b.trial is not None:
        pairs.append(("steps", one.length, other.length))
    else:
        pairs += [(f.name, getattr(one.scheduler, f.name), getattr(other.scheduler, f.name)) for f in _RULES]
        pairs.append(("steps", _span(one), _span(other)))
        pairs += [(name, getattr(one, name), getattr(other, name)) for name in ("searcher", "trials")]
    pairs.append(("slots", _slots(one), _slots(other)))
    pairs.append(("strategy", one.strategy, other.strategy))
    pairs.append(("deterministic", one.deterministic, other.deterministic))
    named = {"kind": "scheduler"}
    items = [Item(named.get(name, name), _plain(x), _plain(y)) for name, x, y in pairs if x != y]
    if not items:
        return None
    return Section("settings", items, [change(item.name, item.a, item.b) for item in items])


_RULES = [one for one in dataclasses.fields(Scheduler) if one.name not in ("first", "last")]


def _span(spec: Spec) -> str:
    return f"{spec.scheduler.first}-{spec.scheduler.last}"


def _slots(spec: Spec) -> float | str:
    return spec.slots if spec.slots_least is None and not spec.packs else spec.slots_words


def _plain(value: Any) -> Any:
    return str(value) if isinstance(value, Goal | Searcher) else value
