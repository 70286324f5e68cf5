"""What differs between two snapshots, in words. Law: it compares digests and texts, and loads nothing."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from typing import Any

from workbench.errors import NotFound
from workbench.records import Json, Spec
from workbench.snapshot.folder import read_snapshot
from workbench.space import Space
from workbench.store import Store

#: Most names that one line lists.
_SHOWN = 3


def differences(store: Store, old: Spec, new: Spec) -> list[str]:
    """What changed from ``old`` to ``new``, the most telling first; each a few words without a full stop.

    Where a snapshot is gone, what the specs themselves say.
    """
    told = [*_space(old, new), *_settings(old, new), *_source(old, new)]
    try:
        before = read_snapshot(store, old.snapshot) if old.snapshot else {}
        after = read_snapshot(store, new.snapshot) if new.snapshot else {}
    except NotFound:
        return told
    return [*told, *between(before, after)] if before and after else told


def between(before: Mapping[str, Json], after: Mapping[str, Json]) -> list[str]:
    """What changed between two snapshots, as :func:`read_snapshot` gives them."""
    told = _captured(before, after)
    told += _changed("module", before.get("project") or {}, after.get("project") or {})
    told += _versions(before, after)
    told += _data(before, after)
    for part, shown in (("machine", "processor"), ("python", "version")):
        one, other = (snapshot["environment"][part].get(shown) for snapshot in (before, after))
        if one != other:
            told.append(f"{shown if part == 'machine' else 'Python'} {one} → {other}")
    one, other = (snapshot["environment"]["threads"].get("torch") for snapshot in (before, after))
    if one != other:
        told.append(f"threads of torch {one} → {other}")
    return told


def _space(old: Spec, new: Spec) -> list[str]:
    try:
        before, after = (Space.from_json(spec.space) for spec in (old, new))
    except Exception:  # a space of a later version
        return []
    one, other = before.parameters, after.parameters
    told = [f"{name} added" for name in other if name not in one]
    told += [f"{name} removed" for name in one if name not in other]
    told += [
        f"{name}: {one[name]} → {other[name]}" for name in one if name in other and repr(one[name]) != repr(other[name])
    ]
    return told


def _settings(old: Spec, new: Spec) -> list[str]:
    told = []
    if old.goal != new.goal:
        told.append(f"goal {old.goal} → {new.goal}")
    spans = [f"{spec.scheduler.first}-{spec.scheduler.last}" for spec in (old, new)]
    if spans[0] != spans[1]:
        told.append(f"steps {spans[0]} → {spans[1]}")
    told += [
        f"{word} {one} → {other}"
        for word, one, other in (
            ("scheduler", old.scheduler.kind, new.scheduler.kind),
            ("eta", old.scheduler.eta, new.scheduler.eta),
            ("searcher", old.searcher.kind, new.searcher.kind),
            ("seed", old.seed, new.seed),
            ("trials", old.trials, new.trials),
            ("deterministic", old.deterministic, new.deterministic),
        )
        if one != other
    ]
    return told


def _source(old: Spec, new: Spec) -> list[str]:
    names = {entry["name"] for spec in (old, new) for entry in spec.space.get("parameters", ())}

    def lines(spec: Spec) -> list[str]:
        kept = [line.rstrip() for line in spec.program.source.splitlines()]
        # Hyperparameters are told by their own words.
        return [one for one in kept if one.strip() and one.partition("=")[0].partition(":")[0].strip() not in names]

    before, after = lines(old), lines(new)
    if before == after:
        return []
    matcher = difflib.SequenceMatcher(None, before, after, autojunk=False)
    blocks = [code for code in matcher.get_opcodes() if code[0] != "equal"]
    if len(blocks) == 1 and blocks[0][2] - blocks[0][1] <= 1 and blocks[0][4] - blocks[0][3] <= 1:
        _, a, b, c, d = blocks[0]
        one, other = " ".join(before[a:b]).strip(), " ".join(after[c:d]).strip()
        return [f"`{one}` → `{other}`" if one and other else f"`{other}` added" if other else f"`{one}` removed"]
    gone, come = sum(b - a for _, a, b, _, _ in blocks), sum(d - c for _, _, _, c, d in blocks)
    return [f"the cell's text (+{come} −{gone} lines)"]


def _captured(before: Mapping[str, Json], after: Mapping[str, Json]) -> list[str]:
    one, other = ((snapshot.get("capture") or {}).get("names", {}) for snapshot in (before, after))
    return _changed("", one, other)


def _changed(word: str, one: Mapping[str, Any], other: Mapping[str, Any]) -> list[str]:
    changed = [name for name in one if name in other and one[name] != other[name]]
    told = [f"{_listed(changed, word)} changed"] if changed else []
    added = [name for name in other if name not in one]
    removed = [name for name in one if name not in other]
    told += [f"{_listed(added, word)} now used"] if added else []
    told += [f"{_listed(removed, word)} no longer used"] if removed else []
    return told


def _versions(before: Mapping[str, Json], after: Mapping[str, Json]) -> list[str]:
    one, other = (snapshot["environment"]["distributions"] for snapshot in (before, after))
    told = [f"{name} {one[name]} → {other[name]}" for name in one if name in other and one[name] != other[name]]
    told += [f"{name} {other[name]} installed" for name in other if name not in one]
    told += [f"{name} {one[name]} uninstalled" for name in one if name not in other]
    # What the cell uses comes first.
    used = {name.lower().replace("_", "-") for name in (after.get("capture") or {}).get("modules", {})}
    told.sort(key=lambda text: text.partition(" ")[0] not in used)
    rest = len(told) - _SHOWN
    return told if rest <= 0 else [*told[:_SHOWN], f"{rest} more packages"]


def _data(before: Mapping[str, Json], after: Mapping[str, Json]) -> list[str]:
    one, other = ({file["path"]: file["digest"] for file in snapshot["data"]["files"]} for snapshot in (before, after))
    changed = [path for path in one if path in other and one[path] != other[path]]
    return [f"{_listed(changed, 'file')} changed"] if changed else []


def _listed(names: Iterable[str], word: str) -> str:
    known = [*names]
    shown = ", ".join(known[:_SHOWN]) + (f" and {len(known) - _SHOWN} more" if len(known) > _SHOWN else "")
    return f"{word}{'s' if word and len(known) > 1 else ''} {shown}".strip()
