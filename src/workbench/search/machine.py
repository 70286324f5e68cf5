"""The search core. Law: facts in, instructions out; no clock, no file, no randomness, and at most one leg per trial.

:meth:`Search.handle` is its only entry. The same arguments and the same facts in the same order give the same
instructions, however the facts are grouped: a search recovers by reading its journal again.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any, Literal

from workbench.facts import (
    CapacityChanged,
    Ended,
    Extended,
    Fact,
    Failed,
    Instruction,
    Left,
    Lost,
    PauseAsked,
    Reached,
    Rest,
    ResumeAsked,
    RoomAsked,
    Run,
    Settle,
    Stop,
    StopAsked,
)
from workbench.records import ENDED, Configuration, Goal, Scheduler, Searcher, Spec
from workbench.search.climb import Climb
from workbench.search.ending import finished, resting
from workbench.search.extension import extended
from workbench.search.interrupted import Interrupted
from workbench.search.plan import Plan, plan
from workbench.search.rule import Verdict, Words
from workbench.search.rules import rule_of
from workbench.search.searchers import Configurations, proposals
from workbench.search.trials import Trial, TrialView, Views
from workbench.space import Space
from workbench.standing import Best, Standings

__all__ = ["Search", "TrialView"]


class Search:
    """One experiment's decisions. Raises BadSpace and BadOption for arguments that cannot be searched."""

    def __init__(
        self,
        goal: Goal,
        space: Space,
        scheduler: Scheduler,
        searcher: Searcher = Searcher(),  # noqa: B008 - frozen
        seed: int = 0,
        trials: int | None = None,
        seeds: int = 1,
    ) -> None:
        self.goal = goal
        self.space = space
        #: The prediction from before anything ran.
        self.plan: Plan = plan(scheduler, space=space, searcher=searcher, trials=trials, seeds=seeds)
        self._words = Words(goal)
        self._rule = rule_of(self.plan, self._words)
        self._searcher = searcher
        self._configurations = Configurations(proposals(searcher, space, seed, self.plan.given))
        self._trials: dict[int, Trial] = {}
        #: Trials that hold a slot, in the order they took it. Trials are added only up to the number of slots.
        self._running: dict[int, Trial] = {}
        #: Trials whose leg was interrupted; they resume before new places are filled.
        self._interrupted = Interrupted()
        self._slots = 0
        self._paused = False
        #: How the user stopped the whole search.
        self._stopped: StopAsked | None = None
        self._ended: Counter[str] = Counter()
        self._standings = Standings(goal.mode, self.plan.members.count)
        #: The user has stopped single trials.
        self._was_asked = False
        #: Nothing can run until the user resumes a trial.
        self._resting = False
        self.done = False
        self._doors: dict[type, Callable[[Any, list[Instruction]], None]] = {
            Reached: self._reached,
            Ended: self._came_to_its_end,
            Failed: self._failed,
            Lost: self._lost,
            Left: self._left,
            CapacityChanged: self._capacity_changed,
            StopAsked: self._stop_asked,
            PauseAsked: self._pause_asked,
            RoomAsked: self._room_asked,
            ResumeAsked: self._resume_asked,
            Extended: self._extended,
        }

    @classmethod
    def of(cls, spec: Spec) -> Search:
        """The search that a spec describes."""
        space = Space.from_json(spec.space)
        return cls(spec.goal, space, spec.scheduler, spec.searcher, spec.seed, spec.trials, spec.seeds_each)

    # -- the entry

    def handle(self, *facts: Fact) -> list[Instruction]:
        """The instructions that these facts cause, in order. Late and repeated facts cause none."""
        out: list[Instruction] = []
        for fact in facts:
            if not self.done or isinstance(fact, Extended):
                self._doors[type(fact)](fact, out)
        return out

    # -- facts

    def _capacity_changed(self, fact: CapacityChanged, out: list[Instruction]) -> None:
        self._slots = fact.slots
        self._fill(out)

    def _reached(self, fact: Reached, out: list[Instruction]) -> None:
        trial = self._running.get(fact.trial)
        if trial is None or trial.run is None or not trial.step < fact.step <= trial.run.until:
            return
        if fact.step not in trial.levels:
            return
        if fact.step == trial.levels[-1]:
            self._complete(trial, fact.step, fact.value, out)
            return
        has_left = fact.step == trial.run.until
        if trial.leaving == "stopped":
            if trial.dismissed:
                # Stopped with all the others: the value counts if they continue.
                self._tell(trial, fact.step, fact.value, out)
            if has_left:
                self._left(Left(fact.trial), out)
            return
        fresh = None
        if has_left:
            trial.ahead = 0
            self._release(trial)
            trial.state = "paused"
            fresh = trial
        self._tell(trial, fact.step, fact.value, out)
        self._fill(out, fresh)

    def _tell(self, trial: Trial, step: int, value: float | None, out: list[Instruction]) -> None:
        """Store the value of a level, and let the rule compare it."""
        key = self._note(trial, step, value, step)
        if not trial.alone:
            self._judge(self._rule.tell(trial.number, step, key), out)

    def _came_to_its_end(self, fact: Ended, out: list[Instruction]) -> None:
        trial = self._running.get(fact.trial)
        if trial is None:
            return
        if trial.length <= fact.step < trial.levels[-1]:
            # Its code was told to end there, before the search was extended.
            self._reached(Reached(fact.trial, fact.step, fact.value), out)
            return
        self._complete(trial, fact.step, fact.value, out)

    def _complete(self, trial: Trial, step: int, value: float | None, out: list[Instruction]) -> None:
        last = trial.levels[-1]
        # A trial whose code ended by itself is as complete as one that took all steps.
        key = self._note(trial, step, value, last)
        trial.rungs[-1] = next(level for level in trial.levels if level >= min(step, last))
        trial.ahead = 0
        self._release(trial)
        done = f"all {last} steps" if step >= last else f"its code came to its own end after {step} of {last} steps"
        says = self._words.value(key) if value is not None else f"it reported no {self.goal.metric}"
        self._settle(trial, "completed", f"{done}: {says}", out)
        rule = self._rule
        if not trial.alone:
            self._judge(rule.tell(trial.number, last, key) if step >= last else rule.end(trial.number, key), out)
        self._fill(out)

    def _failed(self, fact: Failed, out: list[Instruction]) -> None:
        trial = self._running.get(fact.trial)
        if trial is None:
            return
        self._release(trial)
        self._settle(trial, "failed", fact.reason, out)
        self._standings.drop(trial.number)
        self._judge(self._rule.withdraw(trial.number), out)
        self._fill(out)

    def _lost(self, fact: Lost, out: list[Instruction]) -> None:
        trial = self._running.get(fact.trial)
        if trial is None or trial.run is None:
            return
        if trial.leaving is not None:
            self._left(Left(fact.trial), out)
            return
        self._interrupt(trial, "waiting", fact.reason)
        self._fill(out)

    def _left(self, fact: Left, out: list[Instruction]) -> None:
        trial = self._running.get(fact.trial)
        if trial is None or trial.leaving is None:
            return
        if trial.leaving == "stopped":
            reason, run = trial.why, trial.run
            self._release(trial)
            self._settle(trial, "stopped", reason, out)
            if trial.dismissed and run is not None and trial.step < run.until:
                self._interrupted.add(trial, run.until)  # it is skipped unless it continues
            if trial.dismissed and self._stopped is None:
                # The search was extended while its leg was still leaving.
                trial.dismissed = False
                self._wait_again(trial, "goes on, since the search does", out)
        else:
            self._interrupt(trial, "paused", trial.why)
            out.append(Settle(trial.number, "paused", trial.reason))
        self._fill(out)

    def _stop_asked(self, fact: StopAsked, out: list[Instruction]) -> None:
        if fact.trial is not None and 0 <= fact.trial < self._rule.trials:
            known = self._trials.get(fact.trial)
            if known is None or known.state not in ENDED:
                self._standings.withdraw(fact.trial)
        if fact.trial is None:
            if self._stopped is None:
                self._stopped = fact
                for trial in self._trials.values():
                    trial.dismissed |= trial.state not in ENDED and trial.leaving != "stopped"
                    self._dismiss(trial, fact.reason, out)
        elif self._stopped is None and 0 <= fact.trial < self._rule.trials:
            trial = self._trials.get(fact.trial) or self._begin(fact.trial)
            if trial.state in ENDED or (trial.leaving == "stopped" and not trial.dismissed):
                return
            trial.dismissed, trial.asked, self._was_asked = False, True, True
            if self._rule.unranks(fact.trial):
                trial.unranked.add(trial.step)
            self._dismiss(trial, fact.reason, out)
            self._judge(self._rule.withdraw(fact.trial), out)
        self._fill(out)

    def _pause_asked(self, fact: PauseAsked, out: list[Instruction]) -> None:
        if fact.trial is not None:
            self._hold(fact.trial, fact.reason, out)
            return
        self._paused = True
        for trial in self._running.values():
            self._leave(trial, fact.reason, out)

    def _room_asked(self, fact: RoomAsked, out: list[Instruction]) -> None:
        trial = self._running.get(fact.trial)
        if trial is not None:
            self._leave(trial, fact.reason, out)

    def _leave(self, trial: Trial, reason: str, out: list[Instruction]) -> None:
        """Make a running trial save and leave its slot; it continues later."""
        if trial.leaving is None:
            trial.leaving, trial.why = "paused", reason
            out.append(Stop(trial.number, reason, then="paused"))

    def _hold(self, number: int, reason: str, out: list[Instruction]) -> None:
        """A person pauses one trial. The rule is not told: the trial's place in its rung stays taken."""
        if self._stopped is not None or not 0 <= number < self._rule.trials:
            return
        trial = self._trials.get(number) or self._begin(number)
        if trial.held or trial.state in ENDED or trial.leaving == "stopped":
            return
        trial.held = True
        if trial.run is not None:
            self._leave(trial, reason, out)
        elif trial.state == "paused":
            trial.reason = reason
        else:
            trial.state, trial.reason = "paused", reason
            out.append(Settle(number, "paused", reason))
        self._fill(out)

    def _resume_asked(self, fact: ResumeAsked, out: list[Instruction]) -> None:
        self._paused &= fact.trial is not None
        for trial in self._trials.values():
            # Where only held trials are left, they are what a person resumes.
            if trial.held and (self._resting if fact.trial is None else trial.number == fact.trial):
                trial.held, trial.reason = False, fact.reason
            elif trial.asked and trial.number == fact.trial and self._stopped is None:
                self._take_back(trial, fact.reason, out)
        self._resting = False
        self._fill(out)

    def _take_back(self, trial: Trial, reason: str, out: list[Instruction]) -> None:
        """A person resumes a trial that a person has stopped. Rungs were decided without it: it trains to its end."""
        if trial.state == "stopped":  # otherwise its leg is still leaving: ask again
            trial.asked, trial.alone = False, True
            self._wait_again(trial, reason, out)
            trial.ahead = trial.levels[-1]
            self._interrupted.add(trial, trial.ahead)

    def _extended(self, fact: Extended, out: list[Instruction]) -> None:
        self.plan = self.extension(fact)
        if self.done:
            # The engine that reopens it reports the current number of slots.
            self.done, self._paused, self._slots = False, False, 0
        stopped, self._stopped = self._stopped, None
        verdicts = self._rule.extend(self.plan.ladders)
        for trial in self._trials.values():
            trial.levels = self._rule.levels(trial.number)
            if stopped is not None and trial.dismissed and trial.state == "stopped":
                self._wait_again(trial, f"goes on, since the search does: {fact.reason}", out)
            trial.dismissed &= trial.leaving is not None  # it continues when its leg has left
        for verdict in verdicts:
            trial = self._trials[verdict.trial]
            if not verdict.stop and trial.state == "stopped":
                self._wait_again(trial, verdict.reason, out)
        self._judge([verdict for verdict in verdicts if verdict.stop], out)
        self._fill(out)

    def extension(self, fact: Extended) -> Plan:
        """The plan after this extension of the search. Raises BadOption if the extension is invalid."""
        return extended(self.plan, fact.trials, fact.last, self.space, self._searcher)

    def _wait_again(self, trial: Trial, reason: str, out: list[Instruction]) -> None:
        self._ended[trial.state] -= 1
        trial.state, trial.reason = "paused", reason
        out.append(Settle(trial.number, "paused", reason))

    # -- consequences

    def _judge(self, verdicts: list[Verdict], out: list[Instruction]) -> None:
        """Apply the rule's verdicts to their trials."""
        for verdict in verdicts:
            trial = self._trials[verdict.trial]
            # Stopped with all the others, it would have been stopped anyway: it does not continue with them.
            trial.dismissed &= not verdict.stop
            if self._stopped is not None or trial.alone or trial.state in ENDED:
                continue
            if verdict.stop:
                trial.ahead = 0  # it ends at the rung where it was compared, however far it has trained since
                self._dismiss(trial, verdict.reason, out)
            else:
                trial.reason = verdict.reason

    def _dismiss(self, trial: Trial, reason: str, out: list[Instruction]) -> None:
        """Stop a trial, whether or not it holds a slot."""
        if trial.state in ENDED or trial.leaving == "stopped":
            return
        if trial.run is None:
            self._settle(trial, "stopped", reason, out)
            return
        # Also if it was told to pause: it could take longer, to save what is no longer needed.
        out.append(Stop(trial.number, reason))
        trial.leaving, trial.why = "stopped", reason
        trial.state, trial.reason = "stopping", reason

    def _fill(self, out: list[Instruction], fresh: Trial | None = None) -> None:
        """Give out free slots; then check whether anything is left to run.

        fresh: a trial that has just reached its rung; it is settled as paused unless it continues at once.
        """
        at = len(out)
        running = self._running
        is_idle = False
        while len(running) < self._slots and not self._paused and self._stopped is None:
            run = self._next()
            if run is None:
                is_idle = not running
                break
            trial = self._trials[run.trial]
            if trial.state in ENDED:
                self._ended[trial.state] -= 1
            trial.run, trial.state, trial.reason, trial.until = run, "running", run.reason, 0
            trial.ahead = run.until
            if run.start:
                trial.whys[run.start] = run.reason
            trial.length = trial.levels[-1]
            running[run.trial] = trial
            out.append(run)
        if fresh is not None and fresh.state == "paused":
            out.insert(at, Settle(fresh.number, "paused", fresh.reason))
        if not running and (self._stopped is not None or (not self._interrupted and self._rule.done)):
            self._finish(out)
        elif running:
            self._resting = False
        elif is_idle and not self._resting:
            self._resting = True
            out.append(Rest(resting(trial.number for trial in self._trials.values() if trial.held)))

    def _next(self) -> Run | None:
        if (trial := self._interrupted.take()) is not None:
            return Run(trial.number, trial.step, trial.until, f"continues: {trial.reason}")
        while (place := self._rule.ask(self._slots)) is not None:
            trial = self._trials.get(place.trial) or self._begin(place.trial)
            if not trial.held:
                return Run(*place)
            # It has its place, and takes no slot for it until a person resumes it.
            trial.ahead = place.until
            if place.start:
                trial.whys[place.start] = place.reason
            self._interrupted.add(trial, place.until)
        return None

    def _finish(self, out: list[Instruction]) -> None:
        self.done = True
        begun = len(self._trials)
        out.append(finished(self._ended, begun, self._stopped, self._was_asked, self._standings, self._words))

    # -- a trial's bookkeeping

    def _begin(self, number: int) -> Trial:
        trial = self._trials[number] = Trial(number, self._rule.levels(number))
        return trial

    def _note(self, trial: Trial, step: int, value: float | None, level: int) -> float:
        """Store the value of a level; its key."""
        trial.step, trial.value = step, value
        trial.rungs.append(step)
        if trial.alone:
            trial.unranked.add(step)
        trial.values.append(math.nan if value is None else value)
        self._standings.tell(trial.number, level, value, ended=step < level)
        return self._words.key(value)

    def _release(self, trial: Trial) -> None:
        del self._running[trial.number]
        trial.run, trial.leaving = None, None

    def _interrupt(self, trial: Trial, state: Literal["waiting", "paused"], reason: str) -> None:
        assert trial.run is not None
        until = trial.run.until
        trial.state, trial.reason = state, reason
        self._release(trial)
        self._interrupted.add(trial, until)

    def _settle(
        self, trial: Trial, state: Literal["completed", "stopped", "failed"], reason: str, out: list[Instruction]
    ) -> None:
        trial.state, trial.reason, trial.held = state, reason, False
        self._ended[state] += 1
        out.append(Settle(trial.number, state, reason))

    # -- views

    def configuration(self, trial: int) -> Configuration:
        """The trial's configuration: plain data, the same at every call."""
        return self._configurations.of(trial, self.plan.members)

    def bracket(self, trial: int) -> int:
        """The number of the trial's bracket."""
        return self._rule.bracket(trial)

    def levels(self, trial: int) -> tuple[int, ...]:
        """The steps at which this trial's goal must be reported at once; the last one is its whole length."""
        return self._rule.levels(trial)

    def order(self, trial: int) -> tuple[int, int, int]:
        """A unique sort key: the first gets a slot first. Higher rungs, then given configurations, then earlier
        brackets, then older trials."""
        return self._rule.order(trial)

    @property
    def trials(self) -> Mapping[int, TrialView]:
        """Every trial started so far, by number."""
        return Views(self._trials, self._view)

    def _view(self, trial: Trial) -> TrialView:
        number = trial.number
        return trial.view(self.configuration(number), self.bracket(number), is_going=self._stopped is None)

    @property
    def running(self) -> tuple[int, ...]:
        """Trials that hold a slot."""
        return tuple(self._running)

    @property
    def leaving(self) -> tuple[int, ...]:
        """Trials that hold a slot and were told to leave it."""
        return tuple(number for number, trial in self._running.items() if trial.leaving is not None)

    def outstanding(self) -> list[Run]:
        """Orders not yet ended, except of trials told to leave: a recovered engine starts them again."""
        return [trial.run for trial in self._running.values() if trial.run is not None and trial.leaving is None]

    @property
    def best(self) -> Best | None:
        """Of the trials that did not fail, the one with the best value at the highest level that any of them reached,
        and that value as reported. A diverged trial counts only if every trial with a finite value at a level diverged.
        """
        return self._standings.found

    @property
    def standings(self) -> Standings:
        """How its trials rank."""
        return self._standings

    @property
    def climb(self) -> Climb:
        """How far trials have climbed."""
        return Climb(self.plan, self._rule, self._words, self._trials, self._standings)

    @property
    def counts(self) -> dict[str, int]:
        """How many trials are in each state."""
        return dict(Counter(trial.state for trial in self._trials.values()))
