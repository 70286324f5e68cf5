"""The names that the notebook's functions and classes reach. Law: it only inspects; it neither calls nor pickles."""

from __future__ import annotations

import functools
import types
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from workbench.snapshot.reading.names import global_names


def reached(values: Mapping[str, Any], namespace: Mapping[str, Any], left_out: Collection[str] = ()) -> dict[str, str]:
    """Every name of the notebook that ``values`` use through its functions and classes, each with its user.

    The names of the values come first, with an empty user.
    """
    found = dict.fromkeys(values, "")
    seen: set[int] = set()
    waiting = [*values.values()]
    while waiting:
        for function in functions_in(waiting.pop(0), namespace, seen):
            for name in global_names(function.__code__):
                if name in namespace and name not in left_out and name not in found:
                    found[name] = function.__qualname__
                    waiting.append(namespace[name])
    return found


def functions_in(value: Any, namespace: Mapping[str, Any], seen: set[int]) -> Iterator[types.FunctionType]:
    """The notebook's functions in ``value``: itself, its methods, wrapped and enclosed functions.

    ``seen`` holds ids of values already visited; the values themselves stay alive in the notebook.
    """
    waiting = [value]
    while waiting:
        one = waiting.pop()
        if id(one) in seen:
            continue
        seen.add(id(one))
        if isinstance(one, types.FunctionType):
            if one.__globals__ is namespace:
                yield one
            waiting += [
                one.__dict__.get("__wrapped__"),
                *(one.__defaults__ or ()),
                *(one.__kwdefaults__ or {}).values(),
            ]
            for cell in one.__closure__ or ():
                try:
                    waiting.append(cell.cell_contents)
                except ValueError:  # still empty
                    continue
        elif isinstance(one, functools.partial):
            waiting += [one.func, *one.args, *one.keywords.values()]
        elif isinstance(one, types.MethodType):
            waiting += [one.__func__, one.__self__]
        elif isinstance(one, staticmethod | classmethod):
            waiting.append(one.__func__)
        elif isinstance(one, property):
            waiting += [one.fget, one.fset, one.fdel]
        elif isinstance(one, functools.cached_property):
            waiting.append(one.func)
        elif isinstance(one, type):
            if one.__module__ == "__main__":
                waiting += [*vars(one).values(), *one.__bases__, type(one)]
        elif type(one) in (list, tuple, set, frozenset):
            waiting += one if len(one) <= 1000 else []
        elif type(one) is dict:
            waiting += one.values() if len(one) <= 1000 else []
        elif type(one).__module__ == "__main__":
            waiting.append(type(one))
        elif isinstance(one, functools._lru_cache_wrapper):
            waiting.append(one.__wrapped__)
