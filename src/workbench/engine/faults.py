"""Whose fault a lost leg is, and whether its trial is trained again. Law: pure; a recovered engine judges alike."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

#: Causes that are the cluster's. Every other one is the training code's own, and counts towards ``max_restarts``: a
#: cause that nobody thought of here must not be tried again for ever.
OF_THE_CLUSTER: frozenset[str] = frozenset({"worker", "cluster", "engine", "stale_attempt", "store"})
#: Errors that training again cannot mend: what was reported, or the state itself, is wrong.
NEVER_RETRIED: frozenset[str] = frozenset({"BadMetric", "CannotResume", "SyntaxError", "BadCell", "BadCapture"})
#: Seconds before the first retry of a trial's own fault; doubled for each further one, up to MOST_BACKOFF_S.
BACKOFF_S = 0.5
MOST_BACKOFF_S = 60.0
#: Seconds before a trial is started again that could not write what it needs.
STORE_S = 5.0
#: Legs of a trial that the cluster may lose, without a newer checkpoint between them, before the next one waits.
QUICK_LOSSES = 3


@dataclass(frozen=True, slots=True)
class Verdict:
    """Train again (after ``wait_s`` seconds), or fail for good; and why, in words."""

    again: bool
    reason: str
    wait_s: float = 0.0


@dataclass(slots=True)
class _Story:
    """What went wrong with one trial since its newest checkpoint."""

    restarts: int = 0
    #: Legs lost by the cluster's fault.
    losses: int = 0
    last: tuple[Any, ...] | None = None
    checkpoint: int = 0


@dataclass(slots=True)
class Faults:
    """Counts each trial's own faults since its newest checkpoint, and judges the next one."""

    max_restarts: int
    _stories: dict[int, _Story] = field(default_factory=dict)

    def restarts(self, trial: int) -> int:
        """How often ``trial`` was started again by its own fault since its newest checkpoint."""
        story = self._stories.get(trial)
        return story.restarts if story else 0

    def saved(self, trial: int, step: int) -> None:
        """A new checkpoint exists: the trial made progress, so its count begins anew."""
        story = self._stories.setdefault(trial, _Story())
        if step > story.checkpoint:
            story.restarts, story.losses, story.checkpoint = 0, 0, step

    def judge(self, trial: int, cause: str, step: int, error: dict[str, Any] | None, reason: str) -> Verdict:
        """What becomes of ``trial`` after its leg was lost at ``step`` by ``cause``."""
        if cause == "refused":
            return Verdict(False, reason)
        if cause in OF_THE_CLUSTER:
            story = self._stories.setdefault(trial, _Story())
            story.losses += 1
            # At once, as a rule. Whoever is lost again and again would only keep the cluster busy with losing it; and
            # a full disk is not emptied in a moment.
            again = story.losses - QUICK_LOSSES
            wait = (
                STORE_S
                if cause == "store"
                else 0.0
                if again <= 0
                else min(BACKOFF_S * 2 ** min(again, 10), MOST_BACKOFF_S)
            )
            return Verdict(True, f"{reason}; not its fault, so it goes on from its newest checkpoint", wait)
        story = self._stories.setdefault(trial, _Story())
        kind = (error or {}).get("type")
        if kind in NEVER_RETRIED:
            return Verdict(False, reason)
        same = (cause, kind, (error or {}).get("line"), step)
        if story.last == same and cause in ("exception", "exit", "memory"):
            return Verdict(False, f"{reason}; the second time in a row at step {step}, so it is not tried again")
        if story.restarts >= self.max_restarts:
            return Verdict(False, f"{reason}; {story.restarts} restarts without a newer checkpoint are used up")
        wait = min(BACKOFF_S * 2**story.restarts, MOST_BACKOFF_S)
        story.last = same
        story.restarts += 1
        return Verdict(True, f"{reason}; restart {story.restarts} of {self.max_restarts}", wait)
