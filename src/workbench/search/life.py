"""The state of an experiment, computed from its facts. Law: pure; every change of state is in the legal table.

The engine's loop and the readers of a journal apply the same facts, so they agree.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Any

from workbench.facts import ENDS_BY_ITSELF, Extended, Finish, PauseAsked, PauseCause, Rest, ResumeAsked, StopAsked
from workbench.records import ENDED, LEGAL_EXPERIMENT, ExperimentState

WAITS, TRAINS = "it waits for a slot", "training"
PROBING = "the first trial is the probe; the others start after its first report"
EXTENDED = "it was extended, and waits for a slot"
#: The facts that may change it. All others are about trials.
_TURNS = frozenset({PauseAsked, ResumeAsked, StopAsked, Extended, Finish, Rest})


@dataclass(frozen=True, slots=True)
class Life:
    """The state of an experiment, and why."""

    #: Why it should pause until it is resumed: the cause, and its text.
    pause: PauseCause | None = None
    why_paused: str = ""
    is_stopping: bool = False
    #: How it ended, until it is extended.
    end: Finish | None = None
    #: Whether legs were started since it last waited for a slot.
    trains: bool = False
    #: Whether it waits for a slot since it was extended.
    is_extended: bool = False
    #: When its first leg started, and when the experiment ended: ISO 8601.
    started: str | None = None
    ended: str | None = None

    @property
    def state(self) -> ExperimentState:
        """Its state according to its facts alone."""
        if self.end is not None:
            return self.end.state
        if self.is_stopping:
            return "stopping"
        if self.pause is not None:
            return "paused"
        return "running" if self.trains else "waiting"

    @property
    def reason(self) -> str:
        """Why it is in that state, in words."""
        if self.end is not None:
            return self.end.reason
        if self.is_stopping:
            return "asked to stop"
        if self.pause is not None:
            return self.why_paused
        return TRAINS if self.trains else EXTENDED if self.is_extended else WAITS

    def seen(self, slots: Collection[bool], lack: str | None, probed: bool) -> tuple[ExperimentState, str]:
        """State and reason, including what only its engine knows.

        slots: for each of its legs, whether it has a slot. lack: why some have none, if other engines hold the slots or
        the cluster has none. probed: whether a trial has reported.
        """
        if self.state == "waiting" and not self.is_extended and not slots and lack is not None:
            return "waiting", lack  # it has begun nothing yet, or was resumed
        if self.state not in ("waiting", "running") or not slots:
            return self.state, self.reason
        if lack is not None and not any(slots):
            return "waiting", lack
        reason = TRAINS if probed else PROBING
        return "running", reason if lack is None or all(slots) else f"{reason}; {lack}"

    def after(self, fact: object, at: str) -> Life:
        """Its life after a fact of its search, or its end, at a time in ISO 8601.

        Facts about trials and late facts change nothing. Raises ValueError for an illegal change.
        """
        if type(fact) not in _TURNS:
            return self
        match fact:
            case PauseAsked(reason=reason, cause=cause, trial=None):
                # A pause by the user stays when there is room again, or the folder is there again.
                if self.pause is None or self.pause in ENDS_BY_ITSELF or cause not in ENDS_BY_ITSELF:
                    return self._changed(fact, pause=cause, why_paused=reason, trains=False, is_extended=False)
            case ResumeAsked(trial=trial):
                # Of a search that is paused as a whole, one trial cannot go on alone.
                if trial is None or self.pause == "trials":
                    return self._changed(fact, pause=None, why_paused="")
            case Rest(reason=reason):
                if self.pause is None:
                    return self._changed(fact, pause="trials", why_paused=reason, trains=False, is_extended=False)
            case StopAsked(trial=None):
                return self._changed(fact, is_stopping=True)
            case Extended():
                return self.extended()
            case Finish():
                return self._changed(fact, end=fact, ended=at)
        return self

    def extended(self) -> Life:
        """Its life after an extension: an ended experiment continues, and a stop under way is cancelled."""
        if self.end is None:
            return self._changed("Extended", is_stopping=False)
        return self._changed(
            "Extended", end=None, ended=None, pause=None, is_stopping=False, trains=False, is_extended=True
        )

    def began(self, at: str) -> Life:
        """Its life after legs are started at that time."""
        if self.trains:
            return self
        fields: dict[str, Any] = {"trains": True, "started": self.started or at}
        if self.pause == "trials":  # another trial can run after all
            fields |= {"pause": None, "why_paused": ""}
        return self._changed("LegStarted", **fields)

    def _changed(self, why: object, **fields: Any) -> Life:
        if self.end is not None and why != "Extended":
            return self  # it has ended; late facts change nothing
        after = replace(self, **fields)
        if after.state != self.state and (self.state, after.state) not in LEGAL_EXPERIMENT:
            raise ValueError(f"an experiment that is {self.state} cannot become {after.state}: {why!r}")
        return after

    @property
    def is_ended(self) -> bool:
        """Whether it is in a state that only an extension can change."""
        return self.state in ENDED
