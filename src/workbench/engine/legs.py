"""What the legs of one experiment say, and what each is told. Law: what they say becomes facts, in its order."""

from __future__ import annotations

import asyncio
import statistics
import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Protocol

from workbench.cluster.backend import Message, Survivor
from workbench.engine.faults import Faults, Verdict
from workbench.engine.installed import Installed
from workbench.engine.leg import Leg, cut, said
from workbench.engine.orders import leg_order
from workbench.engine.patience import Patience
from workbench.engine.shown import Shown
from workbench.engine.teller import Teller
from workbench.engine.used import Used
from workbench.engine.verify import Verification
from workbench.records import (
    Ended,
    Fact,
    Failed,
    Left,
    Lost,
    Metrics,
    Reached,
    Run,
    Spec,
    StopAsked,
    plain_value,
    trial_label,
)
from workbench.search import Search
from workbench.store import Store
from workbench.store.kept import Kept
from workbench.store.passing import drop_passing
from workbench.store.series import Series

if TYPE_CHECKING:
    from workbench.engine.loop import ExperimentLoop

#: Legs shorter than this (median) get others queued behind them, so that Dask's latency is not waited for: so many
#: that a slot has about QUEUED_S seconds to do, and never more than MOST_QUEUED.
SHORT_LEG_S = 0.15
QUEUED_S = 0.03
MOST_QUEUED = 8
#: Two trials that fail in the same way before anybody reported anything: the code is wrong, not their configuration.
PROBES = 2
#: Of what a leg says when it begins, what is kept for its page and for comparisons.
DETAIL = ("found", "environment", "setup_s", "skipped", "architecture", "data", "seen", "back", "lacks")
#: What is journaled of an error: all that a later engine judges by.
ERROR = ("type", "message", "line", "device_memory")


class Surroundings(Protocol):
    """What an experiment's loop needs of the engine around it."""

    def dispatch(self, loop: ExperimentLoop, leg: Leg) -> None:
        """Start ``leg`` in a free slot, now or when there is one."""

    def survivor(self, experiment: str, trial: int, attempt: int) -> Survivor | None:
        """That leg, if it trains on since an engine before."""

    def adopt(self, loop: ExperimentLoop, leg: Leg, survivor: Survivor) -> None:
        """Take it up where it trains."""

    def stop_leg(self, leg: Leg, reason: str, keep_s: float | None) -> None:
        """Make a leg leave, or drop it where it waits for a slot.

        keep_s: seconds in which it may come to the end of its turn and leave with a checkpoint; None: without one.
        """

    def went_wrong(self, loop: Legs, leg: Leg, way: tuple[str, str]) -> None:
        """A leg died in this way: the cause, and the error's type."""

    def rebalance(self) -> None:
        """Share the slots again: this experiment wants more or fewer."""

    def changed(self, loop: ExperimentLoop) -> None:
        """The experiment's line in the catalog changed."""

    def saved(self, loop: Legs, trial: int, *, passing: bool) -> None:
        """A trial has a new checkpoint. passing: between levels, where there may be one a second."""

    def storage_trouble(self, loop: Legs) -> str | None:
        """Since when the experiment's storage is not to be had, and why; None where it is."""

    async def clean(self, loop: ExperimentLoop) -> None:
        """Remove checkpoints that its rule does not keep."""

    def written(self) -> None:
        """A checkpoint takes room on the disk."""


class Legs(ABC):
    """The legs of one experiment that are under way, and what is known of those before them."""

    def __init__(self, store: Store, spec: Spec, around: Surroundings, now: Callable[[], str]) -> None:
        self.spec = spec
        self.paths = store.experiment(spec.id)
        self._store, self._around, self._now = store, around, now
        self.search = Search.of(spec)
        self.legs: dict[int, Leg] = {}
        self.probed = not spec.probe
        #: Lines that the journal is to get with the next facts.
        self._lines: deque[dict[str, Any]] = deque()
        self._attempts: dict[int, int] = {}
        self._checkpoints: dict[int, int] = {}
        #: Where trials are to train until they come to their level: a pause and another's fault change nothing of it.
        self._wanted: dict[int, dict[str, Any]] = {}
        self._patience = Patience(spec.hang_s)
        #: By trial the attempt that has begun and not ended, and attempts whose skipped checkpoints are journaled.
        self._begun_attempts: dict[int, int] = {}
        self._skipped: set[tuple[int, int]] = set()
        #: Trials that may have a checkpoint between levels.
        self._passing: set[int] = set()
        self._faults = Faults(spec.max_restarts)
        self._waits: dict[int, float] = {}
        #: Why trials that were to leave with a checkpoint left without one, until that is shown.
        self._cut: dict[int, str] = {}
        self._durations: deque[float] = deque(maxlen=15)
        self._probe_failures: list[tuple[Any, ...]] = []
        #: Bytes of the largest checkpoint so far, and of those heard of since the disk was looked at.
        self.largest = self.heard_bytes = 0
        self.series = Series.open(self.paths.series)
        self._used = Used(self.series)
        self._lacks: list[str] = self.series.meta().get("lacks") or []
        self._kept = Kept(self.paths)
        self.shown = Shown(spec, self.search, self.series, now)
        self._teller = Teller(store, spec, self.series, self._note, now)
        self._retries = 0
        self.installed = Installed(store, spec)
        self.verification = Verification(spec, self.paths, self.series, self._note, self._stop_check, now)

    @abstractmethod
    def tell(self, *facts: Fact) -> None:
        """Facts that happened."""

    @abstractmethod
    def _note(self, line: dict[str, Any] | None) -> None:
        """Have ``line`` journaled soon, and see what is due."""

    def _stop_check(self, leg: Leg, reason: str) -> None:
        self._around.stop_leg(leg, reason, None)

    def _prepared(self, order: Run, why: str = "") -> Leg:
        attempt = self._attempts[order.trial] = self._attempts.get(order.trial, 0) + 1
        start = max(order.start, min(self._checkpoints.get(order.trial, 0), order.until))
        leg = Leg(
            trial=order.trial,
            attempt=attempt,
            start=start,
            until=order.until,
            reason=why + order.reason,
            key=f"{self.spec.label}-{trial_label(order.trial)}-{attempt}-{self.spec.id}",
            not_before=self._waits.pop(order.trial, 0.0),
            step=start,
            **self._wanted.get(order.trial, {}),
        )
        self.legs[order.trial] = leg
        return leg

    def _adopted(self, order: Run, rows: Mapping[tuple[int, int], dict[str, Any]]) -> tuple[Leg, Survivor] | None:
        """The leg of ``order`` that an engine before has begun and that trains on; None where it is to begin again.

        Only the newest attempt counts, and only where it trains what this search wants.
        """
        attempt = self._begun_attempts.get(order.trial, 0)
        found = self._around.survivor(self.spec.id, order.trial, attempt)
        if found is None or found.until != order.until:
            return None
        row = rows.get((order.trial, attempt), {})
        reason = row.get("reason") or order.reason
        leg = Leg(order.trial, attempt, found.start, found.until, reason, found.key, step=found.start)
        leg.alone = self._is_alone(order.trial)
        leg.detail, leg.heard = dict(row.get("detail") or {}), time.monotonic()
        leg.known = self._heard_before(order.trial, row.get("began"))
        self.legs[order.trial] = leg
        self.shown.first_leg_at = self.shown.first_leg_at or leg.heard
        return leg, found

    def _heard_before(self, trial: int, began: float | None) -> dict[int, float]:
        """The goal by step, of the leg that began then."""
        points = self.series.points([trial], [self.spec.goal.metric]) if began is not None else []
        return {step: value for _, _, step, index, value, at in points if index == 0 and at >= (began or 0.0)}

    def _taken_up(self, leg: Leg) -> None:
        """What ``leg`` has said to nobody yet was heard: show where it is."""
        leg.step = max(leg.step, *leg.known, leg.start)
        self._put_trial(leg.trial, leg.reason)

    def leg_started(self, leg: Leg) -> None:
        """``leg`` was given to a slot."""
        leg.heard = time.monotonic()
        self.shown.first_leg_at = self.shown.first_leg_at or leg.heard
        self._put_leg(leg)
        self.series.put_leg(leg.trial, leg.attempt, started=self._now())
        self._put_trial(leg.trial, leg.reason)

    def _put_leg(self, leg: Leg) -> None:
        slot = leg.slot.name if leg.slot else None
        where = {"start": leg.start, "until": leg.until, "slot": slot, "reason": leg.reason}
        self.series.put_leg(leg.trial, leg.attempt, **where, **({"detail": dict(leg.detail)} if leg.detail else {}))

    def message(self, leg: Leg) -> Message:
        """The leg as it travels to the worker (outer part) and on to the runner (``leg``)."""
        known = self.shown.known.get(leg.trial, 0)
        training = self.message_training()
        return leg_order(self._store, self.spec, self.search, leg, training, known_step=known)

    def _turn_s(self, leg: Leg) -> float:
        """Seconds that ``leg`` gets to come to the end of its turn."""
        since = leg.turned[1] if leg.turned else leg.began or leg.heard
        return max(self.spec.grace_s, self._patience.turn_s(time.monotonic() - since))

    def _turned(self, leg: Leg, step: int) -> None:
        """``leg`` has reported ``step``: one turn ends about now."""
        if leg.began is None:
            return
        now, (before, since) = time.monotonic(), leg.turned or (leg.start, leg.began)
        if step == before + 1:
            self._patience.turned_after(now - since)
        if step > before:
            leg.turned = (step, now)

    @property
    def used_packages(self) -> list[str] | None:
        """The packages that its training was seen to import; None before a leg has told."""
        return self._used.packages

    def message_training(self) -> Message:
        """The training environment as it travels."""
        return self.installed.training()

    # -- what it says ---------------------------------------------------------------------------------------------

    @property
    def depth(self) -> int:
        """How many of its legs a slot may hold: one, or with very short ones so many that it is never without."""
        if len(self._durations) < 5:
            return 1
        median = statistics.median(self._durations)
        if median > SHORT_LEG_S:
            return 1
        return 1 + min(MOST_QUEUED, max(1, int(QUEUED_S / max(median, 1e-3))))

    @property
    def leaving(self) -> int:
        """How many of its legs were told to leave a slot and are still in it."""
        return sum(1 for leg in self.legs.values() if leg.stop is not None and leg.slot is not None)

    def hear(self, leg: Leg, message: Message) -> None:
        """What one of its legs says."""
        now = time.monotonic()
        if leg.began is not None and message["op"] != "left":
            self._patience.heard_after(now - leg.heard)
        leg.heard = now
        match message["op"]:
            case "begun":
                self._begun(leg, message)
            case "points":
                self._points(leg, message["rows"])
            case "level":
                self._level(leg, message["step"], message["metrics"])
            case "saved":
                self._heard_saved(leg, message)
            case "says":
                said = leg.detail.setdefault("says", [])
                if message["text"] not in said:
                    said.append(message["text"])
                self.series.put_leg(leg.trial, leg.attempt, detail=dict(leg.detail))
                self.shown.say(message["text"])
            case "seen":
                leg.detail["seen"] = self._used.take(message["seen"], self._host(leg))
                self._kept.note(message["seen"]["files"])
                self.series.put_leg(leg.trial, leg.attempt, detail=dict(leg.detail))
            case "left":
                self._left(leg, message)

    def _begun(self, leg: Leg, message: Message) -> None:
        leg.began = time.monotonic()
        leg.step = leg.start = message.get("step", leg.start)
        if leg.start > self._checkpoints.get(leg.trial, 0):
            self._saved(leg.trial, leg.start)  # it was there, and its word was lost
        for one in message.get("skipped", ()) if (leg.trial, leg.attempt) not in self._skipped else ():
            self._lines.append({"kind": "Skipped", "trial": leg.trial, "attempt": leg.attempt, **one})
        leg.detail |= {k: message[k] for k in DETAIL if k in message}
        if "seen" in leg.detail:
            leg.detail["seen"] = self._used.take(message["seen"], self._host(leg))
        self._told_lacks(message.get("lacks", []))
        self.shown.resumed(leg.trial, (message.get("found") or {}).get("inexact") or [])
        self._kept.note(leg.detail.get("seen", {}).get("files", {}))
        self.series.put_leg(
            leg.trial,
            leg.attempt,
            start=leg.start,
            worker=message.get("worker"),
            pid=message.get("pid"),
            began=message.get("at"),
            detail=dict(leg.detail),
        )
        self._put_trial(leg.trial)

    @staticmethod
    def _host(leg: Leg) -> str:
        """The machine on which ``leg`` trains, as far as it has said."""
        return str((leg.detail.get("environment") or {}).get("host") or "")

    def _told_lacks(self, names: list[str]) -> None:
        """Secrets of the notebook that were not at hand when a leg began: said once, until that changes."""
        if names != self._lacks:
            self._lacks = names
            self._lines.append({"kind": "Lacks", "names": names})
            self.series.put_meta("lacks", names)

    def _heard_saved(self, leg: Leg, message: Message) -> None:
        step, inside = message["step"], message.get("inside", 0)
        self.largest = max(self.largest, message.get("bytes", 0))
        self.heard_bytes += message.get("bytes", 0)
        self._around.written()
        if message.get("passing"):
            self._passing.add(leg.trial)
        # Between levels there may be one a second: they are journaled where a later engine must judge faults by them.
        # Which is the newest, the next leg finds for itself.
        if not message.get("passing") or self._faults.troubled(leg.trial):
            where: dict[str, Any] = {"inside": inside} if inside else {}
            value = leg.goal[1] if leg.goal is not None and leg.goal[0] == step else leg.known.get(step)
            if value is not None:
                where["value"] = plain_value(value)
            self._lines.append({"kind": "Saved", "trial": leg.trial, "attempt": leg.attempt, "step": step, **where})
        self._saved(leg.trial, step, inside)
        leg.saved(message)
        if self.spec.storage:
            self._around.saved(self, leg.trial, passing=bool(message.get("passing")))
            trouble = self._around.storage_trouble(self)
            if trouble is not None:
                leg.detail["storage"] = trouble
            else:
                leg.detail.pop("storage", None)
        self.series.put_leg(leg.trial, leg.attempt, checkpoint=step, detail=dict(leg.detail))

    def _points(self, leg: Leg, rows: list[list[Any]]) -> None:
        self.series.add_points((leg.trial, *row) for row in rows)
        self._teller.points(leg.trial, rows)
        for name, step, index, value, _ in rows:
            if name == self.spec.goal.metric and index == 0:
                self.shown.know(leg.trial, step, value)
                leg.goal = (step, value)
            if index == 0:
                self._turned(leg, step)
            leg.step = max(leg.step, step)
        self._put_trial(leg.trial)
        self._probe_answered()

    def _level(self, leg: Leg, step: int, metrics: Metrics) -> None:
        leg.step = max(leg.step, step)
        self._turned(leg, step)
        value = metrics[self.spec.goal.metric]
        self.shown.know(leg.trial, step, value, metrics)
        self._probe_answered()
        if step < leg.until:
            self.tell(Reached(leg.trial, step, value))

    def _probe_answered(self) -> None:
        if not self.probed:
            self.probed = True
            self._around.rebalance()

    def _left(self, leg: Leg, message: Message) -> None:
        if self.legs.get(leg.trial) is leg:
            del self.legs[leg.trial]
        if message.get("seconds") is not None:
            self._durations.append(message["seconds"])
        outcome, step = message["outcome"], message.get("step")
        if step is None:
            step = leg.step
        value = message.get("metrics", {}).get(self.spec.goal.metric)
        reason = message.get("reason") or said(message)
        if "cut_s" in message:
            reason = self._cut[leg.trial] = cut(reason, message["cut_s"], self._checkpoints.get(leg.trial, 0))
        cause = message.get("cause") or (message.get("error") or {}).get("cause") or "exception"
        if outcome == "stopped" and leg.hung is not None:
            outcome, cause, reason = "died", "hang", f"no report for {leg.hung:.0f} s"
        if outcome == "stopped" and leg.stop is None:
            outcome, cause = "died", "cluster"  # it was not this experiment that stopped it
        if leg.stop is not None and outcome in ("failed", "died") and leg.hung is None:
            outcome = "stopped"
        error = message.get("error")
        self._lines.append(
            {
                "kind": "LegLeft",
                "trial": leg.trial,
                "attempt": leg.attempt,
                "outcome": outcome,
                "step": step,
                "cause": cause if outcome in ("failed", "died") else None,
                "reason": reason,
                "error": {k: error.get(k) for k in ERROR if k in error} if error else None,
            }
        )
        self.series.put_leg(
            leg.trial, leg.attempt, ended=self._now(), left=time.time(), outcome=outcome, reason=reason, step=step
        )
        if outcome in ("reached", "completed"):
            self._wanted.pop(leg.trial, None)
            self.shown.steps_done += max(0, step - leg.start)
            levels = self.search.levels(leg.trial)
            self.verification.resumed(leg.trial, leg.start, step, next((at for at in levels if at > leg.start), step))
            self.shown.know(leg.trial, step, value)
            self.tell(Ended(leg.trial, step, value) if outcome == "completed" else Reached(leg.trial, step, value))
            self._probe_answered()
        elif outcome == "stopped":
            if self.spec.storage and leg.trial in self._passing:
                self._around.saved(self, leg.trial, passing=False)  # it may be paused for long: its newest goes now
            self.tell(Left(leg.trial))
        else:
            self._went_wrong(leg, cause, step, error, reason)
        self._around.rebalance()

    def _went_wrong(self, leg: Leg, cause: str, step: int, error: dict[str, Any] | None, reason: str) -> None:
        if error and error.get("traceback"):
            self.shown.errors[leg.trial] = error["traceback"]
        verdict = self._faults.judge(leg.trial, cause, step, error, reason, alone=self._is_alone(leg.trial))
        way = (cause, str((error or {}).get("type") or ""))
        self._around.went_wrong(self, leg, way)
        if verdict.again:
            self._retries += 1
            self._waits[leg.trial] = time.monotonic() + verdict.wait_s
            self._wants(leg.trial, verdict, leg.slot.worker if leg.slot is not None else None)
            self.tell(Lost(leg.trial, verdict.reason))
            return
        if not self.probed:
            self._probe_failures.append((cause, (error or {}).get("type"), (error or {}).get("line")))
            same = len(self._probe_failures) >= PROBES and len(set(self._probe_failures[-PROBES:])) == 1
            if same or cause == "refused":
                # One typing error costs two trials and not eighty; a configuration that fails costs only itself.
                why = f"no trial got as far as a first report: {verdict.reason}"
                self.tell(StopAsked(None, why, "failed"))
        self.tell(Failed(leg.trial, verdict.reason))

    def _wants(self, trial: int, verdict: Verdict, worker: str | None) -> None:
        """Where the next leg of ``trial`` is to train, as the verdict on the last one has it."""
        self._wanted[trial] = {"alone": verdict.alone or self._is_alone(trial), "avoid": worker}

    def _is_alone(self, trial: int) -> bool:
        """Whether the newest leg of ``trial`` has, or had, its machine for itself."""
        return bool(self._wanted.get(trial, {}).get("alone"))

    def _stop_hanging(self, now: float) -> None:
        """Stop legs that say nothing for too long."""
        asleep = self._patience.asleep(now)
        for leg in list(self.legs.values()):
            leg.heard += asleep
            patience = self._patience.limit(leg.trial)
            if patience is None or leg.began is None or leg.stop is not None or now - leg.heard <= patience:
                continue
            leg.hung, leg.stop = now - leg.heard, "it hangs"
            self._patience.hung(leg.trial)
            self._around.stop_leg(leg, f"no report for {leg.hung:.0f} s", None)

    def _saved(self, trial: int, step: int, inside: int = 0) -> None:
        self._checkpoints[trial] = max(step, self._checkpoints.get(trial, 0))
        self._faults.saved(trial, step, inside)

    def _tidy(self, trial: int) -> None:
        """Its trial is over: a checkpoint between levels, left by a leg that was stopped there, is of no use."""
        if trial in self._passing:
            self._passing.discard(trial)
            asyncio.get_running_loop().run_in_executor(None, self._drop_passing, trial)

    def _drop_passing(self, trial: int) -> None:
        drop_passing(self.paths.trial(trial))
        if self.spec.storage:
            self._around.saved(self, trial, passing=False)

    def _put_trial(self, number: int, reason: str | None = None) -> None:
        attempt, restarts = self._attempts.get(number, 0), self._faults.restarts(number)
        self.shown.put_trial(number, self.legs.get(number), attempt, restarts, reason)
