"""What changed in a store since the last look. Law: it looks at names, sizes and times; it opens only what changed."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from workbench.records import ENDED
from workbench.store import Store
from workbench.store.files.database import state_of
from workbench.store.lists.catalog import read_catalog

State = tuple[object, ...]


@dataclass(frozen=True, slots=True)
class Changed:
    """Ids of changed experiments, and whether the list, its requests or its engine changed."""

    experiments: tuple[str, ...]
    catalog: bool


class Changes:
    """Looks at one store again and again. The first look only records its state."""

    def __init__(self) -> None:
        self.root: Path | None = None
        self._forget()

    def _forget(self) -> None:
        self._around: State = ()
        self._catalog: State = ()
        self._rows: dict[str, Any] = {}
        self._series: dict[str, State] = {}

    def look(self, store: Store, alive: bool) -> Changed | None:
        """What changed since the last look; None if nothing did. ``alive``: whether its engine is alive."""
        first = self.root != store.root
        if first:
            self._forget()
            self.root = store.root
        around = (alive, store.exists, *_state(store.requests))
        catalog = _state(store.catalog_path)
        changed: dict[str, None] = {}
        if catalog != self._catalog or first:
            rows = {str(row["id"]): row for row in (read_catalog(store) if store.exists else ())}
            changed |= dict.fromkeys(key for key in rows | self._rows if rows.get(key) != self._rows.get(key))
            self._rows = rows
        under_way = [key for key, row in self._rows.items() if row.get("state") not in ENDED]
        series = {key: self._look_at(store, key) for key in under_way}
        changed |= dict.fromkeys(key for key in series if series[key] != self._series.get(key))
        is_listed_anew = around != self._around or catalog != self._catalog
        self._around, self._catalog, self._series = around, catalog, series
        if first or not (changed or is_listed_anew):
            return None
        return Changed(tuple(changed), is_listed_anew)

    def _look_at(self, store: Store, key: str) -> State:
        paths = store.experiment(key)
        return (*state_of(paths.series), *_state(paths.journal))


def _state(path: Path) -> State:
    try:
        stat = os.stat(path)
    except OSError:
        return (None,)
    return (stat.st_ino, stat.st_size, stat.st_mtime_ns)
