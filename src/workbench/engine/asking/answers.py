"""Carries out each kind of request. Law: a refused request changes nothing."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections.abc import Coroutine, Mapping
from typing import Any

from workbench import asked
from workbench.engine.asking import again
from workbench.engine.asking.book import Answer
from workbench.engine.asking.steering import check_steering, ended
from workbench.engine.loop import ExperimentLoop
from workbench.engine.parts import Asked
from workbench.engine.tending import folders
from workbench.errors import BadName, BadOption, ClusterError, NotFound, StoreError
from workbench.facts import Extended, PauseAsked, ResumeAsked, StopAsked
from workbench.records import ENDED
from workbench.records.names import checked_name
from workbench.store.ids import checked_id
from workbench.store.lists.known import experiments
from workbench.store.lists.summary import entry_of
from workbench.store.owner.adoption import let_go

#: The reason of a decision whose request gives none.
BY = "requested by you"


class Answers:
    """The engine's answers."""

    def __init__(self, engine: Asked) -> None:
        self._engine = engine

    def to(self, number: str, data: Mapping[str, Any]) -> Answer | Coroutine[Any, Any, Answer]:
        """Carry out the request ``number``. Returns its answer, or a coroutine that returns it. Raises a WorkbenchError
        to refuse it."""
        request = asked.read(data)
        match request:
            case asked.Start():
                return self._start(request.experiment)
            case asked.Ping():
                return {"slots": len(self._engine.slots.backend.slots), "under_way": self._under_way()}
            case asked.End():
                return self._end(request)
            case asked.Mend():
                return self._mend()
            case asked.Rename():
                return self._listed(self._label(request))
            case asked.Tag() | asked.Note():
                return self._label(request)
            case asked.Replay():
                return {"experiment": self._begin_again(request)}
            case asked.Adopt():
                return self._adopt(request)
            case asked.Extend():
                return self._extend(number, request)
            case asked.Verify():
                return self._verify(request)
            case asked.Stop() | asked.Pause() | asked.Resume():
                return self._steer(request)
            case _:
                return self._engine.upkeep.answer(request)

    def _end(self, request: asked.End) -> Answer:
        if request.only_idle and (under_way := self._under_way()):
            raise BadOption(f"the engine trains {', '.join(under_way[:3])}, so it does not end.")
        self._engine.end()
        return {}

    def _under_way(self) -> list[str]:
        """The labels of experiments that train or wait for slots."""
        loops = self._engine.loops.values()
        return [loop.spec.label for loop in loops if not (loop.rests or loop.finished.is_set())]

    def _start(self, experiment: str) -> Answer:
        if self._engine.trouble is not None:
            raise ClusterError(self._engine.trouble)
        if experiment not in self._engine.loops:
            self._engine.begin(experiment)
        return {"experiment": experiment}

    def _steer(self, request: asked.Stop | asked.Pause | asked.Resume) -> Answer | Coroutine[Any, Any, Answer]:
        experiment, by = request.experiment, request.reason or BY
        loop = self._engine.loops.get(experiment)
        if loop is None and isinstance(request, asked.Resume) and self._state_of(experiment) not in ENDED:
            loop = self._opened(experiment)  # adopted from another user, and released by this request
        if loop is None or loop.finished.is_set():
            if loop is not None and isinstance(request, asked.Stop):
                loop.verification.drop(by)
            if request.trial is not None and not isinstance(request, asked.Stop):
                raise BadOption(ended(self._state_of(experiment), request, request.trial))
            return {"experiment": experiment, "state": self._state_of(experiment)}
        if request.trial is not None:
            check_steering(loop, request, request.trial)
        match request:
            case asked.Stop(trial=trial):
                loop.tell(StopAsked(trial, by))
            case asked.Pause(trial=None):
                loop.tell(PauseAsked(request.reason or "asked to pause"))
            case asked.Pause(trial=trial):
                loop.tell(PauseAsked(by, trial=trial))
            case asked.Resume(trial=None):
                self._engine.rooms.check(is_held=loop.life.pause == "room")
                folders.check(loop, self._engine.slots.backend)
                loop.resume(by)
            case asked.Resume(trial=trial):
                loop.tell(ResumeAsked(by, trial))
        return self._kept(loop, {"experiment": experiment})

    async def _mend(self) -> Answer:
        return {"mended": await self._engine.mender.mend(deep=True)}

    async def _kept(self, loop: ExperimentLoop, answer: Answer) -> Answer:
        """The answer, once the loop's new facts are on disk: an engine that dies now loses none of them."""
        await loop.kept()
        # The caller must not read the former state from the series.
        with contextlib.suppress(StoreError):
            await asyncio.to_thread(loop.series.flush)
        return answer

    def _state_of(self, experiment: str) -> str:
        state = next((e["state"] for e in self._engine.catalog.experiments() if e["id"] == experiment), None)
        if state is None:
            raise NotFound(f"experiment {experiment!r} is not in this store. `workbench ls` lists those that are.")
        return str(state)

    def _opened(self, experiment: str) -> ExperimentLoop:
        """The experiment's loop. An ended experiment is opened again."""
        if experiment not in self._engine.loops:
            self._state_of(experiment)
            let_go(self._engine.store, experiment)
            self._engine.begin(experiment)
        return self._engine.loops[experiment]

    def _verify(self, request: asked.Verify) -> Coroutine[Any, Any, Answer]:
        if self._engine.trouble is not None:
            raise ClusterError(self._engine.trouble)
        loop = self._opened(request.experiment)
        task = loop.verification.ask(request.trial, request.step, loop.search.levels(request.trial))
        return self._kept(loop, {"experiment": request.experiment, **task.to_json()})

    def _extend(self, number: str, request: asked.Extend) -> Coroutine[Any, Any, Answer]:
        if self._engine.trouble is not None:
            raise ClusterError(self._engine.trouble)
        loop = self._opened(request.experiment)
        fact = Extended(request.reason or BY, request.trials or 0, request.last, request.seconds, number)
        planned = loop.search.plan
        if number not in loop.extended_by:  # an engine that died before answering may have carried it out
            loop.extend(fact)
            self._engine.slots.rebalance()
            with contextlib.suppress(StoreError):  # a caller that waits for the end must not see the former one
                self._engine.catalog.close()
            planned = loop.search.extension(fact)
        told = {"experiment": request.experiment, "trials": planned.trials, "last": planned.scheduler.last}
        return self._kept(loop, told)

    def _adopt(self, request: asked.Adopt) -> Answer:
        """List an imported experiment, under another name if its name and version are taken."""
        experiment = request.experiment
        entry = entry_of(self._engine.store, checked_id(experiment))
        if entry is None:
            raise NotFound(f"experiment {experiment!r} is not in this store, or it was never trained.")
        self._engine.upkeep.returned(experiment)
        name, taken = checked_name(request.name or entry["name"]), self._taken(experiment)
        if (name, entry["version"]) in taken:
            name = next(new for n in itertools.count(2) if ((new := f"{name}-{n}"), entry["version"]) not in taken)
        # Before it is listed: a clean-up of what is listed must not apply the rule of its spec.
        kept = self._engine.upkeep.protect(experiment, request.keep, request.pins or ())
        self._engine.catalog.upsert_experiment(experiment, {**entry, **kept})
        if name != entry["name"]:
            self._label(asked.Rename(experiment, name))
        if request.tags and request.tags != entry.get("tags"):
            self._label(asked.Tag(experiment, request.tags))
        if request.note and request.note != entry.get("note"):
            self._label(asked.Note(experiment, request.note))
        with contextlib.suppress(StoreError):  # the next import looks there whether this one was completed
            self._engine.catalog.close()
        return {"experiment": experiment, "label": f"{name}@{entry['version']}"}

    def _label(self, request: asked.Rename | asked.Tag | asked.Note) -> Answer:
        entry = next((e for e in self._engine.catalog.experiments() if e["id"] == request.experiment), None)
        if entry is None:
            raise NotFound(
                f"experiment {request.experiment!r} is not in this store. `workbench ls` lists those that are."
            )
        match request:
            case asked.Rename(name=name):
                if (name, entry["version"]) in self._taken(entry["id"]):
                    raise BadName(
                        f"{entry['label']} is not renamed: another experiment is {name}@{entry['version']}, and a "
                        "label must mean one experiment. Choose another name."
                    )
                fields: dict[str, Any] = {"name": name}
            case asked.Tag(tags=tags):
                fields = {"tags": sorted(tag[: asked.LONGEST_TAG] for tag in tags)}
            case asked.Note(note=note):
                fields = {"note": note[: asked.LONGEST_NOTE]}
        line = {"kind": asked.kind_of(request), "experiment": entry["id"], **fields}
        self._engine.book.journal.append(line)
        self._engine.catalog.upsert_experiment(entry["id"], fields)
        return {"experiment": entry["id"], **fields}

    def _taken(self, experiment: str) -> set[tuple[str, int]]:
        """Names and versions of the other experiments, also of those that wait for their start."""
        found = {one["id"]: one for one in experiments(self._engine.store)}
        found |= {one["id"]: one for one in self._engine.catalog.experiments()}  # the file may be behind it
        return {(one["name"], one["version"]) for one in found.values() if one["id"] != experiment}

    async def _listed(self, answer: Answer) -> Answer:
        """``answer``, once the list on the disk has the change: a caller must find the experiment by its new name."""
        with contextlib.suppress(StoreError):
            await asyncio.to_thread(self._engine.catalog.close)
        return answer

    def _begin_again(self, request: asked.Replay) -> str:
        if self._engine.trouble is not None:
            raise ClusterError(self._engine.trouble)
        made = again.replayed(self._engine.store, request.experiment, request.trial)
        self._engine.begin(made)
        return made
