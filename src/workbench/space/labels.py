"""Labels: the form of objects in a configuration. Law: a label is JSON data, and the same in every process."""

from __future__ import annotations

import enum
from numbers import Integral, Real
from typing import Any

__all__ = ["is_real", "label", "same"]


def label(value: Any, index: int = 0) -> Any:
    """``value`` in the form of configurations: JSON data is unchanged, any other object is represented by its name."""
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
    # A memory address differs between processes, and a text of many lines cannot be a label.
    return text if len(text) <= 80 and "\n" not in text and " at 0x" not in text else f"{type(value).__name__}[{index}]"


def same(one: Any, other: Any) -> bool:
    # True differs from 1, as in JSON, but 1 equals 1.0, since a float may come back as an integer.
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(same(value, other[key]) for key, value in one.items())
    if isinstance(one, (list, tuple)) and isinstance(other, (list, tuple)):
        return len(one) == len(other) and all(map(same, one, other))
    return bool(one == other) or (one != one and other != other)


def is_real(value: object) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool)
