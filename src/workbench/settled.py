"""The settings of a search, as options and training code together say. Law: what can be refused is refused here, before
anything is captured or written."""

from __future__ import annotations

import dataclasses
import os
from dataclasses import dataclass, field
from typing import Any, Literal

from workbench.choices import SLOTS, Choices, check_words, is_slots, seed_of
from workbench.errors import BadOption
from workbench.given import Given, named, searching
from workbench.records import Goal, Json, Scheduler, Searcher
from workbench.records.plain import plain
from workbench.search import Plan, Search, plan
from workbench.search.cost import Times
from workbench.snapshot.reading.cell import Cell
from workbench.snapshot.surroundings.around import checked_threads
from workbench.space import Space
from workbench.store.keeping.remote import VARIABLE, checked
from workbench.trial.ranks.environment import managed_in


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings(Choices):
    """How to search, for one cell or function: the user's options, with the defaults that depend on the space."""

    goal: Goal
    scheduler: Scheduler
    searcher: Searcher = field(default_factory=Searcher)
    #: The notification settings, in the form of the spec.
    notify: Json = None
    #: The fewest slots of one trial, if it may train on any number of them up to ``slots``.
    slots_least: int | None = None
    #: Whether as many trials share a slot as one's measured needs allow.
    packs: bool = False


#: Largest weight and priority of an experiment.
MOST_WEIGHT, MOST_PRIORITY = 1_000, 100


def settled(
    cell: Cell,
    *,
    goal: Goal | None,
    steps: tuple[int, int] | None,
    scheduler: Scheduler | Literal["hyperband", "asha", "median", "all"] | None,
    trials: int | None = None,
    searcher: Searcher = Searcher(),  # noqa: B008 - frozen
    first: Given | None = None,
    configurations: Given | None = None,
    written: str = "--",
    **others: Any,
) -> Settings:
    """The settings for ``cell``, with what was not written filled in.

    first: configurations that are tried before the searcher's own; configurations: the only ones that are trained (see
    :func:`workbench.given.read`). written: how the cell or function form writes an option, for messages (``--goal`` or
    ``goal=``). Raises BadOption if the goal or the number of steps is missing, an option has no meaning, or a
    configuration is not one of the space; BadMetric if the goal is never reported.
    """
    flag = written == "--"
    if goal is None:
        reported = sorted(cell.reports or ())
        example = reported[0] if reported else "val_acc"
        told = f"this {cell.kind} reports {', '.join(reported)}" if reported else "no goal was given"
        raise BadOption(
            f"{'--goal' if flag else 'goal='} is missing; {told}. Expected the metric that ranks trials: write "
            + (f"--goal max {example}, or --goal min {example}." if flag else f"goal=wb.maximize({example!r}).")
        )
    cell.check_goal(goal)
    trials, others = plain(trials), {name: plain(value) for name, value in others.items()}
    if isinstance(scheduler, Scheduler):
        chosen = scheduler
    elif steps is None:
        raise BadOption(
            "--steps is missing; the length of a trial is not given. Expected the first and the last rung in the "
            "loop's own unit (epochs): for example: --steps 1-27."
        )
    else:
        chosen = Scheduler(kind=scheduler or "hyperband", first=steps[0], last=steps[1])
    searcher = searching(searcher, cell.space, first, configurations, written)
    if searcher.only:
        if trials is not None:
            raise BadOption(
                f"{named('trials', written)} {trials} was given with {named('configurations', written)}, which gives "
                f"{len(searcher.given)}. Expected only one of them; leave {named('trials', written)} out."
            )
        trials = len(searcher.given)
    if cell.space.is_empty:
        # A single configuration cannot be compared: one trial.
        trials = 1 if trials is None else trials
        chosen = dataclasses.replace(chosen, kind="all")
    written_storage = others.get("storage") or os.environ.get(VARIABLE)
    if written_storage:
        # Refused here, before anything is written.
        others["storage"] = checked(written_storage, "--storage" if flag else "storage=")
    if others.get("slots_least") == others.get("slots"):
        others["slots_least"] = None
    others["seed"] = seed_of(others.get("seed", 0), written)
    settings = Settings(goal=goal, scheduler=chosen, trials=trials, searcher=searcher, **others)
    check_words(settings, written)
    if settings.threads is not None:
        checked_threads(settings.threads, "--threads" if flag else "threads=")
    _check_parallel(settings.parallel, flag)
    _check_slots(cell, settings, flag)
    _check_share(settings, flag)
    planned(cell.space, settings)
    return settings


def _check_parallel(parallel: Any, flag: bool) -> None:
    if parallel is not None and (isinstance(parallel, bool) or not isinstance(parallel, int) or parallel < 1):
        name = "--parallel " if flag else "parallel="
        raise BadOption(
            f"{name}{parallel!r}: expected how many slots the experiment uses at most, a whole number of 1 or more. "
            f"For example: {name}4."
        )


def _check_slots(cell: Cell, settings: Settings, flag: bool) -> None:
    """Refuse slots without meaning, more of them than the experiment may use, and a range for code whose batches would
    depend on their number."""
    slots, name = settings.slots, "--slots " if flag else "slots="
    if not is_slots(slots):
        raise BadOption(f"{name}{slots!r}: expected {SLOTS}. Leave it out for one slot.")
    least, given = slots, f"{name}{slots:g}"
    if settings.slots_least is not None:
        least = settings.slots_least
        given = f"--slots {least}-{slots:g}" if flag else f'slots="{least}-{slots:g}"'
    if settings.parallel is not None and settings.parallel < least:
        raise BadOption(
            f"{'--parallel ' if flag else 'parallel='}{settings.parallel} is fewer slots than {given} gives each "
            f"trial. Expected {least:g} or more."
        )
    if settings.strategy == "fsdp" and slots < 2:
        raise BadOption(f"strategy fsdp with {given}: expected 2 slots or more, over which it can shard.")
    if settings.slots_least is not None and (why := managed_in(cell.source)):
        raise BadOption(
            f"{given}: {why}, and code that manages its ranks itself trains on a batch for each of them, so its "
            f"results would depend on how many slots are free. Expected one number: {name}{slots:g}."
        )


def _check_share(settings: Settings, flag: bool) -> None:
    weight, priority = settings.weight, settings.priority
    if isinstance(weight, bool) or not isinstance(weight, int | float) or not 0 < weight <= MOST_WEIGHT:
        raise BadOption(
            f"{'--weight ' if flag else 'weight='}{weight!r}: expected a number above 0, and at most {MOST_WEIGHT}. "
            "With twice the weight of another experiment, this one gets twice its slots."
        )
    if isinstance(priority, bool) or not isinstance(priority, int) or abs(priority) > MOST_PRIORITY:
        raise BadOption(
            f"{'--priority ' if flag else 'priority='}{priority!r}: expected a whole number from -{MOST_PRIORITY} to "
            f"{MOST_PRIORITY}. Experiments of lower priority make room."
        )


def planned(space: Space, settings: Settings, times: Times | None = None) -> Plan:
    """What a search with these settings will do, and take if these times are known."""
    found = plan(
        settings.scheduler,
        space=space,
        searcher=settings.searcher,
        trials=settings.trials,
        seeds=settings.seeds_each,
    )
    return dataclasses.replace(found, per_slot=settings.per_slot).priced(times)


def searched(space: Space, settings: Settings) -> Search:
    """The search with these settings, before anything ran."""
    about = (settings.searcher, settings.seed, settings.trials, settings.seeds_each)
    return Search(settings.goal, space, settings.scheduler, *about)
