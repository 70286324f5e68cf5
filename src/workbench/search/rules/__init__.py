"""Which rule each scheduler is. Law: the plan's ladders, and nothing else, say what a rule compares."""

from __future__ import annotations

from workbench.search.asha import Asha
from workbench.search.fifo import Fifo
from workbench.search.hyperband import Hyperband
from workbench.search.median import Median
from workbench.search.plan import Plan
from workbench.search.rule import Rule, Words
from workbench.search.rungs import levels, median_levels

__all__ = ["rule_of"]


def rule_of(planned: Plan, words: Words) -> Rule:
    """The rule that carries a plan out, before anything is told."""
    scheduler = planned.scheduler
    # They start before the others, if there are others.
    first = planned.given if len(planned.given) < planned.trials else ()
    if scheduler.kind == "hyperband":
        return Hyperband(planned.ladders, words, first)
    if scheduler.kind == "asha":
        return Asha(planned.ladders, scheduler.eta, scheduler.mode, words, first)
    if scheduler.kind == "median":
        return Median(planned.trials, median_levels(scheduler.first, scheduler.last), words)
    # Nothing is decided at these levels; a value there is one that people see at once.
    return Fifo(planned.trials, levels(scheduler.first, scheduler.last, scheduler.eta), scheduler.eta)
