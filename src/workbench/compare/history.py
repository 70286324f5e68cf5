"""The versions under one name: what each changed, and how much better it was."""

from __future__ import annotations

import math
from typing import Any

from workbench.compare.bests import best_of, compared_by
from workbench.compare.comparison import compared
from workbench.compare.sides import Side
from workbench.errors import NotFound, StoreError
from workbench.records import ENDED, Json
from workbench.store import Store
from workbench.store.lists.catalog import Reference, read_catalog, resolve


def history(store: Store, name: str) -> list[dict[str, Json]]:
    """One entry for each version, oldest first: its best value, its changes since the previous version, and the gain.

    ``best`` names the trial, and the number of configurations it is the best of. ``gained`` is the difference from the
    earlier best value, positive if the version is better, for both directions of the goal. If both versions trained
    each configuration several times, it is the difference of the means. Raises NotFound.
    """
    wanted = resolve(store, name)
    entries: list[dict[str, Any]] = [dict(entry) for entry in read_catalog(store)]
    own = next((entry["name"] for entry in entries if entry["id"] == wanted.experiment), name)
    entries = sorted(
        (entry for entry in entries if entry["name"] == own), key=lambda entry: (entry["version"], entry["id"])
    )
    found: list[dict[str, Json]] = []
    before: Side | None = None
    try:
        for entry in entries:
            try:
                side = Side(store, Reference(entry["id"], entry["label"]))
            except (NotFound, StoreError):
                continue  # its spec is damaged or of a later Workbench: ls says so
            found.append(_entry(entry, side, before))
            if before is not None:
                before.close()
            before = side
    finally:
        if before is not None:
            before.close()
    return found


def _entry(entry: dict[str, Any], side: Side, before: Side | None) -> dict[str, Json]:
    best, goal = best_of(side), side.spec.goal
    told: dict[str, Json] = {
        "id": entry["id"],
        "label": entry["label"],
        "version": entry["version"],
        "created": entry.get("created"),
        "state": _state(entry, side),
        "trials": len(side.trials) or entry.get("trials"),
        "goal": {"metric": goal.metric, "mode": goal.mode},
        "best": None if best is None else best.to_json(),
        "changed": None,
        "sections": [],
        "gained": None,
    }
    if before is not None:
        comparison = compared(before, side)
        told["changed"] = comparison["title"]
        told["sections"] = [{key: one[key] for key in ("kind", "title", "summary")} for one in comparison["sections"]]
        now, former = compared_by(best, best_of(before))
        if before.spec.goal == goal and now is not None and former is not None:
            gained = (now - former) * (1 if goal.mode == "max" else -1)
            told["gained"] = gained if math.isfinite(gained) else None
    return told


def _state(entry: dict[str, Any], side: Side) -> Json:
    """Its state. The catalog is up to half a second behind the series of an experiment that has not ended."""
    known = entry.get("state")
    return known if known in ENDED or side.series is None else side.series.meta().get("state") or known
