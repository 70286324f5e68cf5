"""Trusting imported experiments. Law: loading their pickles runs code, so none is loaded before the user allows it.

Nothing is loaded from a store that is not this user's (see ``ownership``), just as from a published one, whatever its
files say. An imported experiment has a mark in its folder, a published store has one beside its catalog, and an
imported snapshot has one too: its digest was not computed here, so it must not be confused with a local snapshot of the
same name.
"""

from __future__ import annotations

import filecmp
from datetime import UTC, datetime
from pathlib import Path

from workbench.errors import Untrusted
from workbench.records import SCHEMA
from workbench.store.files.atomic import telling, write_json
from workbench.store.layout import Store
from workbench.store.lists.catalog import label_of
from workbench.store.owner import ownership

#: The mark in the folder of an imported snapshot.
_MARK = "foreign.json"


def mark(store: Store, experiment_id: str) -> None:
    """Mark the experiment as imported."""
    write_json(store.experiment(experiment_id).foreign, {"schema": SCHEMA, "taken_in": _now()})


def mark_snapshot(folder: Path) -> None:
    """Mark the snapshot in ``folder`` as imported, permanently."""
    write_json(folder / _MARK, {"schema": SCHEMA, "taken_in": _now()})


def is_marked(snapshot: Path) -> bool:
    """Whether the snapshot was imported: a local snapshot with the same name is taken again."""
    return (snapshot / _MARK).exists()


def same_snapshot(one: Path, other: Path) -> bool:
    """Whether two snapshots have the same files with the same bytes, whatever their source."""
    mine, theirs = (
        {path.relative_to(root): path for path in root.rglob("*") if path.is_file() and path.name != _MARK}
        for root in (one, other)
    )
    return mine.keys() == theirs.keys() and all(
        filecmp.cmp(path, theirs[name], shallow=False) for name, path in mine.items()
    )


def is_foreign(store: Store, experiment_id: str) -> bool:
    """Whether it was imported, or is in a store that is not this user's, and is not trusted yet."""
    return not store.trusted and (
        store.published.exists()
        or store.experiment(experiment_id).foreign.exists()
        or not ownership.ownership(store).is_ours
    )


def trust(store: Store, experiment_id: str) -> None:
    """Allow the experiment to be loaded and trained: remove its mark.

    In a store that is not this user's nothing is written: the experiment may be loaded as long as it is open here.
    """
    if store.published.exists() or not ownership.ownership(store).is_ours:
        store.trusted = True
    else:
        path = store.experiment(experiment_id).foreign
        with telling(path):
            path.unlink(missing_ok=True)


def check_trusted(store: Store, experiment_id: str) -> None:
    """Raise Untrusted if loading the experiment would run code that this user has not trusted.

    If the whole store is not theirs, raise NotAdopted.
    """
    if is_foreign(store, experiment_id):
        if not store.published.exists():
            ownership.check_ours(store)
        label = label_of(store, experiment_id)
        raise Untrusted(
            f"{label} came from elsewhere: loading or training it runs its code. Viewing it, comparing it and "
            f"`.state` do not. If you trust its author: workbench trust {label}, or wb.open(..., trust=True)."
        )


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
