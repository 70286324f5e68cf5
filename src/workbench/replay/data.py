"""Restores data: which files have changed since a trial read them, and which of them training can see unchanged.

Law: no file is written. Restored files exist only in a leg's own view; for the others a note says what to do.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from workbench.compare.section import size
from workbench.records import Json
from workbench.records.texts import written
from workbench.snapshot.surroundings.data import DataFile, as_named, describe
from workbench.store import Store
from workbench.store.keeping.kept import NOT_KEPT

Files = Mapping[str, Mapping[str, Any]]

_LOG = "-wal"


@dataclass(slots=True)
class Past:
    """Files that have changed.

    back: those whose bytes are kept, in the form of a spec. notes: what changed, one sentence for each file.
    """

    back: dict[str, dict[str, Json]] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


def past(store: Store, files: Files) -> Past:
    """Which of ``files`` (by path, in the form of a leg's page) have changed since, and which of those can be
    restored."""
    found = Past()
    for path, file in files.items():
        then = file.get("digest")
        is_log = path.endswith(_LOG) and path.removesuffix(_LOG) in files
        if not then or is_log:
            continue
        now = _now(path)
        changed = now is None or now.digest != then
        log = files.get(path + _LOG)
        if not changed and (log is None or _is_as(path + _LOG, log)):
            continue
        end = _end(store, path, file)
        if is_kept(store, file):
            found.back[path] = _entry(file)
        if now is None:
            found.notes.append(f"{path}, which the trial was seen to read, is gone (its digest was {then[:12]}); {end}")
        else:
            found.notes.append(
                f"{path}, which the trial was seen to read, changed since: {file['size']:,} → {now.size:,} bytes, "
                f"digest {then[:12]} → {now.digest[:12]}; {end}"
            )
    return found


def is_kept(store: Store, file: Mapping[str, Any]) -> bool:
    """Whether all bytes of a file are in the store."""
    blobs = [file.get("kept"), *(file.get("beside") or {}).values()]
    return all(blob is not None and store.has_blob(str(blob)) for blob in blobs)


def not_kept(path: str, file: Mapping[str, Any]) -> str:
    """Why the bytes of a file are unavailable, and what to do."""
    name = os.path.basename(path.rstrip("/")) or path
    large = f" ({size(float(file['size']))})" if file.get("size") is not None else ""
    if file.get("kept"):
        return f"the bytes of {name}{large} were kept, but are no longer in this store"
    why = NOT_KEPT.get(str(file.get("not_kept")))
    reason = f": {why}" if why else ""
    return f"only the digest of {name}{large} is kept{reason}; restore the file to replay exactly"


def as_they_were(
    named: Iterable[Mapping[str, Any]], files: Files, then: Past, folder: str
) -> tuple[list[DataFile], list[str]]:
    """The files that a snapshot names, as training sees them; and notes on changed files that the trial was not seen to
    read."""
    seen = {os.path.realpath(as_named(path)): path for path in files}
    found, notes = [], []
    for entry in named:
        before = DataFile(**{key: value for key, value in entry.items() if key in DataFile.__dataclass_fields__})
        path = seen.get(os.path.realpath(Path(folder, before.path)))
        if path is not None and path in then.back:
            file = files[path]
            told = {key: file[key] for key in ("size", "modified", "digest", "rows") if key in file}
            found.append(dataclasses.replace(before, **told))
            continue
        now = _now(before.path)
        if now is not None:
            found.append(now)
        if path is not None and files[path].get("digest"):
            continue  # it has a note already
        if now is None:
            notes.append(f"{before.path} is gone (its digest was {before.digest[:12]})")
        elif now.digest != before.digest:
            notes.append(
                f"{before.path} changed: {before.size:,} → {now.size:,} bytes, digest {before.digest[:12]} → "
                f"{now.digest[:12]}"
            )
    return found, notes


def moved(files: Files, before: str, after: str) -> dict[str, Mapping[str, Any]]:
    """``files`` with those in the folder ``before`` moved to the folder ``after``."""
    start, after = f"{written(before.rstrip('/'))}/", written(after)
    return {
        os.path.join(after, path.removeprefix(start)) if path.startswith(start) else path: file
        for path, file in files.items()
    }


def not_seen_as_it_was(back: Files, legs: Iterable[Mapping[str, Any]]) -> list[str]:
    """The files in ``back`` that training did not see unchanged, according to its legs."""
    told: dict[str, str] = {}
    for leg in legs:
        detail = leg.get("detail") or {}
        told.update((detail.get("back") or {}).get("not_shown") or {})
        for path, file in ((detail.get("seen") or {}).get("files") or {}).items():
            wanted = back.get(path)
            if wanted is not None and file.get("digest") not in (None, wanted.get("digest")):
                told.setdefault(path, "it was read by its absolute path, and the system permits no mounts")
    return [f"{path}: {why}" for path, why in told.items()]


def is_changed(store: Store, files: Files) -> bool:
    """Whether one of ``files`` has changed and cannot be restored."""
    return any(not is_kept(store, file) and not _is_as(path, file) for path, file in files.items())


def _is_as(path: str, file: Mapping[str, Any]) -> bool:
    now = _now(path)
    return now is not None and now.digest == file.get("digest")


def _now(path: str) -> DataFile | None:
    try:
        return describe(as_named(path))
    except OSError:
        return None


def _entry(file: Mapping[str, Any]) -> dict[str, Json]:
    return {key: file[key] for key in ("kept", "beside", "digest", "modified") if key in file}


def _end(store: Store, path: str, file: Mapping[str, Any]) -> str:
    if is_kept(store, file):
        return "training sees it as it was, and the file stays as it is"
    return not_kept(path, file)
