"""A space: hyperparameters by name. Law: a configuration is a function of the space and of a point of the unit cube."""

from __future__ import annotations

import itertools
import json
import keyword
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Protocol

from workbench.errors import BadSpace
from workbench.records import Configuration, Json, check_schema
from workbench.space.conditions import ORDER, Condition
from workbench.space.distributions import Choice, form_from_json
from workbench.space.forms import (
    Distribution,
    at_point,
    contained,
    dimensions_of,
    form_of,
    form_to_json,
    grid_of,
    is_active,
)
from workbench.space.labels import is_real, same

__all__ = ["HasRandom", "Space"]

NOTHING: Mapping[str, Any] = MappingProxyType({})


class HasRandom(Protocol):
    """What :meth:`Space.sample` needs of a random generator, such as ``random.Random``."""

    def random(self) -> float:
        """A number, 0 ≤ u < 1."""
        ...  # pragma: no cover


class Space:
    """The hyperparameters by name, in the order they were written. Raises BadSpace if they are not valid."""

    def __init__(self, parameters: Mapping[str, Any] | None = None) -> None:
        #: Every hyperparameter, and every constant in configurations. Never changed.
        self.parameters: dict[str, Any] = dict(parameters or {})
        self._forms: dict[str, Any] = {}
        for name, given in self.parameters.items():
            if not isinstance(name, str) or not name.isidentifier() or keyword.iskeyword(name):
                raise BadSpace(f"{name!r} is not a name for a hyperparameter: expected a Python name such as lr.")
            if isinstance(given, Distribution) and given.when is not None:
                self._check_condition(name, given.when)
            self._forms[name] = given if isinstance(given, Distribution) else form_of(given, 0)

    def _check_condition(self, name: str, condition: Condition) -> None:
        for part in condition.comparisons:
            parent = self._forms.get(part.name)
            if isinstance(parent, Choice) and parent.repeat:
                raise BadSpace(
                    f"{name}: its condition {condition} depends on {part.name}, which has repeat=True: a configuration "
                    f"is trained with all of its values. Remove the condition, or repeat=."
                )
            if part.name not in self._forms:
                where = "comes later" if part.name in self.parameters and part.name != name else "is not one"
                raise BadSpace(
                    f"{name}: its condition {condition} needs a hyperparameter {part.name!r} above it, which {where}. "
                    f"Assign {part.name} a distribution in a line before {name}."
                )
            values = part.value if part.op in ("in", "not in") else [part.value]
            for value in values:
                if part.op in ORDER:
                    options = list(parent.forms) if isinstance(parent, Choice) else [parent]
                    fits = is_real(value) and all(isinstance(o, Distribution) or is_real(o) for o in options)
                    do = "Compare numbers with numbers"
                elif isinstance(parent, Distribution):
                    fits, do = parent.contains(value), f"{part.name} is {parent}"
                else:
                    fits, do = True, ""
                if not fits:
                    raise BadSpace(
                        f"{name}: its condition {condition} compares {part.name} with {value!r}, which can never "
                        f"hold. {do}; fix the condition."
                    )

    @property
    def forms(self) -> Mapping[str, Any]:
        """Every hyperparameter's distribution and every constant, in order, in the form of configurations."""
        return MappingProxyType(self._forms)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all hyperparameters and constants, in order."""
        return tuple(self.parameters)

    @property
    def is_empty(self) -> bool:
        """True where every trial would have the same configuration."""
        return all(
            isinstance(given, Choice) and (given.repeat or (given.dimensions == 1 and len(given.forms) == 1))
            for given in self.parameters.values()
            if isinstance(given, Distribution)
        )

    @property
    def repeated(self) -> dict[str, tuple[Any, ...]]:
        """The hyperparameters with ``repeat=True``, in order, with the values that each configuration is trained
        with."""
        return {name: form.forms for name, form in self._forms.items() if isinstance(form, Choice) and form.repeat}

    @property
    def dimensions(self) -> int:
        """How many coordinates :meth:`from_unit` takes."""
        return sum(map(dimensions_of, self._forms.values()))

    def from_unit(self, vector: Sequence[float], given: Mapping[str, Any] = NOTHING) -> Configuration:
        """The configuration at a point of the unit cube. Inactive hyperparameters leave their coordinates unused.

        given: the values of some hyperparameters, wherever the point lies (see :mod:`workbench.space.given`).
        """
        if len(vector) != self.dimensions:
            raise ValueError(f"a point of {len(vector)} coordinates given, {self.dimensions} expected")
        configuration: Configuration = {}
        active: dict[str, Any] = {}
        offset = 0
        for name, form in self._forms.items():
            if is_active(form, active):
                value = given[name] if name in given else at_point(form, vector[offset:])
                active[name] = configuration[name] = value
            else:
                configuration[name] = None
            offset += dimensions_of(form)
        return configuration

    def sample(self, rng: HasRandom) -> Configuration:
        """A random configuration."""
        return self.from_unit([rng.random() for _ in range(self.dimensions)])

    def grid(self, given: Mapping[str, Any] = NOTHING) -> Iterator[Configuration]:
        """All configurations; the last name changes fastest. Raises BadSpace where there are infinitely many.

        given: only those with these values (see :mod:`workbench.space.given`).
        """
        for name, form in self.parameters.items():
            if isinstance(form, Distribution):
                try:
                    form.grid()
                    all(True for _ in itertools.islice(form.grid(), 1))
                except BadSpace as error:
                    raise BadSpace(f"{name} = {error}") from None
        return self._grid(list(self._forms.items()), given, {}, {})

    def _grid(
        self,
        rest: list[tuple[str, Any]],
        given: Mapping[str, Any],
        configuration: Configuration,
        active: dict[str, Any],
    ) -> Iterator[Configuration]:
        if not rest:
            yield configuration
            return
        (name, form), *rest = rest
        if not is_active(form, active):
            yield from self._grid(rest, given, {**configuration, name: None}, active)
            return
        for value in (given[name],) if name in given else grid_of(form):
            yield from self._grid(rest, given, {**configuration, name: value}, {**active, name: value})

    def check(self, configuration: Mapping[str, Any]) -> None:
        """Raise BadSpace unless ``configuration`` belongs to this space."""
        if set(configuration) != set(self.parameters):
            raise BadSpace(
                f"A configuration of {', '.join(configuration) or 'nothing'} was given; expected exactly "
                f"{', '.join(self.parameters) or 'nothing'}. Give every hyperparameter a value, None where inactive."
            )
        active: dict[str, Any] = {}
        for name, form in self._forms.items():
            value = configuration[name]
            if not is_active(form, active):
                if value is not None:
                    raise BadSpace(f"{name} is {value!r}, but its condition {form.when} does not hold. Give None.")
            elif not contained(form, value):
                raise BadSpace(f"{name} is {value!r}; expected a value of {form}. Fix the configuration.")
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
        return {"schema": 1, "parameters": [{"name": n, **form_to_json(f)} for n, f in self._forms.items()]}

    @classmethod
    def from_json(cls, data: Mapping[str, Json]) -> Space:
        """The space that :meth:`to_json` wrote; its options are labels. Raises NewerSchema for a later one."""
        check_schema(data, "this space")
        return cls({entry["name"]: form_from_json(entry) for entry in data["parameters"]})

    def describe(self) -> str:
        """One line for each hyperparameter, as it would be typed."""
        return "\n".join(f"{name} = {form!r}" for name, form in self._forms.items())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Space) and same(self.to_json(), other.to_json())

    def __hash__(self) -> int:
        return hash(json.dumps(self.to_json(), sort_keys=True))

    def __repr__(self) -> str:
        return f"Space({', '.join(f'{name}={form!r}' for name, form in self._forms.items())})"
