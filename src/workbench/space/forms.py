"""Forms: what a configuration may hold. Law: plain data, a distribution of it, or a dict of forms; nothing else.

An option of a choice and a constant of a space are converted to a form once; everything else uses the form.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from workbench.errors import BadSpace
from workbench.records import Json
from workbench.space.conditions import Condition, Parameter
from workbench.space.labels import label, same

__all__ = [
    "Distribution",
    "at_point",
    "contained",
    "dimensions_of",
    "fitted_to",
    "form_of",
    "form_to_json",
    "grid_of",
    "is_active",
    "picked",
]


class Distribution:
    """The possible values of a hyperparameter. ``dimensions`` coordinates of a unit cube choose one value."""

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
            f"{self} has no grid: expected finitely many values. Use choice(...), randint(...) or quniform(...), "
            "or another searcher."
        )

    def contains(self, value: Any) -> bool:
        """Whether a configuration may hold ``value``."""
        raise NotImplementedError

    def fitted(self, value: Any) -> Any:
        """``value`` as this distribution proposes it, such as 1.0 for 1. Raises ValueError unless it contains it."""
        if not self.contains(value):
            raise ValueError(f"{value!r} is not a value of {self}")
        return value

    def pick(self, value: Any) -> Any:
        """What training code gets for a configuration's ``value``."""
        return value

    def arguments(self) -> dict[str, Json]:
        """Its fields besides the condition, as plain data."""
        raise NotImplementedError

    def to_json(self) -> dict[str, Json]:
        """Plain data; options by their labels."""
        data = {"kind": self.kind, **self.arguments()}
        return data if self.when is None else {**data, "when": self.when.to_json()}

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Distribution) and same(self.to_json(), other.to_json())

    def __hash__(self) -> int:
        return hash(json.dumps(self.to_json(), sort_keys=True))

    def __repr__(self) -> str:
        given = [f"{value!r}" for value in self.arguments().values()]
        return f"{self.kind}({', '.join([*given, *([f'when={self.when}'] if self.when is not None else [])])})"


def form_of(option: Any, index: int) -> Any:
    if isinstance(option, Parameter):
        raise BadSpace(
            f"{option.name} is used as an option of another hyperparameter. Expected a value or a distribution; "
            f"write its distribution there, or compare {option.name} in when=."
        )
    if isinstance(option, Distribution):
        if getattr(option, "repeat", False):
            raise BadSpace(
                f"{option} stands inside an option. Expected repeat=True for a hyperparameter of its own: assign it to "
                "a name."
            )
        if option.when is not None:
            raise BadSpace(
                f"{option} stands inside an option and has a condition of its own. The option is the condition there: "
                "remove when=."
            )
        return option
    if isinstance(option, dict):
        if not all(isinstance(key, str) for key in option):
            raise BadSpace(f"choice({option!r}): expected a dict with strings as keys. For example: {{'lr': 0.1}}.")
        return {key: form_of(value, index) for key, value in option.items()}
    if isinstance(option, (list, tuple)) and any(isinstance(one, Distribution) for one in option):
        raise BadSpace(
            f"choice(..., {option!r}): a distribution inside a {type(option).__name__}. Expected it by name: use a "
            "dict, such as {'a': uniform(0, 1)}."
        )
    return label(option, index)


def dimensions_of(form: Any) -> int:
    if isinstance(form, Distribution):
        return form.dimensions
    return sum(map(dimensions_of, form.values())) if isinstance(form, dict) else 0


def is_active(form: Any, active: Mapping[str, Any]) -> bool:
    return not isinstance(form, Distribution) or form.when is None or form.when.holds(active)


def at_point(form: Any, units: Sequence[float]) -> Any:
    if isinstance(form, Distribution):
        return form.at(units)
    if not isinstance(form, dict):
        return form
    value, offset = {}, 0
    for key, inner in form.items():
        value[key] = at_point(inner, units[offset:])
        offset += dimensions_of(inner)
    return value


def grid_of(form: Any) -> Iterator[Any]:
    if isinstance(form, Distribution):
        return form.grid()
    if not isinstance(form, dict):
        return iter([form])
    products: Iterable[tuple[Any, ...]] = itertools.product(*(list(grid_of(inner)) for inner in form.values()))
    return (dict(zip(form, values, strict=True)) for values in products)


def contained(form: Any, value: Any) -> bool:
    if isinstance(form, Distribution):
        return form.contains(value)
    if isinstance(form, dict):
        return (
            isinstance(value, dict)
            and value.keys() == form.keys()
            and all(contained(inner, value[key]) for key, inner in form.items())
        )
    return same(form, value)


def fitted_to(form: Any, value: Any) -> Any:
    """``value`` as ``form`` proposes it. Raises ValueError unless the form contains it."""
    if isinstance(form, Distribution):
        return form.fitted(value)
    if not contained(form, value):
        raise ValueError(f"{value!r} is not {form!r}")
    return {key: fitted_to(inner, value[key]) for key, inner in form.items()} if isinstance(form, dict) else form


def picked(option: Any, form: Any, value: Any) -> Any:
    if isinstance(form, Distribution):
        return form.pick(value)
    if isinstance(form, dict):
        return {key: picked(option[key], inner, value[key]) for key, inner in form.items()}
    return option


def form_to_json(form: Any) -> dict[str, Json]:
    if isinstance(form, Distribution):
        return form.to_json()
    if isinstance(form, dict):
        return {"kind": "dict", "fields": {key: form_to_json(inner) for key, inner in form.items()}}
    return {"kind": "constant", "value": form}
