"""How long a leg may say nothing before it counts as hung. Law: pure; the set-up and time asleep do not count.

A person's limit holds as it is. Without one it is learned: from the longest silence that ended well, of any leg of the
experiment, and generously, for a leg that is killed in vain costs more than one that hangs for a while.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from workbench.errors import BadOption

#: A learned limit is so many times the longest silence that ended, and at least LEAST_S seconds.
TIMES, LEAST_S = 20.0, 1800.0
#: After each verdict the trial gets so many times longer: what was slow and not hung comes through in the end.
AGAIN = 4.0
#: Seconds that a leg gets at least, and at most, to come to the end of its turn and leave with a checkpoint.
TURN_S, MOST_TURN_S = 30.0, 3600.0
#: Seconds between two looks from which on everything here was asleep (a closed lid, SIGSTOP to all).
NAP_S = 3.0
#: Seconds of a time limit, at most (about 30 years): dates come to an end.
MOST_S = 1e9


def checked_limit(seconds: float, written: str) -> float:
    """``seconds`` of a time limit, given as ``written``. Raises BadOption for what is no time, or beyond all dates."""
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not 0 < seconds <= MOST_S:
        raise BadOption(
            f"{written}: expected seconds, more than 0 and at most {MOST_S:.0f} (about 30 years). Give, for example, "
            "3600 for an hour, or leave it out for no limit."
        )
    return float(seconds)


@dataclass(slots=True)
class Patience:
    """What one experiment has learned of its legs' silences. ``user_s``: the limit that a person gave, or None."""

    user_s: float | None = None
    longest_s: float | None = None
    #: Seconds of the longest turn that came to its end.
    longest_turn_s: float = 0.0
    _hangs: dict[int, int] = field(default_factory=dict)
    _looked: float | None = None

    def heard_after(self, silence_s: float) -> None:
        """A leg said something after ``silence_s`` seconds awake."""
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
        """A turn came to its end after ``turn_s`` seconds."""
        self.longest_turn_s = max(self.longest_turn_s, turn_s)

    def turn_s(self, under_way_s: float) -> float:
        """Seconds that a leg gets to come to the end of a turn that has taken ``under_way_s`` so far.

        Twice what one has ever taken. Where this one takes longer than any before, as long again: then no more than
        half of the time that went into it can be waited for in vain.
        """
        return min(MOST_TURN_S, max(TURN_S, 2 * self.longest_turn_s, under_way_s))

    def hung(self, trial: int) -> None:
        """A leg of ``trial`` counted as hung."""
        self._hangs[trial] = self._hangs.get(trial, 0) + 1

    def asleep(self, now: float) -> float:
        """Seconds since the last look in which nothing here ran. Called about once a second with a monotonic clock."""
        before, self._looked = self._looked, now
        return now - before if before is not None and now - before > NAP_S else 0.0
