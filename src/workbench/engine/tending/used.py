"""What the trials of one experiment were seen to depend on, all of them together. Law: it only grows; what two trials
saw differently is marked, and stays so.

It is one fact of the experiment's series, so that whoever asks whether a result still holds reads one row.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from workbench.records import Json
from workbench.store.series import Series

#: The fact's name in the series.
KEY = "used"
#: Most files, and most names of another kind, that are kept; of files that are beyond, the number.
MOST_FILES, MOST_NAMES = 400, 1000
#: Lists of names that runners tell, and that need not stay with the leg.
_LISTS = ("variables", "packages", "hosts", "made", "changed", "absent")
#: Lists of names that stay with the leg as well.
_SHOWN = ("programs", "not_seen")


class Used:
    """The union of what legs told, as ``series`` keeps it."""

    def __init__(self, series: Series) -> None:
        self._series = series
        kept = series.meta().get(KEY)
        self._known: dict[str, Json] = dict(kept) if isinstance(kept, dict) else {}

    @property
    def packages(self) -> list[str] | None:
        """The packages that training was seen to import; None before a leg has told."""
        return list(self._known.get("packages") or ()) if self._known.get("complete") else None

    def take(self, seen: Mapping[str, Json], host: str) -> dict[str, Json]:
        """Add what one leg has seen on ``host``; what of it stays with the leg."""
        before = self._known
        files, beyond = _files(before.get("files") or {}, seen["files"], host)
        known: dict[str, Json] = {
            **before,
            "files": files,
            "beyond": max(int(before.get("beyond") or 0), int(seen.get("beyond") or 0), beyond),
        }
        for kind in (*_LISTS, *_SHOWN):
            names = dict.fromkeys([*(before.get(kind) or ()), *(seen.get(kind) or ())])
            if names:
                known[kind] = [*names][:MOST_NAMES]
        known["modules"] = {**(seen.get("modules") or {}), **(before.get("modules") or {})}
        if seen.get("copied"):
            known["copied"] = True
        if "packages" in seen:
            known["complete"] = True  # not only files were looked at
        if known != before:
            self._known = known
            self._series.put_meta(KEY, known)
        return {key: value for key, value in seen.items() if key not in (*_LISTS, "modules", "copied")}


def _files(before: Mapping[str, Any], new: Mapping[str, Any], host: str) -> tuple[dict[str, Any], int]:
    """Both together, and how many of the new ones there is no room for."""
    found, beyond = dict(before), 0
    for path, file in new.items():
        known = found.get(path)
        if known is None and len(found) >= MOST_FILES:
            beyond += 1
        elif known is None or not known.get("digest"):
            found[path] = {**file, "host": host}
        elif file.get("digest") and _content(file) != _content(known) and not known.get("mixed"):
            found[path] = {**known, "mixed": True}
    return found, beyond


def _content(file: Mapping[str, Any]) -> Any:
    """What tells of a file's content: of a folder not the digest, in which times count."""
    return file.get("content") or file.get("digest")
