"""What viewers see of one experiment. Law: it writes what the loop knows to the series, and decides nothing."""

from __future__ import annotations

import math
import time
from array import array
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

from workbench.engine.legs.leg import Leg
from workbench.records import ENDED, SETTING_UP, Goal, Metrics, Spec
from workbench.search import Search
from workbench.standing import Best, has_diverged
from workbench.store.lists import outcome
from workbench.store.series import Series

#: Schedulers that promote trials from level to level.
PROMOTING = ("hyperband", "asha")
#: The most lines about an experiment that are shown.
MOST_LINES = 8


class Values:
    """One trial's values of the goal by step, as the series has them: a step that is reported again has the newer
    value, and the former one does not count any more."""

    __slots__ = ("_before", "_goal", "_steps", "_values", "best")

    def __init__(self, goal: Goal) -> None:
        self._goal = goal
        self._steps, self._values = array("q"), array("d")
        #: The best finite value, and the best one of all steps but the newest; None if there is none.
        self.best: float | None = None
        self._before: float | None = None

    def put(self, step: int, value: float) -> None:
        """Take the value at a step, which replaces an earlier one there."""
        steps, values = self._steps, self._values
        if not steps or step > steps[-1]:
            steps.append(step)
            values.append(value)
            self._before = self.best
        elif step == steps[-1]:  # of many reports in one step the last one counts
            values[-1] = value
        else:
            at = bisect_left(steps, step)
            if steps[at] != step:
                steps.insert(at, step)
                values.insert(at, value)
            values[at] = value
            self._before = None
            for other in values[:-1]:
                self._before = self._better(other, self._before)
        self.best = self._better(values[-1], self._before)

    def end(self) -> None:
        """Keep the best value alone: no step is reported again, unless the trial goes on."""
        self._before, self._steps, self._values = self.best, array("q"), array("d")

    def _better(self, value: float, best: float | None) -> float | None:
        is_better = math.isfinite(value) and (best is None or self._goal.better(value, best))
        return value if is_better else best


class Shown:
    """The rows of an experiment's trials, and its header: state, best so far, slots, time left."""

    def __init__(self, spec: Spec, search: Search, series: Series, now: Callable[[], str]) -> None:
        self._spec, self._search, self._series, self._now = spec, search, series, now
        #: The last step of each trial whose goal is known.
        self.known: dict[int, int] = {}
        #: Tracebacks of failed trials.
        self.errors: dict[int, str] = {}
        #: When trials ended, according to the journal: a restarted engine does not end them again.
        self.ended: dict[int, str] = {}
        #: Steps trained by legs that ended, for the time left.
        self.steps_done = 0
        #: Steps that were trained before this engine opened the experiment.
        self.steps_before = 0
        #: When the first leg of this engine started (monotonic seconds); later by the time without any leg since.
        self.first_leg_at: float | None = None
        self._looked = time.monotonic()
        #: This experiment's share of the slots.
        self.share = 0
        self._last: dict[int, Metrics] = {}
        self._values: dict[int, Values] = {}
        #: Trials whose newest value of the goal is nan or an infinity.
        self._diverged: set[int] = set()
        self._says: list[str] = []
        self._states: dict[int, str] = {}
        #: The means of configurations with several trials, as shown.
        self._means: dict[int, dict[str, Any]] = {}
        #: The highest level for which trials whose code ended by itself are shown.
        self._top = 0
        #: Trials that a person has paused or stopped, or had: what is shown of that.
        self._wishes: dict[int, dict[str, bool]] = {}
        #: Trials that are shown as setting up.
        self._since: set[int] = set()
        self._tally: Counter[str] = Counter()
        #: Why trials failed, and what trials lost by resuming.
        self._failed: dict[int, str] = {}
        self._lost: dict[int, list[dict[str, str]]] = {}
        #: The outcome besides the best, put in words by :mod:`workbench.store.lists.outcome`.
        self.outcome: dict[str, Any] = {"failures": None, "inexact": None, "promoted": None}

    def know(self, trial: int, step: int, value: float | None, metrics: Metrics | None = None) -> None:
        """Take the goal's value at a step (None: it was never reported), and all metrics if they were sent."""
        goal = self._spec.goal
        if metrics is not None:
            self._last[trial] = metrics
        if step >= self.known.get(trial, 0):
            self.known[trial] = step
            if value is not None:
                self._last[trial] = {**self._last.get(trial, {}), goal.metric: value}
        if has_diverged(value):
            self._diverged.add(trial)
        elif value is not None:
            self._diverged.discard(trial)
        if value is not None:
            self._values.setdefault(trial, Values(goal)).put(step, value)

    def say(self, words: str) -> None:
        """Show one line about the whole experiment, once."""
        if words not in self._says and len(self._says) < MOST_LINES:
            self._says.append(words)
            self._series.put_meta("says", list(self._says))

    def recall(self, series: Series) -> None:
        """Take what the series has, in a restarted engine: the journal only knows levels."""
        for trial, _, step, index, value, _ in series.points(names=[self._spec.goal.metric]):
            if index == 0:
                self.know(trial, step, value)
        for row in series.trials():
            # Those of a search that had ended are not shown again when it is extended: they count from here.
            if row.get("state"):
                self._put_state(row["number"], row["state"])
            if row.get("since"):
                self._since.add(row["number"])
            if row.get("held") or row.get("asked"):
                self._wishes[row["number"]] = {"held": bool(row.get("held")), "asked": bool(row.get("asked"))}
            if row.get("inexact"):
                self._lost[row["number"]] = row["inexact"]
            if row.get("state") == "failed":
                self._failed[row["number"]] = row.get("reason") or ""
                self._diverged.discard(row["number"])
        self._says = list(series.meta().get("says") or ())
        self.share = int((series.meta().get("slots") or {}).get("given", 0))
        self.steps_before = sum(max(0, step - self._spec.base) for step in self.known.values())

    def put_trial(self, number: int, leg: Leg | None, attempt: int, restarts: int, reason: str | None = None) -> None:
        """Show a trial's state, with its current leg."""
        view = self._search.trials[number]
        state: str = view.state
        if leg is not None:
            under_way = "running" if leg.began is not None else SETTING_UP if leg.is_setting_up else "waiting"
            state = "stopping" if leg.stop is not None else under_way
        is_new = self._put_state(number, state)
        fields: dict[str, Any] = {
            "configuration": view.configuration,
            "bracket": view.bracket,
            "state": state,
            "reason": reason or view.reason,
            "level": view.step,
            "step": max(self.known.get(number, 0), leg.step if leg else 0),
            "value": self._last.get(number, {}).get(self._spec.goal.metric),
            "best": self._values[number].best if number in self._values else None,
            "attempt": attempt,
            "restarts": restarts,
        }
        fields |= self._ranks(number)
        if leg is not None and state == SETTING_UP:
            self._since.add(number)
            fields["since"] = leg.since
        elif number in self._since:
            self._since.remove(number)
            fields["since"] = None
        wishes = {"held": view.held, "asked": view.asked}
        if any(wishes.values()) or number in self._wishes:
            self._wishes[number] = wishes
            fields |= wishes
        if number in self.errors:
            fields["error"] = self.errors[number]
        if number in self._lost:
            fields["inexact"] = self._lost[number]
        if state == "failed":
            self._failed[number] = view.reason
            self._diverged.discard(number)
        else:
            self._failed.pop(number, None)
        if state in ENDED:
            fields["ended"] = self.ended.setdefault(number, self._now())
        elif self.ended.pop(number, None) is not None:
            fields["ended"] = None
        self._series.put_trial(number, **fields)
        if is_new:  # a leg begins without a decision of the search, after which the header is written
            self._series.put_meta("counts", self.counts)

    def _put_state(self, number: int, state: str) -> bool:
        """Take a trial's state. Returns whether it has changed."""
        before = self._states.get(number)
        self._tally[state] += 1
        if before is not None:
            self._tally[before] -= 1
        self._states[number] = state
        if state in ENDED and number in self._values:
            self._values[number].end()
        return state != before

    def has_changed(self, number: int) -> bool:
        """Whether a person has paused or resumed the trial since it was shown."""
        view = self._search.trials.get(number)
        shown = self._wishes.get(number, {})
        return view is not None and (view.held, view.asked) != (shown.get("held", False), shown.get("asked", False))

    def put_rank(self, number: int) -> None:
        """Show how a trial ranks since it reached a level."""
        self._series.put_trial(number, **self._ranks(number))

    def _ranks(self, number: int) -> dict[str, Any]:
        """How a trial ranks, as fields of its row. The mean of its configuration is shown with all of its trials."""
        standings, members = self._search.standings, self._search.plan.members
        told = standings.told(number)
        if members.count == 1:
            return told
        level, of = standings.spread(number) or (None, None)
        mean = {"mean": of and of.mean, "deviation": of and of.deviation, "compared": level}
        shown = {**mean, "mean_standing": told["mean_standing"]}
        if self._means.get(told["group"]) != shown:
            self._means[told["group"]] = shown
            for other in members.trials(told["group"]):
                if other in self._states and other != number:
                    self._series.put_trial(other, **shown, reason=self._search.trials[other].reason)
        return {**told, **shown}

    def resumed(self, trial: int, lost: list[dict[str, str]]) -> None:
        """A leg of ``trial`` has resumed, and lost these values by it."""
        if lost:
            self._lost[trial] = outcome.added(self._lost.get(trial, ()), lost)

    def put_planned(self) -> None:
        """Show what is known before anything runs."""
        goal = self._spec.goal
        self._series.put_meta("planned", self.planned)
        self._series.put_meta("last", self._search.plan.scheduler.last)
        self._series.put_meta("label", self._spec.label)
        self._series.put_meta("goal", {"metric": goal.metric, "mode": goal.mode})

    def put_header(self, state: str, reason: str, started: str | None, ended: str | None, legs: Iterable[Leg]) -> None:
        """Show the experiment's state."""
        used = len({id(leg.slot) for leg in legs if leg.slot is not None})
        best = self.best
        self._put_raised()
        self.outcome = self._outcome(state)
        header = {
            "state": state,
            "reason": reason,
            "counts": self.counts,
            "diverged": self.diverged,
            "best": best.to_json() if best else None,
            "slots": {"used": used, "given": max(used, self.share)},
            "seconds_left": None if state in ENDED else self._seconds_left(),
            "started": started,
            **self.outcome,
        }
        header["ended"] = None
        if state in ENDED:
            header["ended"] = ended or self._now()
        for key, value in header.items():
            self._series.put_meta(key, value)

    def _put_raised(self) -> None:
        """Show the new ranks of trials whose code ended by itself, if another has reached a higher level."""
        standings = self._search.standings
        if standings.top > self._top:
            self._top = standings.top
            for number in self._states.keys() & standings.by_themselves.keys():
                self.put_rank(number)

    def give_up(self, why: str, at: str) -> None:
        """Show that the experiment has failed, and that none of its trials runs any more."""
        for number, state in [*self._states.items()]:
            if state not in ENDED:
                self._put_state(number, "failed")
                self._series.put_trial(number, state="failed", reason=why, ended=at)
        header = {"state": "failed", "reason": why, "counts": self.counts, "ended": at, "seconds_left": None}
        for key, value in header.items():
            self._series.put_meta(key, value)

    def _outcome(self, state: str) -> dict[str, Any]:
        failed = None
        if state in ENDED and self._failed and self._search.best and self._spec.scheduler.kind in PROMOTING:
            views = self._search.trials
            best = views[self._search.best.trial]
            if best.state != "completed":
                failed = outcome.promoted(best.step, ((one.state, one.step) for one in views.values()))
        return {
            "failures": outcome.failures(self._failed[trial] for trial in sorted(self._failed)),
            "inexact": outcome.inexact(self._lost.values()),
            "promoted": failed,
        }

    @property
    def best(self) -> Best | None:
        """The best trial and its value, according to the search: what loading returns. None before the first level."""
        return self._search.best

    @property
    def diverged(self) -> int:
        """How many trials have nan or an infinity as the goal's newest value."""
        return len(self._diverged)

    @property
    def planned(self) -> dict[str, int]:
        """Trials, legs and steps as predicted before anything runs."""
        trials, legs, steps = self._search.plan.predicted
        steps -= self._spec.base * trials  # a fork's trials start after those steps
        return {"trials": trials, "legs": legs, "steps": steps}

    @property
    def counts(self) -> dict[str, int]:
        """How many trials are in each state."""
        return {state: count for state, count in self._tally.items() if count}

    def look(self, legs: Iterable[Leg]) -> None:
        """Called about once a second: time without a leg in a slot, as in a pause, does not count."""
        now = time.monotonic()
        if self.first_leg_at is not None and all(leg.slot is None for leg in legs):
            self.first_leg_at += now - max(self._looked, self.first_leg_at)
        self._looked = now

    def _seconds_left(self) -> float | None:
        """From the planned steps and the rate so far; None while the rate is too uncertain."""
        if self.first_leg_at is None or self.steps_done < 3:
            return None
        rate = self.steps_done / max(time.monotonic() - self.first_leg_at, 1e-3)
        return max(0.0, self.planned["steps"] - self.steps_before - self.steps_done) / rate
