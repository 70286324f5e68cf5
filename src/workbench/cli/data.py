"""The part of `show` about the files that a trial read. Law: files are called *seen*, never complete; it says if none
was seen, and what cannot be seen.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from workbench.cli.words import clean, number, table
from workbench.compare.section import counted, size
from workbench.compare.sides import seen_of
from workbench.store.keeping.kept import NOT_KEPT

#: The maximum number of printed files.
_SHOWN = 20
_UNSEEN = "not seen: files that libraries in C or subprocesses open and close themselves"


def seen(legs: Sequence[Mapping[str, Any]]) -> dict[str, Any] | None:
    """The files that the legs of a trial were seen to read, the number of others, and other facts; None if this was not
    recorded.
    """
    files = seen_of(legs)
    details = [(leg.get("detail") or {}).get("seen") or {} for leg in legs]
    if files is None:
        return None
    found: dict[str, Any] = {"files": files, "beyond": max(one.get("beyond", 0) for one in details)}
    for part in ("programs", "not_seen"):
        found[part] = list(dict.fromkeys(name for one in details for name in one.get(part, ())))
    return found


def seen_part(legs: Sequence[Mapping[str, Any]]) -> tuple[str, list[str]]:
    """The same as a title and lines; only a title if none was seen."""
    found = seen(legs)
    if found is None:
        return ("data seen: not recorded", []) if legs else ("", [])
    unseen = "; ".join(
        [
            _UNSEEN,
            *([f"imported here: {', '.join(map(clean, found['not_seen']))}"] if found["not_seen"] else []),
            *([f"started here: {', '.join(map(clean, found['programs']))}"] if found["programs"] else []),
        ]
    )
    if not found["files"]:
        return "data seen: none", [f"  {unseen}"]
    files = list(found["files"].items())
    rows = [
        [
            f"  {clean(path)}",
            size(file["size"]) if "size" in file else "–",
            f"{number(file['files'])} files" if "files" in file else f"{number(file.get('rows'))} rows"
            if file.get("rows") is not None else "",
            str(file.get("modified") or "")[:19],
            f"{str(file['digest'])[:8]}{' (of samples)' if file.get('sampled') else ''}" if file.get("digest") else
            "not read in time",
            _kept(file) + (", named to a subprocess" if file.get("named") else ""),
        ]
        for path, file in files[:_SHOWN]
    ]  # fmt: skip
    more = len(files) - _SHOWN + found["beyond"] if len(files) > _SHOWN else found["beyond"]
    lines = table(["  file", "size", "holds", "changed", "digest", "bytes"], rows)
    if more:
        lines.append(f"  and {more:,} more")
    return f"data seen (there may be more): {_counted(found['files'])}", [*lines, f"  {unseen}"]


def back_lines(legs: Sequence[Mapping[str, Any]]) -> list[str]:
    """The files that the newest leg saw with their old content, and those it did not."""
    told = next((back for leg in reversed(legs) if (back := (leg.get("detail") or {}).get("back"))), None)
    if told is None:
        return []
    shown = [f"  {clean(path)}  as it was when the first trial read it" for path in told["shown"]]
    return [*shown, *(f"  {clean(path)}  as it is today: {clean(why)}" for path, why in told["not_shown"].items())]


def _kept(file: Mapping[str, Any]) -> str:
    if file.get("kept"):
        return "kept"
    return f"digest only: {NOT_KEPT[why]}" if (why := file.get("not_kept")) in NOT_KEPT else "digest only"


def _counted(files: Mapping[str, Mapping[str, Any]]) -> str:
    kept = [file for file in files.values() if file.get("kept")]
    total = size(float(sum(file.get("size") or 0 for file in kept)))
    return f"{counted(len(files), 'file')}, {len(kept)} kept{f' ({total})' if kept else ''}"
