"""Extending a search: more trials, more steps. Law: decisions stay; ladders only grow.

all, median: the next trials in order; trials that took all steps continue to the new last one.
hyperband: further brackets in the same rotation; every bracket gets rungs on top, to which one in eta is promoted.
asha: the next trials, shared among the brackets as at the start; every bracket gets rungs on top.
"""

from __future__ import annotations

import dataclasses

from workbench.errors import BadOption
from workbench.records import Searcher
from workbench.search import rungs
from workbench.search.plan import Plan, counted
from workbench.search.rungs import Ladder, halving
from workbench.search.searchers import grid_size
from workbench.space import Space

__all__ = ["extended"]


def extended(plan: Plan, trials: int, last: int | None, space: Space, searcher: Searcher) -> Plan:
    """``plan`` with ``trials`` more trials and, if given, ``last`` steps for each.

    Raises BadOption if the steps are not more than before, or if all points of a grid or all configurations of a list
    are already in the search.
    """
    if isinstance(trials, bool) or not isinstance(trials, int) or trials < 0:
        raise BadOption(f"--trials {trials}: expected how many more, a whole number of 1 or more. Write --trials 20.")
    if searcher.only and trials:
        raise BadOption(
            f"--trials {trials}: the search consists of {plan.configurations} given configurations, and all of "
            "them are in it. Give more steps, or start a search with a longer list, or with these as --first."
        )
    if searcher.kind == "grid" and trials:
        left = grid_size(space) - plan.configurations
        if left < 1:
            raise BadOption(
                f"--trials {trials}: the grid has {plan.configurations} points, and all of them are in the search. "
                "Give more steps, or start a search with a larger grid."
            )
        trials = min(trials, left)
    scheduler, ladders = plan.scheduler, plan.ladders
    if last is not None:
        if isinstance(last, bool) or not isinstance(last, int) or last <= scheduler.last:
            raise BadOption(
                f"--steps {last}: a trial of this search takes {scheduler.last} steps already; expected more. For "
                f"example: --steps {scheduler.last * scheduler.eta}."
            )
        ladders = tuple(_higher(ladder, last, scheduler.eta, scheduler.kind) for ladder in ladders)
        scheduler = dataclasses.replace(scheduler, last=last)
    if trials:
        more = {"hyperband": _more_brackets, "asha": _more_shares}.get(scheduler.kind, _more)
        ladders = more(ladders, trials, scheduler.eta, scheduler.table)
    return dataclasses.replace(counted(scheduler, ladders, plan.members), given=plan.given, proposed=plan.proposed)


def _higher(ladder: Ladder, last: int, eta: int, kind: str) -> Ladder:
    if kind in ("all", "median"):
        return dataclasses.replace(ladder, levels=(last,))
    levels = rungs.longer(ladder.levels, last, eta)
    sizes = (*ladder.sizes, *halving(ladder.sizes[-1], len(levels) - len(ladder.levels) + 1, eta)[1:])
    return dataclasses.replace(ladder, levels=levels, sizes=sizes)


def _more(ladders: tuple[Ladder, ...], trials: int, eta: int, table: str) -> tuple[Ladder, ...]:
    (only,) = ladders
    return (dataclasses.replace(only, sizes=(only.sizes[0] + trials,)),)


def _more_brackets(ladders: tuple[Ladder, ...], trials: int, eta: int, table: str) -> tuple[Ladder, ...]:
    # Every ladder is the upper part of the first one, however often it was extended.
    steps = ladders[0].levels
    starts = rungs.hyperband_sizes(len(steps), eta, "table1" if table == "table1" else "algorithm1")
    found = list(ladders)
    while trials:
        before = found[-1]
        at = (len(steps) - len(before.levels) + 1) % len(steps)
        start = min(starts[at], trials)
        own, first = steps[at:], before.first + before.sizes[0]
        number, turn = len(own) - 1, before.turn + (at == 0)
        # Extended brackets keep their numbers, and no two brackets of a round may have the same number.
        turn += any((one.number, one.turn) == (number, turn) for one in found)
        found.append(Ladder(number, own, halving(start, len(own), eta), first, turn))
        trials -= start
    return tuple(found)


def _more_shares(ladders: tuple[Ladder, ...], trials: int, eta: int, table: str) -> tuple[Ladder, ...]:
    brackets = {ladder.number: ladder for ladder in ladders}
    first = ladders[-1].first + ladders[-1].sizes[0]
    if len(brackets) == 1:
        (only,) = ladders
        return (dataclasses.replace(only, sizes=halving(only.sizes[0] + trials, len(only.levels), eta)),)
    lengths = tuple(len(ladder.levels) for ladder in brackets.values())
    found = list(ladders)
    for ladder, count in zip(brackets.values(), rungs.share(trials, lengths, eta), strict=False):
        sizes = halving(count, len(ladder.levels), eta)
        found.append(Ladder(ladder.number, ladder.levels, sizes, first, ladders[-1].turn + 1))
        first += count
    return tuple(found)
