"""The distributions. Law: a value is a function of a point of the unit cube alone."""

from __future__ import annotations

import itertools
import json
import math
import reprlib
import sys
from collections.abc import ItemsView, Iterator, KeysView, Mapping, Sequence, ValuesView
from dataclasses import dataclass
from numbers import Integral
from typing import Any

from workbench.errors import BadSpace
from workbench.records import Json
from workbench.space.conditions import Condition
from workbench.space.defaults import NO_DEFAULT, or_default
from workbench.space.forms import (
    Distribution,
    at_point,
    contained,
    dimensions_of,
    fitted_to,
    form_of,
    form_to_json,
    grid_of,
    picked,
)
from workbench.space.labels import is_real, label

__all__ = [
    "Choice",
    "LogUniform",
    "QUniform",
    "RandInt",
    "Uniform",
    "choice",
    "form_from_json",
    "loguniform",
    "quniform",
    "randint",
    "uniform",
]


#: A point of the unit cube has 53 bits: of more values it reaches only some, such as every thousandth.
MOST_VALUES = 2**53
#: By how much of a step a number may miss a multiple of it.
_ROUNDING = 1e-9


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Uniform(Distribution):
    """A real number between ``low`` and ``high``, uniformly distributed."""

    low: float
    high: float
    when: Condition | None = None
    kind = "uniform"

    def at(self, units: Sequence[float]) -> float:
        return min(self.low + units[0] * (self.high - self.low), self.high)

    def contains(self, value: Any) -> bool:
        return is_real(value) and self.low <= value <= self.high

    def fitted(self, value: Any) -> float:
        # super() would name the class before the dataclass gave it slots, which is another one.
        return float(Distribution.fitted(self, value))

    def arguments(self) -> dict[str, Json]:
        return {"low": self.low, "high": self.high}


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class LogUniform(Uniform):
    """A positive real number whose logarithm is uniform."""

    kind = "loguniform"

    def at(self, units: Sequence[float]) -> float:
        low, high = math.log(self.low), math.log(self.high)
        return min(max(math.exp(low + units[0] * (high - low)), self.low), self.high)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class QUniform(Distribution):
    """``low``, ``low + q``, ``low + 2q``, … up to ``high``; integers where all three are."""

    low: float
    high: float
    q: float
    when: Condition | None = None
    kind = "quniform"

    @property
    def size(self) -> int:
        """How many values there are."""
        # The bounds themselves are rounded: by more than a step's part, if they are large.
        slack = _ROUNDING + (math.ulp(self.low) + math.ulp(self.high)) / self.q
        return math.floor((self.high - self.low) / self.q + slack) + 1

    def value(self, index: int) -> float:
        """The value number ``index``."""
        value = self.low + index * self.q
        if isinstance(value, int):
            return value
        # 0.1 + 2 × 0.1 must read 0.3: people compare this number with the one they typed. Where the step needs more
        # digits, as beside a time in seconds, they are kept.
        short = float(f"{value:.12g}")
        return short if abs(short - value) <= self.q * _ROUNDING else value

    def at(self, units: Sequence[float]) -> float:
        return self.value(min(int(units[0] * self.size), self.size - 1))

    def grid(self) -> Iterator[float]:
        return map(self.value, range(self.size))

    def contains(self, value: Any) -> bool:
        # Nan and infinities lie nowhere between bounds.
        if not is_real(value) or not self.low - self.q <= value <= self.high + self.q:
            return False
        index = round((value - self.low) / self.q)
        return 0 <= index < self.size and math.isclose(
            value, self.value(index), rel_tol=_ROUNDING, abs_tol=self.q * _ROUNDING
        )

    def fitted(self, value: Any) -> float:
        return self.value(round((Distribution.fitted(self, value) - self.low) / self.q))

    def arguments(self) -> dict[str, Json]:
        return {"low": self.low, "high": self.high, "q": self.q}


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class RandInt(Distribution):
    """An integer, ``low`` ≤ n ≤ ``high``: both bounds are possible."""

    low: int
    high: int
    when: Condition | None = None
    kind = "randint"

    @property
    def size(self) -> int:
        """How many values there are."""
        return self.high - self.low + 1

    def at(self, units: Sequence[float]) -> int:
        return min(self.low + int(units[0] * self.size), self.high)

    def grid(self) -> Iterator[int]:
        return iter(range(self.low, self.high + 1))

    def contains(self, value: Any) -> bool:
        return isinstance(value, int) and not isinstance(value, bool) and self.low <= value <= self.high

    def fitted(self, value: Any) -> int:
        # A table's column with a gap holds 64 as 64.0.
        is_whole = isinstance(value, float) and value.is_integer()
        return int(Distribution.fitted(self, int(value) if is_whole else value))

    def arguments(self) -> dict[str, Json]:
        return {"low": self.low, "high": self.high}


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Choice(Distribution):
    """One of ``options``. ``forms`` are the options in the form of configurations: labels, dicts, distributions.

    repeat: each configuration is trained with every option; the searcher sees only the first one.
    """

    options: tuple[Any, ...]
    forms: tuple[Any, ...]
    when: Condition | None = None
    repeat: bool = False
    kind = "choice"

    @property
    def dimensions(self) -> int:
        return 0 if self.repeat else 1 + sum(map(dimensions_of, self.forms))

    def at(self, units: Sequence[float]) -> Any:
        if self.repeat:
            return self.forms[0]
        index = min(int(units[0] * len(self.forms)), len(self.forms) - 1)
        offset = 1 + sum(map(dimensions_of, self.forms[:index]))
        return at_point(self.forms[index], units[offset:])

    def grid(self) -> Iterator[Any]:
        return itertools.chain.from_iterable(map(grid_of, self.forms[:1] if self.repeat else self.forms))

    def contains(self, value: Any) -> bool:
        return any(contained(form, value) for form in self.forms)

    def fitted(self, value: Any) -> Any:
        index = self._meant(value)
        if index is None:
            raise ValueError(f"{value!r} is not a value of {self}")
        return fitted_to(self.forms[index], value)

    def pick(self, value: Any) -> Any:
        """The option itself (a class, a tuple, …) for its label. Raises BadSpace if there is none."""
        index = self._meant(value)
        if index is None:
            raise BadSpace(
                f"{value!r} is not an option of {self}. The cell's options have changed since; train it again."
            )
        return picked(self.options[index], self.forms[index], value)

    def _meant(self, value: Any) -> int | None:
        """The option that has the value: one that writes it the same comes before one that is equal, as 1 is to 1.0."""
        found = [index for index, form in enumerate(self.forms) if contained(form, value)]
        if len(found) < 2:
            return next(iter(found), None)
        text = _text(value)
        return min(found, key=lambda index: _text(fitted_to(self.forms[index], value)) != text)

    def arguments(self) -> dict[str, Json]:
        options = [form_to_json(form) for form in self.forms]
        return {"options": options, "repeat": True} if self.repeat else {"options": options}

    def __repr__(self) -> str:
        given = [f"{form!r}" for form in self.forms]
        if self.when is not None:
            given.append(f"when={self.when}")
        return f"choice({', '.join([*given, *(['repeat=True'] if self.repeat else [])])})"


def _text(value: Any) -> str:
    return json.dumps(value, sort_keys=True, default=repr)


def uniform(low: float, high: float, *, when: Condition | None = None, default: Any = NO_DEFAULT) -> Uniform:
    """A real number between ``low`` and ``high``.

    default, of each distribution: the value in a script that runs without Workbench (:mod:`workbench.space.defaults`).
    """
    low, high = _bounds("uniform", low, high)
    return or_default(Uniform(low, high, _condition("uniform", when)), default)


def loguniform(low: float, high: float, *, when: Condition | None = None, default: Any = NO_DEFAULT) -> LogUniform:
    """A positive real number whose logarithm is uniform: for learning rates, weight decay and the like."""
    if is_real(low) and low <= 0:
        raise BadSpace(
            f"loguniform({low!r}, {high!r}): expected bounds above 0, which has no logarithm. "
            "Use a small positive bound such as 1e-6, or uniform."
        )
    low, high = _bounds("loguniform", low, high)
    return or_default(LogUniform(low, high, _condition("loguniform", when)), default)


def randint(low: Any, high: Any, *, when: Condition | None = None, default: Any = NO_DEFAULT) -> RandInt:
    """An integer, ``low`` ≤ n ≤ ``high``: both bounds are possible."""
    for bound in (low, high):
        if not is_real(bound) or not isinstance(bound, Integral):
            raise BadSpace(
                f"randint({low!r}, {high!r}): expected two integers. Write integers without a point, "
                "or use uniform for real numbers."
            )
    _bounds("randint", low, high)
    if high - low >= MOST_VALUES:
        raise BadSpace(
            f"randint({_shown(low)}, {_shown(high)}): expected at most 2**53 integers, as many as a trial can draw. "
            "Use nearer bounds: for a seed, randint(0, 2**32 - 1)."
        )
    return or_default(RandInt(int(low), int(high), _condition("randint", when)), default)


def quniform(
    low: float, high: float, q: float, *, when: Condition | None = None, default: Any = NO_DEFAULT
) -> QUniform:
    """``low``, ``low + q``, … up to ``high``; integers where all three are."""
    if not is_real(q) or not _is_finite(q) or q <= 0:
        raise BadSpace(f"quniform({low!r}, {high!r}, {_shown(q)}): expected a step q above 0. For example: q=0.1.")
    low, high = _bounds("quniform", low, high)
    if q > (high - low) * (1 + 1e-9):
        raise BadSpace(
            f"quniform({low!r}, {high!r}, {q!r}): the step is larger than the range, so only {low!r} is left. "
            "Use a smaller q, or assign the constant."
        )
    q = _number(q)
    if (high - low) / q >= MOST_VALUES or low + q == low or high - q == high:
        raise BadSpace(
            f"quniform({low!r}, {high!r}, {q!r}): the step is too small for such numbers: it would not reach all "
            "multiples. Use a larger q, or numbers relative to the lower bound."
        )
    return or_default(QUniform(low, high, q, _condition("quniform", when)), default)


def choice(*options: Any, when: Condition | None = None, default: Any = NO_DEFAULT, repeat: bool = False) -> Choice:
    """One of ``options``: numbers, strings, None, tuples, classes, functions, modules, any object.

    An option may itself be a distribution, or a dict of them (then the value is a dict). repeat: every configuration is
    trained with each of the options, such as the folds of a cross-validation, and compared by its mean.
    """
    if not options:
        raise BadSpace("choice(): expected at least one option. For example: choice(32, 64, 128).")
    if len(options) == 1:
        _check_only(options[0])
    forms = tuple(form_of(option, index) for index, option in enumerate(options))
    seen: dict[str, int] = {}
    for index, form in enumerate(forms):
        key = json.dumps(form_to_json(form), sort_keys=True)
        if key in seen:
            raise BadSpace(
                f"choice(...): options {seen[key] + 1} and {index + 1} have one label, {form!r}, so no record could "
                "tell them apart. Remove one, or give them different names (a def each, for lambdas)."
            )
        seen[key] = index
    if repeat:
        _check_repeated(options, forms, when)
    return or_default(Choice(options, forms, _condition("choice", when), bool(repeat)), default)


def _check_only(option: Any) -> None:
    """Refuse a collection of options as the only one: every trial would have the whole of it as its value."""
    if isinstance(option, (list, tuple, set, frozenset)):
        shown = ", ".join(repr(one) for one in option)
        raise BadSpace(
            f"choice({option!r}): expected the options themselves, given one {type(option).__name__}. "
            f"Write choice({shown or '32, 64'})."
        )
    # Arrays, tensors and columns of tables have the same method, and their packages need not be installed.
    is_array = not isinstance(option, type) and bool(getattr(option, "shape", None)) and hasattr(option, "tolist")
    if is_array or isinstance(option, (range, Iterator, KeysView, ValuesView, ItemsView)):
        plain = f"*{label(option)}" if isinstance(option, range) else "*options.tolist()" if is_array else "*options"
        raise BadSpace(
            f"choice({label(option)}): expected the options themselves, given one {type(option).__name__}. "
            f"Write choice({plain}), with a star before it."
        )


def _check_repeated(options: tuple[Any, ...], forms: tuple[Any, ...], when: Any) -> None:
    given = f"choice({', '.join(map(repr, forms))}, repeat=True)"
    if when is not None:
        raise BadSpace(
            f"{given}: it has a condition. Expected options that every configuration is trained with; remove when= or "
            "repeat=."
        )
    if len(options) == 1:
        raise BadSpace(f"{given}: expected two options or more. Give them, or assign the constant {forms[0]!r}.")
    if any(map(dimensions_of, forms)):
        raise BadSpace(
            f"{given}: an option is a distribution. Expected values, each of which every configuration is trained with."
        )


def form_from_json(data: Mapping[str, Json]) -> Any:
    kind = data["kind"]
    if kind == "constant":
        return data["value"]
    if kind == "dict":
        return {key: form_from_json(inner) for key, inner in data["fields"].items()}
    when = Condition.from_json(data["when"]) if "when" in data else None
    if kind == "choice":
        options = tuple(form_from_json(option) for option in data["options"])
        return Choice(options, options, when, bool(data.get("repeat", False)))
    kinds = {"uniform": Uniform, "loguniform": LogUniform, "quniform": QUniform, "randint": RandInt}
    if kind not in kinds:
        raise BadSpace(f"{kind!r} is not a distribution that this Workbench knows: expected one of {', '.join(kinds)}.")
    return kinds[kind](**{key: data[key] for key in ("low", "high", "q") if key in data}, when=when)


def _number(value: Any) -> Any:
    return int(value) if isinstance(value, Integral) else float(value)


def _is_finite(value: Any) -> bool:
    """Whether a float holds it: an integer may be larger than all of them."""
    try:
        return math.isfinite(value)
    except OverflowError:
        return False


def _shown(value: Any) -> str:
    return reprlib.repr(value) if isinstance(value, int) else repr(value)


def _bounds(kind: str, low: Any, high: Any) -> tuple[Any, Any]:
    given = f"{kind}({_shown(low)}, {_shown(high)})"
    for bound in (low, high):
        if not is_real(bound) or not _is_finite(bound):
            expected = f"expected two finite numbers, low and high, below {sys.float_info.max:.2g}"
            raise BadSpace(f"{given}: {expected}. {_shown(bound)} is not one; give a number.")
    if low == high:
        raise BadSpace(f"{given}: expected a range, and low equals high. Assign the constant {low!r} instead.")
    if low > high:
        raise BadSpace(f"{given}: expected low below high. Swap them: {kind}({high!r}, {low!r}).")
    if not _is_finite(high - low):
        raise BadSpace(f"{given}: the range is too wide for floating-point numbers. Use loguniform, or nearer bounds.")
    return _number(low), _number(high)


def _condition(kind: str, when: Any) -> Condition | None:
    if when is None or isinstance(when, Condition):
        return when
    raise BadSpace(
        f"{kind}(..., when={when!r}): expected a comparison with a hyperparameter of the same cell, such as "
        'when=opt == "sgd", where opt is assigned a distribution in a line above. In a function\'s signature write '
        'when=wb.Parameter("opt") == "sgd".'
    )
