"""Values of metrics as JSON has them. Law: each value has one form, and comes back as it was."""

from __future__ import annotations

import math

Metrics = dict[str, float]


def plain_value(value: float | None) -> float | str | None:
    """A metric's value for JSON, which lacks nan and infinities: they become the words nan, inf and -inf."""
    if value is None or math.isfinite(value):
        return value
    return "nan" if math.isnan(value) else "inf" if value > 0 else "-inf"


def value_of(plain: float | str | None) -> float | None:
    """The inverse of :func:`plain_value`."""
    return None if plain is None else float(plain)
