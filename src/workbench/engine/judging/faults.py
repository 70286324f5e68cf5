"""Whose fault a lost leg is, and whether its trial is trained again. Law: pure; a recovered engine judges alike."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

#: Causes that are the cluster's. Every other one is the training code's own, and counts towards ``max_restarts``: a
#: cause that nobody thought of here must not be tried again for ever.
OF_THE_CLUSTER: frozenset[str] = frozenset({"worker", "cluster", "engine", "preempted", "stale_attempt", "store"})
#: Errors that training again cannot mend: what was reported, or the state itself, is wrong.
NEVER_RETRIED: frozenset[str] = frozenset({"BadMetric", "CannotResume", "SyntaxError", "BadCell", "BadCapture"})
#: Seconds before the first retry of a trial's own fault; doubled for each further one, up to MOST_BACKOFF_S.
BACKOFF_S = 0.5
MOST_BACKOFF_S = 60.0
#: Seconds before a trial is started again that could not write what it needs.
STORE_S = 5.0
#: Legs of a trial that the cluster may lose, without a newer checkpoint between them, before the next one waits.
QUICK_LOSSES = 3


#: Of a device's memory, the share that others must hold for its exhaustion to be their fault.
OTHERS = 0.05


@dataclass(frozen=True, slots=True)
class Verdict:
    """Train again (after ``wait_s`` seconds), or fail for good; and why, in words.

    alone: with nothing else on its machine.
    """

    again: bool
    reason: str
    wait_s: float = 0.0
    alone: bool = False


@dataclass(slots=True)
class _Story:
    """What went wrong with one trial since its newest checkpoint."""

    restarts: int = 0
    #: Legs lost by the cluster's fault.
    losses: int = 0
    last: tuple[Any, ...] | None = None
    #: Its newest checkpoint: turns done, and batches of the turn under way.
    checkpoint: tuple[int, int] = (0, 0)


@dataclass(slots=True)
class Faults:
    """Counts each trial's own faults since its newest checkpoint, and judges the next one."""

    max_restarts: int
    _stories: dict[int, _Story] = field(default_factory=dict)

    def restarts(self, trial: int) -> int:
        """How often ``trial`` was started again by its own fault since its newest checkpoint."""
        story = self._stories.get(trial)
        return story.restarts if story else 0

    def troubled(self, trial: int) -> bool:
        """Whether anything of ``trial`` was lost since its newest checkpoint."""
        story = self._stories.get(trial)
        return story is not None and bool(story.restarts or story.losses)

    def saved(self, trial: int, step: int, inside: int = 0) -> None:
        """A new checkpoint exists: the trial made progress, so its count begins anew."""
        story = self._stories.setdefault(trial, _Story())
        if (step, inside) > story.checkpoint:
            story.restarts, story.losses, story.checkpoint = 0, 0, (step, inside)

    def judge(
        self, trial: int, cause: str, step: int, error: dict[str, Any] | None, reason: str, *, alone: bool = False
    ) -> Verdict:
        """What becomes of ``trial`` after its leg was lost at ``step`` by ``cause``.

        alone: the leg had its machine for itself.
        """
        if cause == "refused":
            return Verdict(False, reason)
        if cause == "cuda_out_of_memory":
            return self._cuda(trial, error or {}, reason)
        if cause == "memory":
            return self._memory(trial, reason, alone)
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
            return Verdict(True, f"{reason}; not its fault, so it continues from its newest checkpoint", wait)
        story = self._stories.setdefault(trial, _Story())
        kind = (error or {}).get("type")
        if kind in NEVER_RETRIED:
            return Verdict(False, reason)
        same = (cause, kind, (error or {}).get("line"), step)
        if story.last == same and cause in ("exception", "exit"):
            return Verdict(False, f"{reason}; the second time in a row at step {step}, so it is not retried")
        if story.restarts >= self.max_restarts:
            return Verdict(False, f"{reason}; no new checkpoint after {story.restarts} restarts, the most allowed")
        wait = min(BACKOFF_S * 2**story.restarts, MOST_BACKOFF_S)
        story.last = same
        story.restarts += 1
        return Verdict(True, f"{reason}; restart {story.restarts} of {self.max_restarts}", wait)

    def _memory(self, trial: int, reason: str, alone: bool) -> Verdict:
        """Once more with nothing beside it: whoever was killed need not be whoever took the memory.

        A later leg has others beside it again, since a trial that keeps a machine for itself is dear; so what counts is
        whether this one was alone.
        """
        if alone:
            hint = "it was alone on its machine; make the model, the batch or the loader's workers smaller"
            return Verdict(False, f"{reason} once more, and {hint}")
        self._stories.setdefault(trial, _Story()).restarts += 1
        return Verdict(True, f"{reason}; it is tried once more, alone on its machine", BACKOFF_S, alone=True)

    def _cuda(self, trial: int, error: dict[str, Any], reason: str) -> Verdict:
        """Beside another process's memory it is not its fault; alone on the device the same would happen again."""
        memory = error.get("device_memory") or {}
        total, others = float(memory.get("total", 0)), float(memory.get("others", 0))
        if total and others > OTHERS * total:
            story = self._stories.setdefault(trial, _Story())
            story.losses += 1
            wait = min(STORE_S * 2 ** min(story.losses - 1, 10), MOST_BACKOFF_S)
            held = f"others hold {others / 1e9:.1f} of the device's {total / 1e9:.1f} GB"
            return Verdict(True, f"{reason}; {held}: not its fault, so it continues elsewhere", wait)
        size = f" of {total / 1e9:.1f} GB" if total else ""
        hint = f"it had the device{size} to itself: take a smaller batch or model, or save memory (autocast)"
        return Verdict(False, f"{reason}; {hint}")
