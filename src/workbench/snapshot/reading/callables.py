"""What a training function consists of: its own function, its name among the captured ones, the values that it takes
along. Law: it inspects, and calls nothing; a part is named and put back by the same walk.
"""

from __future__ import annotations

import functools
import inspect
import sys
import types
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from workbench.snapshot.modules import is_project
from workbench.snapshot.reading.calls import is_plain
from workbench.snapshot.reading.names import attribute_names, global_names
from workbench.space import Distribution

#: An object with more attributes is shown as one.
_MOST = 50
_LOCALS = ".<locals>."
#: Attributes that hold what a function wraps; those of ``functools.partialmethod`` depend on Python's version.
_INNER = ("__wrapped__", "__partialmethod__", "_partialmethod")
#: What an object defines that describes its own state.
_DESCRIBES = ("__reduce__", "__reduce_ex__", "__getstate__")
#: What is code, and not a part.
_CODE = (types.FunctionType, types.MethodType, types.BuiltinFunctionType, types.ModuleType, type)


@dataclass(frozen=True, slots=True)
class Part:
    """A value that a function takes along, such as ``Runner.lr``; ``put`` replaces it, in the function itself."""

    name: str
    value: Any
    put: Callable[[Any], None]


def shown(function: Any) -> str:
    """The callable as messages name it: ``train()``, ``Runner.train()``, ``partial(train)``."""
    if isinstance(function, functools.partial):
        return f"partial({shown(function.func).removesuffix('()')})"
    if isinstance(function, types.MethodType):
        return f"{_class_of(function.__self__)}.{function.__name__}()"
    if isinstance(function, types.FunctionType):
        name = function.__qualname__.rpartition(_LOCALS)[2]
        return "this lambda" if function.__name__ == "<lambda>" else f"{name}()"
    return f"{type(function).__name__}.__call__()"


def _class_of(owner: Any) -> str:
    return (owner if isinstance(owner, type) else type(owner)).__name__


def own_function(function: Any) -> Any:
    """The Python function that a call ends in, without what wraps it; anything else if there is none."""
    while True:
        if isinstance(function, functools.partial):
            function = function.func
        elif isinstance(function, types.MethodType):
            function = function.__func__
        elif isinstance(function, functools.partialmethod):
            function = function.func
        elif isinstance(function, types.FunctionType):
            inner = next((function.__dict__[name] for name in _INNER if name in function.__dict__), None)
            if inner is None:
                return function
            function = inner
        elif isinstance(called := called_of(function), types.FunctionType):
            function = called
        else:
            return function


def called_of(value: Any) -> Any:
    """What a call of an object calls; None for classes, whose call makes an object."""
    kinds = () if isinstance(value, type) else type(value).__mro__
    return next((vars(kind)["__call__"] for kind in kinds if "__call__" in vars(kind)), None)


def home_of(function: types.FunctionType) -> dict[str, Any]:
    """The notebook's namespace: the function's own if it was made there."""
    home = function.__globals__
    return home if home.get("__name__") == "__main__" else sys.modules["__main__"].__dict__


def entry_of(function: Any) -> str:
    """The name under which it is captured. A name that code could use must stand for what the code means by it."""
    if isinstance(function, types.FunctionType):
        name, long = function.__name__, function.__qualname__
        if name == long or function.__globals__.get(name, function) is function:
            return name
        return long
    return shown(function).removesuffix("()")


def parts(function: Any) -> list[Part]:
    """The values that it takes along: attributes of a method's object, fixed arguments, variables of the functions
    around it. Functions and classes are code, and none of them."""
    found = {part.name: part for part in _parts(function)}
    return [part for part in found.values() if not isinstance(part.value, _CODE)]


def _parts(function: Any) -> Iterator[Part]:
    if isinstance(function, functools.partial):
        yield from _fixed(function)
        yield from _parts(function.func)
    elif isinstance(function, types.MethodType):
        yield from _attributes(function.__self__)
        yield from _parts(function.__func__)
    elif isinstance(function, types.FunctionType):
        if _LOCALS in function.__qualname__:
            yield from _cells(function)
    else:
        yield from _attributes(function)


def _fixed(function: functools.partial[Any]) -> Iterator[Part]:
    """The arguments of a partial, by the names of the parameters."""
    name = shown(function.func).removesuffix("()")
    try:
        names = list(inspect.signature(function.func).parameters)
    except (ValueError, TypeError):
        names = []
    for index, value in enumerate(function.args):
        label = names[index] if index < len(names) else str(index)

        def put(new: Any, index: int = index) -> None:
            given = [*function.args[:index], new, *function.args[index + 1 :]]
            function.__setstate__((function.func, tuple(given), function.keywords, vars(function)))  # type: ignore[attr-defined]

        yield Part(f"{name}({label})", value, put)
    for key, value in function.keywords.items():
        if is_plain(value) or isinstance(value, Distribution):
            continue  # the default of a parameter, which is in the space
        yield Part(f"{name}({key})", value, functools.partial(function.keywords.__setitem__, key))


def _attributes(owner: Any) -> Iterator[Part]:
    """The attributes of an object that travels as they are; one that describes its own state is shown as one."""
    kind = type(owner)
    own = any(name in vars(base) for base in kind.__mro__[:-1] for name in _DESCRIBES)
    attributes = getattr(owner, "__dict__", None)
    if isinstance(owner, type) or own or type(attributes) is not dict or len(attributes) > _MOST:
        return
    for name, value in attributes.items():
        yield Part(f"{kind.__name__}.{name}", value, functools.partial(attributes.__setitem__, name))


def _cells(function: types.FunctionType) -> Iterator[Part]:
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        try:
            value = cell.cell_contents
        except ValueError:  # still empty
            continue

        def put(new: Any, cell: types.CellType = cell) -> None:
            cell.cell_contents = new

        yield Part(f"{shown(function).removesuffix('()')}: {name}", value, put)


# ---------------------------------------------------------------------------------------------------------------------
# The trial that is not handed in


def uses_trial(function: Any) -> bool:
    """Whether code that ``function`` can reach, of its own package or of the project, uses ``workbench.trial``."""
    seen: set[int] = set()
    waiting = [function]
    package = str(getattr(own_function(function), "__module__", "")).partition(".")[0]

    def is_ours(module: object) -> bool:
        return str(module).partition(".")[0] == package or _is_ours(module)

    while waiting:
        one = waiting.pop()
        if id(one) in seen:
            continue
        seen.add(id(one))
        if one is not None and one is sys.modules.get("workbench.trial"):
            return True
        if isinstance(one, functools.partial):
            waiting += [one.func, *one.args, *one.keywords.values()]
        elif isinstance(one, types.MethodType):
            waiting += [one.__func__, one.__self__]
        elif isinstance(one, staticmethod | classmethod):
            waiting.append(one.__func__)
        elif isinstance(one, property):
            waiting.append(one.fget)
        elif isinstance(one, types.FunctionType):
            if not is_ours(one.__module__):
                continue
            if _mentions(one):
                return True
            waiting += [*_reached(one), getattr(one, "__wrapped__", None)]
        elif isinstance(one, type):
            if is_ours(one.__module__):
                waiting += [*vars(one).values(), *one.__bases__]
        elif is_ours(type(one).__module__):
            waiting += [type(one), *list(getattr(one, "__dict__", {}).values())[:_MOST]]
    return False


def _reached(function: types.FunctionType) -> Iterator[Any]:
    """What its code can name: globals, attributes of modules among them, and the contents of its cells."""
    attributes = attribute_names(function.__code__)
    for name in global_names(function.__code__):
        value = function.__globals__.get(name)
        yield value
        if isinstance(value, types.ModuleType) and _is_ours(value.__name__):
            yield from (vars(value).get(attribute) for attribute in attributes)
    yield from (part.value for part in _cells(function))


def _mentions(function: types.FunctionType) -> bool:
    """Whether its code uses ``trial`` of Workbench by that name: imported inside it, or left to a runner."""
    names = attribute_names(function.__code__)
    if "trial" not in names:
        return False
    if "trial" in global_names(function.__code__):
        return "trial" not in function.__globals__
    package = sys.modules.get("workbench")
    return "workbench" in names or any(function.__globals__.get(name) is package for name in names)


@functools.cache
def _is_ours(module: object) -> bool:
    """Whether it is the notebook, a script, or a module of the project."""
    found = sys.modules.get(str(module))
    file = getattr(found, "__file__", None)
    return module == "__main__" or found is None or (isinstance(file, str) and is_project(str(module), file))
