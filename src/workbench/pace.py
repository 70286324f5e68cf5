"""When what waits may go on. Law: at once after a rest, together while more keeps coming; no clock, no timer.

Points are gathered once, in the runner. Worker and engine pass on at once what they hear, unless they have just passed
on something of another leg.
"""

from __future__ import annotations

import math

#: Seconds between two batches of points of one leg.
BATCH_S = 0.05
#: Seconds between two batches of what worker or engine pass on. Shorter than the runner's, so that each of one leg
#: finds them at rest: with the same length, a stage that is a little slower than the runner would hold back each batch.
PASS_S = 0.04


class Pace:
    """At most one batch in ``gap_s`` seconds, the first of them at once.

    >>> pace = Pace(0.05)
    >>> pace.wait_s(10.0)
    0.0
    >>> pace.gone(10.0)
    >>> round(pace.wait_s(10.02), 3), pace.wait_s(10.06)
    (0.03, 0.0)
    """

    def __init__(self, gap_s: float) -> None:
        self._gap_s = gap_s
        self._next = -math.inf

    def wait_s(self, now: float) -> float:
        """Seconds for which what waits has to go on waiting."""
        return max(0.0, self._next - now)

    def gone(self, now: float) -> None:
        """A batch has gone."""
        self._next = now + self._gap_s
