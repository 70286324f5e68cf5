"""Labels: objects as a configuration holds them. Law: a label is JSON data, and the same in every process."""

from __future__ import annotations

import enum
from numbers import Integral, Real
from typing import Any

__all__ = ["is_real", "label", "same"]


def label(value: Any, index: int = 0) -> Any:
    """``value`` as a configuration holds it: JSON data stays itself, anything else goes by its name."""
    if value is None or isinstance(value, (bool, int, float, str)):
        return value if not isinstance(value, enum.Enum) else f"{type(value).__name__}.{value.name}"
    if isinstance(value, Integral):
        return int(value)
    if isinstance(value, Real):
        return float(value)
    if isinstance(value, enum.Enum):
        return f"{type(value).__name__}.{value.name}"
    if isinstance(value, (list, tuple)):
        return [label(one, position) for position, one in enumerate(value)]
    if isinstance(value, dict):
        return {key: label(one, index) for key, one in value.items()}
    name = getattr(value, "__name__", None)
    if isinstance(name, str):
        return name
    text = repr(value)
    # A memory address differs from process to process, and a record of many lines is no label.
    return text if len(text) <= 80 and "\n" not in text and " at 0x" not in text else f"{type(value).__name__}[{index}]"


def same(one: Any, other: Any) -> bool:
    # True is not 1, and 1 is 1.0: as JSON tells them apart, but a float that came back as an integer is the same.
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(same(value, other[key]) for key, value in one.items())
    if isinstance(one, (list, tuple)) and isinstance(other, (list, tuple)):
        return len(one) == len(other) and all(map(same, one, other))
    return bool(one == other) or (one != one and other != other)


def is_real(value: object) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool)
