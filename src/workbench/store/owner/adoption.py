"""Adopting a store. Law: afterwards its owner may run its contents, but nothing starts by itself.

First, waiting requests are moved to ``requests/refused``, removals that were under way end, and unfinished experiments
are paused and held: the engine does not touch a held experiment until this user asks for it by name (``resume``,
``extend``, ``verify``). Then the store is added to the list.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from workbench.errors import EngineRunning, NotAdopted, StoreError, Untrusted, WorkbenchError
from workbench.records import ENDED, SCHEMA
from workbench.store import requests
from workbench.store.files.atomic import telling, write_json
from workbench.store.journal import Journal
from workbench.store.layout import Store
from workbench.store.lists.catalog import Catalog, read_catalog
from workbench.store.lists.said import said
from workbench.store.lists.summary import entry_of
from workbench.store.owner import ownership
from workbench.store.owner.lease import boot_id, locked, read_engine
from workbench.store.owner.pausing import pause
from workbench.words import enumerated

#: Why an unfinished experiment does not continue.
PAUSED = "the store was adopted while it was unfinished; resume it to continue"


@dataclass(frozen=True, slots=True)
class Offer:
    """What adopting a store would do or has done."""

    root: str
    owner: str
    #: Why the store is not this user's, one sentence without a full stop.
    why: str
    experiments: int
    #: Labels of experiments that will be, or were, paused and held.
    unfinished: tuple[str, ...]
    #: Requests that will be, or were, moved away.
    requests: int
    #: Whether the store sends notifications about its searches. Adopting ends that.
    tells: bool
    #: False if the list cannot be written: the store is then adopted for this process only.
    is_kept: bool = True


def offer(store: Store) -> Offer:
    """What adopting ``store`` would do. It only reads. Raises NotFound if there is no store."""
    store.check()
    found = ownership.ownership(store)
    ids = store.experiment_ids()
    listed = _listed(store)
    unfinished = tuple(_label(store, one) for one in ids if not _is_quiet(store, one, listed.get(one)))
    return Offer(str(store.root), found.owner, found.why, len(ids), unfinished, len(_waiting(store)), _tells(store))


def check_plain(store: Store) -> None:
    """Raise NotAdopted if a folder or file that an engine writes or cleans up in ``store`` is a link: its author chose
    what lies there. In a store of one's own such links are allowed."""
    names = (store.requests, store.blobs, store.snapshots, store.experiments, store.documents, store.cached,
             store.notebooks, store.environments, store.engine_log)  # fmt: skip
    links = [path for path in names if path.is_symlink()]
    if links:
        told = [f"{path.name} leads to {os.path.realpath(path)}" for path in links]
        raise NotAdopted(
            f"the store {store.root} is not adopted, since it holds links: {enumerated(told)}. An engine would write "
            "and clean up there. Remove each link, or put what it leads to in its place; then adopt the store. You can "
            "make the link again afterwards."
        )


def adopt(store: Store) -> Offer:
    """Make ``store`` this user's; return what was done. One that is theirs already is unchanged.

    Raises NotFound if there is no store, NotAdopted if it belongs to another user or holds links, StoreReadOnly if it
    cannot be written, EngineRunning if an engine that this user did not start works in it.
    """
    store.check()
    found = ownership.ownership(store)
    if found.is_ours:
        return Offer(str(store.root), found.owner, found.why, len(store.experiment_ids()), (), 0, False)
    if found.reason == "owner" and not ownership.may_be_adopted(store):
        raise ownership.refusal(store, found)
    check_plain(store)
    with _alone(store) as is_alone:
        done = offer(store)
        if is_alone:
            _quieten(store)
        else:  # this user's engine, of an earlier version: it trains what this user asked for
            done = replace(done, unfinished=(), requests=0, tells=False)
        return replace(done, is_kept=ownership.enlist(store))


@contextlib.contextmanager
def _alone(store: Store) -> Iterator[bool]:
    """Keep engines out meanwhile; False if one of this user's works there."""
    try:
        with locked(store):
            yield True
            return
    except EngineRunning:
        if not _is_my_engine(store):
            raise
    yield False


def _is_my_engine(store: Store) -> bool:
    """Whether this user started the engine of ``store`` on this machine, for this store."""
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
    _end_removals(store)
    for experiment_id in store.experiment_ids():
        if _is_to_hold(store, experiment_id, listed.get(experiment_id)):
            hold(store, experiment_id)
            with contextlib.suppress(StoreError, ValueError, KeyError, TypeError):  # damaged: holding it is enough
                pause(store, experiment_id, PAUSED)
    catalog = Catalog(store)
    catalog.rebuild_if_needed()
    catalog.close()


def _end_removals(store: Store) -> None:
    """End the removals that the store's journal says are under way: its author chose what is removed, and where. Of an
    own store, an experiment that was half removed is listed again, and its copies at a storage stay."""
    wishes = said(store)
    ended = [("emptied", key) for key in sorted(wishes.emptying)] + [("removed", key) for key in sorted(wishes.going)]
    if ended:
        with Journal.open(store.journal_path) as journal:
            for kind, key in ended:
                journal.append({"kind": kind, "experiment": key})


# ---------------------------------------------------------------------------------------------------------------------
# Held experiments


def hold(store: Store, experiment_id: str) -> None:
    """Keep the engine from the experiment until this user asks for it."""
    write_json(store.experiment(experiment_id).held, {"schema": SCHEMA, "held": _now()})


def is_held(store: Store, experiment_id: str) -> bool:
    """Whether the experiment was unfinished when the store was adopted, and was not asked for since."""
    return store.experiment(experiment_id).held.exists()


def check_let_go(store: Store, experiment_id: str, label: str) -> None:
    """Raise Untrusted for an experiment that is held."""
    if is_held(store, experiment_id):
        raise Untrusted(
            f"{label} was unfinished when its store was adopted, and is paused. To continue it: `workbench resume "
            f"{label}`."
        )


def let_go(store: Store, experiment_id: str) -> None:
    """Release an experiment that this user asked for by name, if it is held."""
    path = store.experiment(experiment_id).held
    with telling(path):
        path.unlink(missing_ok=True)


# ---------------------------------------------------------------------------------------------------------------------
# What lies there


def _is_quiet(store: Store, experiment_id: str, entry: dict[str, Any] | None) -> bool:
    """Whether neither the journal nor the list leaves an engine anything to do for the experiment."""
    told = entry_of(store, experiment_id)
    return told is not None and all(
        one.get("state") in ENDED and one.get("verify") != "waiting" and not one.get("tells")
        for one in (told, entry or told)
    )


def _is_to_hold(store: Store, experiment_id: str, entry: dict[str, Any] | None) -> bool:
    """Whether an engine could have something to do for it: copies to a storage and mirrors may continue after its
    end."""
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
    if store.requests.is_symlink():
        return []  # it may lead to any folder
    try:
        return [path for path in sorted(store.requests.iterdir()) if path != store.refused_requests]
    except OSError:
        return []


def _tells(store: Store) -> bool:
    return store.notify_path.exists()


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
