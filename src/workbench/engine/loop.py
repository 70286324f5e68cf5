"""One experiment: take a fact, journal it, ask the search, carry out. Law: the cause is on disk before its effect."""

from __future__ import annotations

import asyncio
import math
import statistics
import time
from collections import deque
from collections.abc import Callable
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any, Protocol

from workbench.cluster.backend import Message
from workbench.engine.faults import Faults
from workbench.engine.leg import Leg, said, started
from workbench.engine.shown import Shown
from workbench.errors import StoreError
from workbench.records import (
    PROTOCOL,
    CapacityChanged,
    Ended,
    ExperimentState,
    Fact,
    Failed,
    Finish,
    Instruction,
    Left,
    Lost,
    Metrics,
    PauseAsked,
    Reached,
    ResumeAsked,
    Run,
    Settle,
    Spec,
    Stop,
    StopAsked,
    fact_from_line,
    to_line,
    trial_label,
)
from workbench.search import Search
from workbench.store import Store
from workbench.store.journal import Journal
from workbench.store.journal import read as read_journal
from workbench.store.series import Series

#: Legs shorter than this (median) get others queued behind them, so that Dask's latency is not waited for: so many
#: that a slot has about QUEUED_S seconds to do, and never more than MOST_QUEUED.
SHORT_LEG_S = 0.15
QUEUED_S = 0.03
MOST_QUEUED = 8
#: Seconds before writing again after the disk refused.
RETRY_WRITE_S = 1.0
#: Two trials that fail in the same way before anybody reported anything: the code is wrong, not their configuration.
PROBES = 2
PROBING = "the first trial is the probe; the others start after its first report"


class Surroundings(Protocol):
    """What an experiment's loop needs of the engine around it."""

    def dispatch(self, loop: ExperimentLoop, leg: Leg) -> None:
        """Start ``leg`` in a free slot, now or when there is one."""

    def stop_leg(self, leg: Leg, reason: str, keep: bool) -> None:
        """Make a leg leave, or drop it where it waits for a slot."""

    def rebalance(self) -> None:
        """Share the slots again: this experiment wants more or fewer."""

    def changed(self, loop: ExperimentLoop) -> None:
        """The experiment's line in the catalog changed."""


class ExperimentLoop:
    """Runs one experiment from its spec and journal to its end."""

    def __init__(self, store: Store, spec: Spec, around: Surroundings, now: Callable[[], str]) -> None:
        self.spec = spec
        self.paths = store.experiment(spec.id)
        self._store, self._around, self._now = store, around, now
        self.search = Search.of(spec)
        self.legs: dict[int, Leg] = {}
        self.state: ExperimentState = "waiting"
        self.reason = "it waits for a slot"
        self.probed = not spec.probe
        self.finished = asyncio.Event()
        self.started: str | None = None
        self._inbox: deque[Fact] = deque()
        self._lines: deque[dict[str, Any]] = deque()
        self._wake = asyncio.Event()
        self._attempts: dict[int, int] = {}
        self._checkpoints: dict[int, int] = {}
        self._faults = Faults(spec.max_restarts)
        self._waits: dict[int, float] = {}
        self._durations: deque[float] = deque(maxlen=15)
        self._probe_failures: list[tuple[Any, ...]] = []
        self._capacity = 0
        self._pausing = self._stopping = False
        self._pump: asyncio.Task[None] | None = None
        self.journal = Journal.open(self.paths.journal)
        self.series = Series.open(self.paths.series)
        self.shown = Shown(spec, self.search, self.series, now)

    # -- beginning and recovering ---------------------------------------------------------------------------------

    def open(self) -> None:
        """Read the journal again, start what it says should run, and go on from there."""
        lines = list(read_journal(self.paths.journal))
        if not lines:
            self.journal.append({"kind": "Began", "experiment": self.spec.id, "label": self.spec.label})
        for line in lines:
            self._recall(line)
        self.shown.put_planned()
        for number in self.search.trials:
            self._put_trial(number)
        for number in self.search.leaving:
            self.tell(Left(number))  # it was told to leave, and whatever trained it is gone
        legs = [self._prepared(order, "the engine started again: ") for order in self.search.outstanding()]
        for leg in legs:
            self.journal.append(started(leg))
        self.journal.commit()
        for leg in legs:
            self._around.dispatch(self, leg)
        self._put_state()
        self._pump = asyncio.get_running_loop().create_task(self._run())
        self._wake.set()

    def _recall(self, line: dict[str, Any]) -> None:
        fact = fact_from_line(line)
        if fact is not None:
            if isinstance(fact, Reached | Ended):
                self.probed = True
                self.shown.know(fact.trial, fact.step, fact.value)
            self._note_wish(fact)
            for instruction in self.search.handle(fact):
                if isinstance(instruction, Finish):
                    self.state, self.reason = instruction.state, instruction.reason
                    self.finished.set()
        elif line["kind"] == "LegStarted":
            self._attempts[line["trial"]] = line["attempt"]
            self.started = self.started or line["at"]
        elif line["kind"] == "LegLeft":
            self._recall_left(line)
        elif line["kind"] == "Saved":
            self._saved(line["trial"], line["step"])

    def _recall_left(self, line: dict[str, Any]) -> None:
        if line["outcome"] in ("failed", "died"):
            self._faults.judge(line["trial"], line["cause"], line["step"] or 0, line.get("error"), line["reason"])

    def _note_wish(self, fact: Fact) -> None:
        if isinstance(fact, PauseAsked):
            self._pausing = True
        elif isinstance(fact, ResumeAsked):
            self._pausing = False
        elif isinstance(fact, StopAsked) and fact.trial is None:
            self._stopping = True

    # -- facts in -------------------------------------------------------------------------------------------------

    def tell(self, *facts: Fact) -> None:
        """Facts that happened; they are journaled and handled together soon."""
        self._inbox.extend(facts)
        self._wake.set()

    def set_capacity(self, slots: int, legs: int) -> None:
        """How many slots are its share, and how many legs it may have under way, queued ones counted."""
        self.shown.share = slots
        if legs != self._capacity:
            self._capacity = legs
            self.tell(CapacityChanged(legs))

    @property
    def most(self) -> int:
        """The most legs it could use now: one until the probe has reported, else its ``--parallel``."""
        if self.finished.is_set():
            return 0
        if not self.probed:
            return 1
        return self.spec.parallel or 1_000_000

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
        leg.heard = time.monotonic()
        match message["op"]:
            case "begun":
                self._begun(leg, message)
            case "points":
                self._points(leg, message["rows"])
            case "level":
                self._level(leg, message["step"], message["metrics"])
            case "saved":
                self._lines.append(
                    {"kind": "Saved", "trial": leg.trial, "attempt": leg.attempt, "step": message["step"]}
                )
                self._saved(leg.trial, message["step"])
                self.series.put_leg(leg.trial, leg.attempt, checkpoint=message["step"])
            case "left":
                self._left(leg, message)

    def _begun(self, leg: Leg, message: Message) -> None:
        leg.began = time.monotonic()
        leg.step = leg.start = message.get("step", leg.start)
        self.series.put_leg(
            leg.trial,
            leg.attempt,
            start=leg.start,
            worker=message.get("worker"),
            pid=message.get("pid"),
            began=message.get("at"),
            detail={k: message[k] for k in ("found", "environment", "setup_s") if k in message},
        )
        self._put_trial(leg.trial)

    def _points(self, leg: Leg, rows: list[list[Any]]) -> None:
        self.series.add_points((leg.trial, *row) for row in rows)
        for name, step, index, value, _ in rows:
            if name == self.spec.goal.metric and index == 0:
                self.shown.know(leg.trial, step, value)
            leg.step = max(leg.step, step)
        self._put_trial(leg.trial)
        self._probe_answered()

    def _level(self, leg: Leg, step: int, metrics: Metrics) -> None:
        leg.step = max(leg.step, step)
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
        cause = message.get("cause") or (message.get("error") or {}).get("cause") or "exception"
        if outcome == "stopped" and leg.hung:
            outcome, cause, reason = "died", "hang", f"no report for {self.spec.hang_s:g} s"
        if leg.stop is not None and outcome in ("failed", "died") and not leg.hung:
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
                "error": {k: error.get(k) for k in ("type", "message", "line")} if error else None,
            }
        )
        self.series.put_leg(
            leg.trial, leg.attempt, ended=self._now(), left=time.time(), outcome=outcome, reason=reason, step=step
        )
        if outcome in ("reached", "completed"):
            self.shown.steps_done += max(0, step - leg.start)
            if value is None:
                value = math.nan
            self.shown.know(leg.trial, step, value)
            self.tell(Ended(leg.trial, step, value) if outcome == "completed" else Reached(leg.trial, step, value))
            self._probe_answered()
        elif outcome == "stopped":
            self.tell(Left(leg.trial))
        else:
            self._went_wrong(leg, cause, step, error, reason)
        self._around.rebalance()

    def _went_wrong(self, leg: Leg, cause: str, step: int, error: dict[str, Any] | None, reason: str) -> None:
        if error and error.get("traceback"):
            self.shown.errors[leg.trial] = error["traceback"]
        verdict = self._faults.judge(leg.trial, cause, step, error, reason)
        if verdict.again:
            self._waits[leg.trial] = time.monotonic() + verdict.wait_s
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

    # -- the pump -------------------------------------------------------------------------------------------------

    async def _run(self) -> None:
        while not (self.finished.is_set() and not self._inbox and not self._lines):
            await self._wake.wait()
            self._wake.clear()
            facts: list[Fact] = []
            while self._inbox:
                facts.append(self._inbox.popleft())
            instructions = [i for fact in facts for i in self._handled(fact)]
            legs = [self._prepared(i) for i in instructions if isinstance(i, Run)]
            while self._lines:
                self.journal.append(self._lines.popleft())
            for leg in legs:
                self.journal.append(started(leg))
            await self._commit()
            self._carry_out(instructions, legs)
        await self._close()

    def _handled(self, fact: Fact) -> list[Instruction]:
        self._note_wish(fact)
        self._lines.append(to_line(fact))
        instructions = list(self.search.handle(fact))
        self._lines.extend(to_line(instruction) for instruction in instructions)
        return instructions

    async def _commit(self) -> None:
        """Until the lines are on disk. A full disk makes the experiment wait here, and says so; nothing is lost."""
        loop = asyncio.get_running_loop()
        while True:
            try:
                await loop.run_in_executor(None, self._write)
                break
            except StoreError as error:
                self.reason = f"waiting: {error}"
                self._around.changed(self)
                await asyncio.sleep(RETRY_WRITE_S)

    def _write(self) -> None:
        # Points first: a fact that is acknowledged must not know of steps whose points a kill could still take.
        self.series.flush()
        self.journal.commit()

    def _carry_out(self, instructions: list[Instruction], legs: list[Leg]) -> None:
        ready = iter(legs)
        for instruction in instructions:
            match instruction:
                case Run():
                    self._around.dispatch(self, next(ready))
                case Stop(trial=trial, reason=reason, then=then):
                    leg = self.legs.get(trial)
                    if leg is not None:
                        leg.stop = reason
                        self.series.put_leg(leg.trial, leg.attempt, decided=time.time())
                        self._around.stop_leg(leg, reason, keep=then == "paused")
                case Settle():
                    pass
                case Finish(state=state, reason=reason):
                    self.state, self.reason = state, reason
                    self.finished.set()
                    self._wake.set()
            if not isinstance(instruction, Finish):
                self._put_trial(instruction.trial, instruction.reason)
        if any(isinstance(instruction, Stop) for instruction in instructions):
            self._around.rebalance()
        self._put_state()

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
        )
        self.legs[order.trial] = leg
        if self.started is None:
            self.started = self._now()
        return leg

    async def _close(self) -> None:
        self._put_state()
        loop = asyncio.get_running_loop()
        await loop.run_in_executor(None, self.journal.close)
        await loop.run_in_executor(None, self.series.close)
        self._around.changed(self)

    async def closed(self) -> None:
        """Wait until all of it is on disk."""
        if self._pump is not None:
            await self._pump

    def check(self) -> None:
        """Raise what ended the loop before its time: an engine must not go on with an experiment that stands still."""
        if self._pump is not None and self._pump.done() and not self._pump.cancelled():
            self._pump.result()

    def abandon(self) -> None:
        """Let go without an end: the engine leaves, and the next one goes on from the journal."""
        if self._pump is not None:
            self._pump.cancel()
        self.journal.close()
        self.series.close()

    # -- what a leg is told ---------------------------------------------------------------------------------------

    def leg_started(self, leg: Leg) -> None:
        """``leg`` was given to a slot."""
        leg.heard = time.monotonic()
        self.shown.first_leg_at = self.shown.first_leg_at or leg.heard
        self.series.put_leg(
            leg.trial,
            leg.attempt,
            start=leg.start,
            until=leg.until,
            slot=leg.slot.name if leg.slot else None,
            started=self._now(),
            reason=leg.reason,
        )
        self._put_trial(leg.trial, leg.reason)

    def message(self, leg: Leg) -> Message:
        """The leg as it travels to the worker (outer part) and on to the runner (``leg``)."""
        paths = self.paths.trial(leg.trial)
        return {
            "key": leg.key,
            "experiment": self.spec.id,
            "attempt": leg.attempt,
            "start": leg.start,
            "grace_s": self.spec.grace_s,
            "strict": self.spec.deterministic == "strict",
            "log": str(paths.log),
            "training": self.message_training(),
            "leg": {
                "protocol": PROTOCOL,
                "store": str(self._store.root),
                "experiment": self.spec.id,
                "trial": leg.trial,
                "attempt": leg.attempt,
                "start": leg.start,
                "until": leg.until,
                "levels": list(self.search.levels(leg.trial)),
                "max_steps": self.spec.scheduler.last,
                "configuration": self.search.configuration(leg.trial),
                "known_step": self.shown.known.get(leg.trial, 0),
                "resume": leg.start > 0 or leg.attempt > 1,
            },
        }

    def message_training(self) -> Message:
        """The training environment as it travels."""
        return asdict(self.spec.training)

    def check_time(self) -> None:
        """Called about once a second: the time limit, and legs that say nothing."""
        now = time.monotonic()
        limit = self.spec.limit_s
        if limit is not None and self.started and not self._stopping and _since(self.started) > limit:
            self._stopping = True
            self.tell(StopAsked(None, f"its time limit of {limit:g} s is over"))
        if self.spec.hang_s is not None:
            for leg in list(self.legs.values()):
                if leg.began is not None and leg.stop is None and now - leg.heard > self.spec.hang_s:
                    leg.hung, leg.stop = True, "it hangs"
                    self._around.stop_leg(leg, f"no report for {self.spec.hang_s:g} s", keep=False)

    # -- what viewers see -----------------------------------------------------------------------------------------

    def _saved(self, trial: int, step: int) -> None:
        self._checkpoints[trial] = max(step, self._checkpoints.get(trial, 0))
        self._faults.saved(trial, step)

    def _put_trial(self, number: int, reason: str | None = None) -> None:
        attempt, restarts = self._attempts.get(number, 0), self._faults.restarts(number)
        self.shown.put_trial(number, self.legs.get(number), attempt, restarts, reason)

    def _put_state(self) -> None:
        if not self.finished.is_set():
            if self._stopping:
                self.state, self.reason = "stopping", "asked to stop"
            elif self._pausing:
                self.state, self.reason = "paused", "asked to pause"
            elif self.legs:
                self.state, self.reason = "running", "training" if self.probed else PROBING
        self.shown.put_header(self.state, self.reason, self.started, self.legs.values())
        self._around.changed(self)


def _since(at: str) -> float:
    """Seconds of wall time since ``at``; an experiment's time limit holds over engines that come and go."""
    return (datetime.now(UTC) - datetime.fromisoformat(at)).total_seconds()
