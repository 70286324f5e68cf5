"""How much the values of one configuration vary with the seed, and what that means for a difference.

Law: a seed counts once, however often it was trained; the repeated trial is not one of its repeats, since it may have
been chosen because it did well. The interval is Student's: mean ± t(n−1) · s/√n. Two repeated trials are compared by
their means (Welch's t-test). A single value and n repeats differ by more than noise if it is further from their mean
than t(n−1) · s · √(1 + 1/n); 95 % of single values with the same variation lie within that distance. Repeats that gave
the same bits say nothing of noise: they may be one run, counted several times.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

from workbench.compare.bests import Chosen, named
from workbench.compare.repeats import first_of, repeats_of
from workbench.compare.section import number
from workbench.compare.sides import Side
from workbench.compare.student import quantile, welch
from workbench.records import Json
from workbench.standing import SEED_ADVICE

#: A difference less probable than this by chance counts as real.
_RARE = 0.05


def interval(values: Sequence[float]) -> dict[str, Json]:
    """Mean, standard deviation and 95 % interval of the mean; no interval for fewer than two values, or if all are the
    same."""
    finite = [value for value in values if math.isfinite(value)]
    found: dict[str, Json] = {"n": len(finite), "mean": None, "deviation": None, "low": None, "high": None}
    if finite:
        found["mean"] = mean = statistics.fmean(finite)
        if len(finite) > 1:
            found["deviation"] = deviation = statistics.stdev(finite)
            if not deviation:
                return found
            half = quantile(len(finite) - 1) * deviation / math.sqrt(len(finite))
            found |= {"low": mean - half, "high": mean + half}
    return found


def within_noise(a: Side, b: Side, one: Chosen | None, other: Chosen | None) -> dict[str, Json] | None:
    """Whether two trials differ by no more than their repeats; None if neither was repeated with two seeds.

    ``how``: *means* if both were repeated, *single* if one was, *same* if the repeats of one gave the same bits; then
    ``verdict`` is None. ``why`` explains it in words.
    """
    if one is None or other is None or a.spec.goal != b.spec.goal:
        return None
    firsts = [first_of(side.store, side.spec.id, found.trial) for side, found in ((a, one), (b, other))]
    if a.store.root == b.store.root and firsts[0] == firsts[1]:
        return None  # one configuration: the seed is the only difference
    groups = [
        [result.value for result in repeats_of(side.store, *first, step=side.reference.step).values()]
        for side, first in zip((a, b), firsts, strict=True)
    ]
    samples = [[value for value in values if math.isfinite(value)] for values in groups]
    told = [
        _told(named(side, found), sample, len(values) - len(sample))
        for side, found, sample, values in zip((a, b), (one, other), samples, groups, strict=True)
    ]
    if any(len(sample) > 1 and len({*sample}) == 1 for sample in samples):
        why = f"{'; '.join(words for words in told if words)}; {SEED_ADVICE}"
        return {"verdict": None, "how": "same", "p": None, "why": why}
    if all(len(sample) > 1 for sample in samples):
        return _means(samples, told)
    if len(samples[0]) > 1:
        return _single(samples[0], told[0], named(b, other), other.value)
    if len(samples[1]) > 1:
        return _single(samples[1], told[1], named(a, one), one.value)
    return None


def _told(name: str, sample: Sequence[float], lost: int) -> str:
    if len(sample) < 2:
        return ""
    diverged = f" ({lost} more diverged)" if lost else ""
    if len({*sample}) == 1:
        return f"all {len(sample)} repeats of {name} gave the same bits, {number(sample[0])}{diverged}"
    return (
        f"{len(sample)} repeats of {name} scatter by {number(statistics.stdev(sample))} around "
        f"{number(statistics.fmean(sample))}{diverged}"
    )


def _means(samples: Sequence[Sequence[float]], told: Sequence[str]) -> dict[str, Json]:
    apart = abs(statistics.fmean(samples[0]) - statistics.fmean(samples[1]))
    chance = welch(*samples)
    words = f"the means differ by {number(apart)} (Welch's t-test: p = {chance:.2g})"
    return {"verdict": chance >= _RARE, "how": "means", "p": chance, "why": f"{'; '.join(told)}; {words}"}


def _single(sample: Sequence[float], told: str, name: str, value: float) -> dict[str, Json]:
    apart = abs(value - statistics.fmean(sample))
    limit = quantile(len(sample) - 1) * statistics.stdev(sample) * math.sqrt(1 + 1 / len(sample))
    inside = apart <= limit
    words = (
        f"{name} was not repeated: its one value lies {number(apart)} from that mean, and 95 % of single values that "
        f"scatter alike lie within {number(limit)}"
    )
    return {"verdict": inside, "how": "single", "p": None, "why": f"{told}; {words}"}
