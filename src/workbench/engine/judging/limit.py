"""How long an experiment may train. Law: wall time, which outlasts an engine; no clock is read in here."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta


class Limit:
    """The time limit of one experiment, in seconds from its first leg; None: there is none."""

    def __init__(self, seconds: float | None) -> None:
        self._seconds = seconds
        self._started: datetime | None = None
        self._deadline: datetime | None = None

    def begin(self, at: str) -> None:
        """Its first leg starts at that time (UTC, ISO 8601)."""
        self._started = datetime.fromisoformat(at)
        if self._seconds is not None:
            self._deadline = later(self._started, self._seconds)

    def extend(self, at: str, seconds: float | None) -> None:
        """At that time it was extended: by more seconds, or (None) by other things. A limit that is over is dropped."""
        moment = datetime.fromisoformat(at)
        if self._deadline is not None and self._deadline <= moment:
            self._deadline = None
        if seconds is not None:
            self._deadline = later(self._deadline or moment, seconds)

    def over(self, now: datetime) -> str | None:
        """Why the experiment must stop at ``now``, if its time is over. It is said once."""
        if self._deadline is None or now <= self._deadline:
            return None
        allowed = (self._deadline - (self._started or now)).total_seconds()
        self._deadline = None
        return f"its time limit of {allowed:g} s is over"


def later(moment: datetime, seconds: float) -> datetime:
    """So many seconds after ``moment``, or the last moment that a date can have."""
    try:
        return moment + timedelta(seconds=seconds)
    except (OverflowError, ValueError):  # in a spec or journal that was written before limits were checked
        return datetime.max.replace(tzinfo=UTC)
