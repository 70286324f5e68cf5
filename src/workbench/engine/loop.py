"""One experiment: take a fact, journal it, ask the search, carry out. Law: the cause is on disk before its effect."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from typing import Any

from workbench.engine.around import Places, Surroundings
from workbench.engine.asking.inbox import Inbox
from workbench.engine.ending import as_far_as_it_goes, close
from workbench.engine.extending import check_extension
from workbench.engine.judging.limit import Limit
from workbench.engine.judging.verify import Verification
from workbench.engine.legs.copies import Copies
from workbench.engine.legs.hearing import Hearing
from workbench.engine.legs.leg import Leg, started
from workbench.engine.legs.legbook import LegBook
from workbench.engine.legs.orders import leg_order
from workbench.engine.recalling import mend, recover
from workbench.engine.shown import Shown
from workbench.engine.telling.teller import Teller
from workbench.engine.tending.installed import Installed
from workbench.engine.tending.lost import Loss
from workbench.engine.tending.retainer import Retainer
from workbench.errors import BadOption, ClusterError, StoreError
from workbench.facts import (
    ENDS_BY_ITSELF,
    CapacityChanged,
    Extended,
    Fact,
    Finish,
    Instruction,
    PauseCause,
    Reached,
    Rest,
    ResumeAsked,
    Run,
    Settle,
    Stop,
    StopAsked,
    to_line,
)
from workbench.messages import FromLeg, Order, Saved
from workbench.records import ExperimentState, Spec
from workbench.search import Search
from workbench.search.life import Life
from workbench.store import Store
from workbench.store.journal import Journal
from workbench.store.recalled import lines_of
from workbench.store.series import Series

#: Seconds before writing again after the disk refused.
RETRY_WRITE_S = 1.0

log = logging.getLogger("workbench.engine")


class ExperimentLoop:
    """Runs one experiment from its spec and journal to its end."""

    def __init__(self, store: Store, spec: Spec, slots: Places, around: Surroundings, now: Callable[[], str]) -> None:
        self.spec = spec
        #: How many slots each leg needs, and how many it may take.
        self.size, self.largest = max(1, int(spec.slots_least or spec.slots)), max(1, int(spec.slots))
        self.paths = store.experiment(spec.id)
        self.store, self.slots, self.around, self.now = store, slots, around, now
        # Read before it is opened to be written, which cuts off a torn end.
        self._recalled = lines_of(self.paths)
        self.journal = Journal.open(self.paths.journal)
        try:
            self._assemble()
        except BaseException:
            self.journal.close()
            raise
        self.life = Life()
        #: Why the disk refuses what is to be written, while it does.
        self.disk: str | None = None
        self.finished = asyncio.Event()
        #: What a replay or repeats have shown, once they ended.
        self.conclusion: dict[str, Any] = {}
        self.limit = Limit(spec.limit_s)
        self._inbox = Inbox()
        #: Requests by which it was made longer.
        self.extended_by: set[str] = set()
        self.capacity = 0  # so many legs it may have under way
        #: Why some of its legs wait for a slot, where other engines hold them.
        self._lack: str | None = None
        self._pump: asyncio.Task[None] | None = None
        self._mending = asyncio.Lock()

    def _assemble(self) -> None:
        """Make what it is made of, each part of those before it."""
        spec, paths, now, stop = self.spec, self.paths, self.now, partial(self.slots.stop_leg, keep_s=None)
        self.search = Search.of(spec)
        self.legbook = LegBook(spec)
        self.series = Series.open(paths.series)
        self.shown = Shown(spec, self.search, self.series, now)
        self.teller = Teller(self.store, spec, self.series, self._note, now)
        self.installed = Installed(self.store, spec)
        self.verification = Verification(spec, paths, self.series, self._note, stop, now)
        self.hearing = Hearing(
            spec, paths, self.search, self.legbook, self.series, self.shown, self.teller, self.verification, now
        )
        self.copies = Copies(self)
        self.retainer = Retainer(spec, paths, self.search)
        self.loss = Loss(spec, paths, self.series, self.journal, now)

    # -- beginning and recovering ---------------------------------------------------------------------------------

    def open(self) -> None:
        """Read the journal again, start what it says should run, and go on from there."""
        lines, self._recalled = self._recalled, []
        recover(self, lines)
        # Whichever thread commits: a fact on disk must not refer to steps whose points a kill could still take.
        self.journal.first = self.series.flush
        self._put_state()
        if self.finished.is_set() and self.tells:
            self._digest()
        self.teller.tell(self.teller.newest)
        self._pump = asyncio.get_running_loop().create_task(self._run())
        self._inbox.ring()

    def resume(self, by: str) -> None:
        """A person wants it to go on, with whatever packages are installed now."""
        self._note(self.installed.accept(self.hearing.packages))
        self.tell(ResumeAsked(by))

    def note_wish(self, fact: Fact | Rest, at: str) -> None:
        """Note what a person or the engine wants of the whole experiment, or that nothing of it can run."""
        if isinstance(fact, Extended):
            self.extended_by.add(fact.request)
            if self.life.end is not None:
                return  # it is opened again
        self.life = self.life.after(fact, at)
        if self.life.state in ("paused", "stopping"):
            self.verification.make_room("the experiment leaves its slots")

    async def mend(self) -> None:
        """Put back what can be, where the series was found broken while this engine had it open."""
        async with self._mending:
            while self.series.broken:
                await mend(self, self.series.broken.pop())
                self._put_state()

    # -- being extended -------------------------------------------------------------------------------------------

    @property
    def tells(self) -> bool:
        """Whether notifications are still to be sent."""
        return self.teller.is_pending

    @property
    def is_telling(self) -> bool:
        """Whether a notification is being sent, or its result is not on the disk yet."""
        return self.tells or (
            self.teller.newest > 0 and (bool(self._inbox.lines) or self.journal.durable < self.journal.n)
        )

    def extend(self, fact: Extended) -> None:
        """Make the search longer, whether it runs or has ended. Raises BadOption if that is not valid."""
        check_extension(self.spec, self.life, self.state, self._inbox.facts, fact)
        self.search.extension(fact)
        if self.finished.is_set():
            # A caller that waits for its end must not see the former one; on a full disk nothing has changed.
            life = self.life.extended()
            self.shown.put_header(life.state, life.reason, life.started, None, self.legbook.legs.values())
            try:
                self.series.flush()
            except StoreError:
                self._put_state()
                raise
        self.reopen()
        self._put_state()
        self._inbox.tell(fact)

    def reopen(self) -> None:
        """It has ended, and goes on."""
        if self.finished.is_set():
            self.finished.clear()
            self.life = self.life.extended()
            self.capacity = 0

    def was_extended(self, fact: Extended, at: str) -> None:
        """The search has taken it, at that time."""
        self.limit.extend(at, fact.seconds)
        self.shown.put_planned()

    # -- legs -----------------------------------------------------------------------------------------------------

    def message(self, leg: Leg) -> Order:
        """The leg as it travels to the worker (outer part) and on to the runner (``leg``)."""
        known, training = self.shown.known.get(leg.trial, 0), self.installed.training()
        # Very short legs queue for their slot; and the first promotion resumes, since it is checked.
        short, waits = self.legbook.depth > 1, self.verification.has_begun
        return leg_order(self.store, self.spec, self.search, leg, training, known, may_wait=waits, is_short=short)

    def hear(self, leg: Leg, message: FromLeg) -> None:
        """What one of its legs says."""
        heard = self.legbook.hear(leg, message, time.monotonic())
        if isinstance(message, Saved):
            self.copies.saved(leg, passing=message.passing)
        self._inbox.lines += heard.lines
        self._inbox.lines += self.hearing.show(leg, message, heard)
        if heard.way is not None and heard.lost_on is not None:
            self.slots.went_wrong(heard.lost_on, (self.spec.id, leg.trial), heard.way)
        if heard.outcome == "stopped":
            self.copies.stopped(leg.trial)
        if heard.facts:
            self.tell(*heard.facts)
        if heard.divided:
            self.shown.say(heard.divided)
        if heard.probed or heard.divided or heard.outcome is not None:
            self.slots.rebalance()

    # -- facts in -------------------------------------------------------------------------------------------------

    def tell(self, *facts: Fact) -> None:
        """Facts that happened; they are journaled and handled together soon. Late ones change nothing any more."""
        if not self.finished.is_set():
            self._inbox.tell(*facts)

    async def kept(self) -> None:
        """Wait until all that it was told so far is on the disk."""
        if self._pump is not None and not self._pump.done():
            await self._inbox.kept()
        if self.trouble is not None:
            raise ClusterError(f"{self.spec.label} has failed inside: {self.trouble!r}.")

    def fail(self, why: str) -> None:
        """It cannot be trained here."""
        self.verification.drop(why)
        self.tell(StopAsked(None, why, "failed"))

    def told_lack(self, lack: str | None) -> None:
        """Other engines hold slots that its legs wait for, or do so no more."""
        self._lack = lack
        for leg in self.legbook.legs.values() if lack is not None else ():
            if leg.slot is None:
                self.hearing.put_trial(leg.trial, lack)
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
        slots = [leg.slot is not None for leg in self.legbook.legs.values()]
        return self.life.seen(slots, self._lack, self.legbook.probed)

    @property
    def pause(self) -> PauseCause | None:
        """Why it is paused; None where it is not."""
        return self.life.pause if self.state == "paused" else None

    @property
    def rests(self) -> bool:
        """Whether it is paused, nothing of it is under way, and only a person can change that: it needs no engine."""
        is_quiet = not (self.legbook.legs or self._inbox or self.is_telling or self.finished.is_set())
        return self.life.state == "paused" and self.life.pause not in ENDS_BY_ITSELF and is_quiet

    def set_capacity(self, slots: int, legs: int) -> None:
        """How many slots are its share, and how many legs it may have under way, queued ones counted."""
        self.shown.share = slots
        if legs != self.capacity:
            self.capacity = legs
            self.tell(CapacityChanged(legs))

    @property
    def most(self) -> int:
        """The most legs it could use now: one until the probe has reported, else what its ``--parallel`` slots hold."""
        if self.finished.is_set():
            return 0
        return (self.spec.parallel or 1_000_000) // self.size * self.legbook.per_slot if self.legbook.probed else 1

    # -- the pump -------------------------------------------------------------------------------------------------

    async def _run(self) -> None:
        while not self.is_over:
            await self._inbox.news()
            facts = self._inbox.take()
            # One moment for a turn, in the journal as here: what is read again is what was seen.
            at = self.now()
            instructions = [i for fact in facts for i in self._handled(fact, at)]
            legs = [self.legbook.ordered(i) for i in instructions if isinstance(i, Run)]
            if legs:
                self.begin(at)
            while self._inbox.lines:
                line = self._inbox.lines.popleft()
                self.retainer.take(line, self.journal.append(line, at))
            for leg in legs:
                self.journal.append(started(leg), at)
            newest = self.teller.newest
            await self.commit()
            self._inbox.written()
            self._carry_out(instructions, legs, at)
            self.hearing.handled(facts)
            self.slots.go_on(self, [fact for fact in facts if isinstance(fact, Reached)])
            self.teller.tell(newest)
            if any(isinstance(fact, Extended) for fact in facts):
                self.slots.rebalance()
        self._put_state()
        await self.commit()
        self._inbox.let_go()
        await self.mend()
        await close(self)

    def _handled(self, fact: Fact, at: str) -> list[Instruction]:
        try:
            instructions = self.search.handle(fact)
        except BadOption as error:
            if not isinstance(fact, Extended):
                raise
            # It made sense when it was asked for. Nothing has changed, and the search goes on without it.
            log.warning("%s is not extended: %s", self.spec.label, error)
            return []
        self.note_wish(fact, at)
        self._inbox.lines.append(to_line(fact))
        for instruction in instructions:
            self._inbox.lines.append(to_line(instruction))
            if isinstance(instruction, Finish) and (told := self.teller.ended(instruction.state)) is not None:
                self._inbox.lines.append(told)
            elif isinstance(instruction, Rest):
                self.note_wish(instruction, at)
        if isinstance(fact, Extended):
            self.was_extended(fact, at)
        return instructions

    async def commit(self) -> None:
        """Until points and lines are on disk. A full disk makes the experiment wait here, and says so."""
        while True:
            try:
                await asyncio.to_thread(self.journal.commit)
                break
            except StoreError as error:
                self.disk = str(error)
                self.around.changed(self)
                await asyncio.sleep(RETRY_WRITE_S)
        self.disk = None

    def _carry_out(self, instructions: list[Instruction], legs: list[Leg], at: str) -> None:
        ready = iter(legs)
        for instruction in instructions:
            match instruction:
                case Run(trial=trial, reason=reason):
                    self.slots.dispatch(self, next(ready))
                    self.hearing.put_trial(trial, reason)
                case Stop(trial=trial, reason=reason, then=then):
                    if (leg := self.legbook.legs.get(trial)) is not None:
                        leg.stop, leg.makes_room = reason, then == "paused"
                        self.series.put_leg(leg.trial, leg.attempt, decided=time.time())
                        keep_s = self.legbook.turn_s(leg, time.monotonic()) if then == "paused" else None
                        self.slots.stop_leg(leg, reason, keep_s)
                    self.hearing.put_trial(trial, reason)
                case Settle(trial=trial, reason=reason, state=state):
                    self.hearing.put_trial(trial, self.legbook.cut.pop(trial, reason))
                    if state in ("stopped", "completed") and not self.retainer.history.trials[trial].goes_on:
                        self.copies.over(trial)
                case Finish():
                    self.end(instruction, at)
                    self.drop_checks()
                    self._digest()
                    self._inbox.ring()
        if any(isinstance(instruction, Stop) for instruction in instructions):
            self.slots.rebalance()
        if not self.search.done:
            self.reopen()  # its end and its extension came in one breath
        self._put_state()

    def _digest(self) -> None:
        facts = {"started": self.life.started, "over": self.life.ended or self.now(), "retries": self.legbook.retries}
        self.teller.end(self.search.trials, self.shown, self.state, self.reason, **facts)

    def end(self, end: Finish, at: str) -> None:
        """It ended at that time."""
        self.life = self.life.after(end, at)
        self.finished.set()

    def begin(self, at: str) -> None:
        """Legs are begun at that time."""
        if self.life.started is None:
            self.limit.begin(at)
        self.life = self.life.began(at)

    @property
    def is_closed(self) -> bool:
        """Whether nothing of it is left to be written or cleaned up."""
        return self._pump is not None and self._pump.done()

    async def closed(self) -> None:
        """Wait until all of it is on disk."""
        if self._pump is not None:
            await self._pump

    @property
    def trouble(self) -> BaseException | None:
        """What ended the loop before its time; None while it runs, and if it ended by itself."""
        if self._pump is None or not self._pump.done() or self._pump.cancelled():
            return None
        return self._pump.exception()

    def give_up(self, why: str) -> None:
        """End it as failed, as far as the disk takes that: an error in this code, not in the training.

        The search is not told. Extending the experiment reads it again from its journal.
        """
        if self._pump is not None:
            self._pump.cancel()
        if not self.finished.is_set():
            at = self.now()
            self.end(Finish("failed", why), at)
            as_far_as_it_goes(lambda: self.journal.append(to_line(Finish("failed", why)), at))
            as_far_as_it_goes(lambda: self.shown.give_up(why, at))
        self.journal.first = lambda: as_far_as_it_goes(self.series.flush)  # the series may be what has failed
        as_far_as_it_goes(self.journal.close)
        as_far_as_it_goes(self.series.close)
        self._inbox.let_go()

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
        waits = self._inbox or self.verification.is_pending or self.teller.is_pending
        return self.finished.is_set() and not waits

    @property
    def may_check(self) -> bool:
        """Whether a check is due, and the experiment may hold a slot for it."""
        return self.verification.is_wanted and (self.life.pause is None or self.finished.is_set())

    def begin_check(self) -> tuple[Leg, Order]:
        """The leg of the check that is due, and what it is told."""
        leg = self.verification.begin()
        return leg, self.verification.message(leg, self.message(leg))

    def drop_checks(self) -> None:
        """Drop the checks of an experiment that failed or was stopped."""
        if self.finished.is_set() and self.state != "completed":
            self.verification.drop(f"the experiment {'failed' if self.state == 'failed' else 'was stopped'}")

    def _note(self, line: dict[str, Any] | None) -> None:
        if line is not None:
            self._inbox.lines.append(line)
        self._inbox.ring()

    def check_time(self) -> None:
        """Called about once a second: the time limit, long set-ups, and legs that say nothing."""
        if not self.finished.is_set():
            trains = self.life.pause is None and any(leg.began is not None for leg in self.legbook.legs.values())
            self.teller.look(self.legbook.legs, trains=trains)
            if not self.life.is_stopping and (why := self.limit.over(datetime.now(UTC))) is not None:
                self.tell(StopAsked(None, why))
            if self.hearing.look():
                self._put_state()
        for leg in self.legbook.hanging(time.monotonic(), self.verification.leg):
            self.slots.stop_leg(leg, f"no report for {leg.hung:.0f} s", None)

    # -- what viewers see -----------------------------------------------------------------------------------------

    def _put_state(self) -> None:
        life = self.life
        self.series.put_meta("pause", {"cause": self.pause, "reason": life.why_paused} if self.pause else None)
        self.shown.put_header(self.state, self.reason, life.started, life.ended, self.legbook.legs.values())
        self.around.changed(self)
