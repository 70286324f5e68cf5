"""Hyperparameters and their distributions. Law: standard library only; a point of the unit cube is all its chance.

A configuration is plain JSON data. Options that are no JSON data (classes, functions, modules, objects) appear in it by
their label; :meth:`Choice.pick` turns a label back into the object. A hyperparameter whose condition does not hold is
inactive: its value is None.
"""

from __future__ import annotations

import enum
import itertools
import json
import keyword
import math
import operator
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any, Literal, Protocol

from workbench.errors import BadSpace
from workbench.records import Configuration, Json, check_schema

__all__ = [
    "Choice",
    "Condition",
    "Distribution",
    "LogUniform",
    "Parameter",
    "QUniform",
    "RandInt",
    "Space",
    "Uniform",
    "choice",
    "loguniform",
    "quniform",
    "randint",
    "uniform",
]

Operator = Literal["==", "!=", "<", "<=", ">", ">=", "in", "not in", "and", "or"]

_OPPOSITE: dict[str, Operator] = {
    "==": "!=",
    "!=": "==",
    "<": ">=",
    ">=": "<",
    ">": "<=",
    "<=": ">",
    "in": "not in",
    "not in": "in",
    "and": "or",
    "or": "and",
}
_ORDER: dict[str, Callable[[Any, Any], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


class HasRandom(Protocol):
    """What :meth:`Space.sample` needs of a random generator, such as ``random.Random``."""

    def random(self) -> float:
        """A number, 0 ≤ u < 1."""
        ...  # pragma: no cover


# ---------------------------------------------------------------------------------------------------------------------
# Conditions


@dataclass(frozen=True, slots=True)
class Condition:
    """When a hyperparameter is active: a comparison with another one, or several joined by ``&`` and ``|``.

    A comparison with an inactive hyperparameter never holds, whichever way it compares.
    """

    op: Operator
    name: str = ""
    value: Any = None
    parts: tuple[Condition, ...] = ()

    def holds(self, values: Mapping[str, Any]) -> bool:
        """Whether it holds, given the values of the *active* hyperparameters so far."""
        if self.op == "and":
            return all(part.holds(values) for part in self.parts)
        if self.op == "or":
            return any(part.holds(values) for part in self.parts)
        if self.name not in values:
            return False
        value = values[self.name]
        if self.op in ("in", "not in"):
            return any(_same(value, one) for one in self.value) == (self.op == "in")
        if self.op in ("==", "!="):
            return _same(value, self.value) == (self.op == "==")
        return _ORDER[self.op](value, self.value)

    @property
    def comparisons(self) -> tuple[Condition, ...]:
        """The comparisons it is joined from."""
        return tuple(itertools.chain.from_iterable(part.comparisons for part in self.parts)) if self.parts else (self,)

    def __and__(self, other: Condition) -> Condition:
        return Condition("and", parts=(self, other))

    def __or__(self, other: Condition) -> Condition:
        return Condition("or", parts=(self, other))

    def __invert__(self) -> Condition:
        return Condition(_OPPOSITE[self.op], self.name, self.value, tuple(~part for part in self.parts))

    def __bool__(self) -> bool:
        raise BadSpace(
            f"The condition {self} has no truth value of its own: it differs from trial to trial. Give it as "
            "when=, and join two with & and | (each in brackets) instead of 'and' and 'or'."
        )

    def __str__(self) -> str:
        if self.parts:
            return f" {'&' if self.op == 'and' else '|'} ".join(f"({part})" for part in self.parts)
        return f"{self.name} {self.op} {self.value!r}"

    def to_json(self) -> Json:
        """Plain data."""
        if self.parts:
            return {"op": self.op, "parts": [part.to_json() for part in self.parts]}
        return {"op": self.op, "name": self.name, "value": self.value}

    @classmethod
    def from_json(cls, data: Mapping[str, Json]) -> Condition:
        """The condition that :meth:`to_json` wrote."""
        parts = tuple(cls.from_json(part) for part in data.get("parts", ()))
        return cls(data["op"], data.get("name", ""), data.get("value"), parts)


class Parameter:
    """A distribution under its name, as later lines of a cell see it: comparing it gives a :class:`Condition`."""

    __slots__ = ("distribution", "name")

    def __init__(self, name: str, distribution: Distribution | None = None) -> None:
        self.name = name
        self.distribution = distribution

    def __eq__(self, other: object) -> Condition:  # type: ignore[override]
        return Condition("==", self.name, label(other))

    def __ne__(self, other: object) -> Condition:  # type: ignore[override]
        return Condition("!=", self.name, label(other))

    def __lt__(self, other: float) -> Condition:
        return Condition("<", self.name, label(other))

    def __le__(self, other: float) -> Condition:
        return Condition("<=", self.name, label(other))

    def __gt__(self, other: float) -> Condition:
        return Condition(">", self.name, label(other))

    def __ge__(self, other: float) -> Condition:
        return Condition(">=", self.name, label(other))

    def isin(self, *values: object) -> Condition:
        """Active where this one is any of ``values``; one list of them is welcome too."""
        if len(values) == 1 and isinstance(values[0], (list, tuple, set, frozenset)):
            values = tuple(values[0])
        return Condition("in", self.name, [label(value) for value in values])

    __hash__ = object.__hash__

    def __repr__(self) -> str:
        return f"{self.name} = {self.distribution}"


# ---------------------------------------------------------------------------------------------------------------------
# Distributions


class Distribution:
    """What a hyperparameter may be. ``dimensions`` coordinates of a unit cube choose one value."""

    __slots__ = ()
    kind: str
    when: Condition | None

    @property
    def dimensions(self) -> int:
        """How many coordinates :meth:`at` takes."""
        return 1

    def at(self, units: Sequence[float]) -> Any:
        """The value at a point of the unit cube (coordinates 0 ≤ u < 1)."""
        raise NotImplementedError

    def grid(self) -> Iterator[Any]:
        """All values in order. Raises BadSpace where there are infinitely many."""
        raise BadSpace(
            f"{self} has no grid: wanted finitely many values. Use choice(...), randint(...) or quniform(...), "
            "or another searcher."
        )

    def contains(self, value: Any) -> bool:
        """Whether a configuration may hold ``value``."""
        raise NotImplementedError

    def pick(self, value: Any) -> Any:
        """What training code gets for ``value`` of a configuration."""
        return value

    def arguments(self) -> dict[str, Json]:
        """Its fields besides the condition, as plain data."""
        raise NotImplementedError

    def to_json(self) -> dict[str, Json]:
        """Plain data; options by their labels."""
        data = {"kind": self.kind, **self.arguments()}
        return data if self.when is None else {**data, "when": self.when.to_json()}

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Distribution) and _same(self.to_json(), other.to_json())

    def __hash__(self) -> int:
        return hash(json.dumps(self.to_json(), sort_keys=True))

    def __repr__(self) -> str:
        given = [f"{value!r}" for value in self.arguments().values()]
        return f"{self.kind}({', '.join([*given, *([f'when={self.when}'] if self.when is not None else [])])})"


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Uniform(Distribution):
    """A real number between ``low`` and ``high``, each as likely as the other."""

    low: float
    high: float
    when: Condition | None = None
    kind = "uniform"

    def at(self, units: Sequence[float]) -> float:
        return min(self.low + units[0] * (self.high - self.low), self.high)

    def contains(self, value: Any) -> bool:
        return _is_real(value) and self.low <= value <= self.high

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
        return math.floor((self.high - self.low) / self.q + 1e-9) + 1

    def value(self, index: int) -> float:
        """The value number ``index``."""
        value = self.low + index * self.q
        # 0.1 + 2 × 0.1 reads 0.3: a person compares this number with what was typed.
        return value if isinstance(value, int) else float(f"{value:.12g}")

    def at(self, units: Sequence[float]) -> float:
        return self.value(min(int(units[0] * self.size), self.size - 1))

    def grid(self) -> Iterator[float]:
        return map(self.value, range(self.size))

    def contains(self, value: Any) -> bool:
        if not _is_real(value):
            return False
        index = round((value - self.low) / self.q)
        return 0 <= index < self.size and math.isclose(value, self.value(index), rel_tol=1e-9, abs_tol=self.q * 1e-9)

    def arguments(self) -> dict[str, Json]:
        return {"low": self.low, "high": self.high, "q": self.q}


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class RandInt(Distribution):
    """An integer, ``low`` ≤ n ≤ ``high``: both bounds are possible."""

    low: int
    high: int
    when: Condition | None = None
    kind = "randint"

    def at(self, units: Sequence[float]) -> int:
        return min(self.low + int(units[0] * (self.high - self.low + 1)), self.high)

    def grid(self) -> Iterator[int]:
        return iter(range(self.low, self.high + 1))

    def contains(self, value: Any) -> bool:
        return isinstance(value, int) and not isinstance(value, bool) and self.low <= value <= self.high

    def arguments(self) -> dict[str, Json]:
        return {"low": self.low, "high": self.high}


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Choice(Distribution):
    """One of ``options``. ``forms`` are the same as a configuration may hold them: labels, dicts, distributions."""

    options: tuple[Any, ...]
    forms: tuple[Any, ...]
    when: Condition | None = None
    kind = "choice"

    @property
    def dimensions(self) -> int:
        return 1 + sum(map(_dimensions, self.forms))

    def at(self, units: Sequence[float]) -> Any:
        index = min(int(units[0] * len(self.forms)), len(self.forms) - 1)
        offset = 1 + sum(map(_dimensions, self.forms[:index]))
        return _at(self.forms[index], units[offset:])

    def grid(self) -> Iterator[Any]:
        return itertools.chain.from_iterable(map(_grid, self.forms))

    def contains(self, value: Any) -> bool:
        return any(_contains(form, value) for form in self.forms)

    def pick(self, value: Any) -> Any:
        """The option itself (a class, a tuple, …) for its label. Raises BadSpace where there is none."""
        for option, form in zip(self.options, self.forms, strict=True):
            if _contains(form, value):
                return _pick(option, form, value)
        raise BadSpace(f"{value!r} is no option of {self}. The cell's options have changed since; train it anew.")

    def arguments(self) -> dict[str, Json]:
        return {"options": [_form_to_json(form) for form in self.forms]}

    def __repr__(self) -> str:
        given = [f"{form!r}" for form in self.forms]
        return f"choice({', '.join([*given, *([f'when={self.when}'] if self.when is not None else [])])})"


def uniform(low: float, high: float, *, when: Condition | None = None) -> Uniform:
    """A real number between ``low`` and ``high``."""
    low, high = _bounds("uniform", low, high)
    return Uniform(low, high, _condition("uniform", when))


def loguniform(low: float, high: float, *, when: Condition | None = None) -> LogUniform:
    """A positive real number whose logarithm is uniform: for learning rates, weight decay and the like."""
    if _is_real(low) and low <= 0:
        raise BadSpace(
            f"loguniform({low!r}, {high!r}): wanted bounds above 0, which has no logarithm. "
            "Use a small positive bound such as 1e-6, or uniform."
        )
    low, high = _bounds("loguniform", low, high)
    return LogUniform(low, high, _condition("loguniform", when))


def randint(low: Any, high: Any, *, when: Condition | None = None) -> RandInt:
    """An integer, ``low`` ≤ n ≤ ``high``: both bounds are possible."""
    for bound in (low, high):
        if not _is_real(bound) or not isinstance(bound, Integral):
            raise BadSpace(
                f"randint({low!r}, {high!r}): wanted two integers. Write integers without a point, "
                "or use uniform for real numbers."
            )
    _bounds("randint", low, high)
    return RandInt(int(low), int(high), _condition("randint", when))


def quniform(low: float, high: float, q: float, *, when: Condition | None = None) -> QUniform:
    """``low``, ``low + q``, … up to ``high``; integers where all three are."""
    if not _is_real(q) or not math.isfinite(q) or q <= 0:
        raise BadSpace(f"quniform({low!r}, {high!r}, {q!r}): wanted a step q above 0. Write for example q=0.1.")
    low, high = _bounds("quniform", low, high)
    if q > (high - low) * (1 + 1e-9):
        raise BadSpace(
            f"quniform({low!r}, {high!r}, {q!r}): the step is larger than the range, so only {low!r} is left. "
            "Use a smaller q, or assign the constant."
        )
    return QUniform(low, high, _number(q), _condition("quniform", when))


def choice(*options: Any, when: Condition | None = None) -> Choice:
    """One of ``options``: numbers, strings, None, tuples, classes, functions, modules, any object.

    An option may itself be a distribution, or a dict of them (then the value is a dict).
    """
    if not options:
        raise BadSpace("choice(): wanted at least one option. Write for example choice(32, 64, 128).")
    if len(options) == 1 and isinstance(options[0], (list, tuple, set, frozenset)):
        shown = ", ".join(repr(option) for option in options[0])
        raise BadSpace(
            f"choice({options[0]!r}): wanted the options themselves, given one {type(options[0]).__name__}. "
            f"Write choice({shown or '32, 64'})."
        )
    forms = tuple(_form(option, index) for index, option in enumerate(options))
    seen: dict[str, int] = {}
    for index, form in enumerate(forms):
        key = json.dumps(_form_to_json(form), sort_keys=True)
        if key in seen:
            raise BadSpace(
                f"choice(...): options {seen[key] + 1} and {index + 1} have one label, {form!r}, so no record could "
                "tell them apart. Remove one, or give them different names (a def each, for lambdas)."
            )
        seen[key] = index
    return Choice(options, forms, _condition("choice", when))


# ---------------------------------------------------------------------------------------------------------------------
# Space


class Space:
    """The hyperparameters by name, in the order they were written. Raises BadSpace when it makes no sense."""

    def __init__(self, parameters: Mapping[str, Any] | None = None) -> None:
        #: Every hyperparameter, and every constant that configurations hold. Never changed.
        self.parameters: dict[str, Any] = dict(parameters or {})
        self._forms: dict[str, Any] = {}
        for name, given in self.parameters.items():
            if not isinstance(name, str) or not name.isidentifier() or keyword.iskeyword(name):
                raise BadSpace(f"{name!r} is no name for a hyperparameter: wanted a Python name such as lr.")
            if isinstance(given, Distribution) and given.when is not None:
                self._check_condition(name, given.when)
            self._forms[name] = given if isinstance(given, Distribution) else _form(given, 0)

    def _check_condition(self, name: str, condition: Condition) -> None:
        for part in condition.comparisons:
            parent = self._forms.get(part.name)
            if part.name not in self._forms:
                where = "comes later" if part.name in self.parameters and part.name != name else "is not one"
                raise BadSpace(
                    f"{name}: its condition {condition} needs a hyperparameter {part.name!r} above it, which {where}. "
                    f"Assign {part.name} a distribution in a line before {name}."
                )
            values = part.value if part.op in ("in", "not in") else [part.value]
            for value in values:
                if part.op in _ORDER:
                    options = list(parent.forms) if isinstance(parent, Choice) else [parent]
                    fits = _is_real(value) and all(isinstance(o, Distribution) or _is_real(o) for o in options)
                    do = "Compare numbers with numbers"
                elif isinstance(parent, Distribution):
                    fits, do = parent.contains(value), f"{part.name} is {parent}"
                else:
                    fits, do = True, ""
                if not fits:
                    raise BadSpace(
                        f"{name}: its condition {condition} compares {part.name} with {value!r}, which it can never "
                        f"meet. {do}; mend the condition."
                    )

    @property
    def names(self) -> tuple[str, ...]:
        """Of all hyperparameters and constants, in order."""
        return tuple(self.parameters)

    @property
    def is_empty(self) -> bool:
        """True where every trial would have the same configuration."""
        return all(
            isinstance(given, Choice) and given.dimensions == 1 and len(given.forms) == 1
            for given in self.parameters.values()
            if isinstance(given, Distribution)
        )

    @property
    def dimensions(self) -> int:
        """How many coordinates :meth:`from_unit` takes."""
        return sum(map(_dimensions, self._forms.values()))

    def from_unit(self, vector: Sequence[float]) -> Configuration:
        """The configuration at a point of the unit cube. Inactive hyperparameters leave their coordinates unused."""
        if len(vector) != self.dimensions:
            raise ValueError(f"a point of {len(vector)} coordinates given, {self.dimensions} wanted")
        configuration: Configuration = {}
        active: dict[str, Any] = {}
        offset = 0
        for name, form in self._forms.items():
            if _holds(form, active):
                active[name] = configuration[name] = _at(form, vector[offset:])
            else:
                configuration[name] = None
            offset += _dimensions(form)
        return configuration

    def sample(self, rng: HasRandom) -> Configuration:
        """A random configuration."""
        return self.from_unit([rng.random() for _ in range(self.dimensions)])

    def grid(self) -> Iterator[Configuration]:
        """All configurations; the last name changes fastest. Raises BadSpace where there are infinitely many."""
        for name, given in self.parameters.items():
            if isinstance(given, Distribution):
                try:
                    given.grid()
                    all(True for _ in itertools.islice(given.grid(), 1))
                except BadSpace as error:
                    raise BadSpace(f"{name} = {error}") from None
        return self._grid(list(self._forms.items()), {}, {})

    def _grid(
        self, rest: list[tuple[str, Any]], configuration: Configuration, active: dict[str, Any]
    ) -> Iterator[Configuration]:
        if not rest:
            yield configuration
            return
        (name, form), *rest = rest
        if not _holds(form, active):
            yield from self._grid(rest, {**configuration, name: None}, active)
            return
        for value in _grid(form):
            yield from self._grid(rest, {**configuration, name: value}, {**active, name: value})

    def check(self, configuration: Mapping[str, Any]) -> None:
        """Raise BadSpace unless ``configuration`` is one of this space's."""
        if set(configuration) != set(self.parameters):
            raise BadSpace(
                f"A configuration of {', '.join(configuration) or 'nothing'} was given; wanted exactly "
                f"{', '.join(self.parameters) or 'nothing'}. Give every hyperparameter a value, None where inactive."
            )
        active: dict[str, Any] = {}
        for name, form in self._forms.items():
            value = configuration[name]
            if not _holds(form, active):
                if value is not None:
                    raise BadSpace(f"{name} is {value!r}, but its condition {form.when} does not hold. Give None.")
            elif not _contains(form, value):
                raise BadSpace(f"{name} is {value!r}; wanted a value of {form}. Mend the configuration.")
            else:
                active[name] = value

    def pick(self, configuration: Mapping[str, Any]) -> dict[str, Any]:
        """The configuration as training code sees it: labels turned back into the objects they stand for."""
        picked: dict[str, Any] = {}
        for name, given in self.parameters.items():
            value = configuration[name]
            if not isinstance(given, Distribution):
                picked[name] = given
            else:
                inactive = value is None and given.when is not None and not given.contains(None)
                picked[name] = None if inactive else given.pick(value)
        return picked

    def to_json(self) -> Json:
        """Plain data; options by their labels."""
        return {"schema": 1, "parameters": [{"name": n, **_form_to_json(f)} for n, f in self._forms.items()]}

    @classmethod
    def from_json(cls, data: Mapping[str, Json]) -> Space:
        """The space that :meth:`to_json` wrote; its options are labels. Raises NewerSchema for a later one."""
        check_schema(data, "this space")
        return cls({entry["name"]: _form_from_json(entry) for entry in data["parameters"]})

    def describe(self) -> str:
        """One line for each hyperparameter, as it would be typed."""
        return "\n".join(f"{name} = {form!r}" for name, form in self._forms.items())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Space) and _same(self.to_json(), other.to_json())

    def __hash__(self) -> int:
        return hash(json.dumps(self.to_json(), sort_keys=True))

    def __repr__(self) -> str:
        return f"Space({', '.join(f'{name}={form!r}' for name, form in self._forms.items())})"


# ---------------------------------------------------------------------------------------------------------------------
# Forms: an option or a constant as a configuration may hold it


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


def _form(option: Any, index: int) -> Any:
    if isinstance(option, Parameter):
        raise BadSpace(
            f"{option.name} is used as an option of another hyperparameter. Wanted a value or a distribution; "
            f"write its distribution there, or compare {option.name} in when=."
        )
    if isinstance(option, Distribution):
        if option.when is not None:
            raise BadSpace(
                f"{option} stands inside an option and has a condition of its own. The option is the condition there: "
                "remove when=."
            )
        return option
    if isinstance(option, dict):
        if not all(isinstance(key, str) for key in option):
            raise BadSpace(f"choice({option!r}): wanted a dict with strings as keys. Write for example {{'lr': 0.1}}.")
        return {key: _form(value, index) for key, value in option.items()}
    if isinstance(option, (list, tuple)) and any(isinstance(one, Distribution) for one in option):
        raise BadSpace(
            f"choice(..., {option!r}): a distribution inside a {type(option).__name__}. Wanted it by name: use a dict, "
            "such as {'a': uniform(0, 1)}."
        )
    return label(option, index)


def _dimensions(form: Any) -> int:
    if isinstance(form, Distribution):
        return form.dimensions
    return sum(map(_dimensions, form.values())) if isinstance(form, dict) else 0


def _holds(form: Any, active: Mapping[str, Any]) -> bool:
    return not isinstance(form, Distribution) or form.when is None or form.when.holds(active)


def _at(form: Any, units: Sequence[float]) -> Any:
    if isinstance(form, Distribution):
        return form.at(units)
    if not isinstance(form, dict):
        return form
    value, offset = {}, 0
    for key, inner in form.items():
        value[key] = _at(inner, units[offset:])
        offset += _dimensions(inner)
    return value


def _grid(form: Any) -> Iterator[Any]:
    if isinstance(form, Distribution):
        return form.grid()
    if not isinstance(form, dict):
        return iter([form])
    products: Iterable[tuple[Any, ...]] = itertools.product(*(list(_grid(inner)) for inner in form.values()))
    return (dict(zip(form, values, strict=True)) for values in products)


def _contains(form: Any, value: Any) -> bool:
    if isinstance(form, Distribution):
        return form.contains(value)
    if isinstance(form, dict):
        return (
            isinstance(value, dict)
            and value.keys() == form.keys()
            and all(_contains(inner, value[key]) for key, inner in form.items())
        )
    return _same(form, value)


def _pick(option: Any, form: Any, value: Any) -> Any:
    if isinstance(form, Distribution):
        return form.pick(value)
    if isinstance(form, dict):
        return {key: _pick(option[key], inner, value[key]) for key, inner in form.items()}
    return option


def _form_to_json(form: Any) -> dict[str, Json]:
    if isinstance(form, Distribution):
        return form.to_json()
    if isinstance(form, dict):
        return {"kind": "dict", "fields": {key: _form_to_json(inner) for key, inner in form.items()}}
    return {"kind": "constant", "value": form}


def _form_from_json(data: Mapping[str, Json]) -> Any:
    kind = data["kind"]
    if kind == "constant":
        return data["value"]
    if kind == "dict":
        return {key: _form_from_json(inner) for key, inner in data["fields"].items()}
    when = Condition.from_json(data["when"]) if "when" in data else None
    if kind == "choice":
        options = tuple(_form_from_json(option) for option in data["options"])
        return Choice(options, options, when)
    kinds = {"uniform": Uniform, "loguniform": LogUniform, "quniform": QUniform, "randint": RandInt}
    if kind not in kinds:
        raise BadSpace(f"{kind!r} is no distribution that this Workbench knows: wanted one of {', '.join(kinds)}.")
    return kinds[kind](**{key: data[key] for key in ("low", "high", "q") if key in data}, when=when)


# ---------------------------------------------------------------------------------------------------------------------
# Checks


def _same(one: Any, other: Any) -> bool:
    # True is not 1, and 1 is 1.0: as JSON tells them apart, but a float that came back as an integer is the same.
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_same(value, other[key]) for key, value in one.items())
    if isinstance(one, (list, tuple)) and isinstance(other, (list, tuple)):
        return len(one) == len(other) and all(map(_same, one, other))
    return bool(one == other) or (one != one and other != other)


def _is_real(value: object) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool)


def _number(value: Any) -> Any:
    return int(value) if isinstance(value, Integral) else float(value)


def _bounds(kind: str, low: Any, high: Any) -> tuple[Any, Any]:
    given = f"{kind}({low!r}, {high!r})"
    for bound in (low, high):
        if not _is_real(bound) or not math.isfinite(bound):
            raise BadSpace(f"{given}: wanted two finite numbers, low and high. {bound!r} is none; give a number.")
    if low == high:
        raise BadSpace(f"{given}: wanted a range, and low equals high. Assign the constant {low!r} instead.")
    if low > high:
        raise BadSpace(f"{given}: wanted low below high. Swap them: {kind}({high!r}, {low!r}).")
    if not math.isfinite(high - low):
        raise BadSpace(f"{given}: the range is too wide for floating-point numbers. Use loguniform, or nearer bounds.")
    return _number(low), _number(high)


def _condition(kind: str, when: Any) -> Condition | None:
    if when is None or isinstance(when, Condition):
        return when
    raise BadSpace(
        f"{kind}(..., when={when!r}): wanted a comparison with a hyperparameter of the same cell, such as "
        'when=opt == "sgd", where opt is assigned a distribution in a line above. In a function\'s signature write '
        'when=Parameter("opt") == "sgd".'
    )
