"""The state of an experiment, computed here for notebook, command line and panel. Law: it only reads, and never calls
an experiment running that has no engine.

An engine writes about an experiment to two places: to its series, at once, and to the store's catalog, at most twice a
second. A list need not open the series of experiments that have ended.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from workbench.facts import ENDS_BY_ITSELF, PauseCause, former_cause
from workbench.records import ENDED, SETTING_UP, UNREADABLE, Spec
from workbench.records.names import trial_label
from workbench.standing import Best
from workbench.store import Store
from workbench.store.files.space import space_left
from workbench.store.lists import outcome
from workbench.store.owner import own_cluster
from workbench.store.owner.lease import read_engine

__all__ = [
    "NOT_TAKEN",
    "NO_ENGINE",
    "RESTING",
    "Around",
    "Progress",
    "Status",
    "asked_trials",
    "awaits_person",
    "setups_words",
]

#: States in which an experiment needs no engine.
RESTING = ENDED | {UNREADABLE}
#: The text for an experiment that needs an engine and has none.
NO_ENGINE = "no engine runs; resume it, or run `workbench engine start`"
#: The text for one that was just launched.
NOT_TAKEN = "no engine has taken it yet"
#: Bytes: with less, an engine may write nothing, not even that the disk is full.
_FULL = 16 << 10


@dataclass(frozen=True, slots=True)
class Around:
    """The engine of a store at this moment."""

    #: Whether it runs.
    alive: bool
    #: If it does not, the text for an experiment that needs it.
    lacks: str = ""
    #: Why it can write nothing, if the store's disk is full: what it would write about that is not there then.
    full: str = ""

    @classmethod
    def of(cls, store: Store) -> Around:
        """The engine of ``store`` now."""
        info = read_engine(store)
        if info is not None and info.alive:
            return cls(True, full=_full(store))
        return cls(False, own_cluster.trains_on(store.root) or NO_ENGINE)

    def state(self, told: str | None) -> str:
        """The present state of an experiment or trial whose recorded state is ``told``: without an engine it waits for
        one."""
        if not self.alive and told in ("running", SETTING_UP, "stopping"):
            return "waiting"
        return told or "waiting"

    def counts(self, told: Mapping[str, int]) -> Mapping[str, int]:
        """How many trials are in each present state, of those whose recorded states are counted in ``told``."""
        found: Counter[str] = Counter()
        for state, count in told.items():
            found[self.state(state)] += count
        return found

    def trial(self, row: Mapping[str, Any]) -> dict[str, Any]:
        """A trial's row as it is now, with its label."""
        state = self.state(row.get("state"))
        changed = {"state": state, "reason": self.lacks} if state != row.get("state") else {}
        return {**row, "label": trial_label(row["number"]), **changed}


def awaits_person(entry: Mapping[str, Any]) -> bool:
    """Whether an experiment of the catalog is paused, and only a person can change that."""
    return entry["state"] == "paused" and entry.get("pause") not in ENDS_BY_ITSELF


def _full(store: Store) -> str:
    """That the disk of ``store`` is full, in words; empty if it is not."""
    with contextlib.suppress(OSError):
        room = space_left(store.root)
        if room is not None and room < _FULL:
            return f"no space is left on the disk of {store.root}. Training continues when there is room"
    return ""


def asked_trials(spec: Spec) -> int | None:
    """How many trials a spec asks for; None if it has no number of configurations."""
    if spec.trials is None:
        return None
    from workbench.search.members import members_of  # it imports the search, and commands start often

    return spec.trials * members_of(spec).count


def setups_words(counts: Mapping[str, int]) -> str:
    """``2 trials setting up``; empty if none is. counts: how many trials are in each state."""
    count = counts.get(SETTING_UP, 0)
    return f"{count} trial{'s' * (count != 1)} setting up" if count else ""


@dataclass(frozen=True, slots=True)
class Progress:
    """An experiment's progress: how many of its trials have ended, have started, and are planned (None: not known)."""

    ended: int
    begun: int
    planned: int | None
    #: 0 to 1; None if the number of trials is not known.
    share: float | None

    @classmethod
    def read(cls, state: str, begun: int | None, counts: Mapping[str, int] | None, planned: int | None) -> Progress:
        """Compute it from an experiment's state, its number of started trials, and its trials by state."""
        ended = sum(count for name, count in (counts or {}).items() if name in ENDED)
        begun = max(begun or 0, sum((counts or {}).values()))
        if counts is None and state in ENDED:
            ended = begun  # a catalog of an early version does not count
        share = 1.0 if state == "completed" else min(ended / planned, 1.0) if planned else None
        return cls(ended, begun, planned, share)

    @property
    def of(self) -> int:
        """The total for the progress: the planned trials, or else the started ones."""
        return self.planned or self.begun

    @property
    def numbers(self) -> dict[str, int | None]:
        """The counts, as every face is given them."""
        return {"ended": self.ended, "begun": self.begun, "planned": self.planned, "of": self.of}

    def __str__(self) -> str:
        """``18 of 49 trials ended``."""
        return f"{self.ended} of {self.of} trials ended"


@dataclass(frozen=True, slots=True)
class Status:
    """One experiment as it is now."""

    state: str
    #: Why it is in that state, in words.
    reason: str
    #: Why it is paused, if it is.
    pause: PauseCause | None
    #: Why the engine cannot write to the disk, while it cannot.
    disk: str | None
    #: The best trial and its value, as the search judges; None before a trial has reached a level.
    best: Best | None
    progress: Progress
    #: How many trials are in each state.
    counts: Mapping[str, int]
    #: Times in ISO 8601.
    started: str | None
    ended: str | None
    #: The rest of its outcome, as :mod:`workbench.store.lists.outcome` keeps it.
    outcome: Mapping[str, Any]
    #: Seconds left, and slots used and assigned; None if no engine runs it.
    seconds_left: float | None
    slots: Mapping[str, int] | None
    #: Whether it needs an engine, and none runs.
    lacks_engine: bool

    @classmethod
    def of(cls, entry: Mapping[str, Any], meta: Mapping[str, Any], around: Around, trials: int | None = None) -> Status:
        """The status according to catalog (``entry``) and series (``meta``). Either may be empty: the series of an
        inactive experiment need not be opened, and an experiment that was just launched is not in the catalog yet.

        trials: how many trials its spec asks for, used if neither knows yet.
        """
        # A live engine writes to the series first. An engine that could not write the series wrote the catalog last.
        ends = entry.get("state") in ENDED and not around.alive
        told = entry if ends or entry.get("state") == UNREADABLE or not meta.get("state") else meta
        state = around.state(told.get("state"))
        lacks = not around.alive and state not in RESTING
        # A paused experiment says why; an engine starts when it is resumed.
        reason = told.get("reason") or entry.get("reason")
        if not told.get("state"):
            reason = NOT_TAKEN
        elif lacks and state != "paused":
            reason = around.lacks
        disk = (entry.get("disk") or around.full) if around.alive and state not in RESTING else None
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
            disk=disk or None,
            best=Best.from_json(best) if best else None,
            progress=Progress.read(state, entry.get("trials"), counts, planned),
            counts=around.counts(counts or {}),
            started=meta.get("started") or entry.get("started"),
            ended=(meta.get("ended") or entry.get("ended")) if state in ENDED else None,
            outcome=outcome.known(entry, meta),
            seconds_left=meta.get("seconds_left") if around.alive else None,
            slots=meta.get("slots") if around.alive else None,
            lacks_engine=lacks,
        )

    @property
    def is_ended(self) -> bool:
        """Whether it is in a state that only an extension can change."""
        return self.state in ENDED

    @property
    def is_resting(self) -> bool:
        """Whether it is inactive: it has ended, or its files are not valid."""
        return self.state in RESTING
