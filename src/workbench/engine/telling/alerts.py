"""Alerts about a search: rules on metrics and logs, stalls, and its end. Law: pure but for reading logs.

Rules: ``loss is nan``, ``no improvement in 10 steps``, ``log ~ "out of memory"``.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from workbench.errors import BadOption
from workbench.records import Goal
from workbench.records.names import trial_label
from workbench.standing import Best

#: A search stalls when no trial reports for STALL_TIMES the longest wait between two reports, and for at least
#: STALL_LEAST_S seconds.
STALL_TIMES, STALL_LEAST_S = 10.0, 60.0
#: Alerts of one search that are kept and sent; more would be noise.
MOST_ALERTS = 50

_NAN = re.compile(r"([^\W\d][\w./-]{0,99}) is (?:nan|NaN|inf|not finite)")
_FLAT = re.compile(r"no improvement in (\d{1,9}) steps?")
_LOG = re.compile(r"log ~ (?:\"(.+)\"|'(.+)'|(.+))")


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule as the user wrote it. value: the metric, the number of steps, or the pattern."""

    kind: Literal["nan", "flat", "log"]
    text: str
    value: Any


def rules(texts: Iterable[str]) -> tuple[Rule, ...]:
    """The rules in ``texts``. Raises BadOption for a text that is not a rule."""
    return tuple(_rule(text.strip()) for text in texts)


def _rule(text: str) -> Rule:
    if match := _NAN.fullmatch(text):
        return Rule("nan", text, match[1])
    if match := _FLAT.fullmatch(text):
        return Rule("flat", text, int(match[1]))
    if match := _LOG.fullmatch(text):
        pattern = match[1] or match[2] or match[3]
        try:
            return Rule("log", text, re.compile(pattern))
        except re.error as error:
            raise BadOption(f"--alert {text!r}: {pattern!r} is not a regular expression ({error}).") from None
    raise BadOption(
        f"--alert {text!r} is not a rule. Expected 'METRIC is nan', 'no improvement in N steps' or 'log ~ "
        "\"PATTERN\"'. For example: --alert 'loss is nan'."
    )


class Watch:
    """Watches a search's reports, and raises one alert for each rule and trial that matches."""

    def __init__(self, goal: Goal, wanted: Iterable[Rule], now: float) -> None:
        self.goal = goal
        self._rules = tuple(wanted)
        self._told: set[tuple[str, int]] = set()
        #: By trial: the best value of the goal, and its step.
        self._best: dict[int, tuple[float, int]] = {}
        self._heard, self._longest, self._stalled = now, 0.0, False

    @property
    def reads_logs(self) -> bool:
        """Whether a rule is about trials' output."""
        return any(rule.kind == "log" for rule in self._rules)

    @property
    def counts_steps(self) -> bool:
        """Whether a rule is about the steps since a trial improved."""
        return any(rule.kind == "flat" for rule in self._rules)

    def recall(self, alert: Mapping[str, Any]) -> None:
        """An alert that was raised before this engine started: it is not raised again."""
        if alert.get("rule") is not None:
            self._told.add((alert["rule"], alert["trial"]))

    def points(self, trial: int, rows: Iterable[tuple[str, int, int, float]], now: float) -> list[dict[str, Any]]:
        """Reports of a trial (name, step, index, value) that came at ``now`` (seconds). Returns the alerts that they
        raise."""
        self._longest, self._heard, self._stalled = max(self._longest, now - self._heard), now, False
        found: list[dict[str, Any]] = []
        for name, step, index, value in rows:
            for rule in self._rules:
                if rule.kind == "nan" and rule.value == name and not math.isfinite(value):
                    found += self._once(rule, trial, f"{name} is {value} at step {step}")
            if name == self.goal.metric and index == 0:
                found += self._improved(trial, step, value)
        return found

    def improves(self, trial: int, step: int, value: float) -> bool:
        """Take a value of the goal. Returns whether it is the trial's best so far."""
        best = self._best.get(trial)
        if best is not None and not self.goal.better(value, best[0]):
            return False
        self._best[trial] = (value, step)
        return True

    def _improved(self, trial: int, step: int, value: float) -> list[dict[str, Any]]:
        if self.improves(trial, step, value):
            return []
        best = self._best[trial]
        found: list[dict[str, Any]] = []
        for rule in self._rules:
            if rule.kind == "flat" and step - best[1] >= rule.value:
                words = f"{self.goal.metric} has not improved on {best[0]:.6g} since step {best[1]}, now step {step}"
                found += self._once(rule, trial, words)
        return found

    def log(self, trial: int, text: str) -> list[dict[str, Any]]:
        """A trial's output since the last call. Returns the alerts that it raises."""
        found: list[dict[str, Any]] = []
        for rule in self._rules:
            match = rule.value.search(text) if rule.kind == "log" else None
            if match is not None:
                line = text[text.rfind("\n", 0, match.start()) + 1 :].partition("\n")[0]
                found += self._once(rule, trial, f"its log says: {line[:200]}")
        return found

    def busy(self, now: float) -> None:
        """No trial could report: the search is paused, or no leg trains."""
        self._heard = now

    def stalled(self, now: float) -> list[dict[str, Any]]:
        """One alert when no trial has reported for much longer than ever before."""
        limit = max(STALL_LEAST_S, STALL_TIMES * self._longest)
        if self._stalled or now - self._heard <= limit:
            return []
        self._stalled = True
        return [{"event": "stall", "words": f"no trial has reported anything for {now - self._heard:.0f} s"}]

    def _once(self, rule: Rule, trial: int, words: str) -> list[dict[str, Any]]:
        key = (rule.text, trial)
        if key in self._told or len(self._told) >= MOST_ALERTS:
            return []
        self._told.add(key)
        return [{"event": "rule", "rule": rule.text, "trial": trial, "words": f"{trial_label(trial)}: {words}"}]


def digest(
    label: str, goal: Goal, state: str, reason: str, best: Best | None, facts: Mapping[str, Any]
) -> dict[str, Any]:
    """The one message about a search that has ended: its best value, its counts, and what to do next."""
    counts: Mapping[str, int] = facts["counts"]
    went = ", ".join(f"{number} {kind}" for kind, number in sorted(counts.items()))
    words = f"{label} {state}: {sum(counts.values())} trials ({went or 'none began'}), {facts['retries']} retries"
    if facts["seconds"] is not None:
        words += f", {facts['seconds']:.0f} s"
    if best is not None:
        words += f"; best {goal.metric} {best.words(lambda value: f'{value:.6g}')} by {trial_label(best.trial)}"
        after = f"workbench best {label} shows it; workbench extend {label} --trials 20 continues it"
    else:
        after = f"workbench show {label} says why: {reason}"
    return {
        "event": "fail" if state == "failed" else "end",
        "experiment": label,
        "state": state,
        "reason": reason,
        "best": best and {**best.to_json(), "trial": trial_label(best.trial), "metric": goal.metric},
        "words": words,
        "next": after,
        **facts,
    }
