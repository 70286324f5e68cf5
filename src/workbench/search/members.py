"""Configurations that are trained several times: with several seeds, on several folds. Law: arithmetic on numbers only.

Each is a *group* of trials with neighbouring numbers, its members: group g of n members has the trials g·n … g·n + n−1.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass

from workbench.errors import BadOption
from workbench.records import Configuration, Spec
from workbench.space import Space

__all__ = ["Members", "members", "members_of"]


@dataclass(frozen=True, slots=True)
class Members:
    """How many trials a configuration has. seeds: with how many seeds each fold is trained. folds: the values of the
    repeated hyperparameters, one configuration for each combination."""

    seeds: int = 1
    folds: tuple[Configuration, ...] = ({},)

    @property
    def count(self) -> int:
        """Trials of one configuration."""
        return self.seeds * len(self.folds)

    def group(self, trial: int) -> int:
        """The number of the trial's configuration."""
        return trial // self.count

    def trials(self, group: int) -> range:
        """The trials of a configuration."""
        return range(group * self.count, (group + 1) * self.count)

    def first(self, groups: tuple[int, ...]) -> Iterator[int]:
        """The trials of these configurations, in order."""
        return itertools.chain.from_iterable(map(self.trials, groups))

    def fold(self, trial: int) -> Configuration:
        """The values of the repeated hyperparameters for this trial."""
        return self.folds[trial % len(self.folds)]

    def __str__(self) -> str:
        parts = [f"{self.seeds} seeds"] * (self.seeds > 1) + [f"{len(self.folds)} folds"] * (len(self.folds) > 1)
        return " and ".join(parts)


def members(space: Space | None, seeds: int = 1) -> Members:
    """The members of each configuration of ``space``. Raises BadOption unless ``seeds`` is a whole number from 1 to
    1,000."""
    if isinstance(seeds, bool) or not isinstance(seeds, int) or not 1 <= seeds <= 1000:
        raise BadOption(
            f"--seeds {seeds}: expected how many seeds each configuration is trained with, a whole number from 1 to "
            "1000. For example: --seeds 3."
        )
    repeated = {} if space is None else space.repeated
    combinations = itertools.product(*repeated.values())
    return Members(seeds, tuple(dict(zip(repeated, values, strict=True)) for values in combinations))


def members_of(spec: Spec) -> Members:
    """The members of each configuration of a spec, whatever else a later version may have in its space."""
    repeated = [one for one in spec.space.get("parameters", ()) if one.get("repeat")]
    return members(Space.from_json({**spec.space, "parameters": repeated}) if repeated else None, spec.seeds_each)
