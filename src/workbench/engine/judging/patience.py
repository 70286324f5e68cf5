"""How long a leg may be silent before it counts as hung. Law: pure; the set-up and time asleep do not count.

A user's limit is used as given. Without one, the limit is learned from the longest silence of any leg of the experiment
that was followed by a message. It is generous: killing a leg in vain costs more than letting one hang for a while.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from workbench.errors import BadOption
from workbench.records.plain import plain

#: A learned limit is TIMES the longest silence that ended, and at least LEAST_S seconds.
TIMES, LEAST_S = 20.0, 1800.0
#: Each time a trial counts as hung, its limit grows by this factor: a slow leg that does not hang gets through in the
#: end.
AGAIN = 4.0
#: Seconds that a leg gets, at least and at most, to finish its turn and leave with a checkpoint.
TURN_S, MOST_TURN_S = 30.0, 3600.0
#: Seconds between two looks from which on the whole machine counts as asleep (a closed lid, SIGSTOP to all).
NAP_S = 3.0
#: The longest time limit in seconds (about 30 years): later dates do not exist.
MOST_S = 1e9


def checked_limit(seconds: float, written: str) -> float:
    """``seconds`` of a time limit, given as ``written``. Raises BadOption if it is not a number of seconds, or too
    large."""
    seconds = plain(seconds)
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not 0 < seconds <= MOST_S:
        raise BadOption(
            f"{written}: expected seconds, more than 0 and at most {MOST_S:.0f} (about 30 years). Give, for example, "
            "3600 for an hour, or leave it out for no limit."
        )
    return float(seconds)


@dataclass(slots=True)
class Patience:
    """What one experiment has learned about its legs' silences. ``user_s``: the user's limit, or None."""

    user_s: float | None = None
    longest_s: float | None = None
    #: Seconds of the longest turn that ended.
    longest_turn_s: float = 0.0
    _hangs: dict[int, int] = field(default_factory=dict)
    _looked: float | None = None

    def heard_after(self, silence_s: float) -> None:
        """A leg sent a message after ``silence_s`` seconds awake."""
        if self.longest_s is None or silence_s > self.longest_s:
            self.longest_s = silence_s

    def limit(self, trial: int) -> float | None:
        """Seconds of silence after which a leg of ``trial`` counts as hung; None while nothing is known."""
        if self.user_s is not None:
            return self.user_s
        if self.longest_s is None:
            return None
        return float(max(LEAST_S, TIMES * self.longest_s) * AGAIN ** min(self._hangs.get(trial, 0), 10))

    def turned_after(self, turn_s: float) -> None:
        """A turn ended after ``turn_s`` seconds."""
        self.longest_turn_s = max(self.longest_turn_s, turn_s)

    def turn_s(self, under_way_s: float) -> float:
        """Seconds that a leg gets to finish a turn that has taken ``under_way_s`` so far.

        Twice the longest turn so far. A turn that already takes longer than any before gets the same time again: then
        at most half of its time is spent waiting in vain.
        """
        return min(MOST_TURN_S, max(TURN_S, 2 * self.longest_turn_s, under_way_s))

    def hung(self, trial: int) -> None:
        """A leg of ``trial`` counted as hung."""
        self._hangs[trial] = self._hangs.get(trial, 0) + 1

    def asleep(self, now: float) -> float:
        """Seconds since the last look in which this machine was asleep. Called about once a second with a monotonic
        clock."""
        before, self._looked = self._looked, now
        return now - before if before is not None and now - before > NAP_S else 0.0
