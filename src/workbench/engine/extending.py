"""Whether a search can be extended now. Law: pure; it raises, or returns nothing."""

from __future__ import annotations

from collections.abc import Collection

from workbench.engine.judging.patience import checked_limit
from workbench.errors import BadOption
from workbench.facts import Extended, Fact, StopAsked
from workbench.records import ExperimentState, Spec
from workbench.search.life import Life


def check_extension(spec: Spec, life: Life, state: ExperimentState, waiting: Collection[Fact], fact: Extended) -> None:
    """Raises BadOption if the experiment cannot be extended in this way. waiting: facts that it has not handled yet."""
    label = spec.label
    # Several requests may arrive at once.
    stops = life.is_stopping or any(isinstance(one, StopAsked) and one.trial is None for one in waiting)
    if stops and life.end is None:
        raise BadOption(f"{label} is being stopped; expected a search that runs or has ended. Try again in a moment.")
    if any(isinstance(one, Extended) for one in waiting):
        raise BadOption(f"{label} is being extended; expected one extension at a time. Try again in a moment.")
    if fact.seconds is not None:
        checked_limit(fact.seconds, f"extending {label} by {fact.seconds:g} s")
    if not fact.trials and fact.last is None and (fact.seconds is None or state == "completed"):
        why = "cannot be extended by nothing"
        if fact.seconds:
            why = "has trained all that was planned, so more time changes nothing"
        raise BadOption(f"{label} {why}; expected more trials or more steps. Write --trials 20 or --steps 81.")
