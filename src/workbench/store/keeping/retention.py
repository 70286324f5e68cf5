"""Which checkpoints stay, and why. Law: pure; a checkpoint that a trial may still need to continue always stays.

A :class:`History` reads the lines of one experiment's journal. From it, the rule and the protections, :func:`verdict`
says for each checkpoint why it stays, or that it is removed.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from workbench.records import ENDED, Goal, Json, Keep, value_of
from workbench.standing import Standings

#: Why a protected checkpoint stays: pinned, has descendants, being compared. By trial and step; a trial of None is
#: every trial, a step of None every step.
Protected = Mapping[tuple[int | None, int | None], str]


@dataclass(slots=True)
class Past:
    """The facts of a journal about one trial that matter for its checkpoints."""

    state: str = "waiting"
    #: Stopped by the user, not by the search.
    asked: bool = False
    #: It was stopped with the whole search.
    with_all: bool = False
    #: The goal at steps that may have a checkpoint.
    values: dict[int, float] = field(default_factory=dict)
    #: The newest step with a reported checkpoint: the trial resumes from it, or from the one before.
    known: int = 0
    #: The last step of a whole trial when its leg started: code that reaches it did not end by itself.
    length: int = 0

    @property
    def is_live(self) -> bool:
        """Whether it could still be promoted, resumed or extended under the present rules."""
        return self.state not in ENDED

    @property
    def goes_on(self) -> bool:
        """Whether it could continue inside a level: its search was stopped before a decision about it."""
        return self.is_live or (self.with_all and self.state == "stopped")


class History:
    """The trials of one experiment according to its journal. The same lines give the same result."""

    def __init__(self, goal: Goal, last: int, members: int = 1) -> None:
        """last: steps of a whole trial. members: trials of each configuration."""
        self.goal = goal
        self._last = last
        self.trials: dict[int, Past] = {}
        self.standings = Standings(goal.mode, members)
        #: Steps that a resume check compares, by trial; the newest check of a trial counts.
        self.compared: dict[int, frozenset[int]] = {}
        #: The checkpoints that the rule has removed so far.
        self.removed: dict[int, set[int]] = {}
        #: The search was extended and has not reached its new end: completed trials may continue.
        self.is_extended = False

    def take(self, line: Mapping[str, Json]) -> int | None:
        """Read one line; return the trial whose checkpoints should be reviewed because of it, or None."""
        kind = line.get("kind")
        trial = line.get("trial")
        if kind == "Saved":
            past = self._of(line["trial"])
            past.known = max(past.known, line["step"])
            if line.get("value") is not None:
                past.values[line["step"]] = float(line["value"])
            self.removed.get(line["trial"], set()).discard(line["step"])
        elif kind in ("Reached", "Ended"):
            past = self._of(line["trial"])
            value = value_of(line["value"])
            past.values[line["step"]] = math.nan if value is None else value
            level, ended = line["step"], kind == "Ended" and line["step"] < past.length
            if kind == "Ended":
                level = self._last if ended else min(level, self._last)
            self.standings.tell(line["trial"], level, value, ended=ended)
        elif kind == "Run":
            past = self._of(line["trial"])
            past.state, past.length = "running", self._last
            return None
        elif kind == "Settle":
            past = self._of(line["trial"])
            past.state = line["state"]
            past.asked = past.asked and not past.is_live
            past.with_all = past.with_all and not past.is_live
            if past.state == "failed":
                self.standings.drop(line["trial"])
        elif kind == "StopAsked":
            for number in [trial] if trial is not None else list(self.trials):
                past = self._of(number)
                past.with_all |= trial is None and past.is_live and not past.asked
                if trial is not None and past.is_live:
                    self.standings.withdraw(trial)
                past.asked = past.asked or past.is_live
        elif kind == "VerifyDue":
            self.compared[line["trial"]] = frozenset({line["start"], line["until"], line.get("resumed") or 0})
        elif kind == "Verified":
            self.compared.pop(line.get("trial", -1), None)
        elif kind == "Removed":
            for number, steps in line["trials"].items():
                self.removed.setdefault(int(number), set()).update(steps)
            return None
        elif kind == "Extended":
            self.is_extended = True
            self._last = line.get("last") or self._last
        elif kind == "Finish":
            self.is_extended = False
        return trial if isinstance(trial, int) else None

    def revive(self, trial: int, state: str) -> None:
        """Set the state of ``trial`` from the search: after an extension, an ended trial may continue."""
        if state not in ENDED and trial in self.trials:
            self.trials[trial].state = state

    def best(self, count: int) -> list[int]:
        """The ``count`` best trials, the best first: see :mod:`workbench.standing`."""
        return self.standings.first(count)

    def heirs(self, count: int) -> list[int]:
        """The ``count`` best of those that no longer train: they are the best if all continuing ones diverge."""
        level = self.standings.level
        over = {n for n, past in self.trials.items() if not past.is_live or (level(n) or 0) >= self._last}
        return self.standings.first(count, over)

    def _of(self, trial: int) -> Past:
        return self.trials.setdefault(trial, Past(length=self._last))


def verdict(
    history: History, rule: Keep, steps: Mapping[int, Iterable[int]], protected: Protected
) -> dict[int, dict[int, str | None]]:
    """For each checkpoint of each trial (``steps`` on disk), why it stays, or None if it is removed."""
    best = {number: f"best {place} of the experiment" for place, number in enumerate(history.best(rule.experiment), 1)}
    for place, number in enumerate(history.heirs(rule.experiment), 1):
        best.setdefault(number, f"best {place} of the experiment where promoted ones diverge")
    return {
        trial: _of_trial(history, rule, trial, sorted(set(there)), best.get(trial), protected)
        for trial, there in steps.items()
    }


def _of_trial(
    history: History, rule: Keep, trial: int, steps: list[int], place: str | None, protected: Protected
) -> dict[int, str | None]:
    told: dict[int, str | None] = dict.fromkeys(steps)

    def stay(step: int, why: str) -> None:
        if step in told and told[step] is None:
            told[step] = why

    for step in steps:
        for key in ((trial, step), (trial, None), (None, None)):
            if key in protected:
                stay(step, protected[key])
    past = history.trials.get(trial)
    if past is None:
        # A runner was faster than the journal: there is no reason to remove it yet.
        return {step: told[step] or "its trial is not known yet" for step in steps}
    for step in history.compared.get(trial, ()):
        stay(step, "a check of resuming compares with it")
    if past.is_live or (history.is_extended and past.state == "completed"):
        for step in steps:
            if step > past.known:
                stay(step, "its trial is writing")
        newest = [step for step in steps if step <= past.known]
        if newest:
            stay(newest[-1], "its trial may continue from it")
    if past.is_live or past.asked or past.state != "stopped" or rule.stopped:
        for number, step in enumerate(sorted(steps, reverse=True)[: rule.latest], 1):
            stay(step, f"latest {number} of its trial")
        for number, step in enumerate(_best_steps(history.goal, past, steps)[: rule.best], 1):
            stay(step, f"best {number} of its trial")
    level = history.standings.level(trial)
    if place is not None and level is not None and steps:
        stay(max((step for step in steps if step <= level), default=steps[0]), place)
    return told


def _best_steps(goal: Goal, past: Past, steps: list[int]) -> list[int]:
    """Steps by their value, the best first, of equal ones the later first; those without a value are left out."""
    sign = -1.0 if goal.mode == "max" else 1.0
    valued = [(sign * past.values[step], -step) for step in steps if math.isfinite(past.values.get(step, math.nan))]
    return [-step for _, step in sorted(valued)]
