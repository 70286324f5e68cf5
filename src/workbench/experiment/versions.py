"""What a version of an experiment changed. Law: it is told against the newest before it, or the one it is like."""

from __future__ import annotations

from workbench.errors import NotFound, StoreError
from workbench.launch import changes, experiments
from workbench.records import Spec
from workbench.store import Store


def changed(store: Store, spec: Spec) -> list[str]:
    """What differs from the version before, in words; nothing for a first version."""
    before = [entry for entry in experiments(store) if entry["name"] == spec.name and entry["version"] < spec.version]
    if not before:
        return []
    newest = max(before, key=lambda entry: int(entry["version"]))["id"]
    # Where only what is around the cell changed, that is told against the version with the same content.
    base = (spec.since or {}).get("experiment")
    try:
        old = store.read_spec(base if base and store.experiment(base).spec.exists() else newest, viewing=True)
    except (NotFound, StoreError):
        return []
    return changes(store, old, spec)
