"""Replays in the engine: a request becomes an experiment, and its verdict becomes part of the catalog's entry."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from workbench.records import Spec
from workbench.replay import replay
from workbench.store import Store
from workbench.store.lists.catalog import Reference, shown_as
from workbench.store.owner import private


def replayed(store: Store, experiment: str, trial: int | None) -> str:
    """Write the experiment that trains ``trial`` (None: the best) again, and return its id. Nothing blocks for long."""
    spec = store.read_spec(experiment)
    wanted = Reference(spec.id, shown_as(store, spec), trial)
    made = replay(store, wanted, around=None).spec.id  # no user's variables are recorded
    private.keep(store.root, made, private.kept(store.root, spec.id))
    return made


def entry(spec: Spec, conclusion: Mapping[str, Any]) -> dict[str, Any]:
    """The catalog's fields for an experiment that trains something again; empty for others."""
    found: dict[str, Any] = {
        name: getattr(spec, name) for name in ("replays", "repeats", "puts_back") if getattr(spec, name)
    }
    for name, told in conclusion.items():
        found[name] = {key: told.get(key) for key in ("verdict", "words", "parts_at", "mean", "low", "high", "n")}
    return found
