"""Numbers of other libraries, such as ``numpy.int64``, as Python's own. Law: pure; it refuses nothing."""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any


def plain(given: Any) -> Any:
    """``given`` as an int or a float, if it is a number; anything else, such as True, as it is."""
    if isinstance(given, bool):
        return given
    if isinstance(given, Integral):
        return int(given)
    return float(given) if isinstance(given, Real) else given
