"""The engine's interfaces for an experiment's loop. Law: interfaces only; tests implement them by hand."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from workbench.cluster.backend import Survivor
from workbench.engine.judging.suspects import Way, Who
from workbench.engine.legs.leg import Leg
from workbench.facts import Reached

if TYPE_CHECKING:
    from workbench.engine.loop import ExperimentLoop


class Places(Protocol):
    """Where legs train: what an experiment's loop needs of the engine's slots."""

    def dispatch(self, loop: ExperimentLoop, leg: Leg) -> None:
        """Start ``leg`` in a free slot, now or when there is one."""

    def survivor(self, experiment: str, trial: int, attempt: int) -> Survivor | None:
        """That leg, if an earlier engine started it and it still trains."""

    def adopt(self, loop: ExperimentLoop, leg: Leg, survivor: Survivor) -> None:
        """Adopt a leg where it trains."""

    def stop_leg(self, leg: Leg, reason: str, keep_s: float | None) -> None:
        """Make a leg leave, or drop it if it waits for a slot.

        keep_s: seconds in which it may finish its turn and leave with a checkpoint; None: without one.
        """

    def go_on(self, loop: ExperimentLoop, reached: Sequence[Reached]) -> None:
        """Tell legs that wait at these levels that they were not stopped there, unless they were."""

    def went_wrong(self, worker: str, who: Who, way: Way) -> None:
        """A leg of ``who`` died on ``worker`` in this way."""

    def rebalance(self) -> None:
        """Share the slots again: this experiment needs more or fewer."""


class Surroundings(Protocol):
    """What an experiment's loop needs of its engine besides slots."""

    def changed(self, loop: ExperimentLoop) -> None:
        """The experiment's entry in the catalog changed."""

    def saved(self, loop: ExperimentLoop, trial: int, *, passing: bool) -> None:
        """A trial has a new checkpoint. passing: it lies between levels, where there may be one a second."""

    def storage_trouble(self, loop: ExperimentLoop) -> str | None:
        """Since when the experiment's storage is unavailable, and why; None if it is available."""

    async def clean(self, loop: ExperimentLoop) -> None:
        """Remove checkpoints that its rule does not keep."""

    def written(self) -> None:
        """A checkpoint takes space on the disk."""
