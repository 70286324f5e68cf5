"""All experiments of a store. Law: those count too that no engine has listed yet, and deleted ones do not."""

from __future__ import annotations

import os
from typing import Any

from workbench.errors import BadName, StoreError
from workbench.store.layout import Store
from workbench.store.lists.catalog import read_catalog
from workbench.store.lists.said import said


def experiments(store: Store) -> list[dict[str, Any]]:
    """The catalog's entries, and experiments whose start request the engine has not taken yet."""
    deleted = said(store).deleted
    entries = [dict(entry) for entry in read_catalog(store) if entry["id"] not in deleted]
    known = {entry["id"] for entry in entries} | deleted
    try:
        written = sorted(set(os.listdir(store.experiments)) - known)
    except FileNotFoundError:
        written = []
    for name in written:
        try:
            spec = store.read_spec(name, viewing=True)
        except (StoreError, BadName, LookupError):
            continue  # being written, or not an experiment
        entries.append(
            {
                "id": spec.id,
                "name": spec.name,
                "version": spec.version,
                "label": spec.label,
                "state": "waiting",
                "created": spec.created,
                "content": spec.content,
                "notebook": spec.notebook,
            }
        )
    return entries
