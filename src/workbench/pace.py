"""When to forward points. Law: at once after a pause, in batches while more keep arriving; no clock, no timer.

Points are batched only in the runner. Worker and engine forward them at once, unless they have just forwarded points of
another leg.
"""

from __future__ import annotations

import math

#: Seconds between two batches of points of one leg.
BATCH_S = 0.05
#: Seconds between two batches that worker or engine forward. Shorter than the runner's, so that a leg's batch never
#: waits: with the same length, a stage that is a little slower than the runner would delay each batch.
PASS_S = 0.04


class Pace:
    """At most one batch in ``gap_s`` seconds, the first one at once.

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
        """Seconds until the waiting points may be sent."""
        return max(0.0, self._next - now)

    def gone(self, now: float) -> None:
        """Note that a batch was sent."""
        self._next = now + self._gap_s
