"""What came from elsewhere holds pickles, and loading those runs code. Law: nobody loads them before a person said so.

An experiment that was taken in carries a mark in its folder, a published store one beside its catalog. So does a
snapshot: its name is a digest that only whoever takes it has computed, so it stands for nothing else than itself.
"""

from __future__ import annotations

import filecmp
from datetime import UTC, datetime
from pathlib import Path

from workbench.errors import Untrusted
from workbench.records import SCHEMA
from workbench.store.atomic import telling, write_json
from workbench.store.layout import Store

#: In the folder of a snapshot that came from elsewhere.
_MARK = "foreign.json"


def mark(store: Store, experiment_id: str) -> None:
    """From now on the experiment is somebody else's."""
    write_json(store.experiment(experiment_id).foreign, {"schema": SCHEMA, "taken_in": _now()})


def mark_snapshot(folder: Path) -> None:
    """The snapshot in ``folder`` is somebody else's, and stays so."""
    write_json(folder / _MARK, {"schema": SCHEMA, "taken_in": _now()})


def is_marked(snapshot: Path) -> bool:
    """True for a snapshot that came from elsewhere: what is taken here under its name is taken anew."""
    return (snapshot / _MARK).exists()


def same_snapshot(one: Path, other: Path) -> bool:
    """Whether two snapshots hold the same files with the same bytes, whoever they are from."""
    mine, theirs = (
        {path.relative_to(root): path for path in root.rglob("*") if path.is_file() and path.name != _MARK}
        for root in (one, other)
    )
    return mine.keys() == theirs.keys() and all(
        filecmp.cmp(path, theirs[name], shallow=False) for name, path in mine.items()
    )


def is_foreign(store: Store, experiment_id: str) -> bool:
    """True where it came from elsewhere and nobody has said yet that it is trusted."""
    return not store.trusted and (store.published.exists() or store.experiment(experiment_id).foreign.exists())


def trust(store: Store, experiment_id: str) -> None:
    """A person says that the experiment may be loaded and trained: its mark goes."""
    if store.published.exists():
        store.trusted = True
    else:
        path = store.experiment(experiment_id).foreign
        with telling(path):
            path.unlink(missing_ok=True)


def check_trusted(store: Store, experiment_id: str, label: str) -> None:
    """Raise Untrusted where loading the experiment would run code of somebody whom nobody has vouched for."""
    if is_foreign(store, experiment_id):
        raise Untrusted(
            f"{label} came from elsewhere: to load or train it runs its code. Looking at it, comparing it and "
            f"`.state` do not. If you trust its author: workbench trust {label}, or wb.open(..., trust=True)."
        )


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
