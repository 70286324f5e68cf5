"""How far trials have climbed: brackets, rungs, and each trial's entry at each. Law: it only reads."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from workbench.search.plan import Plan
from workbench.search.rule import Rule, Words
from workbench.search.rungs import Ladder
from workbench.search.trials import Trial
from workbench.standing import Spread, Standings

__all__ = ["Bracket", "Climb", "Entry", "Fate", "Rung"]

#: The outcome of a trial at a rung. *training*: it holds a slot. *waiting*: it holds none. *on*: it was promoted to the
#: next rung. *lost*: its leg was lost, and the trial is retried.
Fate: TypeAlias = Literal["training", "waiting", "on", "stopped", "failed", "completed", "lost"]


@dataclass(frozen=True, slots=True)
class Rung:
    """One level of a bracket. places: how many trials it is planned for; None if that depends on their values.

    going: how many of the trials with a value here may be promoted. cut: the value of the last of them, as reported;
    None if all or none may.
    """

    step: int
    places: int | None
    going: int = 0
    cut: float | None = None


@dataclass(frozen=True, slots=True)
class Bracket:
    """A bracket's number, the round of Hyperband it is in (from 0), and its rungs, the lowest first."""

    number: int
    turn: int
    rungs: tuple[Rung, ...]


@dataclass(frozen=True, slots=True)
class Entry:
    """A trial at a rung. start: the step it came from. value: as reported; None until it is known.

    ranks: whether the value is compared with others. A value that is not finite ranks last. mean: of the trials of its
    configuration, if there are several and all have a value here.
    """

    step: int
    start: int
    value: float | None
    ranks: bool
    fate: Fate
    reason: str
    mean: float | None = None


class Climb:
    """The rungs of one search, and its trials on them."""

    def __init__(self, plan: Plan, rule: Rule, words: Words, trials: Mapping[int, Trial], standings: Standings) -> None:
        self._plan, self._rule, self._words, self._trials, self._standings = plan, rule, words, trials, standings

    def entries(self, trial: int) -> tuple[Entry, ...]:
        """The trial at each rung that it reached, and at its next one."""
        return tuple(_entries(self._trials[trial], self._standings.spreads(trial)))

    def place(self, trial: int) -> int:
        """The index in :attr:`brackets` of the bracket in which the trial is compared."""
        return self._rule.place(trial)

    @property
    def brackets(self) -> tuple[Bracket, ...]:
        """The brackets with their rungs: places, how many are promoted, and the last value that is."""
        return _brackets_of(self._plan, self._rule, self._words)

    @property
    def best_step(self) -> int | None:
        """The level of the best trial's value."""
        standing = self._standings.best
        return None if standing is None else -standing.below


def _entries(trial: Trial, spreads: Mapping[int, Spread]) -> Iterator[Entry]:
    """The trial's entry at each rung it has reached, then at the one it trains towards.

    spreads: by level, the values of all trials of its configuration.
    """
    came = 0
    is_between = trial.ahead > trial.step or not trial.rungs
    for step, value in zip(trial.rungs[: None if is_between else -1], trial.values, strict=False):
        mean = spreads[step].mean if step in spreads else None
        yield Entry(step, came, value, _ranks(trial, step, value), "on", trial.whys.get(step, ""), mean)
        came = step
    reason = trial.why if trial.leaving == "stopped" else trial.reason
    if is_between:
        above = next((level for level in trial.levels if level > came), trial.levels[-1])
        yield Entry(min(above, trial.ahead or above), came, None, False, _fate(trial), reason)
    else:
        step = trial.rungs[-1]
        at = trial.levels[-1] if trial.state == "completed" else step
        mean = spreads[at].mean if at in spreads else None
        yield Entry(step, came, trial.value, _ranks(trial, step, trial.value), _fate(trial), reason, mean)


def _ranks(trial: Trial, step: int, value: float | None) -> bool:
    return value is not None and math.isfinite(value) and step not in trial.unranked


def _fate(trial: Trial) -> Fate:
    if trial.state in ("completed", "stopped", "failed"):
        return trial.state
    if trial.run is not None:
        return "training" if trial.ahead > trial.step else "stopped"
    return "lost" if trial.state == "waiting" and trial.until else "waiting"


def _brackets_of(planned: Plan, rule: Rule, words: Words) -> tuple[Bracket, ...]:
    """The brackets with their rungs: places, how many go on, and the last value that does."""
    marks = [
        [(going, None if key is None or math.isinf(key) else words.plain(key)) for going, key in bracket]
        for bracket in rule.marks
    ]
    ladders: list[Ladder] = []
    each = planned.members.count
    for ladder in planned.ladders:
        levels = rule.levels(ladder.first * each)
        # Schedulers without promotion plan one rung, and are told values below it too.
        sizes = ladder.sizes if len(ladder.sizes) == len(levels) else (ladder.sizes[0],) * len(levels)
        sizes = tuple(size * each for size in sizes)
        ladders.append(dataclasses.replace(ladder, levels=levels, sizes=sizes))
    return _brackets(ladders, marks, planned.scheduler.kind)


def _brackets(
    ladders: Iterable[Ladder], marks: Iterable[Sequence[tuple[int, float | None]]], kind: str
) -> tuple[Bracket, ...]:
    """The brackets of these ladders, each with its rungs' promotion counts and cut values.

    kind: the scheduler's. Trials added by an extension are compared in the rungs of their bracket.
    """
    joined: dict[tuple[int, int], list[Ladder]] = {}
    for ladder in ladders:
        key = (ladder.number, 0 if kind == "asha" else ladder.turn)
        joined.setdefault(key, []).append(ladder)
    found = []
    for shares, marked in zip(joined.values(), marks, strict=True):
        rungs = []
        for at, step in enumerate(shares[0].levels):
            places: int | None = sum(share.sizes[at] for share in shares)
            if kind == "median" and at:
                places = None  # how many remain depends on their values
            rungs.append(Rung(step, places, *(marked[at] if at < len(marked) else (0, None))))
        found.append(Bracket(shares[0].number, shares[0].turn, tuple(rungs)))
    return tuple(found)
