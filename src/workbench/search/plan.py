"""What a search will do, before anything runs. Law: integers only; nothing starts."""

from __future__ import annotations

import dataclasses
import itertools
from dataclasses import dataclass

from workbench.errors import BadInput, BadOption, NewerSchema
from workbench.records import Configuration, Json, Scheduler, Searcher, Spec
from workbench.records.names import trial_label
from workbench.search import rungs
from workbench.search.cost import Cost, Times, cost
from workbench.search.members import Members, members
from workbench.search.rungs import Ladder
from workbench.search.searchers import grid_given, grid_size
from workbench.space import Space, left_open

__all__ = ["Plan", "PlannedBracket", "PlannedRung", "given_of", "plan"]

#: How many trials median stopping and ``all`` run unless told.
TRIALS = 20
#: A plan with more trials than this warns.
MANY = 1000


@dataclass(frozen=True, slots=True)
class PlannedRung:
    """How many trials are compared at a step."""

    step: int
    trials: int


@dataclass(frozen=True, slots=True)
class PlannedBracket:
    """A bracket's number and its rungs, the lowest first."""

    number: int
    rungs: tuple[PlannedRung, ...]


@dataclass(frozen=True, slots=True)
class Plan:
    """A search in numbers.

    steps: total steps if a promoted trial continues from its checkpoint. steps_retrained: total steps if it started
    again. legs: executions of trials. exact: whether the numbers will be exactly these (yes if no trial fails and the
    scheduler is synchronous; otherwise they depend on the order of arrival, and these are the numbers of successive
    halving). given: the configurations, by number, that were given, in the order of these. proposed: hyperparameters
    that the searcher proposes for some of them. members: how each configuration becomes several trials; ladders count
    configurations, all else trials.
    """

    scheduler: Scheduler
    brackets: tuple[PlannedBracket, ...]
    trials: int
    legs: int
    steps: int
    steps_retrained: int
    promotions: int
    exact: bool
    ladders: tuple[Ladder, ...] = dataclasses.field(repr=False)
    given: tuple[int, ...] = ()
    proposed: tuple[str, ...] = ()
    members: Members = Members()  # noqa: RUF009 - frozen
    #: What it takes in time; None where no times are known.
    cost: Cost | None = None
    #: How many trials may train in one slot at the same time.
    per_slot: int = 1

    @property
    def predicted(self) -> tuple[int, int, int]:
        """Trials, legs and steps; the plan says whether the numbers are exact."""
        return self.trials, self.legs, self.steps

    @property
    def configurations(self) -> int:
        """How many configurations are compared: as many as trials, unless each has several."""
        return self.trials // self.members.count

    def priced(self, times: Times | None) -> Plan:
        """This plan with what it takes, if a set-up and a step take these times; as it is if they are not known."""
        if times is None:
            return self
        stopping = None
        if self.legs > self.trials:
            by_stopping = dataclasses.replace(self.scheduler, kind="asha", mode="stop")
            stopping = counted(by_stopping, _ladders(by_stopping, self.configurations), self.members)
        return dataclasses.replace(self, cost=cost(self, times, stopping))

    @property
    def warnings(self) -> tuple[str, ...]:
        """What the user should know before starting it."""
        if self.trials <= MANY:
            return ()
        return (f"{self.trials:,} trials: more than {MANY:,}. Give --trials, a higher first step or a larger --eta.",)

    def to_json(self) -> dict[str, Json]:
        """Plain data."""
        data = dataclasses.asdict(self)
        del data["ladders"]
        members = {"seeds": self.members.seeds, "folds": [dict(fold) for fold in self.members.folds]}
        if self.cost is not None:
            data["cost"] |= {"seconds": self.cost.seconds, "share": self.cost.share}
        return {**data, "members": members, "warnings": list(self.warnings)}

    def __str__(self) -> str:
        steps = sorted({rung.step for bracket in self.brackets for rung in bracket.rungs})
        head = ["bracket", *(f"step {step}" for step in steps)]
        rows = [head]
        for bracket in self.brackets:
            at = {rung.step: rung.trials for rung in bracket.rungs}
            rows.append([str(bracket.number), *(str(at.get(step, "")) for step in steps)])
        widths = [max(len(row[column]) for row in rows) for column in range(len(head))]
        lines = ["  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)) for row in rows]
        about = "" if self.exact else "about "
        several = (
            f"{self.configurations:,} configurations, each with {self.members}: " if self.members.count > 1 else ""
        )
        lines.append(
            f"{several}{self.trials:,} trial{'s' * (self.trials != 1)}, {about}{self.promotions:,} "
            f"promotion{'s' * (self.promotions != 1)}, {about}{self.steps:,} steps "
            f"({self.steps_retrained:,} without checkpoints)"
        )
        costs = [] if self.cost is None else [str(self.cost), *filter(None, [self.cost.advice])]
        beside = [f"{self.per_slot} trials train in each slot at the same time"] if self.per_slot > 1 else []
        return "\n".join([*lines, *self._given_lines(), *beside, *costs, *self.warnings])

    def _given_lines(self) -> list[str]:
        if not self.given:
            return []
        if len(self.given) == self.configurations:
            line = "all configurations are given"
        else:
            firsts = [self.members.trials(number)[0] for number in self.given[:3]]
            shown = [*map(trial_label, firsts), *(["…"] if len(self.given) > 3 else [])]
            verbs = (
                "configuration is given and starts" if len(self.given) == 1 else "configurations are given and start"
            )
            line = f"{len(self.given):,} {verbs} first ({', '.join(shown)})"
            within = {ladder.number for number in self.given for ladder in self.ladders if number in ladder.trials}
            if len(self.brackets) > 1:
                line += f", in bracket{'s' * (len(within) > 1)} {', '.join(map(str, sorted(within)))}"
        return [line + (f"; the searcher proposes {', '.join(self.proposed)} where not given" if self.proposed else "")]


def plan(
    scheduler: Scheduler,
    *,
    space: Space | None = None,
    searcher: Searcher = Searcher(),  # noqa: B008 - frozen
    trials: int | None = None,
    seeds: int = 1,
) -> Plan:
    """What this search will do. Raises BadOption if the searcher was given more configurations than it has trials.

    trials: the number of configurations. seeds: with how many seeds each is trained. Without ``trials``:

    hyperband: one whole round. asha: η^(rungs−1) of the most aggressive bracket. median and all: 20. A grid: all its
    points (and never more). A space in which all configurations are the same: 1. A single trial cannot be compared, so
    it runs to its end in one leg, whatever the scheduler.
    """
    if trials is not None and (isinstance(trials, bool) or not isinstance(trials, int) or trials < 1):
        raise BadOption(f"--trials {trials}: expected an integer of 1 or more. For example: --trials 50.")
    if searcher.only:
        trials = len(searcher.given)
    if searcher.kind == "grid" and space is not None:
        size = grid_size(space)
        grid_given(space, searcher.given)
        trials = size if trials is None else min(trials, size)
    if trials is None and space is not None and space.is_empty:
        trials = 1
    if trials == 1:
        scheduler = dataclasses.replace(scheduler, kind="all")
    found = counted(scheduler, _ladders(scheduler, trials), members(space, seeds))
    if len(searcher.given) > found.configurations:
        raise BadOption(
            f"{len(searcher.given)} configurations are given, but the search has {found.configurations}. Expected at "
            f"most as many: write --trials {len(searcher.given)} or more, or train exactly these (--configurations)."
        )
    return dataclasses.replace(
        found,
        given=_numbers(found.ladders, searcher),
        proposed=left_open(space, searcher.given) if space is not None else (),
    )


def given_of(spec: Spec, trial: int) -> Configuration:
    """The values that the user gave for this trial; none for a spec of a later version that cannot be searched."""
    if not spec.searcher.given:
        return {}
    try:
        space = Space.from_json(spec.space)
        found = plan(spec.scheduler, space=space, searcher=spec.searcher, trials=spec.trials, seeds=spec.seeds_each)
    except (BadInput, NewerSchema):
        return {}
    number = found.members.group(trial)
    return spec.searcher.given[found.given.index(number)] if number in found.given else {}


def _numbers(ladders: tuple[Ladder, ...], searcher: Searcher) -> tuple[int, ...]:
    """The numbers of the given configurations.

    A bracket with a high first rung loses no good trial to the noise of the first steps, so they fill the round's
    least aggressive bracket, then the next. If there is nothing else in the search, they keep their order.
    """
    if searcher.only:
        return tuple(range(len(searcher.given)))
    calmest = sorted(ladders, key=lambda ladder: (ladder.turn, ladder.number))
    numbers = itertools.chain.from_iterable(ladder.trials for ladder in calmest)
    return tuple(itertools.islice(numbers, len(searcher.given)))


def counted(scheduler: Scheduler, ladders: tuple[Ladder, ...], each: Members) -> Plan:
    """The plan made by these ladders, which count configurations, if each has such members."""
    halves = scheduler.kind in ("hyperband", "asha")
    brackets = tuple(
        PlannedBracket(
            ladder.number, tuple(map(PlannedRung, ladder.levels, (each.count * size for size in ladder.sizes)))
        )
        for ladder in ladders
    )
    number = each.count * sum(ladder.sizes[0] for ladder in ladders)
    promotions = each.count * sum(sum(ladder.sizes[1:]) for ladder in ladders)
    resuming = halves and not (scheduler.kind == "asha" and scheduler.mode == "stop")
    return Plan(
        scheduler=scheduler,
        brackets=brackets,
        trials=number,
        legs=number + promotions if resuming else number,
        steps=each.count
        * sum(
            size * (step - before)
            for ladder in ladders
            for size, step, before in zip(ladder.sizes, ladder.levels, (0, *ladder.levels), strict=False)
        ),
        steps_retrained=each.count
        * sum(size * step for ladder in ladders for size, step in zip(ladder.sizes, ladder.levels, strict=True)),
        promotions=promotions,
        exact=scheduler.kind in ("hyperband", "all"),
        ladders=ladders,
        members=each,
    )


def _ladders(scheduler: Scheduler, trials: int | None) -> tuple[Ladder, ...]:
    first, last, eta = scheduler.first, scheduler.last, scheduler.eta
    if scheduler.kind == "hyperband":
        return rungs.hyperband_ladders(first, last, eta, scheduler.table, trials)
    if scheduler.kind == "asha":
        return rungs.asha_ladders(first, last, eta, scheduler.brackets, trials)
    if scheduler.kind in ("median", "all"):
        return (Ladder(0, (last,), (TRIALS if trials is None else trials,), 0),)
    raise BadOption(
        f"--scheduler {scheduler.kind}: expected hyperband, asha, median or all. Use --scheduler hyperband."
    )
