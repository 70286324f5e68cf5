"""Searchers propose configurations. Law: a function of the experiment's seed and the trial's number, never of the order
of arrival."""

from __future__ import annotations

import itertools
import json
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Protocol

from workbench.errors import BadOption, BadSpace
from workbench.records import Configuration, Searcher
from workbench.search import seeds
from workbench.search.members import Members
from workbench.space import Choice, QUniform, RandInt, Space

__all__ = [
    "MOST_POINTS",
    "Configurations",
    "Grid",
    "Proposals",
    "Random",
    "Sobol",
    "grid_given",
    "grid_size",
    "proposals",
]

#: A larger grid is surely a mistake: it would run forever.
MOST_POINTS = 100_000

#: Of each coordinate of a Sobol point.
_SOBOL_BITS = 30

#: Given configurations by the numbers of their trials.
Given = Mapping[int, Configuration]
_NONE: Given = MappingProxyType({})
_NOTHING: Configuration = {}


class Proposals(Protocol):
    """A searcher at work on one space."""

    def configuration(self, trial: int) -> Configuration:
        """The configuration of this trial; the same for every call, in any order."""
        ...


def proposals(searcher: Searcher, space: Space, seed: int, numbers: Sequence[int] | None = None) -> Proposals:
    """The searcher of this kind. Raises BadOption for an unknown kind, or if a package that it needs is not
    installed.

    numbers: the trials that have its given configurations; by default the first ones.
    """
    kinds: dict[str, Any] = {"random": Random, "grid": Grid, "sobol": Sobol}
    if searcher.kind not in kinds:
        raise BadOption(f"--searcher {searcher.kind}: expected one of {', '.join(kinds)}. Use --searcher random.")
    trials = range(len(searcher.given)) if numbers is None else numbers
    found: Proposals = kinds[searcher.kind](space, seed, dict(zip(trials, searcher.given, strict=True)))
    return found


class Configurations:
    """The configurations of trials, each proposed once."""

    def __init__(self, proposals: Proposals) -> None:
        self._proposals = proposals
        self._known: dict[int, Configuration] = {}

    def of(self, trial: int, members: Members) -> Configuration:
        """The trial's configuration, the same at every call. members: of each proposed configuration."""
        if trial not in self._known:
            self._known[trial] = {**self._proposals.configuration(members.group(trial)), **members.fold(trial)}
        return self._known[trial]


class Random:
    """Each trial independently. What is given for a trial replaces its values, and changes no other trial."""

    def __init__(self, space: Space, seed: int, given: Given = _NONE) -> None:
        self._space = space
        self._seed = seed
        self._given = given
        self._dimensions = space.dimensions

    def configuration(self, trial: int) -> Configuration:
        point = seeds.units(self._seed, trial, "space", self._dimensions)
        return self._space.from_unit(point, self._given.get(trial, _NOTHING))


class Grid:
    """Every combination once, in the order the space was written: the last name changes fastest. Those that are given
    have the trials for which they are given, and the others follow in order."""

    def __init__(self, space: Space, seed: int = 0, given: Given = _NONE) -> None:
        points = grid_given(space, list(given.values()))
        self._given = dict(zip(given, points, strict=True))
        self._numbers = sorted(given)
        keys = set(map(_key, points))
        self._points = (point for point in space.grid() if not keys or _key(point) not in keys)
        self._taken: list[Configuration] = []

    def configuration(self, trial: int) -> Configuration:
        if trial in self._given:
            return dict(self._given[trial])
        at = trial - bisect_left(self._numbers, trial)
        self._taken += itertools.islice(self._points, max(0, at + 1 - len(self._taken)))
        return dict(self._taken[at])


class Sobol:
    """Scrambled Sobol points: trial k has the k-th point, spread more evenly than chance would. What is given for a
    trial replaces its values, and changes no other trial."""

    def __init__(self, space: Space, seed: int, given: Given = _NONE) -> None:
        try:
            # scipy takes a while to import; import it only for this searcher.
            from scipy.stats import qmc
        except ImportError as error:
            raise BadOption(
                "--searcher sobol: expected scipy, which is not installed here. Run: pip install 'workbench[sobol]', "
                "or use --searcher random."
            ) from error
        self._space = space
        self._seed = seed
        self._given = given
        #: A large range of integers, such as that of seeds, needs more bits than a point has: chance adds the others.
        self._needs_more = max(map(_most_values, space.forms.values()), default=0) > 1 << _SOBOL_BITS
        self._engine = None
        if space.dimensions:
            rng = seeds.trial_seed(seed, 0, "sobol")
            self._engine = qmc.Sobol(space.dimensions, scramble=True, bits=_SOBOL_BITS, rng=rng)
        self._points: list[list[float]] = []

    def configuration(self, trial: int) -> Configuration:
        if self._engine is None:
            return self._space.from_unit([])
        while len(self._points) <= trial:
            # Double the number each time: the sequence is balanced at powers of two, and scipy warns otherwise.
            self._points += self._engine.random(max(64, len(self._points))).tolist()
        point = self._points[trial]
        if self._needs_more:
            below = seeds.units(self._seed, trial, "sobol", self._space.dimensions)
            point = [high + low / (1 << _SOBOL_BITS) for high, low in zip(point, below, strict=True)]
        return self._space.from_unit(point, self._given.get(trial, _NOTHING))


def _most_values(form: Any) -> int:
    """How many values the largest range of integers or of steps in a form has; 0 without one."""
    if isinstance(form, Choice | dict):
        return max(map(_most_values, form.values() if isinstance(form, dict) else form.forms), default=0)
    return form.size if isinstance(form, RandInt | QUniform) else 0


def grid_size(space: Space) -> int:
    """The number of combinations. Raises BadSpace if it is infinite."""
    size = sum(1 for _ in itertools.islice(space.grid(), MOST_POINTS + 1))
    if size > MOST_POINTS:
        raise BadSpace(
            f"The grid has more than {MOST_POINTS:,} points. Use fewer options, a larger q, or --searcher random."
        )
    return size


def grid_given(space: Space, given: Sequence[Configuration]) -> list[Configuration]:
    """The points of the grid that are given: of one with open hyperparameters, the first that is not taken yet.

    Raises BadOption if a point is given twice, BadSpace if the grid is infinite.
    """
    found: dict[str, Configuration] = {}
    for number, one in enumerate(given, 1):
        point = next((point for point in space.grid(one) if _key(point) not in found), None)
        if point is None:
            shown = ", ".join(f"{name}={value!r}" for name, value in one.items())
            raise BadOption(
                f"configuration {number} of those given ({shown}) was given before; expected each point of the grid "
                "once. Leave it out, or use --searcher random, where each of them trains with its own seed."
            )
        found[_key(point)] = point
    return list(found.values())


def _key(point: Configuration) -> str:
    return json.dumps(point, sort_keys=True)
