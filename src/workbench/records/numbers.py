"""Numbers as text, for people. Law: pure; a number that is not whole is never shown as a whole one.

The panel shows numbers in the same way (``frontend/src/numbers.ts``, with a longer minus sign); both are tested on
``tests/fixtures/numbers.json``.
"""

from __future__ import annotations

import math
from decimal import ROUND_HALF_UP, Context, Decimal

#: Significant digits, and the most where fewer would look whole: float32 has no more than these.
DIGITS, MOST_DIGITS = 4, 9
#: Smaller and larger numbers get a power of ten.
_LOW, _HIGH = 1e-3, 1e6


def shown(value: float) -> str:
    """``value`` with four significant digits, and more where it would look whole: 0.999952 is ``0.99995``.

    Whole numbers below a million have all their digits. Those of another size get a power of ten: ``1.2e-4``.
    """
    if not math.isfinite(value):
        return str(float(value))
    if value == 0:
        return "0"
    exact = Decimal(value)
    if not _LOW <= abs(value) < _HIGH:
        mantissa, power = f"{_rounded(exact, DIGITS):e}".split("e")
        return f"{_plain(Decimal(mantissa))}e{int(power)}"
    if value == int(value):
        return str(int(value))
    found = (_rounded(exact, digits) for digits in range(DIGITS, MOST_DIGITS + 1))
    return _plain(next((one for one in found if one != one.to_integral_value()), _rounded(exact, DIGITS)))


def _rounded(exact: Decimal, digits: int) -> Decimal:
    return exact.normalize(Context(prec=digits, rounding=ROUND_HALF_UP))


def _plain(number: Decimal) -> str:
    """Without a power of ten, and without zeros at the end."""
    return f"{number.normalize():f}"
