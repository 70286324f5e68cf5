"""Which state the training code has: surveys of all that its names reach, and what changed between two of them.

Law: nothing is declared. A survey at the end of the set-up numbers every object that the names of the cell (and the
locals of the functions around the loop) reach, and keeps a signature of each one's own content. A later survey tells
what is new and what changed since. What did not change is never saved: the set-up code makes it again. What changed is
put back into the very object that the set-up code made, found by its path, so that whoever else holds it sees it too.
"""

from __future__ import annotations

import collections
import enum
import io
import pathlib
import queue
import random
import re
import threading
import types
import weakref
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from workbench.trial import kinds, torch_kinds
from workbench.trial.kinds import SCALARS, Fixed, Instance, Kind, Token, loaded, signature

Inline = Callable[[Any, kinds.See, "str | int"], Token]
How = Kind | Inline

#: Machinery of torch below what people hold: compilers and what they made. It is made again by itself.
MACHINERY = ("torch._dynamo", "torch._inductor", "torch._functorch", "torch.fx", "torch.export", "triton")
#: Objects of these packages show things; they are no state of the training, and the set-up code makes them again.
SHOWN_ONLY = ("tqdm", "rich", "matplotlib", "plotly", "logging", "IPython", "ipywidgets", "seaborn")

_LOCK_TYPES = (
    type(threading.Lock()),
    type(threading.RLock()),
    threading.Event,
    threading.Condition,
    threading.Semaphore,
)
_VALUE_TYPES = (pathlib.PurePath, re.Pattern, enum.Enum)
_VALUE_MODULES = frozenset({"datetime", "decimal", "fractions", "uuid", "zoneinfo"})

GENERATOR = Fixed()
FILE = Fixed()
SILENT = Fixed()
#: Why an object of a kind cannot be saved, as the trial's page says it. SILENT ones are not worth a word.
REASONS: dict[Kind, str] = {
    GENERATOR: "an iterator or generator cannot be saved: after a resume it starts anew",
    FILE: "an open file or connection cannot be saved: the set-up code opens it again",
}


class Opaque(Kind):
    """An object of another language's making that pickles: compared by its pickle, replaced where it changed."""


OPAQUE = Opaque()
BYTE_ARRAY, FUNCTION, CELL, CLASS = kinds.ByteArray(), kinds.Function(), kinds.Cell(), kinds.Class()
TENSOR = torch_kinds.Tensor()
ARRAY, NUMPY_GENERATOR = kinds.Array(), kinds.NumpyGenerator()
PYTHON_RANDOM = kinds.Generator(lambda g: g.getstate(), lambda g, s: g.setstate(s))
NUMPY_RANDOM = kinds.Generator(lambda g: g.get_state(legacy=False), lambda g, s: g.set_state(s))
BIT_GENERATOR = kinds.Generator(lambda g: g.state, lambda g, s: setattr(g, "state", s))


def set_torch_state(generator: Any, state: bytes) -> None:
    """Put a torch generator where it was."""
    torch = loaded("torch")
    generator.set_state(torch.frombuffer(bytearray(state), dtype=torch.uint8))


TORCH_GENERATOR = kinds.Generator(lambda g: g.get_state().numpy().tobytes(), set_torch_state)


# ---------------------------------------------------------------------------------------------------------------------
# Roots: where the walk begins


class Names(Kind):
    """A namespace from which the walk begins: the cell's, or the locals of one function around the loop."""

    order = 3

    def __init__(
        self,
        label: str,
        values: Callable[[], Mapping[str, Any]],
        put: Callable[[dict[str, Any], list[str]], None],
        frame: types.FrameType | None = None,
    ) -> None:
        self.label = label
        #: The function's frame; None for the cell's own namespace.
        self.frame = frame
        self._values = values
        self.set = put
        #: Names that the checkpoint under way does without.
        self.skipped: set[str] = set()

    def values(self) -> Mapping[str, Any]:
        """What its names stand for now."""
        values = self._values()
        if not self.skipped:
            return values
        return {name: value for name, value in values.items() if name not in self.skipped}


@dataclass(slots=True)
class Found:
    """What a survey found, as the trial's page lists it."""

    objects: list[str]
    names: list[str]
    left_out: list[dict[str, str]]

    def to_json(self) -> dict[str, Any]:
        """Plain data for a message."""
        return {"objects": self.objects, "names": self.names, "left_out": self.left_out}


@dataclass(slots=True)
class Entry:
    """One object that a survey met."""

    number: int
    parent: int
    key: str | int
    how: Kind
    ref: Callable[[], Any]
    signature: bytes = b""


class _Strong:
    """Stands for a weak reference to an object of a type that allows none."""

    __slots__ = ("obj",)

    def __init__(self, obj: Any) -> None:
        self.obj = obj

    def __call__(self) -> Any:
        return self.obj


def _nothing() -> None:
    """No reference: a later survey is asked nothing once it is written."""


def _reference(obj: Any) -> Callable[[], Any]:
    try:
        return weakref.ref(obj)
    except TypeError:
        return _Strong(obj)


class Classifier:
    """Says how an object is looked into; remembers it by class. ``main`` is the namespace of the training code."""

    def __init__(self, main: Mapping[str, Any]) -> None:
        self.main = main
        self.storages = torch_kinds.Storage()
        self._by_class: dict[type, How | None] = {
            **kinds.INLINE,
            types.CellType: CELL,
            bytearray: BYTE_ARRAY,
            types.GeneratorType: GENERATOR,
            types.CoroutineType: GENERATOR,
            types.AsyncGeneratorType: GENERATOR,
            random.Random: PYTHON_RANDOM,
            types.FunctionType: None,
        }

    def how(self, obj: Any) -> How:
        """The kind of ``obj``, or the function that gives its token where it has no identity worth keeping."""
        cls = type(obj)
        how = self._by_class.get(cls)
        if how is not None:
            return how if how is not TENSOR or torch_kinds.is_strided(obj) else OPAQUE
        if isinstance(obj, type):
            return CLASS if obj.__module__ == "__main__" else kinds.inline_global
        if cls is types.FunctionType:
            own = obj.__globals__ is self.main or obj.__closure__ or "<locals>" in obj.__qualname__
            if own and str(obj.__module__).startswith(MACHINERY):
                return SILENT
            return FUNCTION if own else kinds.inline_global
        how = self._by_class[cls] = self._classify(obj, cls)
        return how if how is not TENSOR or torch_kinds.is_strided(obj) else OPAQUE

    def _classify(self, obj: Any, cls: type) -> How:
        for classify in (self._of_library, self._of_python):
            how = classify(obj, cls)
            if how is not None:
                return how
        if _is_plain(obj, cls):
            return Instance(cls)
        if has_state_dict(obj):
            return kinds.BY_STATE_DICT
        if "__getstate__" in _defined(cls) and "__setstate__" in _defined(cls):
            try:
                obj.__getstate__()
            except Exception:
                return OPAQUE
            return kinds.BY_GETSTATE
        return OPAQUE

    def _of_library(self, obj: Any, cls: type) -> How | None:
        torch, numpy = loaded("torch"), loaded("numpy")
        if torch is not None:
            if torch_kinds.is_tensor_class(cls):
                return TENSOR
            if isinstance(obj, torch.UntypedStorage):
                return self.storages
            if isinstance(obj, torch.nn.Module) and not isinstance(obj, torch.jit.ScriptModule):
                return torch_kinds.Module(cls)
            if isinstance(obj, torch.optim.Optimizer):
                return Instance(cls)
            if isinstance(obj, torch.Generator):
                return TORCH_GENERATOR
            if isinstance(obj, torch.dtype | torch.device | torch.layout | torch.memory_format):
                return kinds.inline_value
        if numpy is not None:
            if cls is numpy.ndarray:
                return ARRAY
            if isinstance(obj, numpy.generic | numpy.dtype):
                return kinds.inline_value
            if isinstance(obj, numpy.ufunc):
                return kinds.inline_global
            if isinstance(obj, numpy.random.Generator):
                return NUMPY_GENERATOR
            if isinstance(obj, numpy.random.BitGenerator):
                return BIT_GENERATOR
            if isinstance(obj, numpy.random.RandomState):
                return NUMPY_RANDOM
        return None

    def _of_python(self, obj: Any, cls: type) -> How | None:
        if cls.__module__.startswith(MACHINERY):
            return SILENT
        if getattr(cls, "workbench_fixed", False) or kinds.is_from(obj, SHOWN_ONLY) or isinstance(obj, _LOCK_TYPES):
            return SILENT
        if isinstance(obj, _VALUE_TYPES) or cls.__module__ in _VALUE_MODULES:
            return kinds.inline_value
        if isinstance(obj, io.IOBase) or cls.__module__ in ("_socket", "socket", "sqlite3", "select"):
            return FILE
        if isinstance(obj, queue.Queue | threading.Thread | threading.local):
            return SILENT
        if isinstance(obj, tuple):
            return kinds.inline_tuple
        if cls.__name__ == "partial" and cls.__module__ == "functools":
            return kinds.inline_partial
        if cls.__module__ == "functools" or cls in (types.MethodWrapperType, types.WrapperDescriptorType):
            return kinds.inline_global
        if isinstance(obj, weakref.ReferenceType):
            return kinds.inline_weakref
        if isinstance(obj, Iterator) and not _reduces(obj):
            return GENERATOR
        if _torch_iterator(obj):
            return GENERATOR
        return None


def has_state_dict(obj: Any) -> bool:
    """True for an object (no class) that can give its state and take it back."""
    return (
        not isinstance(obj, type)
        and callable(getattr(obj, "state_dict", None))
        and callable(getattr(obj, "load_state_dict", None))
    )


def _torch_iterator(obj: Any) -> bool:
    return any(cls.__name__ == "_BaseDataLoaderIter" for cls in type(obj).__mro__)


def _reduces(obj: Any) -> bool:
    try:
        obj.__reduce_ex__(4)
    except Exception:
        return False
    return True


def _defined(cls: type) -> set[str]:
    return {name for base in cls.__mro__ if base is not object for name in vars(base)}


_PLAIN_REDUCE = {
    base.__reduce__
    for base in (object, collections.OrderedDict, collections.defaultdict, collections.Counter, set, collections.deque)
}


def _is_plain(obj: Any, cls: type) -> bool:
    """True where attributes, slots and items are all there is: no state in C, no class that hides or computes it."""
    reduce_ex: Any = cls.__reduce_ex__
    computes = reduce_ex is not object.__reduce_ex__ or cls.__reduce__ not in _PLAIN_REDUCE
    if (
        computes
        or "__getstate__" in _defined(cls)
        or hasattr(cls, "__getnewargs__")
        or hasattr(cls, "__getnewargs_ex__")
    ):
        return False
    if isinstance(obj, dict | list | set | collections.deque):
        return True
    try:
        obj.__reduce_ex__(4)
    except Exception:
        return False
    return True


# ---------------------------------------------------------------------------------------------------------------------
# Surveys


class Survey:
    """All that the roots reach. With ``base`` (the survey at the end of the set-up), also what changed since."""

    def __init__(self, classifier: Classifier, roots: list[Names], base: Survey | None = None) -> None:
        self.classifier = classifier
        self.base = base
        #: Numbers below this one were given by the base survey; the others are new objects.
        self.size: int = base.size if base is not None else 1 << 60
        self.entries: dict[int, Entry] = {}
        #: Number of each object met, by its id; ``objects`` keeps them alive, so that ids stay theirs.
        self.numbers: dict[int, int] = {}
        self.objects: dict[int, Any] = {}
        #: Base objects whose own content changed, in the order of the walk.
        self.changed: list[int] = []
        #: Opaque base objects that changed: they are saved as new ones, and their holders point to those.
        self.replaced: set[int] = set()
        #: What cannot be saved, by id, and why; new objects only.
        self.left: dict[int, str] = {}
        #: What is iterated or open since the set-up, and may have moved on: number and reason.
        self.unsaved: list[tuple[int, str]] = []
        #: The same for names that turned out not to pickle.
        self.unsaved_names: list[tuple[str, str]] = []
        #: Of each opaque object, who holds it: numbers, or a root and a name in it.
        self._holders: dict[int, set[int | tuple[int, str]]] = {}
        self._todo: collections.deque[tuple[int, Any, Kind]] = collections.deque()
        self._parent = 0
        self._name = ""
        self._next = 0
        self.roots = roots
        self._root_tokens: dict[str, dict[str, bytes]] = {}
        self._walk()
        if base is None:
            self.size = self._next

    # -- walking -----------------------------------------------------------------------------------------------------

    def _walk(self) -> None:
        self._next = self.base.size if self.base is not None else 1
        # Number 0 is the namespace itself: a cell may hold its globals(), which is no state of its own.
        main = self.classifier.main
        self.numbers[id(main)], self.objects[0] = 0, main
        self.entries[0] = Entry(0, -1, "globals()", SILENT, _Strong(main))
        for number, root in enumerate(self.roots):
            self._parent = -1 - number
            tokens = self._root_tokens[root.label] = {}
            for name, value in root.values().items():
                self._name = name
                tokens[name] = signature(self.see(value, name))
        # What is compared by its pickle comes last: by then everything that such a pickle may refer to has its number.
        last: list[tuple[int, Any, Kind]] = []
        see = self.see
        while self._todo:
            number, obj, how = self._todo.popleft()
            self._parent = number
            if how is OPAQUE or isinstance(how, kinds.ByState):
                last.append((number, obj, how))
                continue
            try:
                found = signature(how.look(obj, see))
            except Exception as error:
                # Somebody's class that does not let itself be looked into: the trial is not to fail for it.
                self._give_up(number, obj, error)
            else:
                self._compare(number, found)
        for number, obj, how in last:
            self._compare_pickle(number, obj, how)

    def see(self, child: Any, key: str | int) -> Token:
        """The token of ``child``, which stands at ``key`` in the object that is looked into now."""
        cls = type(child)
        if cls in SCALARS:
            return child
        number = self.numbers.get(id(child))
        if number is None:
            try:
                how = self.classifier.how(child)
            except Exception:  # somebody's class that answers no question
                how = SILENT
            if not isinstance(how, Kind):
                return how(child, self.see, key)
            number = self._meet(child, key, how)
        elif number in self._holders:
            self._holders[number].add(self._holder())
        return (..., number if number < self.size else -1)

    def _meet(self, obj: Any, key: str | int, how: Kind) -> int:
        number = -1
        if self.base is not None:
            known = self.base.entry_of(obj)
            if known is not None:
                number, how = known.number, known.how if known.how is not OPAQUE else how
        if number < 0:
            number = self._next
            self._next += 1
            if isinstance(how, Fixed) and self.base is not None:
                self.left[id(obj)] = REASONS.get(how, "")
        if how in REASONS:
            self.unsaved.append((number, REASONS[how]))
        if how is self.classifier.storages:
            self.classifier.storages.seen_by.setdefault(id(obj), self.objects.get(self._parent))
        if how is OPAQUE:
            self._holders[number] = {self._holder()}
        self.numbers[id(obj)] = number
        self.objects[number] = obj
        self.entries[number] = Entry(number, self._parent, key, how, _reference(obj) if self.base is None else _nothing)
        self._todo.append((number, obj, how))
        return number

    def _compare(self, number: int, found: bytes) -> None:
        self.entries[number].signature = found
        if self.base is not None and number < self.size and self.base.entries[number].signature != found:
            self.changed.append(number)

    def _give_up(self, number: int, obj: Any, error: Exception) -> None:
        reason = f"a {type(obj).__name__} could not be looked into ({type(error).__name__}: {error})"
        self.unsaved.append((number, reason))
        if number >= self.size:
            self.left[id(obj)] = reason

    def _compare_pickle(self, number: int, obj: Any, how: Kind) -> None:
        from workbench.trial.graph import digest_of

        try:
            found = digest_of(obj if how is OPAQUE else how.content(obj, self.is_left), self)
        except Exception as error:
            found = b""
            if number >= self.size:
                self.left[id(obj)] = f"{type(obj).__name__} cannot be pickled: {error}"
        if how is not OPAQUE:
            self._compare(number, found)
            return
        self.entries[number].signature = found
        if self.base is not None and number < self.size and self.base.entries[number].signature != found:
            self.replaced.add(number)
            for holder in self._holders[number]:
                if isinstance(holder, int) and holder < self.size and holder not in self.changed:
                    self.changed.append(holder)

    def _holder(self) -> int | tuple[int, str]:
        return self._parent if self._parent >= 0 else (self._parent, self._name)

    # -- asking ------------------------------------------------------------------------------------------------------

    def entry_of(self, obj: Any) -> Entry | None:
        """The entry of an object of this survey that still lives, or None."""
        number = self.numbers.get(id(obj))
        if number is None:
            return None
        entry = self.entries[number]
        return entry if entry.ref() is obj else None

    def is_left(self, obj: Any) -> bool:
        """True for a new object that cannot be saved."""
        return id(obj) in self.left

    def release(self) -> None:
        """Let go of the objects: from now on only those that nobody could refer to weakly are held."""
        self.objects.clear()

    def forget(self, later: Survey) -> None:
        """Forget the objects that ``later`` no longer met, so that they can be freed. Their paths stay known."""
        for number, entry in self.entries.items():
            if number not in later.entries:
                entry.ref = _nothing
        self.numbers = {key: number for key, number in self.numbers.items() if number in later.entries}

    def path(self, number: int) -> str:
        """Where the object stands, as a person would write it: ``model.0.weight``, ``history[3]``."""
        keys: list[str] = []
        entry_number = number
        while entry_number >= 0:
            entry = self.entries[entry_number]
            keys.append(entry.key if isinstance(entry.key, str) else f"[{entry.key}]")
            entry_number = entry.parent
        label = self.roots[-1 - entry_number].label
        return label + "".join(reversed(keys))

    def name(self, number: int) -> str:
        """The name through which the object was met first."""
        while True:
            entry = self.entries[number]
            if entry.parent < 0:
                return str(entry.key)
            number = entry.parent

    def changed_names(self, root: Names) -> tuple[list[str], list[str]]:
        """Names of ``root`` that stand for something else than in the base survey, and names that are gone."""
        assert self.base is not None
        before, now = self.base._root_tokens.get(root.label, {}), self._root_tokens[root.label]
        changed = [name for name, token in now.items() if before.get(name) != token]
        place = -1 - self.roots.index(root)
        for number in self.replaced:
            for holder in self._holders[number]:
                if isinstance(holder, tuple) and holder[0] == place and holder[1] not in changed:
                    changed.append(holder[1])
        return changed, [name for name in before if name not in now and name not in root.skipped]

    def state_dict_owner(self, number: int) -> int | None:
        """The base object above ``number`` that gives and takes its own state, past modules and optimizers."""
        torch = loaded("torch")
        while number >= 0:
            entry = self.entries[number]
            obj = self.objects.get(number)
            if number < self.size and has_state_dict(obj):
                walked = torch is not None and isinstance(obj, torch.nn.Module | torch.optim.Optimizer)
                return None if walked else number
            number = entry.parent
        return None
