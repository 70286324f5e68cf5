"""Configurations as columns of numbers. Law: pure; a hyperparameter is one or several fields, which stay together."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from workbench.records import Json

Array = Any  # of NumPy
Configuration = Mapping[str, Json]


def varied(configurations: Sequence[Configuration]) -> list[str]:
    """Names of hyperparameters with more than one value; being inactive counts as a value."""
    names = dict.fromkeys(name for one in configurations for name in one)
    return [name for name in names if len({repr(one.get(name)) for one in configurations}) > 1]


def fields(configurations: Sequence[Configuration], name: str) -> dict[str, list[Json]]:
    """A hyperparameter's fields by path, with a value for each configuration; None where it is not active.

    A plain value is one field, without a path. An option that holds hyperparameters of its own is a field for each.
    """
    flat = [dict(_flat(one.get(name), "")) for one in configurations]
    found = {field: [one.get(field) for one in flat] for field in dict.fromkeys(field for one in flat for field in one)}
    return {field: values for field, values in found.items() if any(value is not None for value in values)}


def _flat(value: Json, field: str) -> Iterator[tuple[str, Json]]:
    if isinstance(value, Mapping):
        yield f"{field}?", "dict"
        for name, inner in value.items():
            yield from _flat(inner, f"{field}.{name}")
    else:
        yield field, repr(value) if isinstance(value, list) else value


def are_numbers(values: Sequence[Json]) -> bool:
    """Whether all values that are there are finite numbers."""
    return all(_is_number(value) for value in values if value is not None)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def columns(configurations: Sequence[Configuration], name: str, kind: str) -> Array:
    """The forest's inputs for one hyperparameter, a row for each trial.

    Numbers stay numbers (their logarithm for ``loguniform``); other values become a column for each value. Where the
    hyperparameter is not active, its number is the median of the others, and a column of its own says so.
    """
    found = []
    for values in fields(configurations, name).values():
        if are_numbers(values):
            there = [value for value in values if value is not None]
            log = kind == "loguniform" and min(there) > 0
            numbers = np.array([np.nan if one is None else math.log(one) if log else float(one) for one in values])
            found.append(np.where(np.isnan(numbers), np.nanmedian(numbers), numbers))
            if len(there) < len(values):
                found.append(np.isnan(numbers).astype(float))
        else:
            words = [repr(value) for value in values]
            found += [np.array([one == word for one in words], float) for word in dict.fromkeys(words)]
    return np.stack(found, axis=1) if found else np.zeros((len(configurations), 1))
