"""What came from elsewhere holds pickles, and loading those runs code. Law: none is loaded before a person said so.

A store that is not this person's (see ``ownership``) is loaded from as little as a published one, whatever it says of
itself. An experiment that was taken in carries a mark in its folder, a published store one beside its catalog. So does
a snapshot: its name is a digest that only the taker has computed, so it stands for nothing else than itself.
"""

from __future__ import annotations

import filecmp
from datetime import UTC, datetime
from pathlib import Path

from workbench.errors import Untrusted
from workbench.records import SCHEMA
from workbench.store.files.atomic import telling, write_json
from workbench.store.layout import Store
from workbench.store.owner import ownership

#: In the folder of a snapshot that came from elsewhere.
_MARK = "foreign.json"


def mark(store: Store, experiment_id: str) -> None:
    """From now on the experiment is another person's."""
    write_json(store.experiment(experiment_id).foreign, {"schema": SCHEMA, "taken_in": _now()})


def mark_snapshot(folder: Path) -> None:
    """The snapshot in ``folder`` is another person's, and stays so."""
    write_json(folder / _MARK, {"schema": SCHEMA, "taken_in": _now()})


def is_marked(snapshot: Path) -> bool:
    """True for a snapshot that came from elsewhere: what is taken here under its name is taken anew."""
    return (snapshot / _MARK).exists()


def same_snapshot(one: Path, other: Path) -> bool:
    """Whether two snapshots hold the same files with the same bytes, whatever their source."""
    mine, theirs = (
        {path.relative_to(root): path for path in root.rglob("*") if path.is_file() and path.name != _MARK}
        for root in (one, other)
    )
    return mine.keys() == theirs.keys() and all(
        filecmp.cmp(path, theirs[name], shallow=False) for name, path in mine.items()
    )


def is_foreign(store: Store, experiment_id: str) -> bool:
    """True where it came from elsewhere, or lies in a store that is not this person's, and is not trusted yet."""
    return not store.trusted and (
        store.published.exists()
        or store.experiment(experiment_id).foreign.exists()
        or not ownership.ownership(store).is_ours
    )


def trust(store: Store, experiment_id: str) -> None:
    """A person says that the experiment may be loaded and trained: its mark goes.

    In a store that is not theirs nothing is written: what was opened here may be loaded, as long as it is open.
    """
    if store.published.exists() or not ownership.ownership(store).is_ours:
        store.trusted = True
    else:
        path = store.experiment(experiment_id).foreign
        with telling(path):
            path.unlink(missing_ok=True)


def check_trusted(store: Store, experiment_id: str, label: str) -> None:
    """Raise Untrusted where loading the experiment would run code that this person has not said to trust.

    Where the whole store is not theirs, it is NotAdopted.
    """
    if is_foreign(store, experiment_id):
        if not store.published.exists():
            ownership.check_ours(store)
        raise Untrusted(
            f"{label} came from elsewhere: loading or training it runs its code. Viewing it, comparing it and "
            f"`.state` do not. If you trust its author: workbench trust {label}, or wb.open(..., trust=True)."
        )


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
