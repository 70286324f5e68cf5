"""The part of `show` about the files that a trial read. Law: what was seen is called seen, never all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from workbench.cli.words import clean, number, table
from workbench.compare.section import size
from workbench.compare.sides import seen_of

#: Files that are printed.
_SHOWN = 20


def seen(legs: Sequence[Mapping[str, Any]]) -> dict[str, Any] | None:
    """The files that the legs of a trial were seen to read, and how many more there were; None where nobody looked."""
    files = seen_of(legs)
    details = [(leg.get("detail") or {}).get("seen") or {} for leg in legs]
    return None if files is None else {"files": files, "beyond": max(one.get("beyond", 0) for one in details)}


def seen_lines(legs: Sequence[Mapping[str, Any]]) -> list[str]:
    """The same as a table."""
    found = seen(legs)
    if found is None or not found["files"]:
        return []
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
        ]
        for path, file in files[:_SHOWN]
    ]  # fmt: skip
    more = len(files) - _SHOWN + found["beyond"] if len(files) > _SHOWN else found["beyond"]
    return [*table(["  file", "size", "holds", "changed", "digest"], rows), *([f"  and {more:,} more"] if more else [])]
