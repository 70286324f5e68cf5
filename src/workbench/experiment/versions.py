"""What a version of an experiment changed. Law: it is compared with the newest before it, or one with its content."""

from __future__ import annotations

import dataclasses
import difflib
import re
from typing import Any

from workbench.compare.difference import Difference
from workbench.errors import NotFound, StoreError, WorkbenchError
from workbench.records import Scheduler, Spec
from workbench.records.names import name_of
from workbench.snapshot import read_snapshot
from workbench.space import Space
from workbench.store import Store
from workbench.store.lists.catalog import shown_as
from workbench.store.lists.known import experiments

#: What is compared to say what changed since the previous version, in this order.
_COMPARED = ("goal", "searcher", "trials", "slots", "strategy", "seed", "deterministic")


def changed(store: Store, spec: Spec) -> list[str]:
    """What differs from the version before, in words; empty for a first version."""
    name = name_of(shown_as(store, spec))  # another experiment may have the name that its spec has
    before = [entry for entry in experiments(store) if entry["name"] == name and entry["version"] < spec.version]
    if not before:
        return []
    newest = max(before, key=lambda entry: int(entry["version"]))["id"]
    # If the cell is unchanged, the comparison is with the version with the same content.
    base = (spec.since or {}).get("experiment")
    try:
        old = store.read_spec(base if base and store.experiment(base).spec.exists() else newest, viewing=True)
    except (NotFound, StoreError):
        return []
    return changes(store, old, spec)


def changes(store: Store, old: Spec, new: Spec) -> list[str]:
    """What differs between two versions, in words, the first of them with ``since``."""
    told: list[str] = []
    for name in _COMPARED:
        before, after = getattr(old, name), getattr(new, name)
        if name == "slots":
            before, after = old.slots_words, new.slots_words
        if before != after:
            told.append(f"{name} {_word(before)} → {_word(after)}")
    for one in dataclasses.fields(Scheduler):
        if one.name not in ("first", "last"):
            before, after = getattr(old.scheduler, one.name), getattr(new.scheduler, one.name)
            if before != after:
                told.append(f"{'scheduler' if one.name == 'kind' else one.name} {before} → {after}")
    spans = [f"{spec.scheduler.first}-{spec.scheduler.last}" for spec in (old, new)]
    if spans[0] != spans[1]:
        told.append(f"steps {spans[0]} → {spans[1]}")
    before, after = _described(old), _described(new)
    told += [
        f"{name} {before.get(name, 'not there')} → {after.get(name, 'gone')}"
        for name in {**before, **after}
        if before.get(name) != after.get(name)
    ]
    given, then = _arguments(old), _arguments(new)
    told += [
        f"{name} {given.get(name, 'not there')} → {then.get(name, 'gone')}".replace("  ", " ")
        for name in {**given, **then}
        if given.get(name) != then.get(name)
    ]
    lines = _changed_lines(old, new, set(before) | set(after))
    if lines:
        told.append(f"{lines} line{'s' * (lines != 1)} of code")
    since = differences_of(new) if (new.since or {}).get("experiment") == old.id else []
    if not told and not since and old.content == new.content:
        return [f"the same as @{old.version}, trained again"]
    (before, ours), (after, theirs) = _captured(store, old), _captured(store, new)
    # A kernel may have loaded more of the project than the cell imports.
    before |= {name: digest for name, digest in ours.items() if name in theirs}
    after |= {name: digest for name, digest in theirs.items() if name in ours}
    named = {re.split(r"[/. ]", one.name)[0] for one in since if one.kind in ("module", "package")}
    names = [name for name in {**before, **after} if before.get(name) != after.get(name) and name not in named]
    if new.program.entry in names and (len(names) > 1 or lines or _described(old) != _described(new)):
        names.remove(new.program.entry)  # a function's digest covers all that it takes along
    if names:
        told.append(f"{', '.join(names[:4])}{' …' if len(names) > 4 else ''} outside of the cell")
    told += map(str, since)
    if not told and old.content != new.content:
        told.append("something that the cell uses")
    return [f"changed since @{old.version}: {told[0]}", *told[1:]] if told else []


def differences_of(spec: Spec) -> list[Difference]:
    """The differences in ``spec.since``; of a later Workbench's, those that this one understands."""
    known = {one.name for one in dataclasses.fields(Difference)}
    found = (spec.since or {}).get("differences") or ()
    return [Difference(**{key: value for key, value in one.items() if key in known}) for one in found]


def _word(value: Any) -> str:
    return "not given" if value is None else str(value)


def _described(spec: Spec) -> dict[str, str]:
    try:
        lines = Space.from_json(spec.space).describe().splitlines()
    except Exception:  # a space of another version: its hyperparameters are not compared
        return {}
    return dict(line.split(" = ", 1) for line in lines if " = " in line)


def _arguments(spec: Spec) -> dict[str, str]:
    """A script's own arguments, except its hyperparameters."""
    found: dict[str, str] = {}
    option = "arguments"
    for one in spec.program.arguments:
        if one.name is not None:
            continue
        name, equals, value = one.text.partition("=")
        if equals or name.startswith("-"):
            option = name
            found[option] = value
        else:
            found[option] = f"{found.get(option, '')} {name}".strip()
    return found


def _captured(store: Store, spec: Spec) -> tuple[dict[str, str], dict[str, str]]:
    """Digests of the names that it captured, and of the project code."""
    if spec.snapshot is None:
        return {}, {}
    try:
        snapshot = read_snapshot(store, spec.snapshot)
    except (WorkbenchError, ValueError, OSError):
        return {}, {}
    captured = snapshot.get("capture") or {}
    return {**captured.get("names", {}), **captured.get("modules", {})}, dict(snapshot.get("project", {}))


def _changed_lines(old: Spec, new: Spec, hyperparameters: set[str]) -> int:
    def lines(spec: Spec) -> list[str]:
        kept = (line.rstrip() for line in spec.program.source.splitlines())
        named = re.compile(rf"({'|'.join(map(re.escape, hyperparameters)) or '(?!)'})\s*(:.*)?=(?!=)")
        return [line for line in kept if line.strip() and not line.lstrip().startswith("#") and not named.match(line)]

    matcher = difflib.SequenceMatcher(None, lines(old), lines(new), autojunk=False)
    return sum(max(b - a, d - c) for tag, a, b, c, d in matcher.get_opcodes() if tag != "equal")
