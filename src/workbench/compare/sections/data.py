"""Which data differ: files that were named, passed to ``trial.data`` or seen to be read, and arrays and tables from the
notebook.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from workbench.compare.section import Item, Section, change, counted, size
from workbench.compare.sections.makers import Makers
from workbench.compare.sides import Captured, Side
from workbench.records.texts import written


def data(a: Side, b: Side) -> Section | None:
    """The section on data, or None if they are the same."""
    section = Section("data", [])
    idle: list[Item] = []
    one, other = _files(a), _files(b)
    for path in dict.fromkeys([*one, *other]):
        before, after, only = _both(one.get(path, {}), other.get(path, {}))
        if only == SEEN and (a.seen is None or b.seen is None):
            continue  # for one side it is not known what it read
        if only == SEEN and a.spec.id == b.spec.id:
            # With the same code and snapshot, one trial may have read more of its data than the other.
            section.known.append(f"{path} was seen in one of them only")
            continue
        if before is not None and after is not None and _same(before, after):
            if before.get("sampled") or after.get("sampled"):
                section.known.append(f"{path} is so large that samples of it were compared")
            continue
        if a.has_seen_all and b.has_seen_all and _is_only_written(path, one, other):
            note = _note(before, after, "neither was seen to read it")
            idle.append(Item(path, _words(before), _words(after), note))
            continue
        where = "as far as Workbench saw" if only == SEEN else ""
        section.items.append(Item(path, _words(before), _words(after), _note(before, after, where)))
        section.short.append(_short(path, before, after))
    makers: Makers | None = None  # reading the cells takes a while: do it only if something differs
    names = {name for side in (a, b) for name, captured in side.captured.items() if is_data(side, name, captured)}
    for name in [name for name in {**a.captured, **b.captured} if name in names]:
        left, right = a.captured.get(name), b.captured.get(name)
        if left is not None and right is not None and left.digest == right.digest:
            continue
        before, after = _content(left), _content(right)
        makers = makers or Makers(a, b)
        where = ", ".join(part for part in ("from the notebook", makers.note(name)) if part)
        section.items.append(Item(name, _words(before), _words(after), _note(before, after, where)))
        section.short.append(_short(name, before, after) + makers.short(name))
    if idle:
        section.causes = bool(section.items)
        section.items += idle
        section.short = section.short or [f"{counted(len(idle), 'file')} changed that neither was seen to read"]
    return section if section.items or section.known else None


def is_data(side: Side, name: str, captured: Captured) -> bool:
    """Whether a captured name holds data. Snapshots of earlier versions do not say; then its cells are examined."""
    if captured.kind == "unknown":
        from workbench.compare.sections.code import defines_code

        return not defines_code(side, name)
    return captured.kind == "data"


#: How a file is known, the most certain first: training code named it, was seen to read it, or contains a text that
#: names it.
NAMED, SEEN, WRITTEN = "named", "seen", "written"


def _files(side: Side) -> dict[str, dict[str, dict[str, Any]]]:
    """The files of one side by path, with the record for each way in which it is known."""
    folder = f"{side.snapshot.get('folder') or side.spec.training.cwd}{os.sep}"
    ways = {
        NAMED: side.detail(side.trial if side.trial is not None else 0).get("data") or {},
        SEEN: side.seen or {},
        WRITTEN: {str(file["path"]): file for file in (side.snapshot.get("data") or {}).get("files") or []},
    }
    found: dict[str, dict[str, dict[str, Any]]] = {}
    for way, files in ways.items():
        for path, file in files.items():
            name = written(str(path)).removeprefix(written(folder))
            found.setdefault(name.rstrip("/") or name, {})[way] = dict(file)
    return found


def _is_only_written(path: str, *sides: Mapping[str, Mapping[str, Any]]) -> bool:
    """Whether a text names a file, and no side was seen to read it, a folder that it is in, or a file in it."""
    place, read = Path(path), [Path(name) for files in sides for name, ways in files.items() if ways.keys() - {WRITTEN}]
    return not any(place.is_relative_to(name) or name.is_relative_to(place) for name in read)


def _both(
    one: Mapping[str, dict[str, Any]], other: Mapping[str, dict[str, Any]]
) -> tuple[dict[str, Any] | None, dict[str, Any] | None, str]:
    """A file's records of both sides, from the most certain way that both have; or how it is known if only one side has
    it."""
    for way in (NAMED, SEEN, WRITTEN):
        if way in one and way in other:
            return one[way], other[way], ""
    before, after = next(iter(one.values()), None), next(iter(other.values()), None)
    return before, after, "" if one and other else next(iter({**one, **other}))


def _same(before: Mapping[str, Any], after: Mapping[str, Any]) -> bool:
    """Whether both have the same content, as far as is known: digests of samples, of whole files and of folders cannot
    be compared with each other."""
    digests = before.get("digest"), after.get("digest")
    alike = bool(before.get("sampled")) == bool(after.get("sampled")) and _count(before) == _count(after)
    if all(digests) and alike:
        return digests[0] == digests[1]
    return before.get("size") == after.get("size") and _count(before) == _count(after)


def _count(file: Mapping[str, Any]) -> int:
    return int(file.get("files") or 1)


def _content(captured: Captured | None) -> dict[str, Any] | None:
    if captured is None:
        return None
    return {"digest": captured.digest, "size": captured.bytes, "rows": captured.rows, "words": captured.words}


def _words(file: Mapping[str, Any] | None) -> str | None:
    if file is None:
        return None
    parts = [str(file["words"])] if file.get("words") else []
    if file.get("rows") is not None:
        parts.append(counted(int(file["rows"]), "row"))
    if file.get("size") is not None:
        parts.append(size(float(file["size"])))
    if (file.get("files") or 1) > 1:
        parts.append(counted(int(file["files"]), "file"))
    return ", ".join([*parts, *([f"digest {str(file['digest'])[:8]}"] if file.get("digest") else [])])


def _note(before: Mapping[str, Any] | None, after: Mapping[str, Any] | None, where: str = "") -> str:
    if before is None or after is None:
        return ", ".join(part for part in ("only on one side", where) if part)
    told = []
    for key, word in (("rows", "row"), ("files", "file"), ("size", "byte")):
        if before.get(key) is not None and after.get(key) is not None and before[key] != after[key]:
            more = int(after[key]) - int(before[key])
            told.append(f"{counted(abs(more), word)} {'more' if more > 0 else 'fewer'}")
    if not told:
        told.append("as large as before, other content")
    if before.get("sampled") or after.get("sampled"):
        told.append("compared by samples")
    return ", ".join([*told, *([where] if where else [])])


def _short(path: str, before: Mapping[str, Any] | None, after: Mapping[str, Any] | None) -> str:
    name = path.rstrip("/").rpartition("/")[2] or path
    if before is None:
        return f"{name} is new"
    if after is None:
        return f"{name} is gone"
    for key, word in (("rows", " rows"), ("files", " files")):
        if before.get(key) is not None and after.get(key) is not None and before[key] != after[key]:
            return change(name, f"{before[key]:,}", f"{after[key]:,}{word}")
    if before.get("size") is not None and after.get("size") is not None and before["size"] != after["size"]:
        return change(name, size(before["size"]), size(after["size"]))
    return f"{name} changed"
