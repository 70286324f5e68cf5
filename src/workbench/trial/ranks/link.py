"""What the ranks of a leg hear and say. Law: the first rank speaks for all; all leave at the same point."""

from __future__ import annotations

from collections.abc import Sequence

from workbench.messages import Begun, FromLeg, StopOrder
from workbench.trial.process.runner import Link, Point
from workbench.trial.ranks.meeting import Ranks


class RankLink:
    """``link`` for one of several ranks."""

    def __init__(self, link: Link, ranks: Ranks) -> None:
        self._link, self._ranks = link, ranks

    def report(self, points: Sequence[Point]) -> None:
        if self._ranks.is_first:
            self._link.report(points)

    def send(self, message: FromLeg) -> None:
        if self._ranks.is_first:
            self._link.send(message)
        elif isinstance(message, Begun):  # its worker needs to know that the set-up is over
            self._link.send(Begun(step=message.step, setup_s=message.setup_s))

    def flush(self) -> None:
        if self._ranks.is_first:
            self._link.flush()

    def stop(self) -> StopOrder | None:
        """The first rank's order to stop, if it has one. All ranks call this together."""
        order = self._link.stop() if self._ranks.is_first else None
        told = self._ranks.agreed(None if order is None else [order.reason, order.keep, order.is_notice])
        return None if told is None else StopOrder(*told)

    def verdict(self, step: int, patience_s: float) -> None:
        if self._ranks.is_first:
            self._link.verdict(step, patience_s)
