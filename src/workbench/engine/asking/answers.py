"""What is done about a request, by its kind. Law: a request that is refused changes nothing."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any

from workbench.engine.asking import again
from workbench.engine.asking.asked import check_request
from workbench.engine.loop import ExperimentLoop
from workbench.errors import ClusterError, NotFound, StoreError
from workbench.facts import Extended, PauseAsked, StopAsked
from workbench.records import ENDED, checked_name
from workbench.store.layout import checked_id
from workbench.store.lists.summary import LABELS, entry_of
from workbench.store.owner.adoption import let_go

if TYPE_CHECKING:
    from workbench.engine.engine import Engine


class Answers:
    """The engine's answers."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def to(self, request: dict[str, Any]) -> dict[str, Any] | Coroutine[Any, Any, dict[str, Any]]:
        """Carry ``request`` out; its answer, or what will give it. Raises a WorkbenchError where it is refused."""
        check_request(request)
        kind, experiment = request["kind"], str(request.get("experiment"))
        if kind == "start":
            if self._engine.trouble is not None:
                raise ClusterError(self._engine.trouble)
            if experiment not in self._engine.loops:
                self._engine.begin(experiment)
            return {"experiment": experiment}
        if kind == "ping":
            return {"slots": len(self._engine.backend.slots)}
        if kind == "end":
            self._engine.end()
            return {}
        if kind in ("rename", "tag", "note"):
            return self._label(kind, request)
        if kind == "replay":
            return {"experiment": self._begin_again(request)}
        if kind in self._engine.upkeep.KINDS:
            return self._engine.upkeep.answer(request)
        if kind == "mend":
            return self._mend()
        if kind == "adopt":
            return self._adopt(experiment, request)
        by = request.get("reason") or "requested by you"
        if kind == "extend":
            return self._extend(experiment, request, by)
        if kind == "verify":
            return self._verify(experiment, request)
        loop = self._engine.loops.get(experiment)
        if loop is None and kind == "resume" and self._state_of(experiment) not in ENDED:
            loop = self._opened(experiment)  # it came from elsewhere, and is trusted by now
        if loop is None or loop.finished.is_set():
            if loop is not None and kind == "stop":
                loop.verification.drop(by)
            return {"experiment": experiment, "state": self._state_of(experiment)}
        match kind:
            case "stop":
                trial = request.get("trial")
                if trial is not None and trial not in loop.search.trials:
                    raise NotFound(
                        f"{loop.spec.label} has no trial {trial}. `workbench show {loop.spec.label}` lists them."
                    )
                loop.tell(StopAsked(trial, by))
            case "pause":
                loop.tell(PauseAsked(request.get("reason") or "asked to pause"))
            case "resume":
                self._engine.rooms.check(is_held=loop.life.pause == "room")
                loop.resume(by)
            case _:
                raise NotFound(
                    f"request kind {kind!r} is not known; expected start, stop, pause, resume, extend, verify, rename, "
                    "tag, note, pin, unpin, keep, delete, gc or quota."
                )
        return self._kept(loop, {"experiment": experiment})

    async def _mend(self) -> dict[str, Any]:
        return {"mended": await self._engine.mender.mend(deep=True)}

    async def _kept(self, loop: ExperimentLoop, answer: dict[str, Any]) -> dict[str, Any]:
        """The answer, once what the loop was told is on the disk: an engine that dies now has lost nothing of it."""
        await loop.kept()
        # Whoever waits for it must not take what it was before for what it is now.
        with contextlib.suppress(StoreError):
            await asyncio.to_thread(loop.series.flush)
        return answer

    def _state_of(self, experiment: str) -> str:
        state = next((e["state"] for e in self._engine.catalog.experiments() if e["id"] == experiment), None)
        if state is None:
            raise NotFound(f"experiment {experiment!r} is not in this store. `workbench ls` lists those that are.")
        return str(state)

    def _opened(self, experiment: str) -> ExperimentLoop:
        """The experiment's loop; one that has ended is opened again."""
        if experiment not in self._engine.loops:
            self._state_of(experiment)
            let_go(self._engine.store, experiment)
            self._engine.begin(experiment)
        return self._engine.loops[experiment]

    def _verify(self, experiment: str, request: dict[str, Any]) -> Coroutine[Any, Any, dict[str, Any]]:
        if self._engine.trouble is not None:
            raise ClusterError(self._engine.trouble)
        loop = self._opened(experiment)
        trial = int(request["trial"])
        task = loop.verification.ask(trial, request.get("step"), loop.search.levels(trial))
        return self._kept(loop, {"experiment": experiment, **task.to_json()})

    def _extend(self, experiment: str, request: dict[str, Any], by: str) -> Coroutine[Any, Any, dict[str, Any]]:
        if self._engine.trouble is not None:
            raise ClusterError(self._engine.trouble)
        loop = self._opened(experiment)
        trials, last, seconds = (request.get(name) for name in ("trials", "last", "seconds"))
        fact = Extended(by, trials or 0, last, None if seconds is None else float(seconds), request["id"])
        planned = loop.search.plan
        if fact.request not in loop.extended_by:  # an engine that died before it answered may have carried it out
            loop.extend(fact)
            self._engine.rebalance()
            with contextlib.suppress(StoreError):  # whoever waits for its end must not take the former one for it
                self._engine.catalog.close()
            planned = loop.search.extension(fact)
        return self._kept(loop, {"experiment": experiment, "trials": planned.trials, "last": planned.scheduler.last})

    def _adopt(self, experiment: str, request: dict[str, Any]) -> dict[str, Any]:
        """List an experiment that was taken in; where its name and version are taken, by another name."""
        entry = entry_of(self._engine.store, checked_id(experiment))
        if entry is None:
            raise NotFound(f"experiment {experiment!r} is not in this store, or it was never trained.")
        name = checked_name(request.get("name") or entry["name"])
        taken = {(one["name"], one["version"]) for one in self._engine.catalog.experiments() if one["id"] != experiment}
        if (name, entry["version"]) in taken:
            name = next(new for n in itertools.count(2) if ((new := f"{name}-{n}"), entry["version"]) not in taken)
        self._engine.catalog.upsert_experiment(experiment, entry)
        labels = {**request, "name": name}
        for kind, key in LABELS.items():
            if labels.get(key) and labels[key] != entry.get(key):
                self._label(kind, {"experiment": experiment, key: labels[key]})
        return {"experiment": experiment, "label": f"{name}@{entry['version']}"}

    def _label(self, kind: str, request: dict[str, Any]) -> dict[str, Any]:
        entry = next((e for e in self._engine.catalog.experiments() if e["id"] == request["experiment"]), None)
        if entry is None:
            raise NotFound(
                f"experiment {request['experiment']!r} is not in this store. `workbench ls` lists those that are."
            )
        if kind == "rename":
            fields: dict[str, Any] = {"name": checked_name(request["name"])}
        elif kind == "tag":
            fields = {"tags": sorted(str(tag)[:100] for tag in request["tags"])}
        else:
            fields = {"note": str(request["note"])[:10_000]}
        self._engine.book.journal.append({"kind": kind, "experiment": entry["id"], **fields})
        self._engine.catalog.upsert_experiment(entry["id"], fields)
        return {"experiment": entry["id"], **fields}

    def _begin_again(self, request: dict[str, Any]) -> str:
        if self._engine.trouble is not None:
            raise ClusterError(self._engine.trouble)
        made = again.replayed(self._engine.store, request)
        self._engine.begin(made)
        return made
