"""Whose fault a lost leg is, and whether its trial is trained again. Law: pure; a recovered engine decides the same."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

#: Causes that are the cluster's fault. All others are the training code's and count towards ``max_restarts``: an
#: unforeseen cause must not be retried for ever.
OF_THE_CLUSTER: frozenset[str] = frozenset({"worker", "cluster", "engine", "preempted", "stale_attempt", "store"})
#: Errors that training again cannot fix: the code, a reported value or the state itself is wrong.
NEVER_RETRIED: frozenset[str] = frozenset(
    {"BadInput", "BadMetric", "CannotResume", "SyntaxError", "BadCell", "BadCapture"}
)
#: The error of a trial whose folder cannot be entered.
FOLDER_GONE = "FolderGone"
#: The same, where the folder's file system does not answer or refuses: it may do so for a minute or a night.
FOLDER_UNREACHABLE = "FolderUnreachable"
#: Seconds before the first retry after a trial's own fault; doubled for each further retry, up to MOST_BACKOFF_S.
BACKOFF_S = 0.5
MOST_BACKOFF_S = 60.0
#: Seconds before a trial that could not write to the store is started again.
STORE_S = 5.0
#: Legs that the cluster may lose without a newer checkpoint between them, before the trial's next leg is delayed.
QUICK_LOSSES = 3


#: The share of a device's memory that other processes must hold for running out of memory to be their fault.
OTHERS = 0.05


@dataclass(frozen=True, slots=True)
class Verdict:
    """Train again after ``wait_s`` seconds, or fail for good; and the reason, in words.

    alone: with no other leg on its machine. whole: with no other leg in its slot.
    """

    again: bool
    reason: str
    wait_s: float = 0.0
    alone: bool = False
    whole: bool = False


@dataclass(slots=True)
class _Story:
    """What went wrong with one trial since its newest checkpoint."""

    restarts: int = 0
    #: Legs lost through the cluster's fault.
    losses: int = 0
    last: tuple[Any, ...] | None = None
    #: Its newest checkpoint: complete turns, and batches of the turn under way.
    checkpoint: tuple[int, int] = (0, 0)


@dataclass(slots=True)
class Faults:
    """Counts each trial's own faults since its newest checkpoint, and decides about the next one."""

    max_restarts: int
    _stories: dict[int, _Story] = field(default_factory=dict)

    def restarts(self, trial: int) -> int:
        """How often ``trial`` was restarted through its own fault since its newest checkpoint."""
        story = self._stories.get(trial)
        return story.restarts if story else 0

    def troubled(self, trial: int) -> bool:
        """Whether a leg of ``trial`` was lost since its newest checkpoint."""
        story = self._stories.get(trial)
        return story is not None and bool(story.restarts or story.losses)

    def saved(self, trial: int, step: int, inside: int = 0) -> None:
        """A new checkpoint exists: the trial made progress, so its counts restart at zero."""
        story = self._stories.setdefault(trial, _Story())
        if (step, inside) > story.checkpoint:
            story.restarts, story.losses, story.checkpoint = 0, 0, (step, inside)

    def judge(
        self,
        trial: int,
        cause: str,
        step: int,
        error: dict[str, Any] | None,
        reason: str,
        *,
        alone: bool = False,
        packed: bool = False,
    ) -> Verdict:
        """Decide what happens to ``trial`` after its leg was lost at ``step`` by ``cause``.

        alone: the leg had its machine to itself. packed: it had a part of a slot that Workbench has chosen.
        """
        if cause == "refused":
            return Verdict(False, reason)
        if cause == "cuda_out_of_memory" and packed:
            self._stories.setdefault(trial, _Story()).losses += 1
            return Verdict(True, f"{reason} beside others; it is tried once more, in a whole slot", whole=True)
        if cause == "cuda_out_of_memory":
            return self._cuda(trial, error or {}, reason)
        if cause == "memory":
            return self._memory(trial, reason, alone)
        if cause in OF_THE_CLUSTER:
            story = self._stories.setdefault(trial, _Story())
            story.losses += 1
            # Retry at once, as a rule. But a trial that is lost again and again would only keep the cluster busy, and a
            # full disk is not emptied in a moment.
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
        if kind == FOLDER_UNREACHABLE:
            story.losses += 1
            wait = min(STORE_S * 2 ** min(story.losses - 1, 10), MOST_BACKOFF_S)
            return Verdict(True, f"{reason}; not its fault, so it is tried again in {wait:g} s", wait)
        same = (cause, kind, (error or {}).get("line"), step)
        if kind == FOLDER_GONE and story.last != same:
            story.last = same  # the engine pauses the search in this time, if the folder is gone on its machine too
            return Verdict(True, f"{reason}; it is tried once more", STORE_S)
        if story.last == same and cause in ("exception", "exit", "setup"):
            return Verdict(False, f"{reason}; the second time in a row at step {step}, so it is not retried")
        if story.restarts >= self.max_restarts:
            return Verdict(False, f"{reason}; no new checkpoint after {story.restarts} restarts, the most allowed")
        wait = min(BACKOFF_S * 2**story.restarts, MOST_BACKOFF_S)
        story.last = same
        story.restarts += 1
        return Verdict(True, f"{reason}; restart {story.restarts} of {self.max_restarts}", wait)

    def _memory(self, trial: int, reason: str, alone: bool) -> Verdict:
        """Retry once with no other leg on the machine: the killed leg may not be the one that used up the memory.

        Later legs share a machine again, because a machine for one trial is expensive; so only whether this leg was
        alone counts.
        """
        if alone:
            hint = "it was alone on its machine; make the model, the batch or the loader's workers smaller"
            return Verdict(False, f"{reason} once more, and {hint}")
        self._stories.setdefault(trial, _Story()).restarts += 1
        return Verdict(True, f"{reason}; it is tried once more, alone on its machine", BACKOFF_S, alone=True)

    def _cuda(self, trial: int, error: dict[str, Any], reason: str) -> Verdict:
        """Not its fault if other processes held device memory. If it was alone on the device, or used up its part of
        it, it would fail again."""
        memory = error.get("device_memory") or {}
        total, others = float(memory.get("total", 0)), float(memory.get("others", 0))
        if allowed := float(memory.get("allowed", 0)):
            hint = f"its part of the slot has {allowed / 1e9:.1f} of the device's {total / 1e9:.1f} GB"
            return Verdict(False, f"{reason}; {hint}: give each trial a larger part (--slots), or take a smaller batch")
        if total and others > OTHERS * total:
            story = self._stories.setdefault(trial, _Story())
            story.losses += 1
            wait = min(STORE_S * 2 ** min(story.losses - 1, 10), MOST_BACKOFF_S)
            held = f"others hold {others / 1e9:.1f} of the device's {total / 1e9:.1f} GB"
            return Verdict(True, f"{reason}; {held}: not its fault, so it continues elsewhere", wait)
        size = f" of {total / 1e9:.1f} GB" if total else ""
        hint = f"it had the device{size} to itself: take a smaller batch or model, or save memory (autocast)"
        return Verdict(False, f"{reason}; {hint}")
