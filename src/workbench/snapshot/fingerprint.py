"""A digest of values that is equal in two kernels. Law: by content; functions by their code and what they reach,
classes by their members, modules by name and version, views by the part that they show; never by addresses, pickle
bytes or line numbers.
"""

from __future__ import annotations

import ctypes
import functools
import hashlib
import io
import marshal
import math
import os
import pickle
import sys
import types
from collections.abc import Collection, Mapping
from typing import Any

from cloudpickle import cloudpickle as internals

from workbench.snapshot.imported import imported
from workbench.snapshot.pickling import is_huge_map, plain_reduction
from workbench.snapshot.reading.names import global_names
from workbench.snapshot.surroundings.environment import version_of_distribution

_ATOMS = frozenset({int, float, complex, bool, str, bytes, type(None), type(Ellipsis)})
_CONTAINERS = frozenset({list, tuple, dict, set, frozenset})
#: Members of a class that Python or pickle adds, or that depend on the text editor.
_NOISE = frozenset(
    {
        *("__dict__", "__weakref__", "__module__", "__doc__", "__slotnames__", "__firstlineno__", "__annotate_func__"),
        *("__static_attributes__", "__annotations_cache__", "_abc_impl", "_abc_cache", "_abc_registry"),
        *("_abc_negative_cache", "_abc_negative_cache_version", "__classcell__"),
    }
)
#: Parts of classes that pickle cannot see, and that have no content besides their class.
_DESCRIPTORS = (
    *(types.GetSetDescriptorType, types.MemberDescriptorType, types.MethodDescriptorType),
    *(types.WrapperDescriptorType, types.ClassMethodDescriptorType),
)
#: The recursion limit of the walk, which recurses in Python, while pickle recurses in C.
_DEPTH = 20_000
#: Levels of an object that are examined to sort the elements of a set.
_LOOK = 4


class Fingerprint:
    """Digests of the values of one notebook.

    known: digests of memory that was already hashed, by address and size. modules: names of all modules that were
    reached by reference, filled during the walk. opaque: the types of objects whose content is not in the digests
    (connections, generators, open files), filled during the walk.
    """

    def __init__(self, namespace: Mapping[str, Any], known: Mapping[tuple[int, int], str] | None = None) -> None:
        self.namespace = namespace
        self.known = dict(known or {})
        self.modules: set[str] = set()
        self.opaque: dict[str, None] = {}
        self._tables = {**internals.Pickler._dispatch_table}
        for kind in (types.ModuleType, types.CellType, types.CodeType, io.TextIOWrapper):
            self._tables.pop(kind, None)

    def of(self, value: Any) -> str:
        """The digest of ``value`` and everything that it reaches, except the notebook's names, which have their own
        digests."""
        limit = sys.getrecursionlimit()
        sys.setrecursionlimit(max(limit, _DEPTH))
        try:
            return _Walk(self).digest(value)
        finally:
            sys.setrecursionlimit(limit)


class _Walk:
    """One walk through a value. ``depth``: how many levels to visit; None for all."""

    def __init__(self, owner: Fingerprint, depth: int | None = None) -> None:
        self.owner = owner
        self.depth = depth
        self.sink = hashlib.sha256()
        self.memo: dict[int, int] = {}
        #: Visited objects, kept alive so that no other object gets their id.
        self.alive: list[Any] = []
        #: Copies being visited: their addresses will be reused by other memory.
        self.copies = 0

    def digest(self, value: Any) -> str:
        self.feed(value)
        return self.sink.hexdigest()

    def say(self, *words: object) -> None:
        for word in words:
            data = str(word).encode(errors="surrogatepass")
            self.sink.update(b"%d:" % len(data))
            self.sink.update(data)

    def feed(self, value: Any) -> None:
        kind = type(value)
        if kind in _ATOMS:
            self.sink.update(b"a")
            self.sink.update(marshal.dumps(value, 2))
            return
        seen = self.memo.get(id(value))
        if seen is not None:
            self.say("again", seen)
            return
        if kind is not tuple:
            # The compiler decides whether equal tuples are one object.
            self.memo[id(value)] = len(self.memo)
            self.alive.append(value)
        if self.depth == 0:
            self.say(kind.__name__)
            return
        if self.depth is not None:
            self.depth -= 1
        if kind in _CONTAINERS:
            self.container(kind, value)
        else:
            self.object(kind, value)
        if self.depth is not None:
            self.depth += 1

    def container(self, kind: type, value: Any) -> None:
        self.say(kind.__name__, len(value))
        if {*map(type, value)} <= _ATOMS and (kind is not dict or {*map(type, value.values())} <= _ATOMS):
            # One call in C. Version 2 has neither references nor interned strings, and sorts sets.
            self.sink.update(marshal.dumps(value, 2))
        elif kind is dict:
            for key, one in value.items():
                self.feed(key)
                self.feed(one)
        elif kind in (set, frozenset):
            self.unordered(value)
        else:
            for one in value:
                self.feed(one)

    def unordered(self, elements: Collection[Any]) -> None:
        """Elements of a set, whose own order depends on addresses and hash seeds.

        Shallow digests give their order: full digests of nodes in a graph, each with its neighbours, would not
        terminate.
        """
        plain = sorted(marshal.dumps(one, 2) for one in elements if _is_plain(one))
        for data in plain:
            self.sink.update(data)
        others = [one for one in elements if not _is_plain(one)]
        if self.depth is not None:
            self.say(*sorted(type(one).__name__ for one in others))
            return
        for one in sorted(others, key=lambda one: _Walk(self.owner, depth=_LOOK).digest(one)):
            self.feed(one)

    def object(self, kind: type, value: Any) -> None:
        if isinstance(value, type):
            self.cls(value)
        elif kind is types.FunctionType:
            self.function(value)
        elif kind is types.CodeType:
            self.code(value)
        elif kind is types.ModuleType or isinstance(value, types.ModuleType):
            self.say("module", value.__name__)
            self.owner.modules.add(value.__name__)
        elif kind is types.CellType:
            self.cell(value)
        elif kind is pickle.PickleBuffer or kind in (bytearray, memoryview):
            self.memory(memoryview(value))
        elif isinstance(value, io.IOBase) and not isinstance(value, io.BytesIO | io.StringIO):
            self.say("stream")
            self.opaque(kind)
        elif not self.array(kind, value) and not self.storage(kind, value) and not self.tensor(kind, value):
            self.reduced(kind, value)

    def cell(self, cell: types.CellType) -> None:
        try:
            content = cell.cell_contents
        except ValueError:
            self.say("empty")
        else:
            self.feed(content)

    def reduced(self, kind: type, value: Any) -> None:
        """An object as pickle sees it: its constructor and its state."""
        reduction = plain_reduction(value)
        if getattr(kind, "workbench_fixed", False):
            self.opaque(kind)  # the trial and its parts: they have no content of their own
            self.say("opaque", kind.__module__, kind.__qualname__)
            return
        if reduction is NotImplemented:
            table = self.owner._tables.get(kind) or internals.Pickler.dispatch_table.get(kind)
            try:
                reduction = table(value) if table is not None else value.__reduce_ex__(5)
            except Exception:
                # Descriptors of slots and the like: they are in classes, and pickle never sees them.
                if not isinstance(value, _DESCRIPTORS):
                    self.opaque(kind)
                self.say("opaque", kind.__module__, kind.__qualname__, getattr(value, "__qualname__", ""))
                return
        self.alive.append(reduction)
        if isinstance(reduction, str):
            module = internals._whichmodule(value, reduction) or ""
            self.say("global", module, reduction)
            self.owner.modules.add(module)
            return
        self.say("object")
        make, arguments, *rest = reduction
        self.feed(make)
        self.feed(arguments)
        state, items, pairs = (*rest[:3], None, None, None)[:3]
        self.feed(state)
        self.feed(list(items) if items is not None else None)
        self.feed(list(pairs) if pairs is not None else None)

    def opaque(self, kind: type) -> None:
        self.owner.opaque[
            kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
        ] = None

    # -- code ---------------------------------------------------------------------------------------------------------

    def reference(self, value: Any) -> bool:
        """Record a function or class that is imported rather than sent."""
        if not internals._should_pickle_by_reference(value):
            return False
        self.say("import", value.__module__, value.__qualname__)
        self.owner.modules.add(value.__module__)
        return True

    def function(self, function: types.FunctionType) -> None:
        if self.reference(function):
            return
        self.say("function", function.__name__)
        code = function.__code__
        if function.__doc__ is not None and code.co_consts and code.co_consts[0] == function.__doc__:
            code = code.replace(co_consts=(None, *code.co_consts[1:]))
        self.code(code)
        for part in (function.__defaults__, function.__kwdefaults__, dict(function.__dict__)):
            self.feed(part)
        for cell in function.__closure__ or ():
            self.feed(cell)
        names = global_names(function.__code__)
        namespace = function.__globals__
        if namespace is self.owner.namespace:
            return  # these names have digests of their own
        module = sys.modules.get(str(namespace.get("__name__")))
        if module is not None and getattr(module, "__dict__", None) is namespace:
            self.say("module", module.__name__)
            self.owner.modules.add(module.__name__)
        else:
            self.feed({name: namespace[name] for name in names if name in namespace})

    def code(self, code: types.CodeType) -> None:
        """What the code does, without its file name and line numbers."""
        self.say(
            *("code", code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount, code.co_flags),
            *(code.co_code.hex(), code.co_exceptiontable.hex(), code.co_names, code.co_varnames),
            *(code.co_freevars, code.co_cellvars),
        )
        for constant in code.co_consts:
            if isinstance(constant, types.CodeType):
                self.code(constant)
            else:
                self.feed(constant)

    def cls(self, cls: type) -> None:
        if cls in internals._BUILTIN_TYPE_NAMES or cls in (type(None), type(Ellipsis), type(NotImplemented)):
            self.say("type", cls.__qualname__)
            return
        if self.reference(cls):
            return
        self.say("class", cls.__qualname__)
        self.feed(type(cls))
        self.feed(cls.__bases__)
        for name in sorted(vars(cls).keys() - _NOISE):
            self.say(name)
            self.feed(vars(cls)[name])

    # -- data ---------------------------------------------------------------------------------------------------------

    def memory(self, view: memoryview, address: int | None = None) -> None:
        digest = self.owner.known.get((address, view.nbytes)) if address is not None else None
        if digest is None:
            digest = hashlib.sha256(view).hexdigest()
            if address is not None:
                self.owner.known[address, view.nbytes] = digest
        self.say("bytes", view.nbytes, digest)

    def array(self, kind: type, value: Any) -> bool:
        if kind.__module__ != "numpy":
            return False
        numpy = sys.modules["numpy"]
        if kind not in (numpy.ndarray, numpy.memmap) or value.dtype.hasobject:
            return False
        if value.dtype.names:
            # A view of some fields keeps the hidden fields between them.
            value = value.astype(_packed(value.dtype), copy=False)
        self.say("array", value.dtype.descr if value.dtype.names else value.dtype.str, value.shape)
        if is_huge_map(value):
            found = os.stat(value.filename)
            self.say("file", str(value.filename), found.st_size, found.st_mtime_ns, value.offset)
            return True
        flat = value if value.flags.c_contiguous or value.flags.f_contiguous else numpy.ascontiguousarray(value)
        self.say("F" if flat.flags.f_contiguous and not flat.flags.c_contiguous else "C")
        flat = flat if flat.flags.c_contiguous else flat.T
        address = flat.__array_interface__["data"][0] if flat is value or flat.base is value else None
        if flat.nbytes:
            self.memory(memoryview(flat.reshape(-1).view(numpy.uint8)), address)
        return True

    def tensor(self, kind: type, value: Any) -> bool:
        """A strided torch tensor. Sparse ones consist of strided ones; for quantized ones, all their memory counts."""
        torch: Any = imported("torch")
        known: Any = getattr(torch, "Tensor", ())
        if not isinstance(value, known) or value.layout is not torch.strided:
            return False
        if value.device.type == "meta" or value.is_quantized or value.is_nested:
            return False
        if kind is not torch.Tensor or vars(value):
            if any(getattr(kind, one) != getattr(torch.Tensor, one) for one in ("__reduce_ex__", "__torch_dispatch__")):
                return False  # it describes its own parts, as parameters do
            self.say("tensor")
            for part in (kind, torch._utils._get_obj_state(value), value.as_subclass(torch.Tensor)):
                self.feed(part)
            return True
        value, copied = compact(value)
        self.copies += copied
        self.reduced(kind, value)
        self.copies -= copied
        return True

    def storage(self, kind: type, value: Any) -> bool:
        if kind.__module__ not in ("torch", "torch.storage"):
            return False
        torch = sys.modules["torch"]
        if isinstance(value, torch.storage.TypedStorage):
            self.say("typed", value.dtype)
            self.feed(value._untyped_storage)
            return True
        if not isinstance(value, torch.UntypedStorage):
            return False
        self.say("storage", value.device)
        if value.nbytes():
            host = value if value.device.type == "cpu" else value.cpu()
            view = memoryview((ctypes.c_ubyte * host.nbytes()).from_address(host.data_ptr())).cast("B")
            self.memory(view, host.data_ptr() if host is value and not self.copies else None)
        return True


def compact(tensor: Any) -> tuple[Any, bool]:
    """A strided tensor that shows a part of its memory, reduced to that part; any other tensor unchanged.

    Also returns whether its memory is a copy. Pickle writes all the memory of a tensor, and the position of its
    elements in it.
    """
    plain, item = tensor.detach(), tensor.element_size()
    steps = [(size, step) for size, step in zip(tensor.shape, tensor.stride(), strict=True) if size > 1 and step]
    span = 1 + sum((size - 1) * step for size, step in steps) if tensor.numel() else 0
    storage = tensor.untyped_storage()
    if math.prod(size for size, _ in steps) < span or tensor.is_conj() or tensor.is_neg():
        # Other elements lie between its own. An expanded tensor stays expanded: a copy could be of any size.
        first = tuple(slice(None) if step else slice(1) for step in tensor.stride())
        return plain[first].clone().expand(tensor.shape).requires_grad_(tensor.requires_grad), True
    if span * item == storage.nbytes():
        return tensor, False
    begin = tensor.storage_offset() * item
    part = plain.new_empty(0).set_(storage[begin : begin + span * item], 0, tensor.shape, tensor.stride())
    return part.requires_grad_(tensor.requires_grad), False


def _packed(dtype: Any) -> Any:
    """The same fields without gaps."""
    from numpy.lib.recfunctions import repack_fields

    return repack_fields(dtype, recurse=True)


def _is_plain(value: Any) -> bool:
    """Whether it consists only of numbers, texts, tuples and frozen sets: marshal writes equal ones the same."""
    kind = type(value)
    return kind in _ATOMS or (kind in (tuple, frozenset) and all(map(_is_plain, value)))


@functools.cache
def version_of(module: str) -> str:
    """The version of an imported module's package, or Python's version for the standard library."""
    root = module.partition(".")[0]
    if root in sys.stdlib_module_names:
        return "{}.{}".format(*sys.version_info)
    if version := version_of_distribution(root):
        return version  # also of a module that is not imported yet, which may add a suffix to it
    told = vars(sys.modules.get(root, types)).get("__version__")
    return told if isinstance(told, str) else ""
