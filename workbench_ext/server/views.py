"""What the panel and the live view are told, as plain data. Law: reads the store; knows no HTTP.

Times are UTC in ISO 8601, trials are called ``t0007``, and numbers that JSON lacks are the words nan, inf and -inf.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from workbench.errors import NotFound
from workbench.records import ENDED, SCHEMA, Spec, trial_label
from workbench.store import Store
from workbench.store.catalog import read_catalog, resolve
from workbench.store.lease import read_engine
from workbench.store.series import Series

Json = Any

#: Points in one answer. More are asked for with the cursor that came with it.
MOST_POINTS = 50_000


def health(store: Store) -> Json:
    """Whether there is a store, and whether its engine lives."""
    engine = read_engine(store) if store.exists else None
    return {"schema": SCHEMA, "store": store.exists, "engine": engine is not None and engine.alive}


def experiments(store: Store) -> Json:
    """All experiments, newest first. A store that is not there yet holds none."""
    rows = read_catalog(store) if store.exists else []
    return {"experiments": [_summary(store, row) for row in sorted(rows, key=lambda row: row["id"], reverse=True)]}


def experiment(store: Store, name: str) -> Json:
    """One experiment: its line of the list, what the series say of it as a whole, and its spec."""
    experiment_id, spec = _found(store, name)
    row = next((row for row in read_catalog(store) if row["id"] == experiment_id), None)
    if row is None:
        raise NotFound(f"{name} is not in the catalog yet: its engine has not taken it. Ask again in a second.")
    return finite({"experiment": _summary(store, row), "meta": _meta(store, experiment_id), "spec": spec.to_json()})


def trials(store: Store, name: str, after: int) -> Json:
    """The trials that changed after a cursor, and the cursor to ask with next."""
    experiment_id, _ = _found(store, name)
    series = _series(store, experiment_id)
    if series is None:
        return {"cursor": after, "trials": []}
    with series:
        cursor, rows = series.trials_after(after)
    return finite({"cursor": cursor, "trials": [{**row, "label": trial_label(row["number"])} for row in rows]})


def points(store: Store, name: str, after: int, limit: int) -> Json:
    """Metric points that came after a cursor, at most ``limit``, and the cursor to ask with next."""
    experiment_id, _ = _found(store, name)
    columns = ["trial", "name", "step", "index", "value", "time"]
    series = _series(store, experiment_id)
    if series is None:
        return {"cursor": after, "columns": columns, "points": []}
    with series:
        cursor, rows = series.points_after(after, limit)
    return finite({"cursor": cursor, "columns": columns, "points": rows})


def finite(data: Json) -> Json:
    """``data`` in which each number that JSON lacks is a word."""
    if isinstance(data, float) and not math.isfinite(data):
        return "nan" if math.isnan(data) else "inf" if data > 0 else "-inf"
    if isinstance(data, Mapping):
        return {key: finite(value) for key, value in data.items()}
    if isinstance(data, list | tuple):
        return [finite(value) for value in data]
    return data


def _found(store: Store, name: str) -> tuple[str, Spec]:
    """The id and the spec of what a person calls ``name``: an id, ``digits`` or ``digits@2``."""
    experiment_id = resolve(store.check(), name).experiment
    return experiment_id, store.read_spec(experiment_id, viewing=True)


def _series(store: Store, experiment_id: str) -> Series | None:
    """The experiment's series, or None where its engine has not made them yet."""
    path = store.experiment(experiment_id).series
    return Series.read(path) if path.exists() else None


def _meta(store: Store, experiment_id: str) -> dict[str, Json]:
    series = _series(store, experiment_id)
    if series is None:
        return {}
    with series:
        return dict(series.meta())


def _summary(store: Store, row: Mapping[str, Json]) -> Json:
    """One line of the list."""
    # The series of what has ended are not opened: a store may hold thousands of experiments.
    meta = {} if row["state"] in ENDED else _meta(store, row["id"])
    planned = (meta.get("planned") or {}).get("trials")
    ended = sum(number for state, number in (meta.get("counts") or {}).items() if state in ENDED)
    mode, _, metric = str(row.get("goal") or "").partition(" ")
    best = row.get("best")
    return finite(
        {
            "id": row["id"],
            "label": row["label"],
            "state": row["state"],
            "reason": row.get("reason"),
            "created": row["created"],
            "goal": {"metric": metric, "mode": mode} if metric else None,
            "best": {"value": best["value"], "trial": trial_label(best["trial"])} if best else None,
            "trials": {"begun": row.get("trials") or 0, "planned": planned},
            "progress": ended / planned if planned else None,
        }
    )
