"""What a plan takes in time. Law: pure; the times of a set-up and of a step were measured or given, never guessed.

A trial that is promoted continues in a new process, unless that happens at once, so its set-up runs again.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import TYPE_CHECKING

from workbench.records.durations import duration

if TYPE_CHECKING:
    from workbench.search.plan import Plan

#: The share of the time above which set-ups that are repeated are too expensive.
SHARE = 0.2


@dataclass(frozen=True, slots=True)
class Times:
    """Seconds of one set-up and of one step, and who says so: ``digits@1 took``, ``you gave``."""

    setup_s: float
    step_s: float
    source: str


@dataclass(frozen=True, slots=True)
class Cost:
    """Seconds of one slot that a plan takes at most: in set-ups, of which there are ``setups``, and in steps.

    advice: what to do if repeated set-ups are more than a fifth of it; else empty.
    """

    times: Times
    setups: int
    setup_s: float
    step_s: float
    advice: str = ""

    @property
    def seconds(self) -> float:
        """Both together."""
        return self.setup_s + self.step_s

    @property
    def share(self) -> float:
        """The share of set-ups, 0 to 1."""
        return self.setup_s / self.seconds if self.seconds else 0.0

    def __str__(self) -> str:
        times = self.times
        return (
            f"{times.source} {_short(times.setup_s)} for a set-up and {_short(times.step_s)} for a step: at most about "
            f"{duration(self.seconds)} of one slot, {duration(self.setup_s)} of it ({self.share:.0%}) in "
            f"{self.setups:,} set-up{'s' * (self.setups != 1)}"
        )


def cost(planned: Plan, times: Times, stopping: Plan | None) -> Cost:
    """What ``planned`` takes with these times. stopping: the plan of as many configurations whose trials are trained on
    until they are stopped; None if no trial of ``planned`` is promoted."""
    found = Cost(times, planned.legs, planned.legs * times.setup_s, planned.steps * times.step_s)
    if stopping is None or found.share <= SHARE or stopping.legs >= planned.legs:
        return found
    other = cost(stopping, times, None)
    asks = f"--mode stop --trials {stopping.configurations}"
    asks = asks if planned.scheduler.kind == "asha" else f"--scheduler asha {asks}"
    advice = (
        f"Set-ups take {found.share:.0%} of the time, because each of the {planned.promotions:,} promotions sets its "
        f"trial up again. {asks} sets each trial up once: about {duration(other.seconds)}, "
        f"{duration(other.setup_s)} of it in {other.setups:,} set-ups; a trial is trained on until it is "
        "stopped at a rung."
    )
    return dataclasses.replace(found, advice=advice)


def _short(seconds: float) -> str:
    return f"{seconds * 1000:.0f} ms" if seconds < 0.995 else duration(seconds)
