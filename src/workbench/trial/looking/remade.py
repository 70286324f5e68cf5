"""Functions that graphs call to make objects again. Law: each keeps its name and place, since checkpoints refer to it.

Older ones are in :mod:`workbench.trial.graph`.
"""

from __future__ import annotations

import collections
import contextlib
import contextvars
import copyreg
import gc
import importlib
import itertools
import operator
import queue
import random
import sys
import threading
import types
import weakref
from typing import Any

from workbench.snapshot.imported import loaded
from workbench.trial import kinds, torch_kinds
from workbench.trial.looking import standard

_CONTAINERS = (list, dict, set, collections.deque, collections.OrderedDict)
#: Those that a pickle makes by a call with their items.
_CALLED = (set, collections.deque, collections.OrderedDict)
_USUAL = {object.__reduce__, *(one.__reduce__ for one in _CALLED)}
#: Exceptions with more than their arguments.
_WITH_FIELDS = (
    *(AttributeError, BaseExceptionGroup, ImportError, NameError, OSError, StopAsyncIteration, StopIteration),
    *(SyntaxError, SystemExit, UnicodeError),
)  # fmt: skip
#: Methods of a container that a pickle calls, when it is written or read.
_USED = frozenset(
    ["__getitem__", "__iter__", "__setitem__", "add", "append", "extend", "items", "keys", "update", "values"]
)
#: The generator whose methods are the functions of ``random``.
_PYTHONS: random.Random = random._inst
LIST_ITERATOR: type = type(iter([]))
#: By the class of a view: whose method makes it, and its name.
VIEWS: dict[type, tuple[type, str]] = {
    type(getattr(one, name)(one())): (one, name)
    for one in (dict, collections.OrderedDict)
    for name in ("keys", "values", "items")
}
LOCKS = (type(threading.Lock()), type(threading.RLock()))
#: Of these, one thread waits for what another one does.
WAITED = (threading.Condition, threading.Event, threading.Semaphore, threading.BoundedSemaphore)
#: Why one of them is not saved beside threads: a resumed trial would wait for ever.
OF_THREADS = "other threads use it, and threads cannot be saved"


def is_waited_for(obj: Any) -> bool:
    """Whether threads may wait for what other threads do with ``obj``."""
    return type(obj) in WAITED or isinstance(obj, queue.Queue)


def is_thread(obj: Any) -> bool:
    """Whether ``obj`` is a thread, or an executor with threads or processes."""
    return isinstance(obj, threading.Thread) or callable(getattr(type(obj), "submit", None))


def is_started(loader: Any, iterator: Any) -> bool:
    """Whether ``loader`` keeps ``iterator`` and its workers for all passes."""
    return getattr(loader, "_iterator", None) is iterator and bool(getattr(loader, "persistent_workers", False))


def is_pending(obj: Any) -> bool:
    """Whether ``obj`` is the result of a call that another thread or process has not finished."""
    futures = sys.modules.get("concurrent.futures")
    return futures is not None and isinstance(obj, futures.Future) and not obj.done()


def reduced(obj: Any) -> Any:
    """How a pickle makes a lock, or what is built on one, again: free, and waited for by no thread. None for others."""
    cls: Any = type(obj)
    if cls in LOCKS:
        return (threading.Lock if cls is LOCKS[0] else threading.RLock), ()
    if issubclass(cls, threading.local):
        return copyreg.__newobj__, (cls,), dict(vars(obj))  # type: ignore[attr-defined]
    if cls is contextvars.ContextVar:
        return variable, (obj.name, _default_of(obj), standard.values_of(obj))
    if cls is threading.Condition:
        return cls, (obj._lock,)
    if cls is threading.Event:
        return event, (obj.is_set(),)
    return (cls, (obj._value,)) if cls in WAITED else None


def find_module_of(cls: Any) -> None:
    """Import the module that a library's class names as its own. Otherwise a pickle has a copy of the class, which is
    another one: NumPy imports ``numpy.rec`` only when it is asked for, but not when ``numpy.recarray`` is."""
    name = kinds.module_of(cls)
    if name not in sys.modules and name.partition(".")[0] in sys.modules:
        with contextlib.suppress(Exception):
            importlib.import_module(name)


def array_type(cls: Any) -> Any:
    """How a pickle makes the class of an array of ``ctypes`` again, which no import finds. None for others."""
    ctypes = loaded("ctypes")
    if ctypes is None or not issubclass(cls, ctypes.Array) or cls is ctypes.Array:
        return None
    # The same class each time, unless it is a subclass.
    return (operator.mul, (cls._type_, cls._length_)) if cls._type_ * cls._length_ is cls else None


def in_full(obj: Any) -> Any:
    """How a pickle makes an object again whose own way leaves something out, or wants arguments. None for others.

    Torch pickles an optimizer without its hooks and its class's own attributes; Python calls ``__new__`` with the class
    alone.
    """
    cls: Any = type(obj)
    if cls in VIEWS:
        return view_in, (dictionary_of(obj), *VIEWS[cls])
    if cls is memoryview and _shows_all(obj):
        return view_of, (obj.obj, obj.readonly, obj.format, obj.shape)
    if (bound := _bound(obj, cls)) is not None:
        return bound
    if (shared := _name_of_shared(obj)) is not None:
        return shared_generator, shared
    torch = loaded("torch")
    # An optimizer whose class does not pickle in a way of its own.
    if torch is not None and getattr(cls, "__getstate__", None) is torch.optim.Optimizer.__getstate__:
        return instance_of, (cls,), dict(obj.__dict__)
    if torch is not None and cls is torch._C.Generator:
        return torch_generator, (str(obj.device), obj.get_state().numpy().tobytes())
    if cls is LIST_ITERATOR:
        _, (holder, *_), *index = obj.__reduce__()
        return (list_iterator, (holder, *index)) if index else None
    if issubclass(cls, BaseException):
        is_usual = cls.__reduce_ex__ is object.__reduce_ex__ and cls.__reduce__ is BaseException.__reduce__
        is_own = is_usual and type(cls.__init__) is types.FunctionType and not issubclass(cls, _WITH_FIELDS)
        return (cls.__new__, (cls, *obj.args), dict(vars(obj))) if is_own else None
    if standard.is_of_keras(obj) or standard.is_environment(cls):
        return instance_of, (cls,), dict(kinds.Instance.own(obj)), None, None, give
    if standard.OwnRandom.is_one(cls):
        return instance_of, (cls,), standard.OwnRandom(cls).content(obj, _nothing_left), None, None, put_random
    if isinstance(obj, type) or not pickles_plainly(cls):
        return None
    if issubclass(cls, _CONTAINERS) and _overrides(cls):
        size = (obj.maxlen,) if issubclass(cls, collections.deque) else ()
        content = kinds.Instance(cls).content(obj, _nothing_left)
        return instance_of, (cls, *size), content, None, None, put
    wants_more = type(cls.__new__) is types.FunctionType and _wants_more(cls.__new__)
    passes_on = hasattr(cls, "__getattr__")
    if not (wants_more or passes_on):
        return None
    making, (_, *arguments), state, *items = obj.__reduce_ex__(4)
    if wants_more:
        return None if arguments else (instance_of, (cls,), state, *items)
    return making, (cls, *arguments), state, *items, give


def _bound(obj: Any, cls: Any) -> Any:
    """How a pickle makes a method in C again, bound to its object, or what refers weakly. None for others."""
    if cls is types.MethodWrapperType:
        return getattr, (obj.__self__, obj.__name__)
    if cls is weakref.KeyedRef:
        return keyed_reference, (obj(), obj.__callback__, obj.key)
    return (proxy_of, (target_of(obj),)) if cls in weakref.ProxyTypes else None


def target_of(proxy: Any) -> Any:
    """The object for which a weak proxy stands; None if it is gone."""
    try:
        return proxy.__reduce_ex__.__self__  # a proxy passes on whatever it is asked for
    except ReferenceError:
        return None


def _name_of_shared(obj: Any) -> tuple[str, int] | None:
    """The library and the number of a random generator that all code shares; None for other objects."""
    if obj is _PYTHONS:
        return "random", 0
    numpy, torch = loaded("numpy.random"), loaded("torch")
    if numpy is not None and isinstance(obj, numpy.RandomState | numpy.BitGenerator):
        own = numpy.mtrand._rand
        return ("numpy", 0) if obj is own else ("numpy", 1) if obj is own._bit_generator else None
    if torch is None or not isinstance(obj, torch._C.Generator):
        return None
    on_gpus = enumerate(torch.cuda.default_generators)  # none before CUDA is initialised
    return (
        ("torch", 0)
        if obj is torch.default_generator
        else next((("cuda", n) for n, one in on_gpus if one is obj), None)
    )


def _shows_all(view: memoryview) -> bool:
    """Whether a view shows an object that can change, from its first byte to its last one."""
    return view.c_contiguous and type(view.obj) is bytearray and view.nbytes == len(view.obj)


def _wants_more(function: types.FunctionType) -> bool:
    """Whether a function cannot be called with one argument."""
    code, defaults, named = function.__code__, function.__defaults__ or (), function.__kwdefaults__ or {}
    return code.co_argcount - len(defaults) > 1 or code.co_kwonlyargcount > len(named)


def _overrides(cls: type) -> bool:
    """Whether a class adds, removes or iterates in its own way: pickles use these methods."""
    own = [vars(one) for one in itertools.takewhile(lambda one: one not in _CONTAINERS, cls.__mro__)]
    used = {*_USED, "__init__"} if issubclass(cls, _CALLED) else _USED
    return any(type(one.get(name)) is types.FunctionType for one in own for name in used)


def pickles_plainly(cls: Any) -> bool:
    """Whether Python makes a pickle of its objects by ``object``'s own means."""
    is_own = (
        cls.__reduce_ex__ is not object.__reduce_ex__ or cls.__reduce__ not in _USUAL or cls in copyreg.dispatch_table
    )
    has_state = cls.__getstate__ is not object.__getstate__ or hasattr(cls, "__setstate__")
    return not (is_own or has_state or hasattr(cls, "__getnewargs__") or hasattr(cls, "__getnewargs_ex__"))


def _nothing_left(_: Any) -> bool:
    """Of a new object, what cannot be saved is there and says so when it is used."""
    return False


def instance_of(cls: type, *size: int | None) -> Any:
    """An instance, made as the first of its classes that Python itself implements makes it. size: of a deque."""
    base = next(one for one in cls.__mro__ if type(one.__dict__.get("__new__")) is types.BuiltinFunctionType)
    made: Any = base.__new__(cls)  # type: ignore[call-overload]
    if size:
        collections.deque.__init__(made, (), *size)
    return made


def view_of(obj: bytearray, readonly: bool, form: str, shape: tuple[int, ...]) -> memoryview:
    """A view of all bytes of ``obj``."""
    made = memoryview(obj).toreadonly() if readonly else memoryview(obj)
    # typeshed wants the format as a literal, and this one is a memoryview's own.
    return made.cast("B").cast(form, shape) if made.nbytes else made  # type: ignore[call-overload]


def shared_generator(library: str, number: int) -> Any:
    """A random generator that all code shares: training code that holds it draws from it, and others see that.

    Its state is saved and restored by :mod:`workbench.trial.generators.seeds`.
    """
    if library == "random":
        return _PYTHONS
    if library == "numpy":
        own = importlib.import_module("numpy.random").mtrand._rand
        return own._bit_generator if number else own
    torch = importlib.import_module("torch")
    if library == "cuda" and torch.cuda.is_available():
        torch.cuda.init()
        if number < len(torch.cuda.default_generators):
            return torch.cuda.default_generators[number]
    return torch.default_generator  # a trained trial may be loaded on a machine without that GPU


def torch_generator(device: str, state: bytes) -> Any:
    """A generator of torch's own class. In a trial ``torch.Generator`` is a class that also gives it a seed."""
    made = importlib.import_module("torch")._C.Generator(device=device)
    made.set_state(torch_kinds.random_state(state))
    return made


def give(obj: Any, state: Any) -> None:
    """Give a new object its attributes as a pickle does, but ask it for none: it may look for them in one of them."""
    fields, slots = state if isinstance(state, tuple) else (state, None)
    kinds.Instance.own(obj).update(fields or {})
    for name, value in (slots or {}).items():
        object.__setattr__(obj, name, value)


def dictionary_of(view: Any) -> Any:
    """The dictionary of a view; its ``mapping`` would be another view of it."""
    return gc.get_referents(view)[0]


def view_in(held: Any, cls: type, name: str) -> Any:
    """The view of the dictionary ``held`` that the method of this name returns: of ``dict``, or of a class below it."""
    return getattr(cls, name)(held)


def share(obj: Any, state: Any) -> None:
    """Have the attributes of ``obj`` lie in this very dictionary. state: it, and the values of slots."""
    names, slots = state
    object.__setattr__(obj, "__dict__", names)
    give(obj, (None, slots))


def put(obj: Any, content: Any) -> None:
    """Give a new container its content."""
    kinds.Instance(type(obj)).put(obj, content)


def put_random(obj: Any, content: Any) -> None:
    """Give a new random generator of an own class its attributes and its state."""
    standard.OwnRandom(type(obj)).put(obj, content)


def list_iterator(holder: list[Any], index: int) -> Any:
    """An iterator over a list, at ``index``. The list may have grown since the set-up, and get its items later."""
    count = len(holder)
    holder.extend([None] * (index - count))
    made = iter(holder)
    made.__setstate__(index)  # type: ignore[attr-defined]
    del holder[count:]
    return made


def variable(name: str, default: list[Any], values: list[Any]) -> contextvars.ContextVar[Any]:
    """A context variable with a default, or none, and a value, or none."""
    made: contextvars.ContextVar[Any] = contextvars.ContextVar(name, **({"default": default[0]} if default else {}))
    for value in values:
        made.set(value)
    return made


def _default_of(one: contextvars.ContextVar[Any]) -> list[Any]:
    try:
        return [contextvars.Context().run(one.get)]
    except LookupError:
        return []


def weak_reference(target: Any, callback: Any) -> weakref.ref[Any]:
    """A weak reference that calls ``callback`` when its target is gone."""
    return weakref.ref(_or_gone(target), callback)


def keyed_reference(target: Any, callback: Any, key: Any) -> weakref.ref[Any]:
    """An entry of a dictionary of weak values."""
    return weakref.KeyedRef(_or_gone(target), callback, key)


def proxy_of(target: Any) -> Any:
    """A weak proxy."""
    return weakref.proxy(_or_gone(target))


def _or_gone(target: Any) -> Any:
    """The target, or one that is gone when this returns."""
    return kinds.LeftOut("its target was gone") if target is None else target


def event(is_set: bool) -> threading.Event:
    """An event that is set, or not."""
    made = threading.Event()
    if is_set:
        made.set()
    return made


def is_of_module(function: types.FunctionType) -> bool:
    """Whether a module's function made this one. It is made again there, with the variables that it closes over."""
    # By its globals and its code: a decorator gives its function the name and the module of another one.
    module = sys.modules.get(function.__globals__.get("__name__", ""))
    is_made = "<locals>" in function.__code__.co_qualname and module is not None
    return is_made and vars(module) is function.__globals__ and not is_importable(function)


def is_importable(function: types.FunctionType) -> bool:
    """Whether a module has the function by its name, as one that was decorated there."""
    if function.__module__ == "__main__" or "<" in function.__qualname__:
        return False  # names are not looked up in vain: some modules import what they are asked for
    found: Any = sys.modules.get(function.__module__)
    for name in function.__qualname__.split("."):
        found = getattr(found, name, None)
    return found is function


def function_of(
    module: str, code: types.CodeType, name: str, cells: tuple[types.CellType, ...] | None
) -> types.FunctionType:
    """A function with the globals of ``module``."""
    return types.FunctionType(code, vars(importlib.import_module(module)), name, None, cells)
