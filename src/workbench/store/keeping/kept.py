"""Data that training read, kept by content. Law: files become blobs; an experiment's ``data.json`` refers to its own,
so that they stay as long as the experiment.

The worker writes the blobs in parallel with training; the engine writes ``data.json`` when the worker reports them.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping
from typing import Any

from workbench.records import Json
from workbench.store.files.atomic import read_json, write_json
from workbench.store.layout import ExperimentPaths, Store

#: The maximum bytes of data that one store keeps; of further files it keeps only the digest.
QUOTA = 2_000_000_000
#: The largest limit of a kept file's size.
MOST = 1_000_000_000

#: Why only the digest of a file is kept.
NOT_KEPT = {
    "large": "it is larger than --keep-data",
    "off": "--keep-data off",
    "folder": "of folders, names, sizes and times are kept",
    "secret": "its name is that of a secret",
    "changing": "it changed while it was read",
    "changes": "it changes again and again",
    "quota": f"the store keeps {QUOTA // 10**9} GB of data already",
    "full": "the store's disk is nearly full",
}


def read(paths: ExperimentPaths) -> dict[str, dict[str, Any]]:
    """The blobs of an experiment's data by their names, each with the path it had and its size."""
    try:
        told = read_json(paths.data)
        return {str(name): dict(one) for name, one in told["blobs"].items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return {}


def blobs_in(files: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, Json]]:
    """The blobs referred to by the files of a leg's page."""
    found: dict[str, dict[str, Json]] = {}
    for path, file in files.items():
        if file.get("kept"):
            found[str(file["kept"])] = {"path": path, "size": file.get("size")}
        for ending, blob in (file.get("beside") or {}).items():
            found[str(blob)] = {"path": path + ending, "size": None}
    return found


class Kept:
    """An experiment's list of kept data, as its engine writes it."""

    def __init__(self, paths: ExperimentPaths) -> None:
        self._paths = paths
        self._blobs: dict[str, dict[str, Any]] | None = None

    def note(self, files: Mapping[str, Mapping[str, Any]]) -> None:
        """Record new blobs of ``files`` (of a leg's page). Raises StoreError."""
        named = blobs_in(files)
        if not named:
            return
        if self._blobs is None:
            self._blobs = read(self._paths)
        if named.keys() <= self._blobs.keys():
            return
        blobs = {**self._blobs, **named}
        write_json(self._paths.data, {"schema": 1, "blobs": blobs})
        self._blobs = blobs


def kept_bytes(store: Store) -> int:
    """Bytes of all data that the store keeps, each content once."""
    names: set[str] = set()
    for key in store.experiment_ids():
        names |= read(store.experiment(key)).keys()
    total = 0
    for name in names:
        with contextlib.suppress(OSError):
            total += os.stat(store.blobs / name).st_size
    return total
