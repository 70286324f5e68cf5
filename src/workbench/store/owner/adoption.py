"""Adopting a store. Law: from then on its owner may run what lies in it, and nothing of it begins by itself.

Requests that wait are moved to ``requests/refused``. What is unfinished is paused and held: the engine leaves it alone
until this person asks for it by name (``resume``, ``extend``, ``verify``). Only then is the store put on the list.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from workbench.errors import EngineRunning, StoreError, Untrusted, WorkbenchError
from workbench.records import ENDED, SCHEMA
from workbench.store import requests
from workbench.store.files.atomic import telling, write_json
from workbench.store.layout import Store
from workbench.store.lists.catalog import Catalog, read_catalog
from workbench.store.lists.summary import entry_of
from workbench.store.owner import ownership
from workbench.store.owner.lease import boot_id, locked, read_engine
from workbench.store.owner.pausing import pause

#: Why an experiment that was unfinished does not go on.
PAUSED = "the store was adopted while it was unfinished; resume it to continue"


@dataclass(frozen=True, slots=True)
class Offer:
    """What adopting a store means; the same afterwards, as what was done."""

    root: str
    owner: str
    #: Why the store is not this person's, one sentence without a full stop.
    why: str
    experiments: int
    #: Labels of experiments that will be, or were, paused and held.
    unfinished: tuple[str, ...]
    #: Requests that will be, or were, moved away.
    requests: int
    #: True where the store tells addresses about its searches. Adopting ends that.
    tells: bool
    #: False where the list cannot be written: it is adopted for this process only.
    is_kept: bool = True


def offer(store: Store) -> Offer:
    """What adopting ``store`` would mean. It only reads. Raises NotFound where there is no store."""
    store.check()
    found = ownership.ownership(store)
    ids = store.experiment_ids()
    listed = _listed(store)
    unfinished = tuple(_label(store, one) for one in ids if not _is_quiet(store, one, listed.get(one)))
    return Offer(str(store.root), found.owner, found.why, len(ids), unfinished, len(_waiting(store)), _tells(store))


def adopt(store: Store) -> Offer:
    """Make ``store`` this person's; what was done. One that is theirs already is left as it is.

    Raises NotFound where there is no store, NotAdopted where it belongs to somebody else, StoreReadOnly where it
    cannot be written, EngineRunning where an engine works in it that this person did not start.
    """
    store.check()
    found = ownership.ownership(store)
    if found.is_ours:
        return Offer(str(store.root), found.owner, found.why, len(store.experiment_ids()), (), 0, False)
    if found.reason == "owner" and not ownership.may_be_adopted(store):
        raise ownership.refusal(store, found)
    with _alone(store) as is_alone:
        done = offer(store)
        if is_alone:
            _quieten(store)
        else:  # this person's engine, of a former version: what it trains, it was told by this person
            done = replace(done, unfinished=(), requests=0, tells=False)
        return replace(done, is_kept=ownership.enlist(store))


@contextlib.contextmanager
def _alone(store: Store) -> Iterator[bool]:
    """Keep engines away meanwhile; False where one of this person's works there."""
    try:
        with locked(store):
            yield True
            return
    except EngineRunning:
        if not _is_my_engine(store):
            raise
    yield False


def _is_my_engine(store: Store) -> bool:
    """True where this person started the engine of ``store`` on this machine, for this store."""
    info = read_engine(store)
    if info is None or info.boot_id != boot_id():
        return False
    process = Path("/proc") / str(info.pid)
    try:
        words = (process / "cmdline").read_bytes().split(b"\0")
        return process.stat().st_uid == os.geteuid() and os.fsencode(store.root) in words
    except OSError:
        return False


def _quieten(store: Store) -> None:
    listed = _listed(store)
    for path in _waiting(store):
        requests.set_aside(store, path, "it waited when the store was adopted")
    if _tells(store):
        with telling(store.notify_path):
            os.replace(store.notify_path, store.notify_path.with_suffix(".json.adopted"))
    for experiment_id in store.experiment_ids():
        if _is_to_hold(store, experiment_id, listed.get(experiment_id)):
            hold(store, experiment_id)
            with contextlib.suppress(StoreError, ValueError, KeyError, TypeError):  # damaged: held is enough
                pause(store, experiment_id, PAUSED)
    catalog = Catalog(store)
    catalog.rebuild_if_needed()
    catalog.close()


# ---------------------------------------------------------------------------------------------------------------------
# Held experiments


def hold(store: Store, experiment_id: str) -> None:
    """The engine leaves the experiment alone until this person asks for it."""
    write_json(store.experiment(experiment_id).held, {"schema": SCHEMA, "held": _now()})


def is_held(store: Store, experiment_id: str) -> bool:
    """True for an experiment that was unfinished when the store was adopted, and was not asked for since."""
    return store.experiment(experiment_id).held.exists()


def check_let_go(store: Store, experiment_id: str, label: str) -> None:
    """Raise Untrusted for an experiment that is held."""
    if is_held(store, experiment_id):
        raise Untrusted(
            f"{label} was unfinished when its store was adopted, and is paused. To continue it: `workbench resume "
            f"{label}`."
        )


def let_go(store: Store, experiment_id: str) -> None:
    """This person asked for the experiment by name. One that was not held is no error."""
    path = store.experiment(experiment_id).held
    with telling(path):
        path.unlink(missing_ok=True)


# ---------------------------------------------------------------------------------------------------------------------
# What lies there


def _is_quiet(store: Store, experiment_id: str, entry: dict[str, Any] | None) -> bool:
    """True where neither the journal nor the list gives an engine anything to do for the experiment."""
    told = entry_of(store, experiment_id)
    return told is not None and all(
        one.get("state") in ENDED and one.get("verify") != "waiting" and not one.get("tells")
        for one in (told, entry or told)
    )


def _is_to_hold(store: Store, experiment_id: str, entry: dict[str, Any] | None) -> bool:
    """True where an engine could have something to do for it: copies to a storage and mirrors outlive its end."""
    try:
        spec = store.read_spec_json(experiment_id)
    except WorkbenchError:
        return True
    return bool(spec.get("storage") or spec.get("mirror")) or not _is_quiet(store, experiment_id, entry)


def _listed(store: Store) -> dict[str, dict[str, Any]]:
    try:
        return {str(entry["id"]): entry for entry in read_catalog(store)}
    except (WorkbenchError, ValueError, KeyError, TypeError, AttributeError):
        return {}


def _label(store: Store, experiment_id: str) -> str:
    with contextlib.suppress(WorkbenchError, ValueError, KeyError, TypeError):
        return store.read_spec(experiment_id, viewing=True).label
    return experiment_id


def _waiting(store: Store) -> list[Path]:
    try:
        return [path for path in sorted(store.requests.iterdir()) if path != store.refused_requests]
    except OSError:
        return []


def _tells(store: Store) -> bool:
    return store.notify_path.exists()


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
