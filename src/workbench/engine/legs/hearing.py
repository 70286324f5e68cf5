"""Shows legs' messages to viewers. Law: it decides nothing; the leg book decides what follows from a message."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from typing import Any

from workbench.engine.judging.verify import Verification
from workbench.engine.legs.leg import Leg
from workbench.engine.legs.legbook import Heard, LegBook, Line
from workbench.engine.shown import Shown
from workbench.engine.telling.teller import Teller
from workbench.engine.tending.used import Used
from workbench.facts import Fact, PauseAsked, Reached, ResumeAsked
from workbench.messages import Begun, FromLeg, Left, Plain, Points, Sampled, Saved, Says, Seen
from workbench.records import SETTING_UP, Spec
from workbench.search import Search
from workbench.store.keeping.kept import Kept
from workbench.store.layout import ExperimentPaths
from workbench.store.series import Series

#: Fields of a leg's first message that are kept for its page and for comparisons.
DETAIL = ("in_place", "found", "environment", "setup_s", "skipped", "architecture", "data", "seen", "back", "lacks")


class Hearing:
    """Writes legs' messages to the series, the trials' rows and the notifications."""

    def __init__(
        self,
        spec: Spec,
        paths: ExperimentPaths,
        search: Search,
        legbook: LegBook,
        series: Series,
        shown: Shown,
        teller: Teller,
        verification: Verification,
        now: Callable[[], str],
    ) -> None:
        self._spec, self._search, self._legbook, self._series = spec, search, legbook, series
        self._shown, self._teller, self._verification, self._now = shown, teller, verification, now
        self._used = Used(series)
        self._lacks: list[str] = series.meta().get("lacks") or []
        self._kept = Kept(paths)
        #: How many trials were setting up at the last look.
        self._long = 0

    @property
    def packages(self) -> list[str] | None:
        """The packages that the training code imported; None before a leg has reported them."""
        return self._used.packages

    def put_trial(self, number: int, reason: str | None = None) -> None:
        """Show a trial's state."""
        book = self._legbook
        attempt, restarts = book.attempts.get(number, 0), book.faults.restarts(number)
        self._shown.put_trial(number, book.legs.get(number), attempt, restarts, reason)

    def handled(self, facts: Iterable[Fact]) -> None:
        """Show what the search has made of these: which trials a person has paused or resumed, and how those rank that
        reached a level."""
        for fact in facts:
            if isinstance(fact, Reached):  # its leg may go on, and report nothing for long
                self._shown.put_rank(fact.trial)
            if isinstance(fact, PauseAsked | ResumeAsked):
                for number in self._search.trials if fact.trial is None else (fact.trial,):
                    if self._shown.has_changed(number):
                        self.put_trial(number)

    def put_leg(self, leg: Leg) -> None:
        """Show a leg's order, and where it trains."""
        slot = leg.slot.name if leg.slot else None
        where: dict[str, Any] = {"start": leg.start, "until": leg.until, "slot": slot, "reason": leg.reason}
        if leg.mates:
            where["mates"] = [mate.name for mate in leg.mates]
        if leg.parts > 1:
            where["parts"] = leg.parts
        self._series.put_leg(leg.trial, leg.attempt, **where, **({"detail": dict(leg.detail)} if leg.detail else {}))

    def started(self, leg: Leg) -> None:
        """``leg`` was placed in a slot."""
        leg.heard = leg.placed = time.monotonic()
        self._shown.first_leg_at = self._shown.first_leg_at or leg.heard
        self.put_leg(leg)
        self._series.put_leg(leg.trial, leg.attempt, started=self._now())
        self.put_trial(leg.trial, leg.reason)

    def look(self) -> bool:
        """About once a second: see idle time, and show set-ups that take long. Returns whether others take long than at
        the last look."""
        self._shown.look(self._legbook.legs.values())
        now = time.monotonic()
        for leg in self._legbook.setting_up(now):
            placed = datetime.now(UTC) - timedelta(seconds=now - leg.placed)
            leg.since = leg.since or placed.isoformat(timespec="milliseconds")
            self.put_trial(leg.trial)
        before, self._long = self._long, self._shown.counts.get(SETTING_UP, 0)
        return before != self._long

    def heard_before(self, trial: int, began: float | None) -> dict[int, float]:
        """The goal by step, reported by the leg that started at ``began``."""
        points = self._series.points([trial], [self._spec.goal.metric]) if began is not None else []
        return {step: value for _, _, step, index, value, at in points if index == 0 and at >= (began or 0.0)}

    def show(self, leg: Leg, message: FromLeg, heard: Heard) -> list[Line]:
        """Show a message and what follows from it. Returns lines for the journal."""
        for step, value, metrics in heard.known:
            self._shown.know(leg.trial, step, value, metrics)
        match message:
            case Begun():
                return self._begun(leg, message)
            case Points():
                self._series.add_points((leg.trial, *row) for row in message.rows)
                self._teller.points(leg.trial, message.rows)
                self.put_trial(leg.trial)
            case Saved():
                self._series.put_leg(leg.trial, leg.attempt, checkpoint=message.step, detail=dict(leg.detail))
            case Says():
                said = leg.detail.setdefault("says", [])
                if message.text not in said:
                    said.append(message.text)
                self._series.put_leg(leg.trial, leg.attempt, detail=dict(leg.detail))
                self._shown.say(message.text)
            case Seen():
                self._seen(leg, message.seen)
                self._series.put_leg(leg.trial, leg.attempt, detail=dict(leg.detail))
            case Sampled():
                self._series.add_samples(leg.trial, message.rows)
            case Left():
                self._left(leg, message, heard)
        return []

    def _begun(self, leg: Leg, message: Begun) -> list[Line]:
        told = {key: getattr(message, key) for key in DETAIL} | {"skipped": [asdict(one) for one in message.skipped]}
        leg.detail |= {key: value for key, value in told.items() if value not in (None, False, [])}
        if message.seen is not None:
            self._seen(leg, message.seen)
        self._shown.resumed(leg.trial, (message.found or {}).get("inexact") or [])
        self._series.put_leg(
            leg.trial,
            leg.attempt,
            start=leg.start,
            worker=message.worker,
            pid=message.pid,
            began=message.at,
            detail=dict(leg.detail),
        )
        self.put_trial(leg.trial)
        # Secrets of the notebook that were missing when a leg started: journaled once, until that changes.
        if message.lacks == self._lacks:
            return []
        self._lacks = message.lacks
        self._series.put_meta("lacks", message.lacks)
        return [{"kind": "Lacks", "names": message.lacks}]

    def _seen(self, leg: Leg, seen: Plain) -> None:
        host = str((leg.detail.get("environment") or {}).get("host") or "")
        leg.detail["seen"] = self._used.take(seen, host)
        self._kept.note(seen["files"])

    def _left(self, leg: Leg, message: Left, heard: Heard) -> None:
        fields: dict[str, Any] = {"outcome": heard.outcome, "reason": heard.reason, "step": heard.step}
        if message.device_peak is not None:
            leg.detail["device_peak"] = message.device_peak
            fields["detail"] = dict(leg.detail)
        self._series.put_leg(leg.trial, leg.attempt, ended=self._now(), left=time.time(), **fields)
        if heard.outcome in ("reached", "completed"):
            self._shown.steps_done += max(0, heard.step - leg.start)
            above = next((at for at in self._search.levels(leg.trial) if at > leg.start), heard.step)
            self._verification.resumed(leg.trial, leg.start, heard.step, above, len(leg.in_slots))
        error = message.error
        if heard.way is not None and error and error.get("traceback"):
            self._shown.errors[leg.trial] = error["traceback"]
