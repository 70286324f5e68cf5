"""Searchers propose configurations. Law: a function of the experiment's seed and the trial's number, never of the order
of arrival."""

from __future__ import annotations

import itertools
from typing import Any, Protocol

from workbench.errors import BadOption, BadSpace
from workbench.records import Configuration, Searcher
from workbench.search import seeds
from workbench.space import Space

__all__ = ["MOST_POINTS", "Grid", "Proposals", "Random", "Sobol", "grid_size", "proposals"]

#: A larger grid is surely a mistake: it would run forever.
MOST_POINTS = 100_000


class Proposals(Protocol):
    """A searcher at work on one space."""

    def configuration(self, trial: int) -> Configuration:
        """The configuration of this trial; the same for every call, in any order."""
        ...


def proposals(searcher: Searcher, space: Space, seed: int) -> Proposals:
    """The searcher of this kind. Raises BadOption for an unknown kind, or if a package that it needs is not
    installed."""
    kinds: dict[str, Any] = {"random": Random, "grid": Grid, "sobol": Sobol}
    if searcher.kind not in kinds:
        raise BadOption(f"--searcher {searcher.kind}: expected one of {', '.join(kinds)}. Use --searcher random.")
    found: Proposals = kinds[searcher.kind](space, seed)
    return found


class Random:
    """Each trial independently."""

    def __init__(self, space: Space, seed: int) -> None:
        self._space = space
        self._seed = seed
        self._dimensions = space.dimensions

    def configuration(self, trial: int) -> Configuration:
        return self._space.from_unit(seeds.units(self._seed, trial, "space", self._dimensions))


class Grid:
    """Every combination once, in the order the space was written: the last name changes fastest."""

    def __init__(self, space: Space, seed: int = 0) -> None:
        self._points = space.grid()
        self._taken: list[Configuration] = []

    def configuration(self, trial: int) -> Configuration:
        self._taken += itertools.islice(self._points, max(0, trial + 1 - len(self._taken)))
        return dict(self._taken[trial])


class Sobol:
    """Scrambled Sobol points: trial k has the k-th point, spread more evenly than chance would."""

    def __init__(self, space: Space, seed: int) -> None:
        try:
            # scipy takes a while to import; import it only for this searcher.
            from scipy.stats import qmc
        except ImportError as error:
            raise BadOption(
                "--searcher sobol: expected scipy, which is not installed here. Run: pip install 'workbench[sobol]', "
                "or use --searcher random."
            ) from error
        self._space = space
        self._engine = None
        if space.dimensions:
            self._engine = qmc.Sobol(space.dimensions, scramble=True, rng=seeds.trial_seed(seed, 0, "sobol"))
        self._points: list[list[float]] = []

    def configuration(self, trial: int) -> Configuration:
        if self._engine is None:
            return self._space.from_unit([])
        while len(self._points) <= trial:
            # Double the number each time: the sequence is balanced at powers of two, and scipy warns otherwise.
            self._points += self._engine.random(max(64, len(self._points))).tolist()
        return self._space.from_unit(self._points[trial])


def grid_size(space: Space) -> int:
    """The number of combinations. Raises BadSpace if it is infinite."""
    size = sum(1 for _ in itertools.islice(space.grid(), MOST_POINTS + 1))
    if size > MOST_POINTS:
        raise BadSpace(
            f"The grid has more than {MOST_POINTS:,} points. Use fewer options, a larger q, or --searcher random."
        )
    return size
