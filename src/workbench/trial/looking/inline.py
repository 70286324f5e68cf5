"""How values without identity are inspected. Law: the token contains the whole value."""

from __future__ import annotations

import enum
import marshal
import re
import types
import weakref
from collections.abc import Callable
from typing import Any

from workbench.trial.kinds import SCALARS, LeftOut, See, Token, type_name
from workbench.trial.looking.digests import counts_bound, digest, looks_into
from workbench.trial.looking.remade import dictionary_of, is_importable, target_of


def inline_tuple(obj: Any, see: See, key: str | int) -> Token:
    if SCALARS.issuperset(map(type, obj)):
        return (..., "t", type_name(type(obj)), tuple(obj))
    return (..., "t", type_name(type(obj)), tuple([see(item, f"{key}({number})") for number, item in enumerate(obj)]))


def inline_method(obj: Any, see: See, key: str | int) -> Token:
    return (..., "m", see(obj.__func__, f"{key}.__func__"), see(obj.__self__, f"{key}.__self__"))


def inline_builtin(obj: Any, see: See, key: str | int) -> Token:
    owner = obj.__self__
    if owner is None or isinstance(owner, types.ModuleType | type):
        return (..., "g", str(getattr(obj, "__module__", "")), obj.__qualname__)
    return (..., "m", obj.__name__, see(owner, f"{key}.__self__"))


def inline_partial(obj: Any, see: See, key: str | int) -> Token:
    parts = (obj.func, obj.args, *obj.keywords.values())
    token = (..., "p", tuple(obj.keywords), tuple([see(p, f"{key}<part {n}>") for n, p in enumerate(parts)]))
    if not obj.__dict__ or not counts_bound():
        return token
    return (*token, tuple([(name, see(value, f"{key}.{name}")) for name, value in obj.__dict__.items()]))


def inline_view(obj: Any, see: See, key: str | int) -> Token:
    """A view of a dictionary, such as ``{}.values()``."""
    return (..., "d", type_name(type(obj)), see(dictionary_of(obj), f"{key}.mapping"))


def inline_slot(obj: Any, see: See, key: str | int) -> Token:
    """A method such as ``[].__len__``, which Python makes of what a class has in C."""
    if not counts_bound():
        return inline_global(obj, see, key)
    return (..., "m", obj.__name__, see(obj.__self__, f"{key}.__self__"))


def inline_weakref(obj: Any, see: See, key: str | int) -> Token:
    target = obj()
    token = (..., "w", 0 if target is None else see(target, f"{key}()"))
    if obj.__callback__ is None or not counts_bound():
        return token
    return (*token, see(obj.__callback__, f"{key}.__callback__"))


def inline_proxy(obj: Any, see: See, key: str | int) -> Token:
    target = target_of(obj)
    return (..., "w", 0 if target is None else see(target, f"{key}()"))


def inline_wrapper(obj: Any, see: See, key: str | int) -> Token:
    return (..., "f", see(obj.__func__, f"{key}.__func__"))


def inline_compiled(obj: Any, see: See, key: str | int) -> Token:
    """A function that numba compiles: its pickle has a number of its own in each process."""
    return (..., "f", see(obj.py_func, f"{key}.py_func"))


def inline_property(obj: Any, see: See, key: str | int) -> Token:
    return (..., "f", tuple([see(part, f"{key}<{n}>") for n, part in enumerate((obj.fget, obj.fset, obj.fdel))]))


def inline_global(obj: Any, see: See, key: str | int) -> Token:
    return (
        ...,
        "g",
        str(getattr(obj, "__module__", "")),
        str(getattr(obj, "__qualname__", getattr(obj, "__name__", ""))),
    )


def inline_ignored(obj: Any, see: See, key: str | int) -> Token:
    return (..., "i", type_name(type(obj)))


def inline_value(obj: Any, see: See, key: str | int) -> Token:
    """A value immutable by nature: a path, a date, a dtype, a NumPy scalar."""
    return (..., "v", type_name(type(obj)), _written(obj))


def _written(obj: Any) -> Token:
    has_bytes = hasattr(obj, "tobytes")
    if looks_into():
        if isinstance(obj, re.Pattern):
            return obj.pattern, obj.flags  # its repr shows 200 characters
        if isinstance(obj, enum.Enum):
            return obj.name or repr(obj.value)  # a class may show its members in any way
        if has_bytes:
            return obj.dtype.str, obj.tobytes()  # the bytes of a time leave its unit out
    return obj.tobytes() if has_bytes else repr(obj)


def inline_function(obj: types.FunctionType, see: See, key: str | int) -> Token:
    """A module's function, by its name; where another one has that name, or none, by its code as well."""
    token = inline_global(obj, see, key)
    if not looks_into() or is_importable(obj):
        return token
    return (*token, digest(marshal.dumps(_in_order(obj.__code__), 2)))


def _in_order(code: types.CodeType) -> types.CodeType:
    """What the code does, the same in each process: of a set with None in it the order differs, and of code that is
    generated maybe the file's name."""
    constants = [
        _in_order(one)
        if isinstance(one, types.CodeType)
        else tuple(sorted(map(repr, one)))
        if isinstance(one, frozenset)
        else one
        for one in code.co_consts
    ]
    return code.replace(co_consts=tuple(constants), co_filename="")


INLINE: dict[type, Callable[[Any, See, str | int], Token]] = {
    tuple: inline_tuple,
    types.MethodType: inline_method,
    types.BuiltinFunctionType: inline_builtin,
    types.MethodWrapperType: inline_slot,
    weakref.ReferenceType: inline_weakref,
    staticmethod: inline_wrapper,
    classmethod: inline_wrapper,
    property: inline_property,
    types.ModuleType: inline_global,
    range: inline_value,
    slice: inline_value,
    type(...): inline_value,
    type(NotImplemented): inline_value,
    types.MappingProxyType: inline_ignored,
    LeftOut: inline_ignored,
    types.CodeType: inline_ignored,
}
