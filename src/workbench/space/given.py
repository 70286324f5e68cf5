"""Configurations that the user gives. Law: they belong to the space, and what they leave out is open.

A configuration may give some hyperparameters and leave the others to the searcher. A value lies inside its
distribution, since everything that reads results (plots, importance, extensions) takes the space at its word.
"""

from __future__ import annotations

import ast
import difflib
import json
from collections.abc import Iterable, Mapping
from typing import Any

from workbench.errors import BadSpace
from workbench.records import Configuration
from workbench.space.conditions import Condition
from workbench.space.forms import Distribution, fitted_to
from workbench.space.labels import label, same
from workbench.space.space import Space

__all__ = ["Text", "given_to", "left_open"]


class Text(str):
    """A value as text, such as a field of a table: ``64`` is a number unless an option is the text 64."""

    __slots__ = ()


def given_to(space: Space, values: Mapping[str, Any]) -> Configuration:
    """``values`` as the space proposes them: options by their labels, 1.0 for 1, constants and inactive ones left out.

    None means *not given*, except for a hyperparameter that has None as an option. Raises BadSpace for an unknown name,
    a value outside of its distribution, or a hyperparameter whose condition does not hold for the other values.
    """
    for name in values:
        if name not in space.forms:
            raise BadSpace(_unknown(name, space))
    found: Configuration = {}
    active: dict[str, Any] = {}
    undecided: set[str] = set()
    repeated = space.repeated
    for name, form in space.forms.items():
        if not isinstance(form, Distribution):
            if name in values and not _is(form, values[name]):
                raise BadSpace(
                    f"{name} is {_shown(values[name])}, but the constant {form!r} here. Leave it out, or assign {name} "
                    "a distribution."
                )
            active[name] = form
            continue
        is_active = _holds(form.when, active, undecided)
        if name in repeated and name in values and not _is_gap(form, values[name], is_active):
            raise BadSpace(
                f"{name} is {_shown(values[name])}, but {name} has repeat=True: each configuration is trained with all "
                f"of its values. Leave {name} out."
            )
        if name not in values or _is_gap(form, values[name], is_active):
            if is_active is not False:
                undecided.add(name)
            continue
        if is_active is None:
            assert form.when is not None
            missing = sorted({part.name for part in form.when.comparisons} & undecided)
            raise BadSpace(
                f"{name} is {_shown(values[name])}, and whether its condition {form.when} holds depends on "
                f"{' and '.join(missing)}. Give {' and '.join(missing)} too."
            )
        if not is_active:
            raise BadSpace(
                f"{name} is {_shown(values[name])}, but its condition {form.when} does not hold for the other values. "
                f"Leave {name} out, or change the values that it depends on."
            )
        found[name] = active[name] = _fitted(name, form, values[name])
    if not found:
        raise BadSpace(f"no hyperparameter has a value; expected one or more of {_names(space)}. Give a value.")
    return found


def left_open(space: Space, given: Iterable[Configuration]) -> tuple[str, ...]:
    """The hyperparameters that at least one of these configurations leaves to the searcher, in order."""
    found: set[str] = set()
    repeated = space.repeated
    for one in given:
        active: dict[str, Any] = {}
        undecided: set[str] = set()
        for name, form in space.forms.items():
            if name in one or not isinstance(form, Distribution):
                active[name] = one.get(name, form)
            elif name not in repeated and _holds(form.when, active, undecided) is not False:
                undecided.add(name)
        found |= undecided
    return tuple(name for name in space.forms if name in found)


def _holds(condition: Condition | None, active: Mapping[str, Any], undecided: set[str]) -> bool | None:
    """Whether it holds for the given values; None if that depends on values that the searcher proposes."""
    if condition is None:
        return True
    if not condition.parts:
        return None if condition.name in undecided else condition.holds(active)
    parts = [_holds(part, active, undecided) for part in condition.parts]
    decides = condition.op == "or"
    if decides in parts:
        return decides
    return None if None in parts else not decides


def _is_gap(form: Distribution, value: Any, is_active: bool | None) -> bool:
    """Whether a value stands for none: an inactive hyperparameter in a configuration, or a gap in a table."""
    if isinstance(value, Text):
        return not value.strip()
    return value is None and (is_active is not True or not form.contains(None))


def _fitted(name: str, form: Distribution, value: Any) -> Any:
    for one in _readings(value):
        try:
            return fitted_to(form, one)
        except ValueError:
            continue
    options = [one for one in getattr(form, "forms", ()) if isinstance(one, str)]
    near = difflib.get_close_matches(str(label(value)), options, n=1)
    advice = f"Did you mean {near[0]!r}?" if near else f"Give one of these, or change the distribution of {name}."
    raise BadSpace(f"{name} is {_shown(value)}; expected a value of {form}. {advice}")


def _is(constant: Any, value: Any) -> bool:
    return any(same(constant, one) for one in _readings(value)) or (isinstance(value, Text) and not value.strip())


def _readings(value: Any) -> list[Any]:
    """What a value may mean; text of a table has several meanings, in this order."""
    if not isinstance(value, Text):
        return [label(value)]
    found: list[Any] = [str(value)]
    for read in (json.loads, ast.literal_eval):
        try:
            found.append(label(read(str(value))))
        except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
            continue
    return found


def _shown(value: Any) -> str:
    text = repr(str(value) if isinstance(value, Text) else label(value))
    return text if len(text) <= 60 else f"{text[:57]}..."


def _names(space: Space) -> str:
    return ", ".join(name for name, form in space.forms.items() if isinstance(form, Distribution)) or "nothing"


def _unknown(name: Any, space: Space) -> str:
    near = difflib.get_close_matches(str(name), space.forms, n=1, cutoff=0.5)
    advice = f"Did you mean {near[0]}?" if near else "Leave it out."
    shown = name if isinstance(name, str) and name.isidentifier() else _shown(name)
    return f"{shown} is not a hyperparameter here; expected one or more of {_names(space)}. {advice}"
