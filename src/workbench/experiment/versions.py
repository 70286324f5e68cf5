"""What a version of an experiment changed. Law: it is compared with the newest before it, or one with its content."""

from __future__ import annotations

from workbench.errors import NotFound, StoreError
from workbench.launch import changes, experiments
from workbench.records import Spec
from workbench.store import Store


def changed(store: Store, spec: Spec) -> list[str]:
    """What differs from the version before, in words; empty for a first version."""
    before = [entry for entry in experiments(store) if entry["name"] == spec.name and entry["version"] < spec.version]
    if not before:
        return []
    newest = max(before, key=lambda entry: int(entry["version"]))["id"]
    # If the cell is unchanged, the comparison is with the version with the same content.
    base = (spec.since or {}).get("experiment")
    try:
        old = store.read_spec(base if base and store.experiment(base).spec.exists() else newest, viewing=True)
    except (NotFound, StoreError):
        return []
    return changes(store, old, spec)
