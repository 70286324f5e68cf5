"""The state of the engine's cluster, for viewers. Law: only a live engine's state is returned.

``cluster.json`` is replaced about once a second and never synced: it is useless after a power cut.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from workbench.records import SCHEMA, Json
from workbench.store.files.atomic import read_json, write_json
from workbench.store.layout import Store
from workbench.store.owner.lease import EngineInfo, read_engine


def write_cluster(store: Store, engine: EngineInfo, facts: Mapping[str, Json]) -> None:
    """Write ``facts``, in the form of :func:`read_cluster`, for ``engine``. Raises StoreFull and the like."""
    of = {"pid": engine.pid, "started": engine.started}
    write_json(store.cluster_json, {"schema": SCHEMA, "of": of, **facts}, fsync=False)


def read_cluster(store: Store) -> dict[str, Any]:
    """The cluster: ``at``, ``engine``, ``workers``, ``slots``, ``memory``; empty if no engine is alive.

    workers: name, address, host, slots, used (slots), memory and memory_limit in bytes, cpu in cores (None at
    first), gpu (name, used, total, utilisation from 0 to 1, others). slots: worker, slot, experiment and trial
    (labels, None if it is free), since, beside (labels of the other trials that have parts of it, if there are
    any), lease (the name of the machine's slot that its worker holds, if it holds one). memory, of all machines:
    total, used, others (used by other programs). outside: those with much of it, if there are any: host, pid, name,
    memory. held: slots of the engine's machine that any engine of its user holds: slot, store, experiment, pid (of
    the worker), since. dashboard: the address of Dask's own pages, None if they are off. lacks: by label, why
    experiments wait for memory or for slots that are promised to another one, if any do: why, and promised, as in
    :class:`workbench.store.owner.promised.Lack`. divided: by label, how many trials share a slot (parts), and why,
    where that is measured. attached, of a cluster given by its address: slots (all names), and waiting (claims).
    """
    info = read_engine(store)
    told: dict[str, Any] = {"at": None, "engine": _engine(info), "workers": [], "slots": [], "memory": None}
    told |= {"held": [], "dashboard": None}
    if info is None or not info.alive:
        return told
    try:
        found = read_json(store.cluster_json)
        if found["of"] == {"pid": info.pid, "started": info.started}:
            told |= {name: found[name] for name in ("at", "workers", "slots", "memory")}
            told |= {
                name: found[name]
                for name in ("held", "dashboard", "outside", "lacks", "divided", "attached")
                if name in found
            }
    except (OSError, ValueError, KeyError, TypeError):
        pass  # this engine has not written anything yet, or its version uses another form
    return told


def _engine(info: EngineInfo | None) -> dict[str, Any]:
    if info is None:
        return {"alive": False, "state": "none", "host": None, "pid": None, "heartbeat": None, "address": None}
    told = asdict(info)
    state = info.state if info.alive else "dead"
    return {"alive": info.alive, "state": state, **{n: told[n] for n in ("host", "pid", "heartbeat", "address")}}
