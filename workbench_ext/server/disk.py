"""The store's disk usage, and what cleaning up would free. Law: it reads; unchanged experiments are not counted
again."""

from __future__ import annotations

import dataclasses
import time
from pathlib import Path
from typing import Any

from workbench.errors import NotFound, StoreError
from workbench.records import Keep
from workbench.store import Store
from workbench.store.keeping.cleaning import clean_ended, sweep
from workbench.store.keeping.usage import usage
from workbench.store.lists.said import Said, said

Json = Any

#: Seconds that one answer spends on experiments not counted yet; the others follow in the next answers.
LOOKING_S = 0.3
#: Seconds for which the sum of unreferenced files is reused: they are older than a day anyway.
SWEPT_S = 60.0

#: Bytes of an experiment that cleaning up would free, with the state from which they were counted.
_going: dict[Path, tuple[tuple[object, ...], int]] = {}
#: Bytes of unreferenced files, and until when that number is valid (monotonic seconds).
_swept: dict[Path, tuple[float, int]] = {}


def disk(store: Store) -> Json:
    """Bytes of the store and of each experiment, the free bytes of its disk, and what cleaning up would free.

    quota: bytes that users allow the store, or null. rule: which checkpoints are kept by default.
    """
    rule = dataclasses.asdict(Keep())
    if not store.exists:
        nothing: dict[str, Json] = {"bytes": 0, "free": None, "reclaimable": 0, "experiments": [], "quota": None}
        return {"root": str(store.root), **nothing, "rule": rule}
    found, wishes = usage(store), said(store)
    return {
        "root": found.root,
        "bytes": found.bytes,
        "free": found.free,
        "reclaimable": reclaimable(store, wishes),
        "experiments": [{"id": one.id, "bytes": one.bytes} for one in found.experiments.values()],
        "quota": wishes.quota,
        "rule": rule,
    }


def reclaimable(store: Store, wishes: Said) -> int:
    """Bytes that cleaning up would free now; in a large store the number is complete after some answers."""
    until = time.monotonic() + LOOKING_S
    total = 0
    for key in reversed(store.experiment_ids()):
        path = store.experiment(key).journal
        try:
            stat = path.stat()
        except OSError:
            continue
        state = (stat.st_ino, stat.st_size, stat.st_mtime_ns, wishes.n)
        known = _going.get(path)
        if (known is None or known[0] != state) and time.monotonic() < until:
            try:
                known = _going[path] = (state, clean_ended(store, key, wishes, dry_run=True).total)
            except (NotFound, StoreError, KeyError, TypeError, ValueError):
                known = _going[path] = (state, 0)  # nothing is removed from a damaged experiment
        total += known[1] if known is not None else 0
    swept = _swept.get(store.root)
    if swept is None or time.monotonic() > swept[0]:
        swept = _swept[store.root] = (time.monotonic() + SWEPT_S, sweep(store, wishes, dry_run=True).total)
    return total + swept[1]
