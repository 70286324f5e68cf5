"""Restores lost series. Law: only the engine writes them; it reports what is lost for good.

Points of levels are in the journal, reports of all metrics in checkpoints. Nothing in a checkpoint is run to read it.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import IO, Any

from workbench.engine.judging import states
from workbench.engine.parts import Mended
from workbench.errors import StoreError, WorkbenchError
from workbench.records import ENDED, Goal, Spec
from workbench.store import ExperimentPaths, Store
from workbench.store.files import database
from workbench.store.files.atomic import open_file
from workbench.store.journal import Journal, read
from workbench.store.keeping.checkpoints import Checkpoint, Folder
from workbench.store.lists import outcome
from workbench.store.owner.trust import is_foreign
from workbench.store.restored import FACT, LINE, Known, put_back
from workbench.store.series import Series

log = logging.getLogger("workbench.engine")

#: The most bytes that are read of the header of a checkpoint of a loop that counts its own steps.
_MOST = 64 << 20
_OWN = "own.json"


def reports(checkpoint: Checkpoint) -> Mapping[int, Mapping[str, float]]:
    """The reports up to a checkpoint, by step, from its header. A damaged one may raise any error."""
    if _OWN in checkpoint.manifest.files:
        with _opened(checkpoint.file(_OWN)) as file:
            rows = json.loads(file.read(_MOST)).get("history") or {}
    else:
        with _opened(checkpoint.file(states.GRAPH)) as file:
            rows = states.header(file).get("history") or {}
    return {
        int(step): {str(name): float(value) for name, value in row.items()}
        for step, row in rows.items()
        if int(step) <= checkpoint.step
    }


def _opened(file: Folder) -> IO[bytes]:
    """Open a checkpoint's file for reading: one on disk, or a member of an archive that was read completely."""
    return open_file(file) if isinstance(file, Path) else file.open("rb")


class Loss:
    """What one experiment's series has lost, while an engine has the experiment."""

    def __init__(
        self, spec: Spec, paths: ExperimentPaths, series: Series, journal: Journal, now: Callable[[], str]
    ) -> None:
        self._spec, self._paths, self._series, self._journal, self._now = spec, paths, series, journal, now
        #: The report about the loss; None if nothing was lost.
        self.said: dict[str, Any] | None = None

    def look(self, lines: list[dict[str, Any]]) -> bool:
        """Restore the series if it, just opened, is new or lacks values of these lines of the journal. Returns whether
        it did."""
        known = Known.of(self._spec.goal, lines)
        self.said = known.lost  # an earlier engine may have left before the experiment's end
        is_new = "points" in self._series.missing
        if not (known.legs or known.levels) or not (is_new or self._series.damage or known.lacking(self._series)):
            return False
        if is_new:
            self._series.count_anew()
        moved = self._paths.folder.glob(f"{self._paths.series.name}.broken-*")
        self._put_back(known, next((file for file in moved if not file.name.endswith(database.BESIDE)), None))
        return True

    def put_back(self, file: Path | None) -> list[dict[str, Any]]:
        """Restore the series if it was rebuilt meanwhile. Returns the journal's lines. It blocks.

        file: where the broken one is now.
        """
        lines = list(read(self._paths.journal))
        self._put_back(Known.of(self._spec.goal, lines), file)
        return lines

    def look_again(self) -> None:
        """Restore reports from checkpoints written since. It blocks."""
        if self.said is None:
            return
        known = Known.of(self._spec.goal, read(self._paths.journal))
        found = put_back(self._series, known, self._paths, reports, self._spec.base)
        if found["put_back"] > self.said["put_back"]:
            self._say({**self.said, **found})

    def _put_back(self, known: Known, file: Path | None) -> None:
        found = put_back(self._series, known, self._paths, reports, self._spec.base)
        self._say({"before": self._now(), **found, "file": None if file is None else file.name})
        self._series.flush()

    def _say(self, lost: dict[str, Any]) -> None:
        self.said = lost
        self._journal.append({"kind": LINE, **lost})
        self._series.put_meta(FACT, lost)
        log.warning("%s: %s", self._spec.label, outcome.curves_words(lost))


class Mender:
    """Rebuilds lost or damaged series of ended experiments."""

    def __init__(self, engine: Mended) -> None:
        self._engine = engine
        #: Whether the engine has looked for them since it started.
        self.has_looked = False

    async def begin(self) -> None:
        """Look once, at sizes and first bytes only, which is quick for thousands."""
        try:
            await self.mend(deep=False)
        finally:
            self.has_looked = True

    async def mend(self, *, deep: bool, only: str | None = None) -> list[str]:
        """Rebuild lost or damaged series. Returns the labels of their experiments. deep: read each series completely.
        only: one experiment."""
        engine, mended = self._engine, []
        listed = engine.catalog.experiments() if only is None else [engine.catalog.get(only)]
        entries = [entry for entry in listed if entry is not None and entry["id"] not in engine.loops]
        for experiment in await asyncio.to_thread(ended_lost, engine.store, entries, deep=deep):
            if self._is_taken(experiment):
                continue
            await asyncio.to_thread(put_away, engine.store, experiment)
            if self._is_taken(experiment):  # another request rebuilt or deleted it meanwhile
                continue
            try:
                engine.begin(experiment)
            except Exception as error:  # it has ended anyway, and stays unchanged
                log.warning("the curves of experiment %s are not restored: %s", experiment, error)
                continue
            mended.append(engine.loops[experiment].spec.label)
            while experiment in engine.loops:  # noqa: ASYNC110 - the engine closes it in a turn of its own
                await asyncio.sleep(0.02)
        return mended

    def _is_taken(self, experiment: str) -> bool:
        engine = self._engine
        return any(experiment in those for those in (engine.loops, engine.upkeep.busy, engine.upkeep.said.deleted))


def ended_lost(store: Store, entries: list[dict[str, Any]], *, deep: bool = False) -> list[str]:
    """Ids of ended experiments whose series is lost or damaged. It blocks. deep: read each series completely."""
    found = []
    for entry in entries:
        paths = store.experiment(str(entry["id"]))
        if entry.get("state") not in ENDED or is_foreign(store, paths.id) or not paths.journal.is_file():
            continue
        wrong = database.check(paths.series) if deep else database.what_is_wrong(paths.series)
        if wrong is not None or (deep and lacks(store, paths.id)):
            found.append(paths.id)
    return found


def lacks(store: Store, experiment: str) -> int:
    """How many values of levels are in an experiment's journal but not in its series. It blocks. Raises StoreError."""
    paths = store.experiment(experiment)
    try:
        goal = store.read_spec_json(experiment)["goal"]
        known = Known.of(Goal(goal["metric"], goal["mode"]), read(paths.journal))
    except (WorkbenchError, KeyError, TypeError, ValueError):
        return 0  # a damaged spec or journal is reported separately
    with Series.read(paths.series) as series:
        return known.lacking(series)


def put_away(store: Store, experiment: str) -> None:
    """Move the damaged series of an ended experiment away, before it is rebuilt. It blocks."""
    path = store.experiment(experiment).series
    with contextlib.suppress(StoreError):
        if database.check(path) is not None:
            moved = database.put_away(path)
            log.warning("the series of experiment %s is damaged, and lies in %s now", experiment, moved)
