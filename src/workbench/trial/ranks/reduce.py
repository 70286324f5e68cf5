"""Reported values of all ranks as one. Law: every rank gets the same value; where it is a mean, equal values stay as
they are."""

from __future__ import annotations

import math
import struct
from collections.abc import Collection, Mapping, Sequence

from workbench.errors import BadMetric
from workbench.trial.ranks import together
from workbench.trial.ranks.together import Place


def reduced(
    values: Mapping[str, float], samples: tuple[int, int, int], totals: Collection[str] = ()
) -> dict[str, float]:
    """The means of the reported values over all ranks, weighted by samples. All ranks must call this.

    samples: what :meth:`~workbench.trial.ranks.samples.Samples.take_unreported` returned. If no rank had any since the
    last report, all count equally. totals: names of values that are sums, of which each rank has a part. Raises
    BadMetric, on all ranks, if the ranks reported different names.
    """
    everyones = together.gather((samples, dict(values)), Place.REPORT)
    means = mean([(counted, given) for (counted, _, _), given in everyones])
    parts = [(counted, repeated, given) for (_, counted, repeated), given in everyones]
    return means | {name: total([(*one, given[name]) for *one, given in parts]) for name in means if name in totals}


def total(parts: Sequence[tuple[int, int, float]]) -> float:
    """A sum of which each rank has a part: samples that counted, samples that repeated another, and the value.

    Without repeated samples it is exact. Else it is made smaller by their part, as if they were like the others. If no
    loader was split, no rank has a part, and it is the mean.
    """
    values = [value for _, _, value in parts]
    counted, repeated = sum(one for one, _, _ in parts), sum(one for _, one, _ in parts)
    if not counted:
        return _mean(values, [1] * len(values))
    whole = math.fsum(values) if all(map(math.isfinite, values)) else sum(values)
    return whole * (counted / (counted + repeated)) if repeated else whole


def mean(reports: Sequence[tuple[int, Mapping[str, float]]]) -> dict[str, float]:
    """The mean of each value over the ranks' reports: samples, and values by name.

    A value that is bit for bit the same in all reports stays the same. A value that is not finite, in a report that
    counts, makes the mean so. Raises BadMetric if the reports have different names.
    """
    names = [*reports[0][1]]
    for rank, (_, values) in enumerate(reports):
        if different := set(names) ^ set(values):
            raise BadMetric(
                f"rank 0 reported {{{', '.join(map(repr, sorted(names)))}}} and rank {rank} "
                f"{{{', '.join(map(repr, sorted(values)))}}}: {', '.join(sorted(different))} is not in both. Report "
                "the same metrics on every rank: not in a branch that depends on the rank or on its own samples."
            )
    weights = [samples for samples, _ in reports]
    if not any(weights):
        weights = [1] * len(reports)
    return {name: _mean([float(values[name]) for _, values in reports], weights) for name in names}


def _mean(values: list[float], weights: list[int]) -> float:
    if len({struct.pack("<d", value) for value in values}) == 1:
        return values[0]
    counted = [(value, weight) for value, weight in zip(values, weights, strict=True) if weight]
    terms = [value * weight for value, weight in counted]
    total = math.fsum(terms) if all(map(math.isfinite, terms)) else sum(terms)
    return total / sum(weights)
