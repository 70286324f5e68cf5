"""Files that a trial kept: what there is, how each is shown, and its bytes. Law: a browser runs nothing in them."""

from __future__ import annotations

import mimetypes
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

from workbench.errors import NotFound
from workbench.records.names import trial_label
from workbench.store import Store
from workbench.store.files.atomic import WRITING
from workbench.store.files.below import is_plain_below, open_below
from workbench_ext.server.pages import paths_of

Json = Any

#: The most files of one trial that are listed.
MOST_FILES = 5_000
#: The form of a trial's file names: a title, the step, and a number if the step has several.
_BY_STEP = re.compile(r"(?P<name>.+)-(?P<step>\d{6,9})(?:-(?P<number>\d{1,4}))?(?P<suffix>(?:\.\w+)*)")
#: How files are shown that have a form of their own, by the ends of their names.
_FORMS = {
    ".plotly.json": "figure",
    ".histogram.json": "histogram",
    ".table.json": "table",
    ".captions.json": "captions",
    ".json": "text",
}
#: Images that cannot hold a script: browsers may show them inline.
INLINE = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp", "image/bmp"})
#: Types that are sent to a browser, besides sounds; all other files are sent as bytes to save.
SAFE = INLINE | {"image/svg+xml", "text/plain", "application/json"}


def listed(store: Store, name: str, number: int) -> Json:
    """The files that the trial kept, by title and step. Raises NotFound.

    Of more than :data:`MOST_FILES` those of the latest steps are listed, and how many are ``left_out``.
    """
    folder = paths_of(store, name, number).files
    entries = _walk(folder, "") if is_plain_below(store.experiments, folder) else ()
    told = [_told(path, entry) for path, entry in entries]
    left_out = max(0, len(told) - MOST_FILES)
    if left_out:
        # Those without a step, such as the best weights, are not many, and stay.
        told.sort(key=lambda one: (one["step"] is None, one["step"] or 0))
        told = told[left_out:]
    told.sort(key=lambda one: (one["title"], one["step"] or 0, one["number"] or 0, one["name"]))
    return {"files": told, "left_out": left_out}


def _told(path: str, entry: os.DirEntry[str]) -> dict[str, Json]:
    match = _BY_STEP.fullmatch(path)
    number = match and match["number"]
    try:
        size = entry.stat(follow_symlinks=False).st_size
    except FileNotFoundError:  # the training code has removed it meanwhile
        size = 0
    return {
        "name": path,
        "title": match["name"] if match else path,
        "step": int(match["step"]) if match else None,
        "number": int(number) if number else None,
        "kind": kind_of(path),
        "bytes": size,
    }


def _walk(folder: Path, prefix: str) -> Iterator[tuple[str, os.DirEntry[str]]]:
    try:
        entries = list(os.scandir(folder))
    except OSError:
        return
    for entry in entries:
        # Links are skipped: their targets do not belong to the trial.
        if entry.is_dir(follow_symlinks=False):
            yield from _walk(Path(entry.path), f"{prefix}{entry.name}/")
        elif entry.is_file(follow_symlinks=False) and not entry.name.endswith(WRITING):
            yield prefix + entry.name, entry


def kind_of(name: str) -> str:
    """How a file is shown: ``image``, ``figure`` (of Plotly), ``table``, ``histogram``, ``text``, ``audio``,
    ``captions`` (of the step's images or sounds) or ``other``."""
    for suffix, form in _FORMS.items():
        if name.endswith(suffix):
            return form
    kind = type_of(name).partition("/")[0]
    return kind if kind in ("image", "audio", "text") else "other"


def type_of(name: str) -> str:
    """The type that is sent to a browser: never one that it would run."""
    guessed = mimetypes.guess_type(name)[0] or ""
    if guessed.startswith("text/"):
        return "text/plain"
    return guessed if guessed in SAFE or guessed.startswith("audio/") else "application/octet-stream"


def opened(store: Store, name: str, number: int, path: str) -> BinaryIO:
    """A file that the trial kept, opened, by its name in :func:`listed`. Raises NotFound for paths that lead out of its
    folder, and for links. Only the folder of all experiments may be one, to a larger disk for example."""
    folder = paths_of(store, name, number).files
    missing = NotFound(f"{trial_label(number)} keeps no file {path[:80]!r}. Its page lists those it keeps.")
    try:
        return open_below(store.experiments, folder.relative_to(store.experiments) / path)
    except (OSError, ValueError):
        raise missing from None
