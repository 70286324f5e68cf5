"""One experiment: take a fact, journal it, ask the search, carry out. Law: the cause is on disk before its effect."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

from workbench.cluster.backend import Message
from workbench.compare.verdict import conclusion
from workbench.engine.installed import ACCEPTED
from workbench.engine.leg import Leg, started
from workbench.engine.legs import Legs, Surroundings
from workbench.engine.lost import Loss
from workbench.engine.patience import checked_limit
from workbench.engine.retainer import Retainer
from workbench.errors import BadOption, ClusterError, StoreError, Unreadable
from workbench.records import (
    ENDED,
    CapacityChanged,
    Ended,
    ExperimentState,
    Extended,
    Fact,
    Finish,
    Instruction,
    Left,
    PauseCause,
    Reached,
    ResumeAsked,
    Run,
    Settle,
    Spec,
    Stop,
    StopAsked,
    fact_from_line,
    to_line,
)
from workbench.search.life import Life
from workbench.store import Store
from workbench.store.journal import OWN, Journal
from workbench.store.recalled import check_order, lines_of, nonsense

#: Seconds before writing again after the disk refused.
RETRY_WRITE_S = 1.0

log = logging.getLogger("workbench.engine")


class ExperimentLoop(Legs):
    """Runs one experiment from its spec and journal to its end."""

    def __init__(self, store: Store, spec: Spec, around: Surroundings, now: Callable[[], str]) -> None:
        # Read before it is opened to be written, which cuts off what is no line.
        self._recalled = lines_of(store.experiment(spec.id))
        self.journal = Journal.open(store.experiment(spec.id).journal)
        try:
            super().__init__(store, spec, around, now)
        except BaseException:
            self.journal.close()
            raise
        self.life = Life()
        #: Why the disk refuses what is to be written, while it does.
        self.disk: str | None = None
        self.finished = asyncio.Event()
        #: What a replay or repeats have shown, once they ended.
        self.conclusion: dict[str, Any] = {}
        #: When its time is over. Wall time: a limit holds over engines that come and go.
        self._deadline: datetime | None = None
        self._inbox: deque[Fact] = deque()
        self._wake = asyncio.Event()
        #: Whoever waits until what it was told is on the disk.
        self._keeping: list[asyncio.Future[None]] = []
        #: Requests by which it was made longer.
        self.extended_by: set[str] = set()
        self._capacity = 0
        #: Why some of its legs wait for a slot, where other engines hold them.
        self._lack: str | None = None
        self._pump: asyncio.Task[None] | None = None
        self.retainer = Retainer(spec, self.paths, self.search)
        self._loss = Loss(spec, self.paths, self.series, self.journal, now)
        self._mending = asyncio.Lock()

    # -- beginning and recovering ---------------------------------------------------------------------------------

    def open(self) -> None:
        """Read the journal again, start what it says should run, and go on from there."""
        lines, self._recalled = self._recalled, []
        if not lines:
            self.journal.append({"kind": "Began", "experiment": self.spec.id, "label": self.spec.label})
        for line in lines:
            self._recall_soundly(line)
        is_lost = self._loss.look(lines)
        if is_lost:
            self._show_again(lines)
        self.shown.put_planned()
        self.shown.recall(self.series)
        rows = {(leg["trial"], leg["attempt"]): leg for leg in self.series.legs()}
        for trial, attempt in rows:  # a journal that lost its end must not give an attempt's number twice
            self._attempts[trial] = max(attempt, self._attempts.get(trial, 0))
        saved = (leg["detail"].get("saved") or {} for leg in rows.values() if leg.get("detail"))
        self.largest = max((one.get("bytes", 0) for one in saved), default=0)
        if not self.finished.is_set() or self.series.missing or is_lost or self._teller.is_pending:
            for number in self.search.trials:
                self._put_trial(number)
        for number in self.search.leaving:
            self.tell(Left(number))  # it was told to leave, and whatever trained it is gone
        outstanding = self.search.outstanding()
        adopted = {order.trial: one for order in outstanding if (one := self._adopted(order, rows)) is not None}
        again = [order for order in outstanding if order.trial not in adopted]
        legs = [self._prepared(order, "the engine started again: ") for order in again]
        if legs:
            self._begin(self._now())
        for leg in legs:
            self.journal.append(started(leg))
        self.journal.commit()
        for leg in legs:
            self._around.dispatch(self, leg)
        self._drop_checks()
        self._put_state()
        if self.finished.is_set() and self.tells:
            self._digest()
        self._teller.tell(self._teller.newest)
        for leg, survivor in adopted.values():
            self._around.adopt(self, leg, survivor)
            if self.legs.get(leg.trial) is leg:  # else it has left meanwhile
                self._taken_up(leg)
        self._pump = asyncio.get_running_loop().create_task(self._run())
        self._wake.set()

    def _recall_soundly(self, line: dict[str, Any]) -> None:
        """Read a line again. Raises Unreadable for one that makes no sense after those before it."""
        try:
            self._recall(line)
            check_order(self.paths, line, self.search.trials)
        except Unreadable:
            raise
        except Exception as error:
            raise nonsense(self.paths, line, repr(error)[:200]) from error

    def _recall(self, line: dict[str, Any]) -> None:
        self.retainer.take(line, line["n"])
        fact = fact_from_line(line)
        if fact is not None:
            if isinstance(fact, Reached | Ended):
                self.probed = True
                self.shown.know(fact.trial, fact.step, fact.value)
            self._note_wish(fact, line["at"])
            if isinstance(fact, Extended):
                self._reopen()
            for instruction in self.search.handle(fact):
                if isinstance(instruction, Finish):
                    self._finish(instruction, line["at"])
                elif isinstance(instruction, Settle) and instruction.state in ENDED:
                    self.shown.ended[instruction.trial] = line["at"]
                elif isinstance(instruction, Settle | Run):
                    self.shown.ended.pop(instruction.trial, None)
            if isinstance(fact, Extended):
                self._was_extended(fact, line["at"])
        elif line["kind"] == "LegStarted":
            self._attempts[line["trial"]] = self._begun_attempts[line["trial"]] = line["attempt"]
            self._begin(line["at"])
        elif line["kind"] == "LegLeft":
            self._recall_left(line)
        elif line["kind"] == "Saved":
            self._saved(line["trial"], line["step"], line.get("inside", 0))
        elif line["kind"] == "Skipped":
            self._skipped.add((line["trial"], line["attempt"]))
        elif self._teller.recall(line):
            pass
        elif line["kind"] == ACCEPTED:
            self.installed.recall(line)
        else:
            self.verification.recall(line)

    def _recall_left(self, line: dict[str, Any]) -> None:
        trial, error = line["trial"], line.get("error")
        self._begun_attempts.pop(trial, None)
        if line["outcome"] in ("failed", "died"):
            alone = self._is_alone(trial)
            verdict = self._faults.judge(trial, line["cause"], line["step"] or 0, error, line["reason"], alone=alone)
            self._wants(trial, verdict, None)
            self._retries += verdict.again
        elif line["outcome"] in ("reached", "completed"):
            self._wanted.pop(trial, None)

    def resume(self, by: str) -> None:
        """A person wants it to go on, with whatever packages are installed now."""
        self._note(self.installed.accept(self.used_packages))
        self.tell(ResumeAsked(by))

    def _note_wish(self, fact: Fact, at: str) -> None:
        if isinstance(fact, Extended):
            self.extended_by.add(fact.request)
            if self.life.end is not None:
                return  # it is opened again
        self.life = self.life.after(fact, at)
        if self.life.state in ("paused", "stopping"):
            self.verification.make_room("the experiment leaves its slots")

    # -- a series that was lost ---------------------------------------------------------------------------------------

    def _show_again(self, lines: list[dict[str, Any]]) -> None:
        """Put what the journal knows besides trials, legs and points into a series that was made anew."""
        self.verification.put_back()
        self._teller.put_back()
        for line in lines:
            if line["kind"] == "Concluded":
                self.conclusion = {key: value for key, value in line.items() if key not in (*OWN, "kind")}
        for key, found in self.conclusion.items():
            self.series.put_meta(key, found)

    @property
    def lost(self) -> dict[str, Any] | None:
        """What is said of curves that were lost; None where none were."""
        return self._loss.said

    async def mend(self) -> None:
        """Put back what can be, where the series was found broken while this engine had it open."""
        async with self._mending:
            while self.series.broken:
                loop = asyncio.get_running_loop()
                lines = await loop.run_in_executor(None, self._loss.put_back, self.series.broken.pop())
                self._show_again(lines)
                self.shown.put_planned()
                for number in self.search.trials:
                    self._put_trial(number)
                for leg in self.legs.values():
                    self._put_leg(leg)
                self._put_state()

    # -- being extended -------------------------------------------------------------------------------------------

    @property
    def tells(self) -> bool:
        """Whether somebody is still to be told of it."""
        return self._teller.is_pending

    @property
    def is_telling(self) -> bool:
        """Whether somebody is being told, or what came of it is not on the disk."""
        return self.tells or (self._teller.newest > 0 and (bool(self._lines) or self.journal.durable < self.journal.n))

    def extend(self, fact: Extended) -> None:
        """Make the search longer, whether it runs or has ended. Raises BadOption where that makes no sense."""
        label = self.spec.label
        # What the search has not taken yet counts: requests come several at once.
        stops = self.life.is_stopping or any(isinstance(one, StopAsked) and one.trial is None for one in self._inbox)
        if stops and not self.finished.is_set():
            raise BadOption(f"{label} is being stopped; wanted a search that runs or has ended. Try again in a moment.")
        if any(isinstance(one, Extended) for one in self._inbox):
            raise BadOption(f"{label} is being extended; wanted one extension at a time. Try again in a moment.")
        if fact.seconds is not None:
            checked_limit(fact.seconds, f"{label} is to be extended by {fact.seconds:g} s")
        if not fact.trials and fact.last is None and (fact.seconds is None or self.state == "completed"):
            why = (
                "has done all it was to do, so more time changes nothing"
                if fact.seconds
                else "is to be extended by nothing"
            )
            raise BadOption(f"{label} {why}; wanted more trials or more steps. Write --trials 20 or --steps 81.")
        self.search.extension(fact)
        if self.finished.is_set():
            # Whoever waits for its end must not take the former one for it; on a full disk nothing has changed.
            life = self.life.extended()
            self.shown.put_header(life.state, life.reason, life.started, None, self.legs.values())
            try:
                self.series.flush()
            except StoreError:
                self._put_state()
                raise
        self._reopen()
        self._put_state()
        self._inbox.append(fact)
        self._wake.set()

    def _reopen(self) -> None:
        if self.finished.is_set():
            self.finished.clear()
            self.life = self.life.extended()
            self._capacity = 0

    def _was_extended(self, fact: Extended, at: str) -> None:
        """The search has taken it, at that time."""
        moment = datetime.fromisoformat(at)
        if self._deadline is not None and self._deadline <= moment:
            self._deadline = None
        if fact.seconds is not None:
            self._deadline = _later(self._deadline or moment, fact.seconds)
        self.shown.put_planned()

    # -- facts in -------------------------------------------------------------------------------------------------

    def tell(self, *facts: Fact) -> None:
        """Facts that happened; they are journaled and handled together soon. Late ones change nothing any more."""
        if self.finished.is_set():
            return
        self._inbox.extend(facts)
        self._wake.set()

    async def kept(self) -> None:
        """Wait until all that it was told so far is on the disk."""
        if self._pump is None or self._pump.done():
            if self.trouble is not None:
                raise ClusterError(f"{self.spec.label} has failed inside: {self.trouble!r}.")
            return
        told = asyncio.get_running_loop().create_future()
        self._keeping.append(told)
        self._wake.set()
        await told

    def fail(self, why: str) -> None:
        """It cannot be trained here."""
        self.verification.drop(why)
        self.tell(StopAsked(None, why, "failed"))

    def told_lack(self, lack: str | None) -> None:
        """Other engines hold slots that its legs wait for, or do so no more."""
        self._lack = lack
        for leg in self.legs.values() if lack is not None else ():
            if leg.slot is None:
                self._put_trial(leg.trial, lack)
        if not self.finished.is_set():
            self._put_state()

    @property
    def state(self) -> ExperimentState:
        """How it stands, its slots counted."""
        return self._seen[0]

    @property
    def reason(self) -> str:
        """Why it stands so, in words."""
        return self._seen[1]

    @property
    def _seen(self) -> tuple[ExperimentState, str]:
        return self.life.seen([leg.slot is not None for leg in self.legs.values()], self._lack, self.probed)

    @property
    def is_paused(self) -> bool:
        """Whether it was asked to pause, and not to go on since."""
        return self.life.pause is not None

    @property
    def pause(self) -> PauseCause | None:
        """Why it is paused; None where it is not."""
        return self.life.pause if self.state == "paused" else None

    @property
    def waits_for_consent(self) -> bool:
        """Whether it is paused because packages have changed where it trains."""
        return self.life.pause == "packages"

    @property
    def is_held(self) -> bool:
        """Whether it is paused for want of room on the disk; it goes on by itself when there is some."""
        return self.life.pause == "room"

    @property
    def rests(self) -> bool:
        """Whether it is paused, nothing of it is under way, and only a person can change that: it needs no engine."""
        is_quiet = not (self.legs or self._inbox or self._lines or self.is_telling or self.finished.is_set())
        return self.life.state == "paused" and not self.is_held and is_quiet

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

    # -- the pump -------------------------------------------------------------------------------------------------

    async def _run(self) -> None:
        while not self.is_over:
            await self._wake.wait()
            self._wake.clear()
            keeping, self._keeping = self._keeping, []
            facts: list[Fact] = []
            while self._inbox:
                facts.append(self._inbox.popleft())
            instructions = [i for fact in facts for i in self._handled(fact)]
            legs = [self._prepared(i) for i in instructions if isinstance(i, Run)]
            if legs:
                self._begin(self._now())
            while self._lines:
                line = self._lines.popleft()
                self.retainer.take(line, self.journal.append(line))
            for leg in legs:
                self.journal.append(started(leg))
            newest = self._teller.newest
            await self._commit()
            _let_go(keeping)
            self._carry_out(instructions, legs)
            self._teller.tell(newest)
            if any(isinstance(fact, Extended) for fact in facts):
                self._around.rebalance()
        _let_go(self._keeping)
        await self._close()

    def _handled(self, fact: Fact) -> list[Instruction]:
        try:
            instructions = self.search.handle(fact)
        except BadOption as error:
            if not isinstance(fact, Extended):
                raise
            # It made sense when it was asked for. Nothing has changed, and the search goes on without it.
            log.warning("%s is not extended: %s", self.spec.label, error)
            return []
        self._note_wish(fact, self._now())
        self._lines.append(to_line(fact))
        for instruction in instructions:
            self._lines.append(to_line(instruction))
            told = self._teller.ended(instruction.state) if isinstance(instruction, Finish) else None
            if told is not None:
                self._lines.append(told)
        if isinstance(fact, Extended):
            self._was_extended(fact, self._now())
        return instructions

    async def _commit(self) -> None:
        """Until the lines are on disk. A full disk makes the experiment wait here, and says so; nothing is lost."""
        loop = asyncio.get_running_loop()
        while True:
            try:
                await loop.run_in_executor(None, self._write)
                break
            except StoreError as error:
                self.disk = str(error)
                self._around.changed(self)
                await asyncio.sleep(RETRY_WRITE_S)
        self.disk = None

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
                        self._around.stop_leg(leg, reason, self._turn_s(leg) if then == "paused" else None)
                case Settle():
                    pass
                case Finish():
                    self._finish(instruction, self._now())
                    self._drop_checks()
                    self._digest()
                    self._wake.set()
            if isinstance(instruction, Settle):
                self._put_trial(instruction.trial, self._cut.pop(instruction.trial, instruction.reason))
            elif not isinstance(instruction, Finish):
                self._put_trial(instruction.trial, instruction.reason)
            if (
                isinstance(instruction, Settle)
                and instruction.state in ("stopped", "completed")
                and not self.retainer.history.trials[instruction.trial].goes_on
            ):
                self._tidy(instruction.trial)
        if any(isinstance(instruction, Stop) for instruction in instructions):
            self._around.rebalance()
        if not self.search.done:
            self._reopen()  # its end and its extension came in one breath
        self._put_state()

    def _digest(self) -> None:
        facts = {"started": self.life.started, "over": self.life.ended or self._now(), "retries": self._retries}
        self._teller.end(self.search.trials, self.shown, self.state, self.reason, **facts)

    def _finish(self, end: Finish, at: str) -> None:
        self.life = self.life.after(end, at)
        self.finished.set()

    def _begin(self, at: str) -> None:
        if self.life.started is None and self.spec.limit_s is not None:
            self._deadline = _later(datetime.fromisoformat(at), self.spec.limit_s)
        self.life = self.life.began(at)

    async def _close(self) -> None:
        self._put_state()
        loop = asyncio.get_running_loop()
        await self._commit()
        await self.mend()
        await loop.run_in_executor(None, self._loss.look_again)
        if (self.spec.replays or self.spec.repeats) and not self.conclusion:
            await loop.run_in_executor(None, self._conclude)
        await self._around.clean(self)
        await self._commit()
        await loop.run_in_executor(None, self.journal.close)
        await loop.run_in_executor(None, self.series.close)
        # Once more: what is closed is let go in the next turn.
        loop.call_soon(self._around.changed, self)

    @property
    def is_closed(self) -> bool:
        """Whether nothing of it is left to be written or cleaned up."""
        return self._pump is not None and self._pump.done()

    def _conclude(self) -> None:
        """Keep what training again has shown: in the journal, and for viewers."""
        try:
            self.conclusion = conclusion(self._store, self.spec)
        except Exception as error:  # the original may be damaged in any way; this experiment has ended well
            kind = "replay" if self.spec.replays else "repeat"
            self.conclusion = {kind: {"verdict": "failed", "words": f"failed: no comparison ({error!r})"}}
        self.journal.append({"kind": "Concluded", **self.conclusion})
        for key, found in self.conclusion.items():
            self.series.put_meta(key, found)

    async def closed(self) -> None:
        """Wait until all of it is on disk."""
        if self._pump is not None:
            await self._pump

    @property
    def trouble(self) -> BaseException | None:
        """What ended the loop before its time; None while it lives, and where it came to its own end."""
        if self._pump is None or not self._pump.done() or self._pump.cancelled():
            return None
        return self._pump.exception()

    def give_up(self, why: str) -> None:
        """End it as failed, as far as the disk takes that: something in here went wrong that is no fact of the search.

        The search itself is not asked. Whoever extends the experiment has it read again from its journal.
        """
        if self._pump is not None:
            self._pump.cancel()
        is_over = self.finished.is_set()
        if not is_over:
            self._finish(Finish("failed", why), self._now())
            _as_far_as_it_goes(lambda: self.journal.append(to_line(Finish("failed", why))))
            _as_far_as_it_goes(lambda: self.shown.give_up(why, self.life.ended or self._now()))
        _as_far_as_it_goes(self.journal.close)
        _as_far_as_it_goes(self.series.close)
        _let_go(self._keeping)

    def abandon(self) -> None:
        """Let go without an end: the engine leaves, and the next one goes on from the journal."""
        if self._pump is not None:
            self._pump.cancel()
        try:
            self.journal.close()
        finally:
            self.series.close()

    # -- checks of resuming ---------------------------------------------------------------------------------------

    @property
    def is_over(self) -> bool:
        """Whether it can be closed: its search has ended, all is written, and nothing is left to check."""
        waits = self._inbox or self._lines or self.verification.is_pending or self._teller.is_pending
        return self.finished.is_set() and not waits

    @property
    def may_check(self) -> bool:
        """Whether a check is due, and the experiment may hold a slot for it."""
        return self.verification.is_wanted and not (self.is_paused and not self.finished.is_set())

    def begin_check(self) -> tuple[Leg, Message]:
        """The leg of the check that is due, and what it is told."""
        leg = self.verification.begin()
        return leg, self.verification.message(leg, self.message(leg))

    def _drop_checks(self) -> None:
        if self.finished.is_set() and self.state != "completed":
            self.verification.drop(f"the experiment {'failed' if self.state == 'failed' else 'was stopped'}")

    def _note(self, line: dict[str, Any] | None) -> None:
        if line is not None:
            self._lines.append(line)
        self._wake.set()

    def check_time(self) -> None:
        """Called about once a second: the time limit, and legs that say nothing."""
        if self.finished.is_set():
            return
        trains = not self.is_paused and any(leg.began is not None for leg in self.legs.values())
        self._teller.look(self.legs, trains=trains)
        now = time.monotonic()
        if self._deadline is not None and not self.life.is_stopping and datetime.now(UTC) > self._deadline:
            allowed = (self._deadline - datetime.fromisoformat(self.life.started or self._now())).total_seconds()
            self._deadline = None
            self.tell(StopAsked(None, f"its time limit of {allowed:g} s is over"))
        self._stop_hanging(now)

    # -- what viewers see -----------------------------------------------------------------------------------------

    def _put_state(self) -> None:
        pause = {"cause": self.pause, "reason": self.life.why_paused} if self.pause else None
        self.series.put_meta("pause", pause)
        life = self.life
        self.shown.put_header(self.state, self.reason, life.started, life.ended, self.legs.values())
        self._around.changed(self)


def _later(moment: datetime, seconds: float) -> datetime:
    """So many seconds after ``moment``; the last moment there is, where that lies beyond all dates."""
    try:
        return moment + timedelta(seconds=seconds)
    except (OverflowError, ValueError):  # in a spec or journal that was written before limits were checked
        return datetime.max.replace(tzinfo=UTC)


def _as_far_as_it_goes(work: Callable[[], Any]) -> None:
    try:
        work()
    except Exception as error:
        log.error("what has failed is not written: %r", error)


def _let_go(waiting: list[asyncio.Future[None]]) -> None:
    for one in waiting:
        if not one.done():  # whoever waited may be gone
            one.set_result(None)
