"""How far values of one configuration scatter when only the seeds differ, and what that says of a difference.

The interval is Student's: mean ± t(n−1) · s/√n. Two single trials differ by more than noise where their difference is
larger than t(n−1) · s · √2, since each of them scatters by s.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

from workbench.compare.section import number
from workbench.compare.sides import Side
from workbench.records import Json
from workbench.store.layout import Store
from workbench.store.series import Series

#: The 97.5 % quantile of Student's t by degrees of freedom (any table of it); beyond, the normal distribution's.
_T = (
    *(12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131),
    *(2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042),
)
_NORMAL = 1.960


def t_quantile(degrees: int) -> float:
    """Half of a 95 % interval in standard errors, for so many degrees of freedom (1 or more)."""
    return _T[degrees - 1] if degrees <= len(_T) else _NORMAL


def interval(values: Sequence[float]) -> dict[str, Json]:
    """Mean, standard deviation and 95 % interval of the mean; no interval for fewer than two values."""
    finite = [value for value in values if math.isfinite(value)]
    found: dict[str, Json] = {"n": len(finite), "mean": None, "deviation": None, "low": None, "high": None}
    if finite:
        found["mean"] = mean = statistics.fmean(finite)
        if len(finite) > 1:
            found["deviation"] = deviation = statistics.stdev(finite)
            half = t_quantile(len(finite) - 1) * deviation / math.sqrt(len(finite))
            found |= {"low": mean - half, "high": mean + half}
    return found


def repeats_of(store: Store, experiment: str, trial: int) -> list[float]:
    """The goal's values of all repeats of a trial that were trained, its own left out."""
    found: list[float] = []
    for one in store.experiment_ids():
        origin = store.read_spec_json(one).get("repeats")
        if not isinstance(origin, dict) or (origin.get("experiment"), origin.get("trial")) != (experiment, trial):
            continue
        path = store.experiment(one).series
        if path.exists():
            with Series.read(path) as series:
                rows = series.trials()
            found += [float(row["value"]) for row in rows if row["state"] == "completed" and row["value"] is not None]
    return [value for value in found if math.isfinite(value)]


def within_noise(a: Side, b: Side, one: float | None, other: float | None) -> dict[str, Json] | None:
    """Whether two trials differ by no more than their repeats do; None where neither was repeated."""
    if one is None or other is None or a.trial is None or b.trial is None:
        return None
    groups = [repeats_of(side.store, side.spec.id, side.trial or 0) for side in (a, b)]
    known = [(values, side) for values, side in zip(groups, (a, b), strict=True) if len(values) > 1]
    if not known:
        return None
    # The wider of the two: a difference must stand out of both.
    values, side = max(known, key=lambda pair: statistics.stdev(pair[0]))
    deviation = statistics.stdev(values)
    limit = t_quantile(len(values) - 1) * deviation * math.sqrt(2)
    apart = abs(one - other)
    inside = apart <= limit
    return {
        "verdict": inside,
        "why": f"they differ by {number(apart)}; {len(values)} repeats of {side.reference} scatter by "
        f"{number(deviation)}, so that {'less' if inside else 'more'} than {number(limit)} is "
        f"{'noise' if inside else 'no noise'} (95 %)",
    }
