"""Deleting, pinning and cleaning up in the whole store. Law: a request is on disk before it is carried out.

A removal that an engine started and did not finish is finished by the next one.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import logging
import os
import shutil
from collections.abc import Coroutine, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from workbench import asked
from workbench.engine.parts import Tended
from workbench.engine.telling.courier import remove_all
from workbench.engine.tending.room import wanted_quota
from workbench.errors import InUse, NotFound, StoreError
from workbench.records import ENDED, Keep, Spec
from workbench.records.names import trial_label
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
    returned,
    steps_of,
    sweep,
)
from workbench.store.keeping.usage import trials_of
from workbench.store.layout import ExperimentPaths
from workbench.store.lists.said import descents, pin_label, protected, said
from workbench.store.owner import ownership, private

if TYPE_CHECKING:
    from workbench.engine.loop import ExperimentLoop

log = logging.getLogger("workbench.engine")

#: Seconds between two looks, while experiments run, at checkpoints that the rules do not keep.
CLEAN_S = 3.0
#: Seconds before an unavailable storage of a deleted experiment is tried again, and at most between two tries.
STORAGE_S, MOST_STORAGE_S = 5.0, 600.0

Answer = dict[str, Any]


class Upkeep:
    """All that the engine removes. Blocking work runs in a thread."""

    def __init__(self, engine: Tended) -> None:
        self._engine = engine
        self.store: Store = engine.store
        self.said = said(self.store)
        #: Experiments whose files are being removed: nothing else is started with them meanwhile.
        self.busy: set[str] = set()
        #: Ended experiments whose small files are not packed yet.
        self.restless: set[str] = set()
        #: Waiting clean-ups: a real one and a dry run.
        self._asked: dict[bool, asyncio.Task[Answer]] = {}
        self._collecting = asyncio.Lock()

    # -- requests ---------------------------------------------------------------------------------------------------

    def answer(
        self, request: asked.Delete | asked.Pin | asked.Unpin | asked.Keep | asked.Gc | asked.Quota
    ) -> Answer | Coroutine[Any, Any, Answer]:
        """The answer to a request about files, or a coroutine that carries it out and returns the answer."""
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

    def _say(self, *lines: dict[str, Any]) -> None:
        """Write requests to the store's journal, and then apply them. Raises StoreFull and the like."""
        journal = self._engine.book.journal
        numbers = [journal.append(line) for line in lines]
        try:
            journal.commit()
        except StoreError:
            for n in reversed(numbers):  # the user is told that it failed
                journal.take_back(n)
            raise
        for line in lines:
            self.said.take(line)

    def _label(self, experiment: str) -> str:
        return str((self._engine.catalog.get(experiment) or {}).get("label", experiment))

    def _alone(self, experiment: str, work: Coroutine[Any, Any, Any]) -> Coroutine[Any, Any, Any]:
        """Carry out ``work`` while nothing else is started with ``experiment``, from now on: the next request may be
        about it too."""
        self.busy.add(experiment)
        return self._released(experiment, work)

    async def _released(self, experiment: str, work: Coroutine[Any, Any, Any]) -> Any:
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
        self._check_unneeded(experiment, label)  # it may have been pinned meanwhile
        storing = self._storing(experiment)
        about = {}
        if storing is not None and (other := await _aside(self._elsewhere, experiment)) is not None:
            log.info("the copies of %s at its storage stay: %s has the experiment as well", label, other)
        elif storing is not None:
            about = {"storage": storing.storage}
        self._say({"kind": "delete", "experiment": experiment, "label": label, "bytes": size, **about})
        self._engine.catalog.remove(experiment)
        self._engine.mirrors.forget(experiment)
        private.forget(self.store.root, experiment)
        gone = await _aside(put_aside, folder)
        self._removed(experiment)
        self._engine.later(_aside(shutil.rmtree, gone, True))
        with contextlib.suppress(StoreError):  # a caller that lists experiments must not see this one
            await _aside(self._engine.catalog.close)
        if storing is not None:
            self._engine.courier.forget(experiment)
        if about:
            self._engine.later(self._empty_storage(experiment))
        return {"experiment": experiment, "label": label, "bytes": size}

    def _elsewhere(self, experiment: str) -> Path | None:
        """Another store of this user's with the experiment: one of the two is a copy, and both have the same storage.
        It blocks."""
        here = os.path.realpath(self.store.root)
        others = (Store(root, readonly=True) for root in ownership.known() if os.path.realpath(root) != here)
        return next((other.root for other in others if other.experiment(experiment).spec.exists()), None)

    async def _empty_storage(self, experiment: str) -> None:
        """Remove a deleted experiment's copies, now or when its storage is available again; the next engine
        continues."""
        pause, url = STORAGE_S, self.said.emptying[experiment]
        while (trouble := await _aside(remove_all, url, experiment)) is not None:
            if pause == STORAGE_S:
                log.warning("copies of a deleted experiment stay until they can be removed: %s", trouble)
            await asyncio.sleep(pause)
            pause = min(2 * pause, MOST_STORAGE_S)
        with contextlib.suppress(StoreError):  # removing again changes nothing
            self._say({"kind": "emptied", "experiment": experiment})

    def _storing(self, experiment: str) -> Spec | None:
        """The experiment's spec if it has a storage, else None."""
        try:
            spec = self.store.read_spec(experiment, viewing=True)
        except (StoreError, NotFound):
            return None  # an experiment with a damaged spec can still be deleted
        return spec if spec.storage else None

    async def _closed(self, experiment: str, label: str) -> None:
        """Wait until an ended experiment's files are closed. Raises InUse if it has not ended."""
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

    def _keep(self, experiment: str, rule: str | Mapping[str, int]) -> Answer | Coroutine[Any, Any, Answer]:
        wanted = Keep.of(rule, self.said.rule(experiment, self.store.read_spec(experiment, viewing=True).keep))
        self._say({"kind": "keep", "experiment": experiment, "rule": dataclasses.asdict(wanted)})
        self._engine.catalog.upsert_experiment(experiment, {"keep": str(wanted)})
        answer = {"experiment": experiment, "rule": dataclasses.asdict(wanted)}
        if experiment in self._engine.loops:
            self._look_again(experiment)
            return answer
        return self._alone(experiment, self._clean_ended(experiment, answer))

    def protect(
        self, experiment: str, rule: str | Mapping[str, int] | None, pins: Iterable[str]
    ) -> dict[str, str | list[str]]:
        """Journal the rule and the pins that an imported experiment had elsewhere. Returns its fields in the list."""
        lines: list[dict[str, Any]] = []
        fields: dict[str, str | list[str]] = {}
        if rule is not None:
            wanted = Keep.of(rule, self.store.read_spec(experiment, viewing=True).keep)
            lines.append({"kind": "keep", "experiment": experiment, "rule": dataclasses.asdict(wanted)})
            fields["keep"] = str(wanted)
        for trial, step in map(asked.pin_of, pins):
            lines.append({"kind": "pin", "experiment": experiment, "trial": trial, "step": step})
        self._say(*lines)
        return {**fields, "pins": pinned} if (pinned := self.said.pins_of(experiment)) else fields

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
        """Apply the rules while experiments run, until cancelled."""
        while True:
            await asyncio.sleep(CLEAN_S)
            for loop in list(self._engine.loops.values()):
                if loop.retainer.is_due and not loop.finished.is_set():
                    await self.clean(loop)
            for experiment in list(self.restless):
                await self.rest(experiment)

    async def clean(self, loop: ExperimentLoop) -> None:
        """Remove checkpoints that the rule of ``loop`` does not keep. Failures are logged."""
        rule = self.said.rule(loop.spec.id, loop.spec.keep)
        try:
            await loop.retainer.clean(
                rule, lambda: protected(self.store, self.said, loop.spec.id), loop.journal, _aside
            )
        except OSError as error:
            log.warning("checkpoints of %s are not cleaned up: %s", loop.spec.label, error)
        except Exception:  # its search can continue without cleaning up
            log.exception("checkpoints of %s are not cleaned up", loop.spec.label)
        trimmed, loop.retainer.trimmed = loop.retainer.trimmed, set()
        self._engine.courier.take(loop.spec, sorted(trimmed))

    async def _collected(self, dry_run: bool) -> Answer:
        """What a clean-up of the whole store has freed. One clean-up serves all requests made before it started."""
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
        """Free what the rules and a sweep can free, because there is no space."""
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
        """Whether an ended experiment's files are not packed: an engine died before, or its series was being read
        then."""
        paths = self.store.experiment(experiment)
        return Path(f"{paths.series}-wal").exists() or packed.is_loose(paths.trials)

    async def rest(self, experiment: str) -> None:
        """Pack an ended experiment's files. Tried again later if another program reads its series."""
        self.restless.add(experiment)
        if experiment in self._engine.loops:
            self.restless.discard(experiment)  # it was reopened, and will end again
        elif experiment not in self.busy and await self._alone(experiment, _aside(at_rest, self._paths(experiment))):
            self.restless.discard(experiment)

    def _paths(self, experiment: str) -> ExperimentPaths:
        return self.store.experiment(experiment)

    def leave(self) -> None:
        """Try once more to pack the rest before the engine ends; the next engine does what is left. It blocks."""
        for experiment in self.restless - self.busy - self._engine.loops.keys():
            at_rest(self._paths(experiment))

    # -- recovering -------------------------------------------------------------------------------------------------

    def recover_returned(self) -> None:
        """Count deleted experiments that are there again. To be called before anything is removed."""
        for key in returned(self.store, self.said):
            log.info("%s had been deleted, and is there again", key)
            try:
                self.returned(key)
            except StoreError:  # the next engine writes it down; this one removes nothing either
                self.said.take({"kind": "returned", "experiment": key})

    def returned(self, experiment: str) -> None:
        """A deleted experiment was imported again, or put back from a copy. Raises StoreFull and the like."""
        if experiment in self.said.deleted:
            self._say({"kind": "returned", "experiment": experiment})

    def recover(self) -> None:
        """Finish removals that an earlier engine started."""
        for key in self.said.deleted:
            self._engine.catalog.remove(key)
        for key in self.said.emptying:
            self._engine.later(self._empty_storage(key))
        for path in begun_deletions(self.store, self.said):
            self._engine.later(_aside(shutil.rmtree, path, True))
        for key in sorted(self.said.going):
            self._removed(key)

    def _removed(self, experiment: str) -> None:
        """From now on a folder of this name is another one than the deleted one."""
        with contextlib.suppress(StoreError):  # the next engine says it
            self._say({"kind": "removed", "experiment": experiment})


def append(path: Path, line: dict[str, Any]) -> None:
    """Append a line to the journal of an experiment that no engine runs. It blocks."""
    with Journal.open(path) as journal:
        journal.append(line)


def at_rest(paths: ExperimentPaths) -> bool:
    """Pack the small files of an ended experiment, and merge its series into one file. Returns whether all is done. It
    blocks."""
    try:
        packed.pack(paths.trials)
        return not paths.series.exists() or database.rest(paths.series)
    except StoreError as error:
        log.warning("%s keeps more files than it needs for now: %s", paths.folder, error)
        return False


def _empty(paths: Any, trial: int, steps: dict[int, list[int]]) -> int:
    """Remove checkpoints and files of one trial. Returns the bytes freed. It blocks."""
    freed = remove(paths, steps, {})
    files = paths.trial(trial).files
    if files.is_dir():
        freed += size_of(files)
        shutil.rmtree(put_aside(files), ignore_errors=True)
    return freed


async def _aside(work: Any, *arguments: Any, **more: Any) -> Any:
    return await asyncio.to_thread(work, *arguments, **more)
