"""Goals and schedulers for the function form. Law: each returns a record, and checks its arguments."""

from __future__ import annotations

from typing import Any, Literal

from workbench.choices import check_words
from workbench.errors import BadOption
from workbench.records import Goal, Scheduler
from workbench.records.plain import plain

__all__ = ["ASHA", "All", "Hyperband", "Median", "maximize", "minimize"]

Kind = Literal["hyperband", "asha", "median", "all"]


def maximize(metric: str) -> Goal:
    """The goal of a metric whose higher values are better."""
    return _goal(metric, "max")


def minimize(metric: str) -> Goal:
    """The goal of a metric whose lower values are better."""
    return _goal(metric, "min")


def _goal(metric: str, mode: Literal["max", "min"]) -> Goal:
    if not isinstance(metric, str) or not metric.strip():
        raise BadOption(f"wb.{mode}imize({metric!r}): expected the name of a metric. For example: 'val_acc'.")
    return Goal(metric, mode)


def Hyperband(
    max_steps: int, *, eta: int = 3, min_steps: int = 1, table: Literal["algorithm1", "table1"] = "algorithm1"
) -> Scheduler:
    """Synchronous Hyperband: brackets from many short trials to few long ones."""
    return _scheduler("hyperband", max_steps, min_steps, eta, table=table)


def ASHA(
    max_steps: int,
    *,
    eta: int = 3,
    min_steps: int = 1,
    mode: Literal["stop", "promote"] = "promote",
    brackets: Literal["aggressive", "standard", "conservative"] = "aggressive",
) -> Scheduler:
    """Asynchronous successive halving, by promotion or by stopping."""
    return _scheduler("asha", max_steps, min_steps, eta, mode=mode, brackets=brackets)


def Median(max_steps: int, *, min_steps: int = 1) -> Scheduler:
    """Stop a trial that is worse than the median of the others at the same step."""
    return _scheduler("median", max_steps, min_steps)


def All(max_steps: int) -> Scheduler:
    """Train every trial to its end."""
    return _scheduler("all", max_steps, max_steps)


def _scheduler(kind: Kind, max_steps: int, min_steps: int = 1, eta: int = 3, **others: Any) -> Scheduler:
    max_steps, min_steps, eta = map(plain, (max_steps, min_steps, eta))
    whole = all(isinstance(one, int) and not isinstance(one, bool) for one in (min_steps, max_steps))
    if not whole or not 1 <= min_steps <= max_steps:
        raise BadOption(
            f"min_steps={min_steps!r}, max_steps={max_steps!r}: expected two integers, 1 ≤ min_steps ≤ max_steps. "
            "For example: max_steps=27."
        )
    if isinstance(eta, bool) or not isinstance(eta, int) or eta < 2:
        raise BadOption(f"eta={eta!r}: expected an integer of 2 or more. For example: eta=3.")
    made = Scheduler(kind, min_steps, max_steps, eta, **others)
    check_words(made, "")
    return made
