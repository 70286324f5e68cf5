"""The experiment that a user names: by name, id, place, or the last one. Law: it finds, and starts nothing."""

from __future__ import annotations

import os

from workbench.errors import NotFound
from workbench.experiment.experiment import Experiment
from workbench.store import Store

_last: Experiment | None = None


def open(ref: str, *, store: str | Store | None = None, trust: bool = False) -> Experiment:  # noqa: A001 - wb.open()
    """The experiment called ``digits`` (its newest version), ``digits@2``, or with this id; or a published one, by its
    folder or URL.

    trust: allow it to be loaded and trained although it was made elsewhere; both run its code.
    """
    from workbench.share.publish import opened
    from workbench.store.lists.catalog import resolve_experiment
    from workbench.store.lists.known import experiments
    from workbench.store.owner import trust as trusting

    if store is None and ("/" in ref or os.sep in ref) and (published := opened(ref)) is not None:
        published.trusted = trust
        (entry,) = experiments(published)
        return Experiment.of(published, entry["id"])
    if trust:
        known = open(ref, store=store)
        trusting.trust(known.store, known.id)
        return known
    found = (store if isinstance(store, Store) else Store.find(store)).check()
    try:
        return Experiment.of(found, resolve_experiment(found, ref).experiment)
    except NotFound:
        # Started a moment ago: it has a spec, but the catalog does not list it yet.
        new = [entry for entry in experiments(found) if ref in (entry["name"], entry["label"])]
        if not new:
            raise
        return Experiment.of(found, max(new, key=lambda entry: entry["version"])["id"])


def last() -> Experiment:
    """The experiment that this kernel started or opened last; in a new kernel, the store's newest."""
    if _last is not None:
        return _last
    from workbench.store.lists.known import experiments

    store = Store.find(None).check()
    newest = max(experiments(store), key=lambda entry: str(entry.get("created", "")), default=None)
    if newest is None:
        raise NotFound(f"{store.root} has no experiment yet. Run a %%train cell.")
    return Experiment.of(store, newest["id"])


def remember(experiment: Experiment) -> None:
    """Make ``experiment`` the one that :func:`last` returns."""
    global _last
    _last = experiment
