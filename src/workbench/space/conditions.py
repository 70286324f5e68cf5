"""When a hyperparameter is active. Law: a condition is data; it has no truth value."""

from __future__ import annotations

import itertools
import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from workbench.errors import BadSpace
from workbench.records import Json
from workbench.space.labels import label, same

if TYPE_CHECKING:
    from workbench.space.forms import Distribution

__all__ = ["ORDER", "Condition", "Parameter"]

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
ORDER: dict[str, Callable[[Any, Any], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


@dataclass(frozen=True, slots=True)
class Condition:
    """When a hyperparameter is active: a comparison with another one, or several joined by ``&`` and ``|``.

    A comparison with an inactive hyperparameter never holds, whatever the operator.
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
            return any(same(value, one) for one in self.value) == (self.op == "in")
        if self.op in ("==", "!="):
            return same(value, self.value) == (self.op == "==")
        return ORDER[self.op](value, self.value)

    @property
    def comparisons(self) -> tuple[Condition, ...]:
        """The comparisons that it consists of."""
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
    """A hyperparameter by its name: comparing it gives a condition for ``when=``. Later lines of a cell see one."""

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
        """A condition that holds if this one is any of ``values``; a single list is accepted too."""
        if len(values) == 1 and isinstance(values[0], (list, tuple, set, frozenset)):
            values = tuple(values[0])
        return Condition("in", self.name, [label(value) for value in values])

    __hash__ = object.__hash__

    def __repr__(self) -> str:
        return f"{self.name} = {self.distribution}"
