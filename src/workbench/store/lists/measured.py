"""What a set-up and a step took in an experiment. Law: it reads the series; nothing measured is None, never zero."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping
from typing import Any

from workbench.errors import StoreError
from workbench.search.cost import Times
from workbench.store import Store
from workbench.store.series import Series


def times(store: Store, experiment: str, label: str) -> Times | None:
    """What ``experiment`` measured; None if no leg of it has set up and trained a step, or its series is unreadable."""
    try:
        with Series.read(store.experiment(experiment).series) as series:
            legs = series.legs()
    except (StoreError, LookupError):
        return None
    setups = [seconds for leg in legs if (seconds := (leg.get("detail") or {}).get("setup_s"))]
    trained = list(_trained(legs))
    steps = sum(steps for steps, _ in trained)
    if not setups or not steps:
        return None
    # The median: the first set-up downloads what the others find.
    return Times(statistics.median(setups), sum(seconds for _, seconds in trained) / steps, f"{label} took")


def _trained(legs: Iterable[Mapping[str, Any]]) -> Iterable[tuple[int, float]]:
    """Steps and seconds of the legs that reached their level."""
    for leg in legs:
        began, left = leg.get("began"), leg.get("left")
        steps = (leg.get("step") or 0) - (leg.get("start") or 0)
        if leg.get("outcome") in ("reached", "completed") and began and left and left > began and steps > 0:
            yield steps, left - began
