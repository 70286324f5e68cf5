"""The functions that a captured stream calls while it is loaded: they rebuild functions, classes, arrays and storages.

Law: used inside runners; it imports large packages only when a value needs them, and torch only if torch was captured.
"""

from __future__ import annotations

import contextlib
import contextvars
import functools
import importlib
import sys
import types
import weakref
from collections.abc import Iterator, Sequence
from typing import Any

_target: contextvars.ContextVar[dict[str, Any] | None] = contextvars.ContextVar("target", default=None)


@contextlib.contextmanager
def loading_into(namespace: dict[str, Any]) -> Iterator[None]:
    """While this context is active, captured functions and classes are loaded into ``namespace``."""
    token = _target.set(namespace)
    try:
        yield
    finally:
        _target.reset(token)


def main_globals() -> dict[str, Any]:
    """The namespace being loaded into; outside of a load, that of ``__main__``."""
    target = _target.get()
    return sys.modules["__main__"].__dict__ if target is None else target


def module_globals(name: str) -> dict[str, Any]:
    """The namespace of an importable module, for its functions that are pickled by value (decorated ones)."""
    return importlib.import_module(name).__dict__


def own_globals(basis: dict[str, Any]) -> dict[str, Any]:
    """A separate namespace, like that of code run by ``%run`` or ``exec``."""
    return basis


def same(value: Any) -> Any:
    """``value`` itself: several handles of one object are merged again."""
    return value


def make_function(
    code: types.CodeType, namespace: dict[str, Any], closure: tuple[types.CellType, ...] | None
) -> types.FunctionType:
    """A function without its defaults and attributes, so that it can refer to itself."""
    namespace.setdefault("__builtins__", __builtins__)
    return types.FunctionType(code, namespace, None, None, closure)


def set_function(function: types.FunctionType, state: tuple[Any, ...]) -> None:
    """Give a function its attributes, its closure's contents, and its name in the namespace."""
    place, attributes, slots, cells, namespace = state
    function.__dict__.update(attributes)
    for cell, content in cells:
        cell.cell_contents = content
    for name, value in slots.items():
        setattr(function, name, value)
    if namespace:
        function.__globals__.update(namespace)
    _put(place, function)


def set_class(cls: type, state: tuple[Any, ...]) -> None:
    """Fill a class, and give it its name in the namespace, where plain pickle looks for it."""
    from cloudpickle.cloudpickle import _class_setstate

    place, name, _, given = state
    cls.__qualname__ = name
    _class_setstate(cls, given)
    _put(place, cls)


def _put(place: tuple[str, bool] | None, value: Any) -> None:
    if place is None:
        return
    name, sure = place
    if sure:
        main_globals()[name] = value
    else:
        # By now this name is another object in the notebook, or undefined.
        main_globals().setdefault(name, value)


def make_cached(function: Any, attributes: dict[str, Any], maxsize: int | None, typed: bool) -> Any:
    """A function under ``functools.lru_cache``; its cached values stay in the notebook."""
    cached = functools.lru_cache(maxsize=maxsize, typed=typed)(function)
    cached.__dict__.update(attributes)
    return cached


def make_cached_property(function: Any, name: str | None) -> Any:
    """A ``functools.cached_property`` (up to Python 3.11 it holds a lock, which cannot travel)."""
    made = functools.cached_property(function)
    made.attrname = name
    return made


def make_weak(kind: type, items: Sequence[tuple[Any, Any]]) -> Any:
    """A dictionary with weak keys or values; entries that nothing else refers to disappear at once."""
    made: weakref.WeakKeyDictionary[Any, Any] = kind()
    for key, value in items:
        made[key] = value
    return made


def view_of(owner: Any, dtype: Any, shape: Any, strides: Any, offset: int, writable: bool) -> Any:
    """An array that is a part of another captured array, sharing its memory."""
    import numpy as np

    if not owner.flags.c_contiguous:
        owner = owner.T  # an owner is contiguous in one of the two orders
    made: Any = np.ndarray(shape, dtype, owner.reshape(-1).view(np.uint8), offset, strides)
    made.flags.writeable = writable
    return made


def open_mapped(filename: str, dtype: Any, mode: str, offset: int, shape: Any, order: Any) -> Any:
    """A huge file that the notebook had mapped: map it again; a trial's writes stay in that trial."""
    import numpy as np

    return np.memmap(filename, dtype, mode, offset, shape, order)  # type: ignore[call-overload]


def make_storage(data: Any, device: str | None) -> Any:
    """A torch storage over ``data``: a mapped file is used in place, bytes are copied. Then it is moved to its
    device."""
    import torch

    view = memoryview(data)
    if not view.nbytes:
        storage = torch.UntypedStorage(0)
    else:
        flat = torch.frombuffer(data, dtype=torch.uint8)
        storage = (flat.clone() if isinstance(data, bytes | bytearray) else flat).untyped_storage()
    if device is None:
        return storage
    kind = device.partition(":")[0]
    available = getattr(getattr(torch, kind, None), "is_available", lambda: False)
    if not available():
        raise RuntimeError(
            f"A captured tensor lives on {device}, and this machine has no {kind} device. Move it to the CPU above the "
            "train cell (tensor = tensor.cpu()), and to the trial's device inside it."
        )
    # Device numbers differ between machines, and a runner sees only its own devices.
    return storage.to(device=torch.device(kind))


def make_typed(storage: Any, dtype: Any) -> Any:
    """The typed handle of a storage, by which torch pickles its tensors."""
    import torch

    return torch.storage.TypedStorage(wrap_storage=storage, dtype=dtype, _internal=True)
