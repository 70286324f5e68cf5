"""What changed since the set-up, as one pickled graph. Law: what the set-up code makes again appears in it as a path.

The graph contains a *patch* for each object that changed in place, and the values of names. In it, objects of the
set-up are references (their path), torch's storages are keys into ``tensors.safetensors``, functions of the cell are
recreated in the cell's own namespace, and variables shared by closures stay shared.
"""

from __future__ import annotations

import collections
import io
import pickle
import sys
import types
import warnings
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import cloudpickle

from workbench.snapshot.imported import loaded
from workbench.trial import iterators, kinds, torch_kinds
from workbench.trial.checkpoint.references import Form, Made, Stored
from workbench.trial.classifier import OPAQUE, has_state_dict
from workbench.trial.discovery import Names, Survey
from workbench.trial.kinds import Instance, LeftOut
from workbench.trial.looking import databases, maps, memory, memory_files, remade, sets, shared_names, written
from workbench.trial.marks import ADDRESSES, begins_with_addresses, holds_addresses

PICKLE_PROTOCOL = 5
#: Containers that are pickled separately if they are long and contain only plain values.
_HEAPS = frozenset({list, dict, set, frozenset, collections.deque})
_SETS = frozenset(sets.TYPES)


# ---------------------------------------------------------------------------------------------------------------------
# Writing


class GraphPickler(cloudpickle.Pickler):
    """Pickles new objects, and refers to those that the set-up code made."""

    #: Whether memory, and variables of other modules' functions, stay shared; whether a new lock replaces one.
    keeps_shared = looks_into = True

    def __init__(self, file: Any, survey: Survey, **options: Any) -> None:
        super().__init__(file, PICKLE_PROTOCOL, **options)
        self.survey = survey
        self._numbers = survey.numbers
        self._size = (survey.base or survey).size
        self._references: dict[int, str] = {}
        self.renamed: dict[int, str] = {}
        #: The texts of storages by key, and of the forms of tensors: pickle writes each of them once.
        self._stored: dict[str, str] = {}
        self._forms: dict[Any, str] = {}
        self._storage_type = loaded("torch").UntypedStorage if loaded("torch") is not None else None
        self._tensor_types = torch_kinds.tensor_types()
        #: New storages, with their key in tensors.safetensors.
        self.storages: dict[int, str] = {}
        self.new_storages: dict[str, Any] = {}
        #: How often the graph refers to each of them, and where numbers lie in it.
        self._uses: collections.Counter[str] = collections.Counter()
        self._scalars: dict[int, list[torch_kinds.Place]] = {}
        #: Cells with contents still to be written: separately, so that a closure over itself can be recreated.
        self.cells: list[types.CellType] = []
        #: Of each long container: its form in the graph, and itself, so that its id is not reused.
        self._heaps: dict[int, tuple[Any, Any]] = {}
        #: Arrays in whose memory storages may lie, once one is looked for.
        self._arrays: list[Any] | None = None
        #: Of each variable of a running function that is in the graph: the root and the name, by its cell's id.
        self._variables: dict[int, tuple[str, str]] = {}
        self.sets: list[Any] = []  # new ones in the graph
        #: The objects of the set-up by the id of the dictionary of their attributes, once one is looked for.
        self._owners: dict[int, Any] | None = None

    def persistent_id(self, obj: Any) -> Any:
        # This runs for every number and text in the graph: most are neither known nor a storage.
        number = self._numbers.get(id(obj))
        if number is not None and number < self._size and number not in self.survey.replaced:
            return self._reference(number, obj)
        cls = type(obj)
        if cls is self._storage_type:
            return self._stored_reference(obj)
        if cls in _HEAPS:
            if cls in _SETS:
                self.sets.append(obj)
            elif cls is dict and number is not None and (owner := self._owner(obj)) is not None:
                return "attributes", owner
            if len(obj) >= kinds.MANY:
                return self._heap(obj)
        elif cls is int:
            if obj in ADDRESSES and obj in self._numbers:
                return "id", self.survey.objects[self._numbers[obj]]
        elif cls is types.CellType and id(obj) in self._variables:
            return "variable", *self._variables[id(obj)]
        return None

    def _owner(self, names: dict[Any, Any]) -> Any:
        """The object of the set-up whose attributes lie in this dictionary, to which the loop has given a name
        (``vars(obj)``)."""
        if self._owners is None:
            objects, entries = self.survey.objects, self.survey.entries
            hows = ((number, entry.how) for number, entry in entries.items() if number < self._size)
            made = [objects[number] for number, how in hows if isinstance(how, Instance) and not how.bare]
            self._owners = {id(Instance.own(one)): one for one in made}
        return self._owners.get(id(names))

    def _heap(self, obj: Any) -> Any:
        """A long container of plain values, pickled separately: its many values need not be checked one by one."""
        heap = self._heaps.get(id(obj))
        if heap is None:
            pid = None
            is_plain = kinds.are_plain(obj) and (type(obj) is not dict or kinds.are_plain(obj.values()))
            if is_plain and not (begins_with_addresses(obj) and holds_addresses(obj, self._numbers)):
                pid = ("heap", str(len(self._heaps)), pickle.dumps(obj, PICKLE_PROTOCOL))
            heap = self._heaps[id(obj)] = (pid, obj)
        return heap[0]

    def _reference(self, number: int, obj: Any) -> str:
        reference = self._references.get(number)
        if reference is None:
            # One text per object, so that pickle writes it once.
            base = self.survey.base or self.survey
            name = self.renamed.get(number) or type(obj).__name__
            reference = self._references[number] = Made(base.path(number), name).text()
        return reference

    def storage(self, storage: Any) -> str:
        """The storage's key: it will be in tensors.safetensors."""
        key = self.storages.get(storage._cdata)
        if key is None:
            key = self.storages[storage._cdata] = str(len(self.storages))
            self.new_storages[key] = storage
        self._uses[key] += 1
        return key

    def _stored_reference(self, storage: Any) -> Any:
        if memory.is_foreign(storage):
            if self._arrays is None:
                self._arrays = memory.owners(self.survey.objects.values())
            below = memory.below(storage, self._arrays)
            if below is not None:
                return "below", *below
        key = self.storage(storage)
        reference = self._stored.get(key)
        if reference is None:
            reference = self._stored[key] = Stored(key, str(storage.device)).text()
        return reference

    def reducer_override(self, obj: Any) -> Any:
        reason = self.survey.left.get(id(obj))
        if reason is not None:
            above = self.survey.entries[self.survey.numbers[id(obj)]].parent
            if remade.is_started(self.survey.objects.get(above), obj):  # the next pass starts its workers again
                return type(None), ()
            return LeftOut, (reason or f"a {type(obj).__name__} cannot be saved",)
        cls: Any = type(obj)
        # First, since most are tensors.
        if (cls in self._tensor_types or torch_kinds.is_plain_subclass(cls)) and torch_kinds.is_on_storage(obj):
            return self._reduce_tensor(obj)
        if cls is types.FunctionType and obj.__globals__ is self.survey.classifier.main:
            return self._reduce_function(obj)
        if cls is types.FunctionType and obj.__closure__ and self.keeps_shared and remade.is_of_module(obj):
            _, made, *others = self._reduce_function(obj)
            return remade.function_of, (obj.__globals__["__name__"], *made), *others
        if isinstance(obj, type):
            if (made := remade.array_type(obj)) is not None:
                return made
            remade.find_module_of(obj)
        if cls is types.CellType:
            self.cells.append(obj)
            return types.CellType, ()
        if cls is weakref.ReferenceType:
            if obj.__callback__ is None or not self.keeps_shared:
                return _weak, (obj(),)
            return remade.weak_reference, (obj(), obj.__callback__)
        numpy = loaded("numpy")
        if numpy is not None and cls is numpy.ndarray and (made := self._array_made(obj)) is not None:
            return made
        if numpy is not None and cls is numpy.memmap and (made := maps.reduced(obj)) is not None:
            return made
        if iterators.is_exact(obj):
            return iterators.reduced(obj)
        if databases.in_memory(obj):
            return databases.reduced(obj)
        if self.keeps_shared and (written.is_one(obj) or written.is_writer(obj)):
            return written.reduced(obj)
        if cls in memory_files.TYPES and obj.closed:
            return memory_files.closed, (cls,)
        if remade.is_pending(obj) or (remade.is_waited_for(obj) and self._has_threads()):
            return LeftOut, (remade.OF_THREADS,)
        made = remade.reduced(obj) if self.looks_into else None
        if made is None and self.keeps_shared:
            made = remade.in_full(obj) or self._sharing_names(obj)
        return made or super().reducer_override(obj)

    def _sharing_names(self, obj: Any) -> Any:
        """How a pickle makes an object whose attributes lie in a dictionary that something else has as well: the object
        itself (``self.__dict__ = self``), a name (``vars(obj)``), or all objects of its class. None for others."""
        names = kinds.Instance.own(obj)
        if id(names) not in self._numbers or not remade.pickles_plainly(type(obj)):
            return None
        making, arguments, state, *items = obj.__reduce_ex__(PICKLE_PROTOCOL)
        return making, arguments, (names, state[1] if type(state) is tuple else None), *items, remade.share

    def _has_threads(self) -> bool:
        numbers, objects = self.survey.numbers, self.survey.objects
        return any(remade.is_thread(objects[numbers[key]]) for key in self.survey.left)

    def _reduce_function(self, function: types.FunctionType) -> Any:
        new = [one for one in function.__closure__ or () if self._numbers.get(id(one), self._size) >= self._size]
        if new and self.keeps_shared:
            found = shared_names.of_function(function, self.survey.roots)
            # Their contents are written as well: for a function that is not running yet when it is restored.
            self.cells += [one for one in new if id(one) in found and id(one) not in self._variables]
            self._variables |= found
        made = (function.__code__, function.__name__, function.__closure__)
        kept = ("__defaults__", "__kwdefaults__", "__annotations__", "__doc__", "__qualname__", "__module__")
        state = {name: getattr(function, name) for name in kept}, dict(function.__dict__)
        return _function, made, state, None, None, _set_function

    def _array_made(self, array: Any) -> tuple[Callable[..., Any], tuple[Any, ...]] | None:
        """The function that makes the array again, and its arguments; None for what NumPy does itself."""
        return memory.reduced(array, self._is_known)

    def _is_known(self, storage: Any) -> bool:
        """Whether the survey has met a tensor on this storage."""
        return id(storage) in self._numbers

    def _reduce_tensor(self, tensor: Any) -> Any:
        place = torch_kinds.scalar_place(tensor)
        if place is not None:
            self._scalars.setdefault(tensor.untyped_storage()._cdata, []).append(place)
        is_leaf = tensor.is_leaf
        # A computed tensor is restored without its graph, so it does not require a gradient.
        made = self._tensor_made(tensor, tensor.requires_grad and is_leaf)
        grad = tensor.grad if is_leaf else None
        attributes = dict(getattr(tensor, "__dict__", {}) or {})
        has_hooks = tensor._backward_hooks is not None or tensor._post_accumulate_grad_hooks is not None
        hooks = torch_kinds.hooks_of(tensor) if has_hooks else None
        if grad is None and not attributes and hooks is None:
            return made
        state = (grad, attributes) if hooks is None else (grad, attributes, hooks)
        return *made, state, None, None, _set_tensor

    def _tensor_made(self, tensor: Any, requires_grad: bool) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        """The function that makes the tensor again, and its arguments."""
        cls, flips = type(tensor), torch_kinds.flips_of(tensor)
        layout = (tensor.storage_offset(), tensor.shape, tensor.stride(), requires_grad, flips)
        form = self._forms.get((cls, tensor.dtype, *layout))
        if form is None:
            dtype = str(tensor.dtype).removeprefix("torch.")
            form = self._forms[cls, tensor.dtype, *layout] = Form(cls.__name__, dtype, *layout).text()
        if cls in self._tensor_types:
            return _tensor_of, (tensor.untyped_storage(), form)
        return tensor_as, (cls, tensor.untyped_storage(), form)

    def clear_unused(self) -> None:
        """Have a storage of nothing but numbers hold zeros elsewhere: see :func:`torch_kinds.scalar_place`."""
        torch = loaded("torch")
        for key, storage in self.new_storages.items():
            places: Sequence[torch_kinds.Place] = self.survey.scalars_in(storage)
            pickled = self._scalars.get(storage._cdata, ())
            if not places and len(pickled) == self._uses[key]:
                places = pickled
            if not places:
                continue
            held = torch.empty(0, dtype=torch.uint8, device="cpu").set_(storage)
            cleared = torch.zeros_like(held)
            for start, size in places:
                cleared[start : start + size] = held[start : start + size]
            self.new_storages[key] = cleared.untyped_storage()


def _renamed(survey: Survey) -> dict[int, str]:
    """Objects whose class the loop changed, by number: the class that the set-up made. Their patch has the new one."""
    hows = [(number, survey.entries[number].how) for number in survey.changed]
    return {
        number: how.name.rpartition(".")[2]
        for number, how in hows
        if isinstance(how, Instance) and not how.bare and how.name != kinds.type_name(type(survey.objects[number]))
    }


Patch = tuple[Any, str, Any]


def write_graph(file: Any, survey: Survey, header: Mapping[str, Any], plain: Mapping[str, Any]) -> GraphPickler:
    """Write header, patches and names into ``file``; the returned pickler knows the new storages.

    plain: entries of the header that are numbers, texts, bytes and containers of these.

    A patch that does not pickle (it contains an unpicklable object) is left out and listed in ``survey.left``.
    """
    patches = list(_patches(survey))
    names = [_root_patch(survey, root) for root in survey.roots]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return _write(file, survey, header, plain, patches, names)
        except Exception:
            _leave_out_what_fails(survey, patches, names)
            file.seek(0)
            file.truncate()
            return _write(file, survey, header, plain, patches, names)


def _write(
    file: Any,
    survey: Survey,
    header: Mapping[str, Any],
    plain: Mapping[str, Any],
    patches: list[Patch],
    names: list[Any],
) -> GraphPickler:
    pickler = GraphPickler(file, survey)
    pickler.renamed = _renamed(survey)
    base = survey.base or survey
    storages = [number for number in survey.changed if survey.entries[number].how is survey.classifier.storages]
    changed = [(base.path(number), pickler.storage(survey.objects[number])) for number in storages]
    # Pickled separately: its thousands of numbers and names need not be checked for references one by one.
    apart = pickle.dumps({**plain, "storages": changed}, PICKLE_PROTOCOL)
    pickler.dump({**header, "plain": apart})
    pickler.dump(patches)
    pickler.dump(names)
    while pickler.cells:
        cells, pickler.cells = pickler.cells, []
        pickler.dump([(cell, kinds.Cell().content(cell, survey.is_left)) for cell in cells])
    pickler.dump(None)
    pickler.clear_unused()
    return pickler


def _leave_out_what_fails(
    survey: Survey, patches: list[Patch], names: list[tuple[str, dict[str, Any], list[str]]]
) -> None:
    def failure(value: Any) -> str | None:
        try:
            _write(io.BytesIO(), survey, {}, {}, [value], [])
        except Exception as error:
            return f"{type(error).__name__}: {error}"
        return None

    kept = []
    for patch in patches:
        why = failure(patch)
        if why is None:
            kept.append(patch)
        else:
            survey.unsaved.append((survey.numbers[id(patch[0])], why))
    # Not `patches.remove`: it compares patches, and a data frame raises where it is compared.
    patches[:] = kept
    for place, (_, changed, _) in enumerate(names):
        for name in list(changed):
            why = failure((None, "", changed[name]))
            if why is not None:
                survey.unsaved_names.append((name, why))
                del changed[name]
                assert place >= 0


def _patches(survey: Survey) -> Iterator[Patch]:
    # What cannot be saved is a part of these, and their other parts would not fit the one that the set-up makes.
    owners: dict[int, Any] = {}
    for key, reason in survey.left.items():
        owner = survey.owner_as_whole(survey.numbers[key]) if reason else None
        if owner is not None:
            owners[owner] = survey.objects[owner]
    found: list[tuple[int, Patch]] = []
    for number in survey.changed:
        obj, how = survey.objects[number], survey.entries[number].how
        if how is survey.classifier.storages or how is OPAQUE:
            continue
        whole = _above(survey, number, owners)
        # An environment that starts another episode draws from the generator that it has.
        if whole is not None and (has_state_dict(whole) or not isinstance(how, kinds.Generator)):
            continue
        found.append((how.order, (obj, type(how).__name__, how.content(obj, survey.is_left))))
    found += [(1, (owner, "state_dict", owner.state_dict())) for owner in owners.values() if has_state_dict(owner)]
    found.sort(key=lambda one: one[0])
    return (patch for _, patch in found)


def _above(survey: Survey, number: int, owners: Mapping[int, Any]) -> Any:
    while number >= 0 and number not in owners:
        number = survey.entries[number].parent
    return owners.get(number)


def _root_patch(survey: Survey, root: Names) -> tuple[str, dict[str, Any], list[str]]:
    changed, gone = survey.changed_names(root)
    values = root.values()
    return root.label, {name: values[name] for name in changed if not survey.is_left(values[name])}, gone


# -- functions that pickles call to recreate objects -----------------------------------------------------------------


def main_namespace() -> dict[str, Any]:
    """The namespace in which functions of the cell are recreated: set while a checkpoint is read."""
    return _namespace if _namespace is not None else sys.modules["__main__"].__dict__


_namespace: dict[str, Any] | None = None


def make_in(namespace: dict[str, Any] | None) -> None:
    """Set the namespace for the functions of the next graph; None for that of ``__main__``."""
    global _namespace
    _namespace = namespace


def _function(code: types.CodeType, name: str, cells: tuple[types.CellType, ...] | None) -> types.FunctionType:
    return types.FunctionType(code, main_namespace(), name, None, cells)


def _set_function(function: types.FunctionType, state: tuple[dict[str, Any], dict[str, Any]]) -> None:
    for name, value in state[0].items():
        setattr(function, name, value)
    function.__dict__.update(state[1])


def _weak(target: Any) -> Any:
    if target is None:
        return weakref.ref(LeftOut("its target was gone"))
    return weakref.ref(target)


def _array_view(base: Any, dtype: Any, shape: tuple[int, ...], strides: tuple[int, ...], offset: int) -> Any:
    return loaded("numpy").ndarray(shape, dtype, base, offset, strides)


def _tensor_of(storage: Any, form: str) -> Any:
    cls, dtype, offset, shape, strides, grad, flips = Form.of(form)
    torch = loaded("torch")
    made = _tensor(cls, storage, getattr(torch, dtype), offset, shape, strides, grad and not flips)
    made = torch_kinds.flipped(made, flips)
    return made.requires_grad_(grad) if grad and flips else made


def tensor_as(cls: Any, storage: Any, form: str) -> Any:
    """A tensor of a class of the training code or a library, on ``storage``."""
    made = _tensor_of(storage, Form.of(form)._replace(class_name="Tensor", requires_grad=False).text())
    return loaded("torch").Tensor._make_subclass(cls, made, Form.of(form).requires_grad)


def _tensor(  # graphs of the first schema call it
    cls: str, storage: Any, dtype: Any, offset: int, shape: tuple[int, ...], strides: tuple[int, ...], grad: bool
) -> Any:
    torch = loaded("torch")
    tensor = torch.empty(0, dtype=dtype, device=storage.device).set_(storage, offset, shape, strides)
    if cls == "Parameter":
        return torch.nn.Parameter(tensor, requires_grad=grad)
    if cls == "Buffer":
        tensor = torch.nn.Buffer(tensor)
    return tensor.requires_grad_(grad) if grad else tensor


def _set_tensor(tensor: Any, state: tuple[Any, dict[str, Any], *tuple[torch_kinds.Hooks, ...]]) -> None:
    grad, attributes, *hooks = state
    tensor.grad = grad
    if attributes:
        tensor.__dict__.update(attributes)
    for one in hooks:
        torch_kinds.put_hooks(tensor, one)
