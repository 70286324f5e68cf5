"""Pickling names of the notebook: cloudpickle, with functions and classes that live in ``__main__``.

Law: one pickler for all names, so that shared objects stay shared. Functions of the notebook keep no copy of their
globals: the names they use are recorded and sent once, under their own name, unless the cell assigns them itself.
"""

from __future__ import annotations

import ctypes
import dataclasses
import functools
import io
import mmap
import pickle
import sys
import types
import typing
import weakref
from collections.abc import Callable, Collection, Mapping
from typing import Any

import cloudpickle
from cloudpickle import cloudpickle as internals

from workbench.snapshot import rebuilding
from workbench.snapshot.reading.names import global_names

#: Buffers of at least this many bytes become separate blobs.
LARGE = 1 << 16
#: Larger files mapped by numpy are not copied: trials map the same file.
HUGE = 1 << 30
#: A function's attributes besides its code, its globals and its closure.
_SLOTS = ("__name__", "__qualname__", "__annotations__", "__kwdefaults__", "__defaults__", "__module__", "__doc__")


class _Globals:
    """Represents the namespace of functions while they are pickled."""

    def __init__(self, make: Callable[..., Any], *arguments: Any) -> None:
        self.reduced = (make, arguments)


class Pickler(cloudpickle.Pickler):
    """Pickles names. ``wanted``: further names that functions of the notebook turned out to use."""

    def __init__(
        self,
        file: io.BytesIO,
        namespace: Mapping[str, Any],
        left_out: Collection[str] = (),
        *,
        owners: Collection[int] = (),
    ) -> None:
        #: Large buffers in the order in which they are loaded again.
        self.buffers: list[memoryview] = []
        # A method of this object would make a cycle with the buffers in it, which Python's collector cannot break.
        super().__init__(file, protocol=5, buffer_callback=functools.partial(_keep, self.buffers))
        self.namespace = namespace
        self.left_out = left_out
        #: Name → the function that uses it.
        self.wanted: dict[str, str] = {}
        #: Filenames of the code of captured functions.
        self.files: dict[str, None] = {}
        #: Notes for the user: data that was not stored directly.
        self.notes: dict[str, int] = {}
        #: ids of arrays captured under a name: their parts share their memory.
        self._owners = owners
        self._globals: dict[int, _Globals] = {id(namespace): _Globals(rebuilding.main_globals)}
        self._own_globals: dict[int, dict[str, Any]] = {}
        self._cells: dict[int, types.CellType] = {}
        self._storages: dict[tuple[Any, ...], Any] = {}
        self._alive: list[Any] = []

    def reducer_override(self, obj: Any) -> Any:
        special = _special_reducer(type(obj))
        if special is not None:
            return special(self, obj)
        if isinstance(obj, type):
            return self._class(obj)
        if isinstance(obj, io.IOBase) and not isinstance(obj, io.BytesIO | io.StringIO):
            return _stream(obj)
        return super().reducer_override(obj)

    # -- functions ----------------------------------------------------------------------------------------------------

    def _function(self, function: types.FunctionType) -> Any:
        if internals._should_pickle_by_reference(function):
            return NotImplemented
        code = function.__code__
        self.files[code.co_filename] = None
        cells = function.__closure__ or ()
        for cell in cells:
            self._cells[id(cell)] = cell
        contents = [(cell, cell.cell_contents) for cell in cells if not _is_empty(cell)]
        slots = {name: getattr(function, name) for name in _SLOTS}
        if hasattr(function, "__type_params__"):  # Python 3.12
            slots["__type_params__"] = function.__type_params__
        used = self._used_globals(function)
        state = (self._place(function, function.__qualname__), dict(function.__dict__), slots, contents, used)
        arguments = (code, self._home(function.__globals__), tuple(cells) if function.__closure__ is not None else None)
        return rebuilding.make_function, arguments, state, None, None, rebuilding.set_function

    def _home(self, namespace: dict[str, Any]) -> _Globals:
        """The namespace that the function gets when it is loaded."""
        known = self._globals.get(id(namespace))
        if known is None:
            name = namespace.get("__name__")
            module = sys.modules.get(name) if isinstance(name, str) and name != "__main__" else None
            if module is not None and getattr(module, "__dict__", None) is namespace:
                known = _Globals(rebuilding.module_globals, name)
            else:
                kept = ("__name__", "__package__", "__path__", "__file__")
                known = _Globals(rebuilding.own_globals, {key: namespace[key] for key in kept if key in namespace})
                self._own_globals[id(namespace)] = namespace
            self._globals[id(namespace)] = known
        return known

    def _used_globals(self, function: types.FunctionType) -> dict[str, Any]:
        """Record the names that a function of the notebook uses; a function with its own namespace takes that along."""
        names = global_names(function.__code__)
        if function.__globals__ is self.namespace:
            for name in names:
                if name in self.namespace and name not in self.left_out:
                    self.wanted.setdefault(name, function.__qualname__)
            return {}
        self._home(function.__globals__)
        if id(function.__globals__) in self._own_globals:
            return {name: function.__globals__[name] for name in names if name in function.__globals__}
        return {}

    def _place(self, value: Any, name: str) -> tuple[str, bool] | None:
        """The name under which plain pickle will look for a class or function of the notebook."""
        if getattr(value, "__module__", None) != "__main__" or not name.isidentifier() or name in self.left_out:
            return None
        return name, self.namespace.get(name) is value

    def _cell(self, cell: types.CellType) -> Any:
        if id(cell) in self._cells:
            return types.CellType, ()  # its content is set together with the function, which it may contain
        return NotImplemented

    # -- classes ------------------------------------------------------------------------------------------------------

    def _class(self, cls: type) -> Any:
        reduced = super().reducer_override(cls)
        if not isinstance(reduced, tuple) or len(reduced) != 6:
            return reduced
        make, arguments, state, *_ = reduced
        # Without its tracker: a kernel that loads a trial's result would otherwise change its own existing class.
        *first, _tracker, extra = arguments
        outer = None
        top, dot, _ = cls.__qualname__.partition(".")
        if dot and cls.__module__ == "__main__" and "<locals>" not in cls.__qualname__:
            outer = self.namespace.get(top)
        outer = outer if isinstance(outer, type) else None
        state = (self._place(cls, cls.__qualname__), cls.__qualname__, outer, state)
        return make, (*first, None, extra), state, None, None, rebuilding.set_class

    # -- data ---------------------------------------------------------------------------------------------------------

    def _array(self, array: Any) -> Any:
        import numpy as np

        if array.dtype.hasobject:
            return NotImplemented
        owner = array
        while isinstance(owner.base, np.ndarray):
            owner = owner.base
        if owner is not array and id(owner) in self._owners:
            offset = array.__array_interface__["data"][0] - owner.__array_interface__["data"][0]
            arguments = (owner, array.dtype, array.shape, array.strides, offset, array.flags.writeable)
            return rebuilding.view_of, arguments
        if array.nbytes >= LARGE and not (array.flags.c_contiguous or array.flags.f_contiguous):
            # numpy would put it into the stream itself.
            return np.ascontiguousarray(array).__reduce_ex__(5)
        return NotImplemented

    def _mapped_array(self, array: Any) -> Any:
        import numpy as np

        if is_huge_map(array):
            mode = "r" if array.mode == "r" else "c"
            order = "F" if array.flags.f_contiguous and not array.flags.c_contiguous else "C"
            arguments = (str(array.filename), array.dtype, mode, array.offset, array.shape, order)
            return rebuilding.open_mapped, arguments
        return rebuilding.same, (np.asarray(array),)

    def _storage(self, storage: Any) -> Any:
        """A torch storage: every tensor has its own handle of it, and they are merged again."""
        key = (str(storage.device), storage.data_ptr(), storage.nbytes())
        first = self._storages.setdefault(key, storage) if storage.nbytes() else storage
        if first is not storage:
            return rebuilding.same, (first,)
        device = None
        if storage.device.type != "cpu":
            device = str(storage.device)
            self.notes[device] = self.notes.get(device, 0) + storage.nbytes()
            storage = storage.cpu()
        self._alive.append(storage)
        if not storage.nbytes():
            return rebuilding.make_storage, (b"", device)
        view = (ctypes.c_ubyte * storage.nbytes()).from_address(storage.data_ptr())
        return rebuilding.make_storage, (pickle.PickleBuffer(memoryview(view).cast("B")), device)

    def _typed_storage(self, storage: Any) -> Any:
        return rebuilding.make_typed, (storage._untyped_storage, storage.dtype)


def is_huge_map(array: Any) -> bool:
    """Whether an array is a huge file that is mapped as a whole. (A part of one has the offset of the whole.)"""
    return bool(
        array.nbytes > HUGE and isinstance(array.base, mmap.mmap) and getattr(array, "filename", None) is not None
    )


def _keep(buffers: list[memoryview], buffer: pickle.PickleBuffer) -> bool:
    """Whether a buffer stays in the stream; large ones are stored separately."""
    view = buffer.raw()
    if view.nbytes < LARGE:
        return True
    buffers.append(view)
    return False


def _is_empty(cell: types.CellType) -> bool:
    try:
        cell.cell_contents  # noqa: B018 - looking is the test
    except ValueError:
        return True
    return False


def _stream(stream: io.IOBase) -> Any:
    for name in ("stdout", "stderr", "stdin"):
        if stream is getattr(sys, name):
            return getattr, (sys, name)
    raise pickle.PicklingError(f"cannot pickle an open file ({getattr(stream, 'name', stream)!r})")


def plain_reduction(value: Any) -> Any:
    """The reduction of some objects that pickle cannot handle; NotImplemented for all others."""
    kind = type(value)
    if kind is functools._lru_cache_wrapper:
        if internals._lookup_module_and_qualname(value) is not None:
            return NotImplemented
        parameters = value.cache_parameters()
        attributes = {name: one for name, one in vars(value).items() if name != "cache_parameters"}
        return rebuilding.make_cached, (value.__wrapped__, attributes, parameters["maxsize"], parameters["typed"])
    if kind is functools.cached_property:
        return rebuilding.make_cached_property, (value.func, value.attrname)
    if kind in (weakref.WeakKeyDictionary, weakref.WeakValueDictionary):
        return rebuilding.make_weak, (kind, list(value.items()))
    if kind in _SENTINELS:
        return _SENTINELS[kind]
    if kind in _TYPES and internals._lookup_module_and_qualname(value, name=value.__name__) is None:
        return _TYPES[kind](value)
    return NotImplemented


#: Objects that are compared by identity, each by its name in its module.
_SENTINELS: dict[type, str] = {
    type(dataclasses.MISSING): "MISSING",
    type(dataclasses.KW_ONLY): "KW_ONLY",
}
#: Types of the typing module that pickle looks up by name; this fails for those of the notebook.
_TYPES: dict[type, Callable[[Any], Any]] = {
    typing.TypeVar: lambda one: (
        internals._make_typevar,
        (one.__name__, one.__bound__, one.__constraints__, one.__covariant__, one.__contravariant__, None),
    ),
    typing.ParamSpec: lambda one: (typing.ParamSpec, (one.__name__,)),
    typing.TypeVarTuple: lambda one: (typing.TypeVarTuple, (one.__name__,)),
    typing.NewType: lambda one: (typing.NewType, (one.__name__, one.__supertype__)),
}
_REDUCERS: dict[type, Callable[[Pickler, Any], Any]] = {
    _Globals: lambda _, value: value.reduced,
    types.FunctionType: Pickler._function,
    types.CellType: Pickler._cell,
    **{
        kind: lambda _, value: plain_reduction(value)
        for kind in (
            functools._lru_cache_wrapper,
            functools.cached_property,
            weakref.WeakKeyDictionary,
            weakref.WeakValueDictionary,
            *_SENTINELS,
            *_TYPES,
        )
    },
}


def _special_reducer(kind: type) -> Callable[[Pickler, Any], Any] | None:
    """The reducer for ``kind``; numpy's and torch's types only if the notebook has imported them."""
    found = _REDUCERS.get(kind)
    if found is None and kind.__module__ in ("numpy", "torch.storage", "torch"):
        if kind.__module__ == "numpy":
            numpy = sys.modules["numpy"]
            _REDUCERS.setdefault(numpy.ndarray, Pickler._array)
            _REDUCERS.setdefault(numpy.memmap, Pickler._mapped_array)
        else:
            torch = sys.modules["torch"]
            _REDUCERS.setdefault(torch.UntypedStorage, Pickler._storage)
            _REDUCERS.setdefault(torch.storage.TypedStorage, Pickler._typed_storage)
        found = _REDUCERS.get(kind)
    return found
