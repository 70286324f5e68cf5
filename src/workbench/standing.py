"""Which trial is the best. Law: pure; search, retention, notebook, command line and panel all ask here, so they name
the same one.

The best is, of the trials that reached the highest level so far, the one with the best value there. A trial whose code
ended by itself has its value there without training, also after the search was made longer. A trial whose newest value
is nan or infinite has *diverged*: it ranks after all others, by its last finite value at a level.

Where each configuration is trained several times, configurations are ranked first, by the mean of their trials at the
highest level that all of these have reached, and then the trials of each: a lucky seed does not make a configuration
the best.
"""

from __future__ import annotations

import math
import sys
from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable, Mapping
from heapq import nsmallest
from types import MappingProxyType
from typing import Any, Literal, NamedTuple

__all__ = ["SEED_ADVICE", "Best", "Spread", "Standing", "Standings", "has_diverged", "ranked", "spread"]


def has_diverged(value: float | None) -> bool:
    """Whether the reported value is nan or infinite; False for None."""
    return value is not None and not math.isfinite(value)


#: What to do if trials with different seeds have the same value. That may be right: of a count, or an accuracy of 1.
SEED_ADVICE = "if the seed should matter, the training code sets its own: use trial.seed there"


class Spread(NamedTuple):
    """The values of one configuration's trials: their mean, their sample standard deviation, and how many they are."""

    mean: float
    deviation: float
    trials: int

    @property
    def is_same(self) -> bool:
        """Whether there are several values, and all of them are the same: they say nothing of how seeds scatter."""
        return self.trials > 1 and self.deviation == 0

    @property
    def scatter(self) -> str:
        """``± 0.004``, or ``± 0 (the same bits)``."""
        return f"± {self.deviation:.2g}{' (the same bits)' if self.is_same else ''}"

    def words(self, number: Callable[[float], str]) -> str:
        """``mean 0.985 ± 0.004 of 3 trials``. number: how values are written."""
        return f"mean {number(self.mean)} {self.scatter} of {self.trials} trials"


class Best(NamedTuple):
    """The best trial, and its value as reported. spread: the values of the trials of its configuration, if there are
    several and all have one."""

    trial: int
    value: float
    spread: Spread | None = None

    def words(self, number: Callable[[float], str]) -> str:
        """``0.9912``, or ``0.9912, mean 0.985 ± 0.004 of 3 trials``. number: how values are written."""
        return f"{number(self.value)}{'' if self.spread is None else f', {self.spread.words(number)}'}"

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        told = {"trial": self.trial, "value": self.value}
        return told if self.spread is None else {**told, "of": self.spread._asdict()}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Best:
        """The inverse of :meth:`to_json`."""
        of = data.get("of")
        several = Spread(float(of["mean"]), float(of["deviation"]), int(of["trials"])) if of else None
        return cls(int(data["trial"]), float(data["value"]), several)


#: Above this, squares of values are in danger of overflow; and the factor that such values get.
_LARGE, _SMALLER = 2.0**500, 2.0**-600


def spread(values: Collection[float]) -> Spread:
    """Mean and sample standard deviation (n − 1 in the denominator; 0 for one value) of one value or more. Both are nan
    if a value is not finite."""
    if not all(map(math.isfinite, values)):
        return Spread(math.nan, math.nan, len(values))
    if min(values) == max(values):
        return Spread(min(values), 0.0, len(values))
    # A sum or a square of very large values is not a float: they are made smaller by a power of two, which is exact.
    scale = _SMALLER if max(map(abs, values)) > _LARGE else 1.0
    # Exact sums: the order of the values changes no bit.
    small = [value * scale for value in values]
    mean = math.fsum(small) / len(small)
    squares = math.fsum((value - mean) ** 2 for value in small)
    deviation = math.sqrt(squares / max(1, len(small) - 1)) / scale
    # Squares of very small differences are 0; the values are not the same for that.
    return Spread(mean / scale, min(max(deviation, sys.float_info.min), sys.float_info.max), len(small))


class Standing(NamedTuple):
    """A trial's rank as a sort key: the lower, the better. Ties go to the older trial."""

    diverged: bool
    #: The highest level at which its value was finite, negated.
    below: int
    #: The value there, negated if more is better.
    key: float
    trial: int

    def to_json(self, sign: float) -> dict[str, Any]:
        """Plain data, with the value as reported. sign: -1 if more is better."""
        return {"diverged": self.diverged, "level": -self.below, "value": sign * self.key}

    @classmethod
    def from_json(cls, data: Mapping[str, Any], sign: float, trial: int) -> Standing:
        """The inverse of :meth:`to_json`."""
        return cls(bool(data["diverged"]), -int(data["level"]), sign * float(data["value"]), trial)


#: A configuration's standing by the mean of its trials, then that of the best of them.
_Rank = tuple[Standing, Standing]
#: The standing of a configuration without a mean: after all others.
_LAST = Standing(True, 1, math.inf, 0)


_NOTHING: Mapping[int, Spread] = MappingProxyType({})


class _Configuration:
    """A configuration with several trials: their values at levels, and how it stands by its means."""

    __slots__ = ("gone", "levels", "spreads", "standing", "trials", "values")

    def __init__(self, trials: range) -> None:
        self.trials = trials
        #: Those that failed or that the user has stopped.
        self.gone: set[int] = set()
        #: By trial, its values by level; and all of these levels.
        self.values: dict[int, dict[int, float]] = {}
        self.levels: list[int] = []
        #: By level, the values of all trials that count, once they have one there.
        self.spreads: dict[int, Spread] = {}
        self.standing = _LAST

    def tell(self, trial: int, level: int, value: float) -> None:
        values = self.values.setdefault(trial, {})
        before = max(values, default=0)
        values[level] = value
        at = bisect_left(self.levels, level)
        if at == len(self.levels) or self.levels[at] != level:
            self.levels.insert(at, level)
        self._compare(self.levels[bisect_left(self.levels, min(before + 1, level)) : at + 1])

    def leave(self, trial: int) -> None:
        self.gone.add(trial)
        self._compare(self.levels)

    def settle(self, sign: float) -> None:
        """Find its standing again."""
        finite = [level for level, one in self.spreads.items() if math.isfinite(one.mean)]
        if finite:
            level = max(finite)
            has_diverged_since = level < max(self.spreads)
            self.standing = Standing(has_diverged_since, -level, sign * self.spreads[level].mean, self.trials[0])
        else:
            self.standing = _LAST

    def _compare(self, levels: Collection[int]) -> None:
        counted = [trial for trial in self.trials if trial not in self.gone] or self.trials
        for level in levels:
            found = [self._at(trial, level) for trial in counted]
            if None in found:
                self.spreads.pop(level, None)
            else:
                self.spreads[level] = spread([value for value in found if value is not None])

    def _at(self, trial: int, level: int) -> float | None:
        """The trial's value at a level. Code that ended by itself before has its last value there."""
        values = self.values.get(trial, {})
        return values.get(level, values[max(values)] if values and max(values) > level else None)


class Standings:
    """The trials of one search by their values at levels. The same values in the same order give the same result."""

    def __init__(self, mode: Literal["max", "min"], members: int = 1) -> None:
        """members: the number of trials of each configuration, which are neighbours."""
        self._sign = -1.0 if mode == "max" else 1.0
        self._members = members
        self._of: dict[int, Standing] = {}
        #: By configuration, the rank of its best trial; and of all of them, the best.
        self._ranks: dict[int, _Rank] = {}
        self._best: _Rank | None = None
        #: Trials whose newest value is nan or infinite.
        self.diverged: set[int] = set()
        #: Those with several trials.
        self._configurations: dict[int, _Configuration] = {}
        #: The highest level with a finite value.
        self.top = 0
        #: The last values of trials whose code ended by itself: they are compared at every higher level too.
        self.by_themselves: dict[int, float] = {}

    def tell(self, trial: int, level: int, value: float | None, *, ended: bool = False) -> None:
        """Record a trial's value at a level; None (nothing reported) changes nothing. ended: its code ended by itself
        before that level."""
        if value is None:
            return
        if ended:
            self.by_themselves[trial] = value
        self._put(trial, level, value)
        if level > self.top and math.isfinite(value):
            self.top = level
            for one, last in self.by_themselves.items():
                self._put(one, level, last)

    def _put(self, trial: int, level: int, value: float) -> None:
        before = self._of.get(trial)
        if math.isfinite(value):
            self.diverged.discard(trial)
            self._of[trial] = Standing(False, -level, self._sign * value, trial)
        else:
            self.diverged.add(trial)
            if before is not None:
                self._of[trial] = before._replace(diverged=True)
        if self._members > 1:
            self._configuration(trial).tell(trial, level, value)
        self._rank(trial)

    def drop(self, trial: int) -> None:
        """Remove a failed trial from the comparison."""
        self.diverged.discard(trial)
        self.by_themselves.pop(trial, None)
        self._of.pop(trial, None)
        self.withdraw(trial)

    def withdraw(self, trial: int) -> None:
        """The trial failed, or the user has stopped it: the mean of its configuration does without it, if others
        remain."""
        if self._members > 1:
            self._configuration(trial).leave(trial)
        self._rank(trial)

    def _configuration(self, trial: int) -> _Configuration:
        number = trial // self._members
        found = self._configurations.get(number)
        if found is None:
            trials = range(number * self._members, (number + 1) * self._members)
            found = self._configurations[number] = _Configuration(trials)
        return found

    def _rank(self, trial: int) -> None:
        """Find the rank of the trial's configuration, and the best one, again."""
        number = trial // self._members
        if self._members == 1:
            standing = self._of.get(trial)
            rank = None if standing is None else (standing, standing)
        else:
            configuration = self._configuration(trial)
            configuration.settle(self._sign)
            own = min((self._of[one] for one in configuration.trials if one in self._of), default=None)
            rank = None if own is None else (configuration.standing, own)
        before = self._ranks.pop(number, None)
        if rank is not None:
            self._ranks[number] = rank
        if rank is not None and (self._best is None or rank <= self._best):
            self._best = rank
        elif before is not None and before == self._best:
            self._best = min(self._ranks.values(), default=None)

    @property
    def best(self) -> Standing | None:
        """The best trial; None if no trial had a finite value at a level."""
        return None if self._best is None else self._best[1]

    @property
    def found(self) -> Best | None:
        """The best trial with its value, as reported."""
        if self.best is None:
            return None
        several = self.spread(self.best.trial)
        return Best(self.best.trial, self.value(self.best), several and several[1])

    def level(self, trial: int) -> int | None:
        """The highest level at which the trial's value was finite."""
        standing = self._of.get(trial)
        return None if standing is None else -standing.below

    def first(self, count: int, among: Collection[int] | None = None) -> list[int]:
        """The ``count`` best trials (of those given), the best first."""
        found = (one for one in self._of.values() if among is None or one.trial in among)
        if self._members == 1:
            return [one.trial for one in nsmallest(count, found)]
        ranks = ((self._configuration(one.trial).standing, one) for one in found)
        return [one.trial for _, one in nsmallest(count, ranks)]

    def told(self, trial: int) -> dict[str, Any]:
        """The rank of a trial as fields of its row, for :func:`ranked`."""
        own = self._of.get(trial)
        found: dict[str, Any] = {"standing": None if own is None else own.to_json(self._sign)}
        if self._members > 1:
            whole = self._configuration(trial).standing
            found["group"] = trial // self._members
            found["mean_standing"] = None if whole is _LAST else whole.to_json(self._sign)
        return found

    def value(self, standing: Standing) -> float:
        """The value of a standing, as reported."""
        return self._sign * standing.key

    def spreads(self, trial: int) -> Mapping[int, Spread]:
        """By level, the values of the trial's configuration at levels that all of its trials have reached. Empty if
        each configuration has only one trial."""
        return MappingProxyType(self._configuration(trial).spreads) if self._members > 1 else _NOTHING

    def spread(self, trial: int) -> tuple[int, Spread] | None:
        """The highest of these levels at which all values are finite, and these; None if there is none."""
        return max(((at, one) for at, one in self.spreads(trial).items() if math.isfinite(one.mean)), default=None)


def ranked(
    rows: Iterable[dict[str, Any]], mode: Literal["max", "min"], best: int | None = None
) -> list[dict[str, Any]]:
    """The rows of a search's trials in the order of :meth:`Standings.first`, the best first.

    Then trials that have reached no level, by their newest value, and at last those that failed; the older first among
    equals. best: the trial that the search calls the best. It is the first also where a row was written a moment before
    the search decided, and in stores of earlier versions, whose rows do not have all that the search compares.
    """
    sign = -1.0 if mode == "max" else 1.0

    def rank(row: Mapping[str, Any]) -> tuple[Any, ...]:
        number, value = row["number"], row.get("value")
        own = _own(row, sign)
        if own is not None:
            return number != best, 0, _of_mean(row, sign) or own, own
        if row.get("state") == "failed" or value is None or not math.isfinite(value):
            return number != best, 2, row.get("state") == "failed", number
        return number != best, 1, sign * value, number

    return sorted(rows, key=rank)


def _own(row: Mapping[str, Any], sign: float) -> Standing | None:
    """A trial's standing. A row of an earlier version has only its last level, and the newest and the best value."""
    if "standing" in row:
        told = row["standing"]
        return None if told is None else Standing.from_json(told, sign, row["number"])
    values = [value for value in (row.get("value"), row.get("best")) if value is not None and math.isfinite(value)]
    if row.get("state") == "failed" or not values:
        return None
    return Standing(has_diverged(row.get("value")), -(row.get("level") or 0), sign * values[0], row["number"])


def _of_mean(row: Mapping[str, Any], sign: float) -> Standing | None:
    """The standing of the trial's configuration by its mean; None if each configuration has only one trial."""
    if "group" not in row:
        return None
    told = row.get("mean_standing")
    if "mean_standing" not in row and row.get("mean") is not None:  # of an earlier version
        told = {"diverged": False, "level": row["compared"], "value": row["mean"]}
    return _LAST if told is None else Standing.from_json(told, sign, row["group"])
