"""Goals and schedulers as they are written in the function form. Law: each gives a record, and checks what it got."""

from __future__ import annotations

from typing import Literal

from workbench.records import Goal, Scheduler

__all__ = ["ASHA", "All", "Hyperband", "Median", "maximize", "minimize"]


def maximize(metric: str) -> Goal:
    """The goal of a metric whose higher values are better."""
    return Goal(metric, "max")


def minimize(metric: str) -> Goal:
    """The goal of a metric whose lower values are better."""
    return Goal(metric, "min")


def Hyperband(
    max_steps: int, *, eta: int = 3, min_steps: int = 1, table: Literal["algorithm1", "table1"] = "algorithm1"
) -> Scheduler:
    """Synchronous Hyperband: brackets from many short trials to few long ones."""
    return Scheduler("hyperband", min_steps, max_steps, eta, table=table)


def ASHA(
    max_steps: int,
    *,
    eta: int = 3,
    min_steps: int = 1,
    mode: Literal["stop", "promote"] = "promote",
    brackets: Literal["aggressive", "standard", "conservative"] = "aggressive",
) -> Scheduler:
    """Asynchronous successive halving, by promotion or by stopping."""
    return Scheduler("asha", min_steps, max_steps, eta, mode=mode, brackets=brackets)


def Median(max_steps: int, *, min_steps: int = 1) -> Scheduler:
    """Stop a trial that is worse than the median of the others at the same step."""
    return Scheduler("median", min_steps, max_steps)


def All(max_steps: int) -> Scheduler:
    """Train every trial to its end."""
    return Scheduler("all", max_steps, max_steps)
