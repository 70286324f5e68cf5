"""Why an experiment has no best trial. Law: pure; every face gives this reason and this advice."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

from workbench.records import Spec, numbers
from workbench.records.names import trial_label


def why_none_is_best(spec: Spec, label: str, rows: Iterable[Mapping[str, Any]], *, is_ended: bool) -> str:
    """Why no trial is the best one, or none is yet, and what to do. label: the experiment's; rows: of its trials."""
    metric, sign = spec.goal.metric, -1.0 if spec.goal.mode == "max" else 1.0
    reported = [row for row in rows if row.get("value") is not None]
    # By its best value: what it reported last may be nan.
    finite = {row["number"]: (row, value) for row in reported if (value := _finite(row)) is not None}
    words = f"{label} has no best trial{'' if is_ended else ' yet'}: "
    shown = f"`workbench show {label}` shows its trials, in Python exp.trials"
    if not finite:
        return f"{words}none has reported {'a finite ' if reported else ''}{metric}. {shown}."
    number, (_, value) = min(finite.items(), key=lambda one: (sign * one[1][1], one[0]))
    if all(row.get("state") == "failed" for row, _ in finite.values()):
        words += f"each trial that has reported {metric} failed, and failed trials are not compared"
    else:
        words += f"trials are compared at levels, and none has reported {metric} at one"
    trial = trial_label(number)
    return f"{words}. {shown}. Name one: {label}/{trial} (exp[{trial!r}]) has reported {metric} {numbers.shown(value)}."


def _finite(row: Mapping[str, Any]) -> float | None:
    """The trial's best value, or in a row without one its newest; None if it is not finite."""
    values = (row.get("best"), row.get("value"))
    return next((float(value) for value in values if value is not None and math.isfinite(value)), None)
