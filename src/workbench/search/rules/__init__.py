"""Which rule each scheduler is. Law: the plan's ladders, and nothing else, say what a rule compares."""

from __future__ import annotations

from workbench.search.plan import Plan
from workbench.search.rule import Rule, Words
from workbench.search.rules.asha import Asha
from workbench.search.rules.fifo import Fifo
from workbench.search.rules.grouped import Grouped
from workbench.search.rules.hyperband import Hyperband
from workbench.search.rules.median import Median
from workbench.search.rungs import levels, median_levels

__all__ = ["rule_of"]


def rule_of(planned: Plan, words: Words) -> Rule:
    """The rule that carries a plan out, before anything is told."""
    rule = _of_configurations(planned, words)
    return rule if planned.members.count == 1 else Grouped(rule, planned.members, words)


def _of_configurations(planned: Plan, words: Words) -> Rule:
    scheduler = planned.scheduler
    # They start before the others, if there are others.
    first = planned.given if len(planned.given) < planned.configurations else ()
    if scheduler.kind == "hyperband":
        return Hyperband(planned.ladders, words, first)
    if scheduler.kind == "asha":
        return Asha(planned.ladders, scheduler.eta, scheduler.mode, words, first)
    if scheduler.kind == "median":
        return Median(planned.configurations, median_levels(scheduler.first, scheduler.last), words)
    # Nothing is decided at these levels; a value there is one that people see at once.
    return Fifo(planned.configurations, levels(scheduler.first, scheduler.last, scheduler.eta), scheduler.eta)
