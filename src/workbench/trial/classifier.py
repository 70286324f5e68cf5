"""The kind of each object. Law: the class decides, the answer is cached, and in doubt pickles are compared."""

from __future__ import annotations

import collections
import contextvars
import enum
import functools
import importlib.machinery
import io
import itertools
import pathlib
import queue
import random
import re
import sys
import threading
import types
import typing
import weakref
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any

from workbench.snapshot.imported import loaded
from workbench.trial import bars, caches, iterators, kinds, torch_kinds
from workbench.trial.kinds import Fixed, Instance, Kind, Token
from workbench.trial.looking import databases, maps, memory_files, remade, standard, written
from workbench.trial.looking.digests import (
    counts_all_names,
    counts_bound,
    counts_locals,
    counts_maps,
    counts_wrapped,
    leaves_events,
    looks_into,
)
from workbench.trial.looking.inline import (
    INLINE,
    inline_compiled,
    inline_function,
    inline_global,
    inline_partial,
    inline_proxy,
    inline_tuple,
    inline_value,
    inline_view,
    inline_weakref,
)

Inline = Callable[[Any, kinds.See, "str | int"], Token]
How = Kind | Inline

#: Internal machinery of torch: compilers and their output. It is rebuilt automatically.
MACHINERY = ("torch._dynamo", "torch._inductor", "torch._functorch", "torch.fx", "torch.export", "triton")
#: The same for the tables of operators.
_OPERATORS = ("torch._ops", "torch._library")
#: Placeholders for types: of these cloudpickle makes another pickle in each process.
_TYPE_VARIABLES = (typing.TypeVar, typing.ParamSpec, typing.TypeVarTuple)
#: Objects of these packages only display things; they are not training state, and the set-up code makes them again.
SHOWN_ONLY = ("tqdm", "rich", "matplotlib", "plotly", "logging", "IPython", "ipywidgets", "seaborn", "tensorboard")

_LOCK_TYPES = (*remade.LOCKS, *remade.WAITED)
#: Objects of these that do not pickle are not training state: the set-up code makes them again.
_SURROUNDINGS = frozenset(
    {
        "_multiprocessing",
        "_thread",
        "asyncio",
        "concurrent",
        "ctypes",
        "re",
        "ssl",
        "subprocess",
        "threading",
        "torch",
        "weakref",
    }
)
_SURROUNDINGS_BELOW = tuple(f"multiprocessing.{name}" for name in ("context", "pool", "process", "synchronize"))
#: Builtins that do not pickle and have no state of their own: views of a dict, frames, handles.
_STATELESS = frozenset(
    {
        *(f"{kind}_{part}" for kind in ("dict", "odict") for part in ("keys", "values", "items")),
        *("frame", "traceback", "getset_descriptor", "member_descriptor", "super", "PyCapsule"),
    }
)
#: Attributes in which a configuration of OmegaConf (Hydra's) keeps what it has looked up, such as when it was made.
_OMEGACONF = frozenset({"resolver_cache", "_flags_cache"})
#: Of Accelerate's loaders: what all of them share, which Accelerate sets for each batch.
_ACCELERATE = frozenset({"gradient_state"})
_VALUE_TYPES = (pathlib.PurePath, re.Pattern, enum.Enum)
_VALUE_MODULES = frozenset({"datetime", "decimal", "fractions", "uuid", "zoneinfo"})

GENERATOR = Fixed()
FILE = Fixed()
EXECUTOR = Fixed()
SILENT = Fixed()
BOOSTER = Fixed()
EVENT_LOOP = Fixed()
STATELESS, EVENT, LOGGER = kinds.Stateless(), standard.Event(), standard.Logger()
#: Why an object of a kind cannot be saved, as the trial's page says it. SILENT ones are not mentioned.
REASONS: dict[Kind, str] = {
    GENERATOR: "an iterator or generator cannot be saved: after a resume it restarts",
    FILE: "an open file or connection cannot be saved: the set-up code opens it again",
    BOOSTER: "LightGBM's Booster loses its training data when it is saved: go on with lgb.train(..., init_model=...)",
}
#: Kinds that the set-up code makes again just as well: mentioned only if the loop made them.
LATE_REASONS: dict[Kind, str] = {
    EXECUTOR: "an executor cannot be saved: make it before the loop",
    EVENT_LOOP: "an event loop cannot be saved: make it before the loop",
}


class Opaque(Kind):
    """A picklable object implemented in another language: compared by its pickle, replaced if it changed."""


OPAQUE = Opaque()
BYTE_ARRAY, FUNCTION, CELL, CLASS = kinds.ByteArray(), kinds.Function(), kinds.Cell(), kinds.Class()
NAMESPACE, MEMORY_VIEW, VARIABLE = standard.Namespace(), standard.MemoryView(), standard.Variable()
TENSOR, SCRIPT = torch_kinds.Tensor(), torch_kinds.Script()
ARRAY, NUMPY_GENERATOR = kinds.Array(), kinds.NumpyGenerator()
PYTHON_RANDOM = kinds.Generator(lambda g: g.getstate(), lambda g, s: g.setstate(s))
NUMPY_RANDOM = kinds.Generator(lambda g: g.get_state(legacy=False), lambda g, s: g.set_state(s))


def _bits(generator: Any) -> tuple[Any, int]:
    return generator.state, getattr(generator.seed_seq, "n_children_spawned", 0)


def _put_bits(generator: Any, saved: Any) -> None:
    # Checkpoints of earlier versions contain only the state.
    generator.state, spawned = saved if isinstance(saved, tuple) else (saved, 0)
    if spawned:
        _put_spawned(generator.seed_seq, spawned)


def _put_spawned(sequence: Any, spawned: int) -> None:
    # Children differ by their number, which only spawning increases. A generator and a name may share a sequence.
    if spawned > sequence.n_children_spawned:
        sequence.spawn(spawned - sequence.n_children_spawned)


BIT_GENERATOR = kinds.Generator(_bits, _put_bits)
SEED_SEQUENCE = kinds.Generator(lambda s: s.n_children_spawned, _put_spawned)


def set_torch_state(generator: Any, state: bytes) -> None:
    """Restore the state of a torch generator."""
    generator.set_state(torch_kinds.random_state(state))


TORCH_GENERATOR = kinds.Generator(lambda g: g.get_state().numpy().tobytes(), set_torch_state)


#: Modules of loaders, samplers and data sets whose ``state_dict`` is a place inside a pass. Loaded between two passes,
#: it shortens the next one or changes its order, and asking a loader for it may start workers. Accelerate's loader has
#: one around a StatefulDataLoader only, and raises AttributeError otherwise. So their attributes are saved instead.
POSITIONS = (
    "accelerate.data_loader",
    "torchdata.stateful_dataloader.stateful_dataloader",
    "torchdata.stateful_dataloader.sampler",
    "datasets.iterable_dataset",
)


class Classifier:
    """Decides how an object is inspected, and caches it by class. ``main`` is the namespace of the training code."""

    def __init__(self, main: Mapping[str, Any], modules: Collection[str] = ()) -> None:
        """modules: the experiment's own modules, whose classes and functions may hold state as the cell's do."""
        self.main = main
        self.modules = frozenset(modules)
        self.storages = torch_kinds.Storage()
        self._by_class: dict[type, How | None] = {
            **INLINE,
            types.CellType: CELL,
            bytearray: BYTE_ARRAY,
            memoryview: MEMORY_VIEW if looks_into() else OPAQUE,
            types.GeneratorType: GENERATOR,
            types.CoroutineType: GENERATOR,
            types.AsyncGeneratorType: GENERATOR,
            random.Random: PYTHON_RANDOM,
            types.FunctionType: None,
            iterators.Indices: iterators.INDICES,
            caches.CACHE_TYPE: caches.CACHE,
            **dict.fromkeys(memory_files.TYPES, memory_files.MEMORY_FILE if looks_into() else FILE),
            **(dict.fromkeys(weakref.ProxyTypes, inline_proxy) if counts_bound() else {}),
            **(dict.fromkeys(remade.VIEWS, inline_view) if counts_wrapped() else {}),
        }
        self._iterators: dict[type, Kind] = {}

    def how(self, obj: Any) -> How:
        """The kind of ``obj``, or the function that returns its token if its identity does not matter."""
        cls = type(obj)
        how = self._by_class.get(cls)
        if how is not None:
            return self._of_object(obj, how)
        if isinstance(obj, type):
            return CLASS if obj.__module__ == "__main__" or obj.__module__ in self.modules else inline_global
        if cls is types.FunctionType:
            own = obj.__globals__ is self.main or obj.__closure__ or "<locals>" in obj.__qualname__
            # Of a module's own functions, only those that hold state: there may be thousands.
            own = own or (
                obj.__module__ in self.modules and bool(obj.__dict__ or obj.__defaults__ or obj.__kwdefaults__)
            )
            if own and str(obj.__module__).startswith(MACHINERY):
                return SILENT
            return FUNCTION if own else inline_function
        how = self._by_class[cls] = self._classify(obj, cls)
        return self._of_object(obj, how)

    def _of_object(self, obj: Any, how: How) -> How:
        """The kind of this one object, if its class alone does not decide."""
        if how is TENSOR and not torch_kinds.is_on_storage(obj):
            return OPAQUE
        if how is kinds.BY_GETSTATE and standard.is_in_training(obj):
            return BOOSTER
        if how is caches.CACHE and not self.is_own(obj.__wrapped__) and not self._is_of_own_class(obj.__wrapped__):
            return inline_global
        if type(obj) is types.ModuleType and looks_into() and _is_by_itself(obj.__name__):
            return NAMESPACE
        if how is FILE and counts_all_names() and databases.in_memory(obj):
            return databases.DATABASE
        if how is GENERATOR and iterators.is_exact(obj):
            return self._iterators.setdefault(type(obj), Instance(type(obj)))
        return how

    def is_own(self, function: Any) -> bool:
        """True for a function of the cell, or of the experiment's modules."""
        is_cells = getattr(function, "__globals__", None) is self.main
        return is_cells or getattr(function, "__module__", None) in self.modules

    def _is_of_own_class(self, obj: Any) -> bool:
        """True for a class of the cell or of the experiment's modules, and for its objects."""
        cls = obj if isinstance(obj, type) else type(obj)
        return counts_wrapped() and (cls.__module__ == "__main__" or cls.__module__ in self.modules)

    def _classify(self, obj: Any, cls: type) -> How:
        for classify in (self._of_library, self._of_python):
            how = classify(obj, cls)
            if how is not None:
                return how
        if _is_plain(obj, cls) or (standard.is_environment(cls) and counts_bound()):
            return Instance(cls)
        if has_state_dict(obj):
            return kinds.BY_STATE_DICT
        # pybind11 and nanobind give an object its state when they make it: asked to set another one, they do nothing.
        is_bound = type(cls).__name__.startswith(("pybind11_", "nb_type")) and counts_bound()
        if "__getstate__" in _defined(cls) and "__setstate__" in _defined(cls) and not is_bound:
            try:
                obj.__getstate__()
            except Exception:
                return OPAQUE
            return kinds.BY_GETSTATE
        return OPAQUE

    def _added(self, cls: type) -> frozenset[str]:
        """The attributes that the training code's own classes, below a library's, mention in their methods."""
        modules = self.modules | {"__main__"}
        own = itertools.takewhile(lambda one: kinds.module_of(one) in modules, cls.__mro__)
        return frozenset().union(*map(standard.mentioned, own)) if counts_bound() else frozenset()

    def _own_part(self, cls: type) -> Kind:
        """The kind of an object of which only what the training code added to its class is state."""
        return standard.Added(names) if (names := self._added(cls)) else SILENT

    def _of_library(self, obj: Any, cls: type) -> How | None:
        torch, numpy = loaded("torch"), loaded("numpy")
        if torch is not None:
            if torch_kinds.is_tensor_class(cls):
                return TENSOR
            if isinstance(obj, torch.UntypedStorage):
                return self.storages
            if isinstance(obj, torch.jit.ScriptModule):
                return SCRIPT if looks_into() else kinds.BY_STATE_DICT
            if isinstance(obj, torch.nn.Module):
                return torch_kinds.Module(cls)
            if isinstance(obj, torch.optim.Optimizer):
                return Instance(cls)
            if isinstance(obj, torch.Generator):
                return TORCH_GENERATOR
            if isinstance(obj, torch.dtype | torch.device | torch.layout | torch.memory_format):
                return inline_value
        if numpy is not None:
            if cls is numpy.ndarray:
                return ARRAY
            if cls is numpy.memmap and counts_maps():
                return maps.MAP
            if isinstance(obj, numpy.generic | numpy.dtype):
                return inline_value
            if isinstance(obj, numpy.ufunc):
                return inline_global
            if isinstance(obj, numpy.random.Generator):
                return NUMPY_GENERATOR
            if isinstance(obj, numpy.random.BitGenerator):
                return BIT_GENERATOR
            if isinstance(obj, numpy.random.RandomState):
                return NUMPY_RANDOM
            if cls is numpy.random.SeedSequence and looks_into():
                return SEED_SEQUENCE
        return None

    def _of_python(self, obj: Any, cls: type) -> How | None:
        module = kinds.module_of(cls)
        if module.startswith(MACHINERY) or (module.startswith(_OPERATORS) and looks_into()):
            return SILENT
        if module.startswith("numba.core.") and hasattr(obj, "py_func") and counts_bound():
            return inline_compiled
        if module.startswith("omegaconf.") and hasattr(obj, "__dict__"):
            return kinds.Cached(cls, _OMEGACONF)
        if module == "accelerate.data_loader":
            return kinds.Cached(cls, _ACCELERATE)
        if module == "accelerate.utils.operations" and counts_maps():  # around a model's `forward`
            return Instance(cls)
        if standard.is_of_keras(obj) and counts_maps():
            return Instance(cls)
        if bars.is_bar(obj):
            return bars.Bar(names) if (names := self._added(cls)) else bars.BAR
        logging = loaded("logging")
        if logging is not None and isinstance(obj, logging.Logger):
            return LOGGER if looks_into() else STATELESS
        if cls in _LOCK_TYPES:
            return EVENT if cls is threading.Event else STATELESS
        if getattr(cls, "workbench_fixed", False) or isinstance(obj, _LOCK_TYPES):
            return SILENT
        if kinds.is_from(obj, SHOWN_ONLY):
            return self._own_part(cls)
        if isinstance(obj, _VALUE_TYPES) or module in _VALUE_MODULES:
            return inline_value
        if isinstance(obj, io.IOBase) or module in ("_socket", "socket", "sqlite3", "select"):
            return FILE
        if isinstance(obj, queue.Queue):
            return standard.Queue(cls)
        if standard.OwnRandom.is_one(cls) and counts_maps():
            return standard.OwnRandom(cls)
        if isinstance(obj, threading.local):
            return standard.Local(cls) if counts_locals() else SILENT  # what the loop's thread sees
        if cls is contextvars.ContextVar and counts_locals():
            return VARIABLE
        if isinstance(obj, threading.Thread):
            return self._own_part(cls)
        executors = loaded("concurrent.futures")
        if executors is not None and isinstance(obj, executors.Executor):
            return EXECUTOR
        if standard.is_event_loop(obj) and leaves_events():
            return EVENT_LOOP
        if isinstance(obj, tuple):
            return inline_tuple
        if cls.__name__ == "partial" and module == "functools":
            return inline_partial
        if module == "functools" or cls is types.WrapperDescriptorType:
            return inline_global
        if isinstance(obj, weakref.ReferenceType):
            return inline_weakref
        if cls in _TYPE_VARIABLES:
            return STATELESS
        if isinstance(obj, Iterator) and not _reduces(obj):
            return GENERATOR
        if _torch_iterator(obj):
            return GENERATOR
        return None


def lost(obj: Any, error: Exception) -> str:
    """What a resumed trial loses of an unpicklable object of the set-up; empty if it has no state."""
    cls = type(obj)
    if issubclass(cls, Iterator):  # not `isinstance`: an object may refuse to tell its class
        return REASONS[GENERATOR]
    module = kinds.module_of(cls)
    if module.partition(".")[0] in _SURROUNDINGS or module.startswith(_SURROUNDINGS_BELOW):
        return ""
    if (module == "builtins" and cls.__name__ in _STATELESS) or written.is_writer(obj):
        return ""
    return f"a {cls.__name__} cannot be pickled ({error}): after a resume it is as the set-up code makes it"


def has_state_dict(obj: Any) -> bool:
    """True for an object (not a class) that can return its state and load it.

    By its class: an object that passes unknown names on to a part of it would give that part's state as its own.
    """
    cls = type(obj)
    return (
        not isinstance(obj, type)
        and callable(getattr(cls, "state_dict", None))
        and callable(getattr(cls, "load_state_dict", None))
        and not any(kinds.module_of(base) in POSITIONS for base in cls.__mro__)
    )


@functools.cache
def _is_by_itself(name: str) -> bool:
    """Whether a module of this name was made by code, or read from a file by its path: no import finds one."""
    top = name.partition(".")[0]
    return top not in sys.modules and importlib.machinery.PathFinder.find_spec(top) is None


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
    for base in (
        object,
        types.SimpleNamespace,
        collections.OrderedDict,
        collections.defaultdict,
        collections.Counter,
        set,
        collections.deque,
    )
}


def _is_plain(obj: Any, cls: type) -> bool:
    """True if its state is only attributes, slots and items: none in C, and no class that hides or computes it."""
    reduce_ex: Any = cls.__reduce_ex__
    reduce: Any = cls.__reduce__
    computes = reduce_ex is not object.__reduce_ex__ or reduce not in _PLAIN_REDUCE
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
