"""Restores old bytes of files for one leg. Law: copies in the store, which only that leg sees and which are removed
with it."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
from collections.abc import Iterable, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from workbench.errors import ClusterError, NotFound, StoreError
from workbench.messages import Order, Plain
from workbench.snapshot.originals import Originals
from workbench.snapshot.surroundings.data import as_named
from workbench.store import Store
from workbench.store.files.atomic import WRITING, make_folder, telling

_SQLITE = b"SQLite format 3\0"


async def laid_out(order: Order) -> Plain | None:
    """Copies of files that have changed since, for this leg to see; None if there are none. Raises ClusterError."""
    if not order.data_back:
        return None
    try:
        return await asyncio.to_thread(lay_out, Store(order.leg.store), order.data_back, _place_of(order))
    except StoreError as error:
        raise ClusterError(str(error)) from error


async def removed(order: Order) -> None:
    """Remove the copies of this leg, which is over."""
    if order.data_back:
        await asyncio.to_thread(_remove, _place_of(order))


def _place_of(order: Order) -> Path:
    """The folder of one leg's copies. What a crash leaves there is cleaned up like other unfinished files."""
    folder = Store(order.leg.store).experiment(order.experiment).folder
    return folder / f"back-{order.leg.trial}-{order.attempt}{WRITING}"


def lay_out(store: Store, back: Mapping[str, Mapping[str, Any]], place: Path) -> Plain:
    """Write copies of the files in ``back``. Returns what the runner is told: ``copies`` by path, ``lost``, ``place``.

    Raises StoreError if the disk is full.
    """
    copies: dict[str, str] = {}
    lost: dict[str, str] = {}
    folders: dict[str, Path] = {}
    _remove(place)
    for recorded, entry in back.items():
        path = as_named(recorded)
        # Files of one folder are copied to one folder: some readers look for neighbouring files.
        folder = folders.setdefault(os.path.dirname(path), place / "files" / str(len(folders)))
        make_folder(folder)
        try:
            parts = {"": store.get_blob(str(entry["kept"]), verify=True)}
            parts |= {ending: store.get_blob(str(blob)) for ending, blob in (entry.get("beside") or {}).items()}
        except (NotFound, StoreError):
            lost[recorded] = "its bytes are no longer in the store"
            continue
        if parts[""].startswith(_SQLITE) and os.path.exists(f"{path}-wal"):
            parts.setdefault("-wal", b"")  # today's log belongs to today's database
        for ending, data in parts.items():
            copy = folder / (os.path.basename(path) + ending)
            with telling(copy):
                copy.write_bytes(data)
            if not ending:
                _date(copy, entry.get("modified"))
            copies[path + ending] = str(copy)
    return {"copies": copies, "lost": lost, "place": str(place / "links")}


def covering(copies: Mapping[str, str], code: Iterable[str]) -> list[tuple[str, str]]:
    """Each file with the copy that is mounted over it: those of ``copies``, and the copies of these files in ``code``
    (folders of the search path), which training may read instead."""
    originals, places = Originals(), tuple(code)
    own = ((one, copy) for file, copy in copies.items() for place in places for one in originals.copies(file, place))
    return [*copies.items(), *own]


def _remove(place: Path) -> None:
    shutil.rmtree(place, ignore_errors=True)


def _date(copy: Path, modified: Any) -> None:
    with contextlib.suppress(TypeError, ValueError, OSError):
        seconds = datetime.fromisoformat(modified).timestamp()
        os.utime(copy, (seconds, seconds))
