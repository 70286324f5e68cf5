"""Finds the stores below a folder. Law: it reads names of folders; it follows no link, and its time is limited."""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Mapping
from itertools import islice
from pathlib import Path

from workbench.store import Store
from workbench.store.layout import FOLDER

#: Limits of one search: levels of folders below the first, folders in all, names in one folder, stores, and seconds.
MOST_DEPTH, MOST_FOLDERS, MOST_NAMES, MOST_STORES, MOST_S = 6, 20_000, 20_000, 200, 2.0
#: Folders that programs create: users do not work there. Hidden folders are skipped as well.
PASSED_OVER = frozenset({"node_modules", "__pycache__", "site-packages", "venv", "env", "lost+found"})
#: Folders of the system, skipped when the search starts at the machine's root.
_SYSTEM = frozenset({"/proc", "/sys", "/dev", "/run"})
#: Folders that every new store has: together they identify a store of any name.
_MADE_WITH = frozenset({"blobs", "experiments", "requests", "snapshots"})
#: The file that only a published experiment's folder has, which is a store.
_PUBLISHED = "published.json"


def stores_below(top: Path, depth: int = MOST_DEPTH) -> list[Path]:
    """Folders of the stores in ``top`` and below it, and of published experiments, the nearest first. ``depth`` 0
    searches only ``top``.

    A store beyond the limits is not found, until a notebook next to it is opened.
    """
    found: list[Path] = []
    waiting = deque([(top, 0)])
    until = time.monotonic() + MOST_S
    looked = 0
    while waiting and looked < MOST_FOLDERS and len(found) < MOST_STORES and time.monotonic() < until:
        folder, level = waiting.popleft()
        looked += 1
        inner, is_published = _look(folder)
        if is_published or inner.keys() >= _MADE_WITH:
            found.append(folder)
            continue
        if FOLDER in inner and Store(inner[FOLDER]).exists:
            found.append(inner[FOLDER])
        if level < depth:
            waiting.extend((path, level + 1) for name, path in sorted(inner.items()) if _is_entered(name, path))
    return found


def _is_entered(name: str, path: Path) -> bool:
    return not name.startswith(".") and name not in PASSED_OVER and str(path) not in _SYSTEM


def _look(folder: Path) -> tuple[Mapping[str, Path], bool]:
    """The folders in ``folder`` that are not links, and whether it is a published experiment; nothing if it cannot be
    read, or is a virtual environment."""
    try:
        with os.scandir(folder) as entries:
            found = list(islice(entries, MOST_NAMES))
            names = {entry.name for entry in found}
            if "pyvenv.cfg" in names:
                return {}, False
            folders = {entry.name: Path(entry.path) for entry in found if entry.is_dir(follow_symlinks=False)}
            return folders, _PUBLISHED in names and "experiments" in folders
    except OSError:
        return {}, False
