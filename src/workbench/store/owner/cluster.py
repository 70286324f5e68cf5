"""What the engine's cluster looks like, for viewers. Law: the engine writes it while it lives; it is never older news.

``cluster.json`` is replaced about once a second and never synced: it is worth nothing after a power cut.
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
    """Show ``facts``, as :func:`read_cluster` gives them, as those of ``engine``. Raises StoreFull and its kin."""
    of = {"pid": engine.pid, "started": engine.started}
    write_json(store.cluster_json, {"schema": SCHEMA, "of": of, **facts}, fsync=False)


def read_cluster(store: Store) -> dict[str, Any]:
    """The cluster: ``at``, ``engine``, ``workers``, ``slots``, ``memory``; without any where no engine lives.

    workers: name, address, host, slots, used (slots), memory and memory_limit in bytes, cpu in cores (None at the
    first look), gpu (name, used, total, utilisation from 0 to 1, others). slots: worker, slot, experiment and trial
    (labels, None where it is free), since. memory, of all machines: total, used, others (held by what is not ours).
    held: slots of the engine's machine that any engine of its person holds: slot, store, experiment, pid (of the
    worker), since. dashboard: where Dask's own pages are, None where there are none.
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
            told |= {name: found[name] for name in ("held", "dashboard") if name in found}
    except (OSError, ValueError, KeyError, TypeError):
        pass  # this engine has not said anything yet, or another version of it does so otherwise
    return told


def _engine(info: EngineInfo | None) -> dict[str, Any]:
    if info is None:
        return {"alive": False, "state": "none", "host": None, "pid": None, "heartbeat": None, "address": None}
    told = asdict(info)
    state = info.state if info.alive else "dead"
    return {"alive": info.alive, "state": state, **{n: told[n] for n in ("host", "pid", "heartbeat", "address")}}
