"""What is removed and what is spared, for the whole store. Law: a wish is on the disk before it is carried out.

What an engine began to remove, and did not live to, the next one finishes.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import logging
import shutil
from collections.abc import Coroutine
from pathlib import Path
from typing import TYPE_CHECKING, Any

from workbench import asked
from workbench.engine.telling.courier import remove_all
from workbench.engine.tending.room import wanted_quota
from workbench.errors import BadOption, InUse, NotFound, StoreError
from workbench.records import ENDED, Keep, Spec, trial_label
from workbench.store import Store
from workbench.store.files import database, packed
from workbench.store.files.atomic import size_of
from workbench.store.journal import Journal
from workbench.store.keeping import usage
from workbench.store.keeping.checkpoints import Checkpoints
from workbench.store.keeping.cleaning import (
    Cleaned,
    begun_deletions,
    clean_ended,
    put_aside,
    remove,
    removed_line,
    steps_of,
    sweep,
)
from workbench.store.keeping.usage import trials_of
from workbench.store.layout import ExperimentPaths
from workbench.store.lists.said import descents, pin_label, protected, said
from workbench.store.owner import private

if TYPE_CHECKING:
    from workbench.engine.engine import Engine
    from workbench.engine.loop import ExperimentLoop

log = logging.getLogger("workbench.engine")

#: Seconds between two looks at what the rule lets go while experiments run.
CLEAN_S = 3.0
#: Seconds before a deleted experiment's storage that is down is tried again, and at most between two tries.
STORAGE_S, MOST_STORAGE_S = 5.0, 600.0

Answer = dict[str, Any]


class Upkeep:
    """The engine's hands on what is removed. Everything that blocks is done in a thread."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self.store: Store = engine.store
        self.said = said(self.store)
        #: Experiments whose files are being removed: nothing else is begun with them meanwhile.
        self.busy: set[str] = set()
        #: Ended experiments that do not lie in few files yet.
        self.restless: set[str] = set()
        #: Clean-ups that wait for their turn, real and dry ones.
        self._asked: dict[bool, asyncio.Task[Answer]] = {}
        self._collecting = asyncio.Lock()

    # -- asked ------------------------------------------------------------------------------------------------------

    def answer(
        self, request: asked.Delete | asked.Pin | asked.Unpin | asked.Keep | asked.Gc | asked.Quota
    ) -> Answer | Coroutine[Any, Any, Answer]:
        """The answer to a request about files, at once or when it is carried out."""
        match request:
            case asked.Gc():
                return self._collected(bool(request.dry_run))
            case asked.Quota():
                quota = wanted_quota(request.bytes)
                self._say({"kind": "quota", "bytes": quota})
                self._engine.rooms.look_soon()
                return {"quota": quota}
        experiment = self._known(request.experiment)
        match request:
            case asked.Delete():
                return self._alone(experiment, self._delete(experiment, request.trial))
            case asked.Keep():
                return self._keep(experiment, request.rule)
            case asked.Pin() | asked.Unpin():
                return self._pin(asked.kind_of(request), experiment, request.trial, request.step)

    def _known(self, experiment: str) -> str:
        if self._engine.catalog.get(experiment) is None:
            gone = "was deleted" if experiment in self.said.deleted else "is not in this store"
            raise NotFound(f"experiment {experiment!r} {gone}. `workbench ls` lists those that are.")
        return experiment

    def _say(self, line: dict[str, Any]) -> None:
        """Write a wish into the store's journal, and then take note of it. Raises StoreFull and its kin."""
        journal = self._engine.book.journal
        n = journal.append(line)
        try:
            journal.commit()
        except StoreError:
            journal.take_back(n)  # who asked is told that nothing came of it
            raise
        self.said.take(line)

    def _label(self, experiment: str) -> str:
        return str((self._engine.catalog.get(experiment) or {}).get("label", experiment))

    async def _alone(self, experiment: str, work: Coroutine[Any, Any, Any]) -> Any:
        """Carry out ``work`` while nothing else is begun with ``experiment``."""
        self.busy.add(experiment)
        try:
            return await work
        finally:
            self.busy.discard(experiment)

    # -- delete -----------------------------------------------------------------------------------------------------

    async def _delete(self, experiment: str, trial: int | None) -> Answer:
        if trial is not None:
            return await self._delete_trial(experiment, trial)
        label = self._label(experiment)
        await self._closed(experiment, label)
        self._check_unneeded(experiment, label)
        folder = self.store.experiment(experiment).folder
        size = await _aside(size_of, folder)
        self._check_unneeded(experiment, label)  # somebody may have pinned it meanwhile
        storing = self._storing(experiment)
        about = {"storage": storing.storage} if storing is not None else {}
        self._say({"kind": "delete", "experiment": experiment, "label": label, "bytes": size, **about})
        self._engine.catalog.remove(experiment)
        self._engine.mirrors.forget(experiment)
        private.forget(self.store.root, experiment)
        gone = await _aside(put_aside, folder)
        self._engine.later(_aside(shutil.rmtree, gone, True))
        if storing is not None:
            self._engine.courier.forget(experiment)
            self._engine.later(self._empty_storage(experiment))
        return {"experiment": experiment, "label": label, "bytes": size}

    async def _empty_storage(self, experiment: str) -> None:
        """Remove a deleted experiment's copies, now or when its storage is reached again; the next engine goes on."""
        pause, url = STORAGE_S, self.said.emptying[experiment]
        while (trouble := await _aside(remove_all, url, experiment)) is not None:
            if pause == STORAGE_S:
                log.warning("copies of a deleted experiment stay until they can be removed: %s", trouble)
            await asyncio.sleep(pause)
            pause = min(2 * pause, MOST_STORAGE_S)
        with contextlib.suppress(StoreError):  # removed once more, which changes nothing
            self._say({"kind": "emptied", "experiment": experiment})

    def _storing(self, experiment: str) -> Spec | None:
        """The spec of an experiment that has a storage."""
        try:
            spec = self.store.read_spec(experiment, viewing=True)
        except (StoreError, NotFound):
            return None  # a damaged one can be deleted
        return spec if spec.storage else None

    async def _closed(self, experiment: str, label: str) -> None:
        """Wait until an ended experiment's files are closed. Raises InUse for one that has not ended."""
        while (loop := self._engine.loops.get(experiment)) is not None:
            if not loop.finished.is_set():
                raise InUse(
                    f"{label} is {loop.state}, and a running experiment is not deleted. `workbench stop {label}` ends "
                    "it; then delete it."
                )
            loop.verification.drop("the experiment is deleted")
            await asyncio.sleep(0.01)

    def _check_unneeded(self, experiment: str, label: str) -> None:
        children = [one.label for one in descents(self.store) if self._descends(one.child, one.experiment, experiment)]
        if children:
            raise InUse(
                f"{', '.join(sorted(set(children)))} descends from {label}, so {label} is kept. Delete its "
                "descendants first."
            )
        pins = self.said.pins_of(experiment)
        if pins:
            names = ", ".join(f"{label}{'/' if pin else ''}{pin}" for pin in pins)
            raise InUse(f"{names} is pinned, so {label} is kept. `workbench unpin` removes the pin.")

    def _descends(self, child: str, parent: str, experiment: str) -> bool:
        return parent == experiment and child not in self.said.deleted and child != experiment

    async def _delete_trial(self, experiment: str, trial: int) -> Answer:
        label = f"{self._label(experiment)}/{trial_label(trial)}"
        paths = self.store.experiment(experiment)
        loop = self._engine.loops.get(experiment)
        if loop is not None and loop.finished.is_set():
            await self._closed(experiment, label)
            loop = None
        if loop is not None and loop.search.trials[trial].state not in ENDED:
            raise InUse(f"{label} may still continue. `workbench stop {label}` ends it; then delete what it keeps.")
        if trial not in trials_of(paths):
            raise NotFound(f"{label} keeps nothing: there is no such trial, or it never trained.")
        why = protected(self.store, self.said, experiment)
        for (number, step), reason in why.items():
            if number in (None, trial):
                name = self._label(experiment) + ("" if number is None else f"/{pin_label(number, step)}")
                raise InUse(f"{name} stays: {reason}.")
        steps = await _aside(steps_of, paths, [trial])
        line = {**removed_line(steps or {trial: []}, "you deleted them"), "files": True}
        if loop is not None:
            n = loop.journal.append(line)
            try:
                await _aside(loop.journal.commit)
            except StoreError:
                loop.journal.take_back(n)
                raise
        else:
            await _aside(append, paths.journal, line)
        size = await _aside(_empty, paths, trial, steps)
        self._engine.courier.take(self.store.read_spec(experiment, viewing=True), [trial])
        return {"experiment": experiment, "trial": trial, "bytes": size}

    # -- pins and rules ---------------------------------------------------------------------------------------------

    def _pin(self, kind: str, experiment: str, trial: int | None, step: int | None) -> Answer:
        label = self._label(experiment)
        name = f"{label}/{pin_label(trial, step)}" if trial is not None else label
        if kind == "unpin":
            if (experiment, trial, step) not in self.said.pins:
                pinned = ", ".join(f"{label}/{pin}" if pin else label for pin in self.said.pins_of(experiment))
                raise NotFound(f"{name} is not pinned. Of {label} there is pinned: {pinned or 'nothing'}.")
        elif trial is not None:
            loop = self._engine.loops.get(experiment)
            going = loop.retainer.going if loop is not None else set()
            checkpoints = Checkpoints(self.store.experiment(experiment).trial(trial))
            there = [one for one in checkpoints.steps() if (trial, one) not in going]
            begun = there or checkpoints.folder.is_dir()
            begun = begun or (loop is not None and loop.search.trials[trial].state not in ENDED)
            if (step is not None and step not in there) or not begun:
                has = f"it has {', '.join(map(str, there))}" if there else "its trial has none"
                raise NotFound(f"{name} has no checkpoint to pin: {has}.")
        self._say({"kind": kind, "experiment": experiment, "trial": trial, "step": step})
        pins = self.said.pins_of(experiment)
        self._engine.catalog.upsert_experiment(experiment, {"pins": pins})
        self._look_again(experiment)
        return {"experiment": experiment, "pins": pins}

    def _keep(self, experiment: str, rule: Any) -> Answer | Coroutine[Any, Any, Answer]:
        before = self.said.rule(experiment, self.store.read_spec(experiment, viewing=True).keep)
        if isinstance(rule, dict):
            unknown = rule.keys() - {field.name for field in dataclasses.fields(Keep)}
            if unknown:
                raise BadOption(f"keep {sorted(unknown)}: expected experiment, best, latest and stopped.")
            wanted = dataclasses.replace(before, **rule)
        else:
            wanted = Keep.of(str(rule), before)
        self._say({"kind": "keep", "experiment": experiment, "rule": dataclasses.asdict(wanted)})
        self._engine.catalog.upsert_experiment(experiment, {"keep": str(wanted)})
        answer = {"experiment": experiment, "rule": dataclasses.asdict(wanted)}
        if experiment in self._engine.loops:
            self._look_again(experiment)
            return answer
        return self._alone(experiment, self._clean_ended(experiment, answer))

    async def _clean_ended(self, experiment: str, answer: Answer) -> Answer:
        cleaned = await _aside(clean_ended, self.store, experiment, self.said)
        self._engine.send_all(self.store.read_spec(experiment, viewing=True))
        return {**answer, "bytes": cleaned.bytes["checkpoints"]}

    def _look_again(self, experiment: str) -> None:
        loop = self._engine.loops.get(experiment)
        if loop is not None:
            loop.retainer.look_at_all()

    # -- cleaning up ------------------------------------------------------------------------------------------------

    async def keep_clean(self) -> None:
        """Carry the rules out while experiments run, until cancelled."""
        while True:
            await asyncio.sleep(CLEAN_S)
            for loop in list(self._engine.loops.values()):
                if loop.retainer.is_due and not loop.finished.is_set():
                    await self.clean(loop)
            for experiment in list(self.restless):
                await self.rest(experiment)

    async def clean(self, loop: ExperimentLoop) -> None:
        """Remove what the rule of ``loop`` does not keep. What cannot be removed stays, and is told in the log."""
        rule = self.said.rule(loop.spec.id, loop.spec.keep)
        try:
            await loop.retainer.clean(
                rule, lambda: protected(self.store, self.said, loop.spec.id), loop.journal, _aside
            )
        except OSError as error:
            log.warning("checkpoints of %s are not cleaned up: %s", loop.spec.label, error)
        except Exception:  # its search needs no cleaning up to go on
            log.exception("checkpoints of %s are not cleaned up", loop.spec.label)
        trimmed, loop.retainer.trimmed = loop.retainer.trimmed, set()
        self._engine.courier.take(loop.spec, sorted(trimmed))

    async def _collected(self, dry_run: bool) -> Answer:
        """What a clean-up of the whole store has freed. One is for all that asked before it began."""
        if dry_run not in self._asked:
            self._asked[dry_run] = asyncio.create_task(self._collect_in_turn(dry_run))
        return await asyncio.shield(self._asked[dry_run])

    async def _collect_in_turn(self, dry_run: bool) -> Answer:
        async with self._collecting:
            del self._asked[dry_run]
            return await self._collect(dry_run)

    async def _collect(self, dry_run: bool) -> Answer:
        cleaned = Cleaned()
        for entry in self._engine.catalog.experiments():
            key = str(entry["id"])
            if key in self.busy:
                continue
            loop = self._engine.loops.get(key)
            if loop is None or dry_run:
                with contextlib.suppress(NotFound, StoreError):
                    cleaned += await self._alone_cleaned(key, dry_run)
            else:
                loop.retainer.look_at_all()
                cleaned.bytes["checkpoints"] += await self._cleaned(loop)
        cleaned += await _aside(sweep, self.store, self.said, dry_run=dry_run)
        if not dry_run:
            self._engine.courier.retry()
            self._say({"kind": "cleaned", "bytes": cleaned.bytes, "things": cleaned.things})
        return {"dry_run": dry_run, "bytes": cleaned.bytes, "things": cleaned.things, "total": cleaned.total}

    async def make_room(self) -> None:
        """Free what the rules and a sweep can free, because there is no room."""
        try:
            freed = (await self._collected(False))["total"]
            log.warning("no room: cleaning up has freed %d bytes", freed)
        except OSError as error:
            log.warning("no room, and nothing can be cleaned up: %s", error)

    async def _alone_cleaned(self, key: str, dry_run: bool) -> Cleaned:
        self.busy.add(key)
        try:
            spec = self.store.read_spec(key, viewing=dry_run)
            found: Cleaned = await _aside(clean_ended, self.store, key, self.said, spec=spec, dry_run=dry_run)
            if not dry_run:
                if (self._engine.catalog.get(key) or {}).get("state") in ENDED:
                    await _aside(at_rest, self.store.experiment(key))
                self._engine.send_all(spec)
            return found
        finally:
            self.busy.discard(key)

    async def _cleaned(self, loop: ExperimentLoop) -> int:
        before: int = await _aside(usage.checkpoint_bytes, loop.paths)
        await self.clean(loop)
        return max(0, before - int(await _aside(usage.checkpoint_bytes, loop.paths)))

    # -- few files --------------------------------------------------------------------------------------------------

    def is_restless(self, experiment: str) -> bool:
        """Whether an engine died before an ended experiment lay in few files, or somebody read its series then."""
        paths = self.store.experiment(experiment)
        return Path(f"{paths.series}-wal").exists() or packed.is_loose(paths.trials)

    async def rest(self, experiment: str) -> None:
        """Have an ended experiment lie in few files. While somebody reads its series, that is tried again."""
        self.restless.add(experiment)
        if experiment in self._engine.loops:
            self.restless.discard(experiment)  # it goes on, and ends once more
        elif experiment not in self.busy and await self._alone(experiment, _aside(at_rest, self._paths(experiment))):
            self.restless.discard(experiment)

    def _paths(self, experiment: str) -> ExperimentPaths:
        return self.store.experiment(experiment)

    def leave(self) -> None:
        """See once more to what could not be done: the engine leaves, and the next one does what is left. It blocks."""
        for experiment in self.restless - self.busy - self._engine.loops.keys():
            at_rest(self._paths(experiment))

    # -- recovering -------------------------------------------------------------------------------------------------

    def recover(self) -> None:
        """Finish what an engine began to remove and did not live to."""
        for key in self.said.deleted:
            self._engine.catalog.remove(key)
        for key in self.said.emptying:
            self._engine.later(self._empty_storage(key))
        for path in begun_deletions(self.store, self.said):
            self._engine.later(_aside(shutil.rmtree, path, True))


def append(path: Path, line: dict[str, Any]) -> None:
    """Add a line to the journal of an experiment that nobody runs. It blocks."""
    with Journal.open(path) as journal:
        journal.append(line)


def at_rest(paths: ExperimentPaths) -> bool:
    """Pack the small files of an ended experiment, and put its series into one; whether all is done. It blocks."""
    try:
        packed.pack(paths.trials)
        return not paths.series.exists() or database.rest(paths.series)
    except StoreError as error:
        log.warning("%s keeps more files than it needs for now: %s", paths.folder, error)
        return False


def _empty(paths: Any, trial: int, steps: dict[int, list[int]]) -> int:
    """Remove checkpoints and files of one trial; the bytes that this freed. It blocks."""
    freed = remove(paths, steps, {})
    files = paths.trial(trial).files
    if files.is_dir():
        freed += size_of(files)
        shutil.rmtree(put_aside(files), ignore_errors=True)
    return freed


async def _aside(work: Any, *arguments: Any, **more: Any) -> Any:
    return await asyncio.to_thread(work, *arguments, **more)
