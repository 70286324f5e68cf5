"""What an experiment is now, read once for every face. Law: it reads, and calls nothing running that has no engine.

An engine tells of an experiment in two places: in its series, at once, and in the store's catalog, at most twice a
second. The series of experiments that have ended need not be opened for a list.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from workbench.facts import PauseCause, former_cause
from workbench.records import ENDED, UNREADABLE, trial_label
from workbench.store import Store
from workbench.store.lists import outcome
from workbench.store.owner import own_cluster
from workbench.store.owner.lease import read_engine

__all__ = ["NOT_TAKEN", "NO_ENGINE", "RESTING", "Around", "Progress", "Status"]

#: States in which an experiment needs no engine.
RESTING = ENDED | {UNREADABLE}
#: What is said of an experiment that needs an engine and has none.
NO_ENGINE = "no engine runs; resume it, or run `workbench engine start`"
#: What is said of one that was launched just now.
NOT_TAKEN = "no engine has taken it yet"


@dataclass(frozen=True, slots=True)
class Around:
    """The engine of a store at this moment."""

    #: Whether it runs.
    alive: bool
    #: Where it does not, what is said of an experiment that needs it.
    lacks: str = ""

    @classmethod
    def of(cls, store: Store) -> Around:
        """The engine of ``store`` now."""
        info = read_engine(store)
        if info is not None and info.alive:
            return cls(True)
        return cls(False, own_cluster.trains_on(store.root) or NO_ENGINE)

    def state(self, told: str | None) -> str:
        """The state of an experiment or trial that was told to be in ``told``: without an engine it waits for one."""
        if not self.alive and told in ("running", "stopping"):
            return "waiting"
        return told or "waiting"

    def trial(self, row: Mapping[str, Any]) -> dict[str, Any]:
        """A trial's row as it is now, with its label."""
        state = self.state(row.get("state"))
        changed = {"state": state, "reason": self.lacks} if state != row.get("state") else {}
        return {**row, "label": trial_label(row["number"]), **changed}


@dataclass(frozen=True, slots=True)
class Progress:
    """How far an experiment is: how many of its trials have ended, have begun, and are planned (None: not known)."""

    ended: int
    begun: int
    planned: int | None
    #: 0 to 1; None where it is not known how many trials there will be.
    share: float | None

    @classmethod
    def read(cls, state: str, begun: int | None, counts: Mapping[str, int] | None, planned: int | None) -> Progress:
        """From an experiment's state, and its trials: how many have begun, and how many are in each state."""
        ended = sum(count for name, count in (counts or {}).items() if name in ENDED)
        begun = max(begun or 0, sum((counts or {}).values()))
        if counts is None and state in ENDED:
            ended = begun  # a catalog of an early version does not count
        share = 1.0 if state == "completed" else min(ended / planned, 1.0) if planned else None
        return cls(ended, begun, planned, share)

    @property
    def of(self) -> int:
        """How many trials those that have ended are compared with: the planned ones, else those that have begun."""
        return self.planned or self.begun

    def __str__(self) -> str:
        """``18 of 49 trials ended``."""
        return f"{self.ended} of {self.of} trials ended"


@dataclass(frozen=True, slots=True)
class Status:
    """One experiment as it is now."""

    state: str
    #: Why it is in that state, in words.
    reason: str
    #: Why it is paused, where it is.
    pause: PauseCause | None
    #: Why the disk refuses what its engine has to write, while it does.
    disk: str | None
    #: The best trial and its value, as the search judges; None before a trial has reached a level.
    best: tuple[int, float] | None
    progress: Progress
    #: How many trials are in each state.
    counts: Mapping[str, int]
    #: Times in ISO 8601.
    started: str | None
    ended: str | None
    #: How it went besides, as :mod:`workbench.store.lists.outcome` keeps it.
    outcome: Mapping[str, Any]
    #: Seconds that are left, and slots that are used and given; None where no engine works at it.
    seconds_left: float | None
    slots: Mapping[str, int] | None
    #: Whether it needs an engine, and none runs.
    lacks_engine: bool

    @classmethod
    def of(cls, entry: Mapping[str, Any], meta: Mapping[str, Any], around: Around, trials: int | None = None) -> Status:
        """What catalog (``entry``) and series (``meta``) tell. Either may be empty: the series of what rests need not
        be opened, and an experiment that was just launched is not in the catalog yet.

        trials: how many trials its spec asks for, where neither knows yet.
        """
        # An engine that lives tells the series first. One that could not write them has told the catalog at last.
        ends = entry.get("state") in ENDED and not around.alive
        told = entry if ends or entry.get("state") == UNREADABLE or not meta.get("state") else meta
        state = around.state(told.get("state"))
        lacks = not around.alive and state not in RESTING
        # What is paused says why; an engine begins with its resumption.
        reason = told.get("reason") or entry.get("reason")
        if not told.get("state"):
            reason = NOT_TAKEN
        elif lacks and state != "paused":
            reason = around.lacks
        disk = entry.get("disk") if around.alive and state not in RESTING else None
        if disk:
            reason = f"waiting: {disk}"
        pause = (meta.get("pause") or {}).get("cause") or entry.get("pause") if state == "paused" else None
        if state == "paused" and pause is None:
            pause = former_cause(str(reason or ""))  # an early version wrote no cause
        best = meta.get("best") or entry.get("best")
        counts = meta.get("counts") or entry.get("counts")
        planned = (meta.get("planned") or entry.get("planned") or {}).get("trials") or trials
        return cls(
            state=state,
            reason=str(reason or ""),
            pause=pause,
            disk=disk,
            best=(int(best["trial"]), float(best["value"])) if best else None,
            progress=Progress.read(state, entry.get("trials"), counts, planned),
            counts=counts or {},
            started=meta.get("started") or entry.get("started"),
            ended=(meta.get("ended") or entry.get("ended")) if state in ENDED else None,
            outcome=outcome.known(entry, meta),
            seconds_left=meta.get("seconds_left") if around.alive else None,
            slots=meta.get("slots") if around.alive else None,
            lacks_engine=lacks,
        )

    @property
    def is_ended(self) -> bool:
        """Whether it is in a state that it leaves only by being extended."""
        return self.state in ENDED

    @property
    def is_resting(self) -> bool:
        """Whether nothing goes on with it: it has ended, or its files make no sense."""
        return self.state in RESTING
