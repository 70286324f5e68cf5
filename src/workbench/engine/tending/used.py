"""What the trials of one experiment depended on, all together. Law: it only grows; if two trials saw different
contents, the file is marked and stays marked.

It is one fact of the experiment's series, so that one row answers whether a result still holds.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from workbench.records import Json
from workbench.snapshot.surroundings.listings import Listed
from workbench.store.series import Series

#: The fact's name in the series.
KEY = "used"
#: The most files, and the most names of each other kind, that are kept; further files are only counted.
MOST_FILES, MOST_NAMES = 400, 1000
#: Lists of names from runners that are not kept with the leg.
_LISTS = ("variables", "packages", "hosts", "made", "changed", "absent", "came")
#: Other reports that are not kept with the leg.
_WHOLE = ("modules", "copied", "listed", "unlisted", "there", "unasked")
#: Lists of names that are kept with the leg as well.
_SHOWN = ("programs", "not_seen")


class Used:
    """The union of what legs reported, kept in ``series``."""

    def __init__(self, series: Series) -> None:
        self._series = series
        kept = series.meta().get(KEY)
        self._known: dict[str, Json] = dict(kept) if isinstance(kept, dict) else {}

    @property
    def packages(self) -> list[str] | None:
        """The packages that training imported; None before a leg has reported them."""
        return list(self._known.get("packages") or ()) if self._known.get("complete") else None

    def take(self, seen: Mapping[str, Json], host: str) -> dict[str, Json]:
        """Add what one leg saw on ``host``. Returns the part that is kept with the leg."""
        before = self._known
        files, beyond = _files(before.get("files") or {}, seen["files"], host)
        known: dict[str, Json] = {
            **before,
            "files": files,
            "beyond": max(int(before.get("beyond") or 0), int(seen.get("beyond") or 0), beyond),
        }
        made = {*(before.get("made") or ()), *(seen.get("made") or ())}
        for kind in (*_LISTS, *_SHOWN):
            names = dict.fromkeys([*(before.get(kind) or ()), *(seen.get(kind) or ())])
            if kind == "absent":  # trials do not depend on what they make, and their outputs would soon fill the list
                names = {name: None for name in names if name not in made}
            if names or kind in known:
                known[kind] = [*names][:MOST_NAMES]
        if seen.get("there"):
            there = {**dict.fromkeys(seen["there"], host), **(before.get("there") or {})}
            known["there"] = dict([*there.items()][:MOST_NAMES])
        if seen.get("unasked"):
            known["unasked"] = max(int(before.get("unasked") or 0), int(seen["unasked"]))
        known["modules"] = {**(seen.get("modules") or {}), **(before.get("modules") or {})}
        if "listed" in seen:
            known["listed"] = _listed(before.get("listed") or [], seen["listed"])
            known["unlisted"] = max(int(before.get("unlisted") or 0), int(seen.get("unlisted") or 0))
        if seen.get("copied"):
            known["copied"] = True
        if "packages" in seen:
            known["complete"] = True  # the leg reported more than files
        if known != before:
            self._known = known
            self._series.put_meta(KEY, known)
        return {key: value for key, value in seen.items() if key not in (*_LISTS, *_WHOLE)}


def _files(before: Mapping[str, Any], new: Mapping[str, Any], host: str) -> tuple[dict[str, Any], int]:
    """Both together, and how many new files exceed the limit."""
    found, beyond = dict(before), 0
    for path, file in new.items():
        known = found.get(path)
        if known is None and len(found) >= MOST_FILES:
            beyond += 1
        elif known is None or not known.get("digest"):
            found[path] = {**file, "host": host}
        elif file.get("mixed") or (file.get("digest") and _content(file) != _content(known)):
            found[path] = {**known, "mixed": True}
    return found, beyond


def _listed(before: list[Json], new: list[Json]) -> list[Json]:
    """Both together."""
    found = {one.asked: one for one in map(Listed.from_json, before)}
    for one in map(Listed.from_json, new):
        known = found.get(one.asked)
        if known is not None or len(found) < MOST_FILES:
            found[one.asked] = one if known is None else known.together(one)
    return [one.to_json() for one in found.values()]


def _content(file: Mapping[str, Any]) -> Any:
    """A value that identifies a file's content. A folder's digest is not used if ``content`` is known: it depends on
    times."""
    return file.get("content") or file.get("digest")
