"""Experiments for the panel and the live view, as plain data. Law: reads the store; knows no HTTP.

Times are UTC in ISO 8601 and trials are called ``t0007``. States are true: without an engine nothing is running.
"""

from __future__ import annotations

import dataclasses
import math
import os
import time
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

from workbench.errors import BadName, NotFound, StoreError
from workbench.records import SCHEMA, Goal, Spec
from workbench.records.names import trial_label
from workbench.status import RESTING, Around, Status
from workbench.status.about import about
from workbench.store import Store, requests
from workbench.store.files.database import state_of
from workbench.store.files.samples import MEASURES
from workbench.store.keeping.remote import SENDING, shown_spec
from workbench.store.lists import measures as measured
from workbench.store.lists import outcome, system
from workbench.store.lists.catalog import read_catalog, read_entry, resolve
from workbench.store.lists.glance import Glance
from workbench.store.lists.mirrors import MIRRORING
from workbench.store.lists.said import NO_ROOM
from workbench.store.owner import ownership
from workbench.store.owner.cluster import read_cluster
from workbench.store.series import Series

Json = Any

#: Points in one answer. The answer's cursor requests the next ones.
MOST_POINTS = 50_000
#: A browser has each integer up to this one.
MOST_INTEGER = 2**53 - 1
#: Values of a sparkline.
SPARKS = 30
#: Seconds that one list spends on new sparklines; the others follow in the next lists.
SPARKING_S = 0.15


def health(store: Store) -> Json:
    """Whether there is a store, whether it can be written, and its engine's state."""
    return {
        "schema": SCHEMA,
        "store": store.exists,
        "root": str(store.root),
        "readonly": is_readonly(store),
        "published": store.published.exists(),
        "ours": ownership.ownership(store).is_ours,
        "version": version("workbench"),
        "engine": engine(store),
    }


def engine(store: Store) -> Json:
    """The engine's state: ``dead`` if it was killed, ``none`` if it ended normally."""
    return cluster(store)["engine"]


def cluster(store: Store) -> Json:
    """The engine's cluster; without workers if no engine is alive."""
    return read_cluster(store)


def is_readonly(store: Store) -> bool:
    """Whether this store's engine takes no requests: it is a published copy, belongs to another user, or cannot be
    written."""
    if store.readonly or store.published.exists() or not ownership.ownership(store).is_ours:
        return True
    place = store.requests if store.requests.is_dir() else store.root
    while not place.exists():
        place = place.parent
    return not os.access(place, os.W_OK | os.X_OK)


def experiments(store: Store) -> Json:
    """All experiments, newest first. A store that does not exist yet has none.

    ``more``: sparklines that took too long follow in the next lists.
    """
    rows = read_catalog(store) if store.exists else []
    lines = Lines(store)
    found = sorted(rows, key=lambda row: str(row["id"]), reverse=True)
    answer = {"experiments": [lines.line(row) for row in found]}
    return answer if lines.is_whole else {**answer, "more": True}


def deleting(store: Store) -> dict[str, str]:
    """The requests that wait and delete a whole experiment, by experiment."""
    return {
        str(request.get("experiment")): number
        for number, request in requests.peek(store)
        if request.get("kind") == "delete" and request.get("trial") is None
    }


def experiment(store: Store, name: str) -> Json:
    """One experiment: its entry in the list, the facts of its series, and its spec."""
    experiment_id, spec = found(store, name)
    row = read_entry(store, experiment_id)
    if not row:
        # A cell may open the page before the engine lists the experiment.
        row = {
            "id": spec.id,
            "name": spec.name,
            "version": spec.version,
            "label": spec.label,
            "created": spec.created,
            "goal": str(spec.goal),
            "notebook": spec.notebook,
        }
    meta = _meta_of(store, experiment_id)
    # An experiment's page shows no sparkline, so a large series is not summed up for it.
    return {
        "experiment": Lines(store, sparking_s=-1).line(row),
        "meta": meta,
        "spec": shown_spec(spec),
        "about": about(spec, meta.get("last") or spec.scheduler.last),
    }


def trials(store: Store, name: str, after: int, engine: bool | None = None) -> Json:
    """The trials that changed after a cursor, and the next cursor.

    engine: whether an engine ran at the answer with that cursor. If that has changed, all trials are sent: their states
    depend on it, and their rows do not change when an engine dies.
    """
    around = Around.of(store)
    after = after if engine in (None, around.alive) else 0
    series = series_of(store, found(store, name)[0])
    if series is None:
        return {"cursor": after, "engine": around.alive, "trials": []}
    with series:
        cursor, rows = series.trials_after(after)
    return {"cursor": cursor, "engine": around.alive, "trials": [trial_row(around, row) for row in rows]}


def trial_row(around: Around, row: Mapping[str, Any]) -> Json:
    """A trial as it is now, with the text of those values that a browser's numbers change."""
    written = {name: python(value) for name, value in (row.get("configuration") or {}).items() if changes(value)}
    return {**around.trial(row), **({"written": written} if written else {})}


def changes(value: Json) -> bool:
    """Whether a browser reads another value: it knows neither 1.0 beside 1, nor all integers over 2**53, nor infinity
    in JSON."""
    if isinstance(value, Mapping):
        return any(map(changes, value.values()))
    if isinstance(value, list):
        return any(map(changes, value))
    if isinstance(value, float):
        return value.is_integer() or not math.isfinite(value)
    return isinstance(value, int) and abs(value) > MOST_INTEGER


def python(value: Json) -> str:
    """A value of a configuration as Python reads it in a cell."""
    if isinstance(value, Mapping):
        return f"{{{', '.join(f'{key!r}: {python(inner)}' for key, inner in value.items())}}}"
    if isinstance(value, list):
        return f"[{', '.join(map(python, value))}]"
    if isinstance(value, float) and not math.isfinite(value):
        return f'float("{value}")'
    return repr(value)


def points(
    store: Store, name: str, after: int, limit: int, metric: str | None = None, only: list[int] | None = None
) -> Json:
    """Metric points after a cursor, from at most ``limit`` that are read at a time, and the next cursor."""
    columns = ["trial", "name", "step", "index", "value", "time"]
    series = series_of(store, found(store, name)[0])
    if series is None:
        return {"cursor": after, "columns": columns, "points": []}
    with series:
        cursor, rows = series.points_after(after, limit)
        wanted = None if only is None else set(only)
        # Unrequested points are skipped; a batch of only such points must not look like the end.
        while rows and not (kept := [row for row in rows if _is_wanted(row, metric, wanted)]):
            cursor, rows = series.points_after(cursor, limit)
    return {"cursor": cursor, "columns": columns, "points": kept if rows else []}


def _is_wanted(row: tuple[Any, ...], metric: str | None, trials: set[int] | None) -> bool:
    return (metric is None or row[1] == metric) and (trials is None or row[0] in trials)


def metrics(store: Store, name: str, trials: list[int] | None = None) -> Json:
    """The reported metrics, the goal first; the goal is included before any trial has reported it. ``system``: what
    was measured of the trials' processes over time. trials: only what these reported, and what was measured of them."""
    experiment_id, spec = found(store, name)
    series = series_of(store, experiment_id)
    reported: list[str] = []
    used: list[str] = []
    if series is not None:
        with series, Glance(series.path) as glance:
            reported = series.names() if trials is None else glance.reported(trials)
            used = system.names(glance, trials)
    goal = spec.goal.metric
    names = dict.fromkeys([goal, *reported] if trials is None or goal in reported else reported)
    return {
        "metrics": [{"name": name, "goal": name == goal} for name in names],
        "system": [{"name": name, "title": MEASURES[name].title, "unit": MEASURES[name].unit} for name in used],
    }


def measures(store: Store, name: str, after: int) -> Json:
    """What was measured of the trials that changed after a cursor: all metrics, durations, sizes, slots."""
    experiment_id, spec = found(store, name)
    cursor, trials = measured.measures(store.experiment(experiment_id), spec.goal, after)
    return {"cursor": cursor, "trials": [dataclasses.asdict(one) for one in trials]}


def timeline(store: Store, name: str, after: int) -> Json:
    """The legs that changed after a cursor: which slot trained which trial when, and how the leg ended."""
    series = series_of(store, found(store, name)[0])
    if series is None:
        return {"cursor": after, "legs": []}
    with series:
        cursor, rows = series.legs_after(after)
    return {"cursor": cursor, "legs": [leg_line(row) for row in rows]}


_LEG = ("trial", "attempt", "worker", "slot", "start", "until", "started", "ended", "outcome", "reason", "pid")


def leg_line(row: Mapping[str, Any]) -> Json:
    """One leg. ``began_s`` and ``left_s`` are seconds since 1970, if known."""
    return {
        **{name: row.get(name) for name in _LEG},
        "label": trial_label(row["trial"]),
        "parts": row.get("parts") or 1,
        "began_s": row.get("began"),
        "left_s": row.get("left"),
        "checkpoint": row.get("checkpoint"),
    }


# ---------------------------------------------------------------------------------------------------------------------
# Used by the other views


def found(store: Store, name: str) -> tuple[str, Spec]:
    """The id and the spec of the experiment that a user calls ``name``: an id, ``digits`` or ``digits@2``."""
    if "/" in name:
        raise BadName(f"{name[:60]!r} is not an experiment: expected an id, or a name such as digits@2.")
    experiment_id = resolve(store.check(), name).experiment
    return experiment_id, store.read_spec(experiment_id, viewing=True)


def series_of(store: Store, experiment_id: str) -> Series | None:
    """The experiment's series, or None if its engine has not created it yet."""
    try:
        return Series.read(store.experiment(experiment_id).series)
    except NotFound:
        return None


def meta(store: Store, experiment_id: str) -> dict[str, Json]:
    """The facts of the experiment's series."""
    series = series_of(store, experiment_id)
    if series is None:
        return {}
    with series:
        return dict(series.meta())


def _meta_of(store: Store, experiment_id: str) -> dict[str, Json]:
    """The facts of the series; empty if it is damaged, so that the list still works."""
    try:
        return meta(store, experiment_id)
    except StoreError:
        return {}


class Lines:
    """The entries of one list."""

    def __init__(self, store: Store, sparking_s: float = SPARKING_S) -> None:
        self.store = store
        self._around = Around.of(store)
        self._deleting = deleting(store)
        #: Whether each sparkline so far is that of the present series.
        self.is_whole = True
        #: Seconds left for drawing. Looking at files that have not changed does not count: it took all of the time in a
        #: large store, and the last sparklines were never drawn.
        self._left = sparking_s

    def line(self, row: Mapping[str, Json]) -> Json:
        """One entry of the list."""
        # The series of ended experiments are not opened: a store may hold thousands.
        known = {} if row.get("state") in RESTING else self._meta(str(row["id"]))
        status = Status.of(row, known, self._around)
        progress = status.progress
        mode, _, metric = str(row.get("goal") or "").partition(" ")
        return {
            "id": row["id"],
            "label": row["label"],
            "name": row.get("name"),
            "version": row.get("version"),
            "state": status.state,
            "reason": status.reason,
            "created": row["created"],
            "started": status.started,
            "ended": status.ended,
            "goal": {"metric": metric, "mode": mode} if metric else None,
            "best": _best(status),
            "trials": progress.numbers,
            "counts": status.counts,
            "outcome": outcome.told(status.outcome),
            "progress": progress.share,
            "tags": list(row.get("tags") or ()),
            "note": row.get("note") or "",
            "notebook": row.get("notebook"),
            "sparkline": self._sparkline(row),
            "seconds_left": status.seconds_left,
            "slots": status.slots,
            "deleting": self._deleting.get(str(row["id"])),
            "pinned": "" in (row.get("pins") or ()),
            "lineage": lineage(row),
            "troubles": [] if status.lacks_engine else troubles(status, row),
        }

    def _meta(self, experiment_id: str) -> dict[str, Json]:
        return _meta_of(self.store, experiment_id)

    def _sparkline(self, row: Mapping[str, Json]) -> list[Json]:
        mode, _, metric = str(row.get("goal") or "").partition(" ")
        path = self.store.experiment(str(row["id"])).series
        kept = _sparks.get(path)
        now = time.monotonic()
        if mode not in ("max", "min"):
            return []
        if self._left <= 0 or (kept is not None and now < kept.until):
            self.is_whole = self.is_whole and kept is not None and kept.state == state_of(path)
            return kept.values if kept is not None else []
        state = state_of(path)
        if state[0] is None or (kept is not None and kept.state == state):
            return kept.values if kept is not None else []
        try:
            with Glance(path) as glance:
                values = glance.best_so_far(Goal(metric, "max" if mode == "max" else "min"), SPARKS)
        except StoreError:
            values = []
        took = time.monotonic() - now
        self._left -= took
        # A large series that grows is not summed up each time.
        _sparks[path] = _Spark(state, values, now + took + min(20 * took, 60.0))
        return values


def troubles(status: Status, row: Mapping[str, Json]) -> Json:
    """Why an experiment, the copies of its checkpoints or its mirrors wait, in the engine's words."""
    found = []
    if status.pause == "room":
        found.append({"kind": "room", "words": status.reason.removeprefix(NO_ROOM)})
    elif status.disk:
        found.append({"kind": "room", "words": status.disk})
    storage = row.get("storage")
    if storage and storage != SENDING:
        found.append({"kind": "storage", "words": str(storage)})
    mirror = row.get("mirror")
    if mirror and mirror != MIRRORING:
        found.append({"kind": "mirror", "words": str(mirror)})
    return found


def lineage(row: Mapping[str, Json]) -> Json:
    """The origin of an experiment, and how it is used: the experiment continues from it (``parent``), or trains it
    again."""
    for how in ("parent", "replays", "repeats"):
        origin = row.get(how)
        if isinstance(origin, Mapping) and origin.get("label"):
            return {"parent": str(origin["label"]), "how": how}
    return None


class _Spark:
    """A sparkline, the state of its series when it was drawn, and until when it is reused."""

    __slots__ = ("state", "until", "values")

    def __init__(self, state: tuple[object, ...], values: list[float], until: float) -> None:
        self.state, self.values, self.until = state, values, until


_sparks: dict[Path, _Spark] = {}


def _best(status: Status) -> Json:
    best = status.best
    return {**best.to_json(), "trial": trial_label(best.trial), "number": best.trial} if best else None
