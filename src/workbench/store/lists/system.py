"""What trials used over time: curves for viewers, and a summary of each trial. Law: it reads; a pause is a gap.

Of a trial on several slots these are the measures of its first rank.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from datetime import datetime

from workbench.store.files.samples import MEASURES, Span
from workbench.store.lists.glance import Glance

#: The group of their names: ``system/cpu`` stands beside the names of reported metrics.
GROUP = "system"
#: The names of a summary's columns, in their order.
COLUMNS = tuple(f"{GROUP}/{name}" for name in MEASURES)
#: Two spans that are further apart than this many seconds have a gap between them. A leg is not measured in its first
#: and its last seconds.
GAP_S = 10.0

#: Seconds since the trial's start, and values; nan where it did not train.
Curve = tuple[list[float], list[float]]


def names(glance: Glance, trials: Sequence[int] | None = None) -> list[str]:
    """The measures that an experiment has, or ``trials`` of it, such as ``cpu``."""
    return [name for name in MEASURES if glance.has_samples(name, trials)]


def curves(glance: Glance, measure: str, trials: Iterable[int] | None = None) -> dict[int, Curve]:
    """The curves of one measure by trial; of all trials if ``trials`` is None."""
    found: dict[int, list[Span]] = {}
    for trial, *span in glance.samples(measure, trials):
        found.setdefault(trial, []).append((span[0], span[1], span[2]))
    starts = {trial: datetime.fromisoformat(at).timestamp() for trial, at in glance.started(found)}
    return {trial: _curve(spans, starts.get(trial, spans[0][0])) for trial, spans in found.items()}


def _curve(spans: Sequence[Span], start: float) -> Curve:
    """A point at the end of each span, and one more where measuring begins."""
    zero = min(start, spans[0][0])  # the clocks of two machines may differ
    xs: list[float] = []
    ys: list[float] = []
    before = -math.inf
    for since, until, value in spans:
        if until <= before:
            continue  # its machine's clock was set back
        if since > before + GAP_S:
            if xs:
                xs.append((before + since) / 2 - zero)
                ys.append(math.nan)
            xs.append(since - zero)
            ys.append(value)
        xs.append(until - zero)
        ys.append(value)
        before = until
    return xs, ys


def summaries(glance: Glance) -> dict[int, dict[str, float]]:
    """By trial: the mean of each measure over its time, of memory the peak, by names such as ``cpu``."""
    found: dict[int, dict[str, float]] = {}
    for name, measure in MEASURES.items():
        for trial, mean, peak in glance.sampled(name):
            found.setdefault(trial, {})[name] = peak if measure.joins == "peak" else mean
    return found
