"""Kinds of objects of Python's own library that are more than their attributes. Law: content goes into the object
that the set-up made, as in :mod:`workbench.trial.kinds`.
"""

from __future__ import annotations

import contextvars
import itertools
import pickle
import random
import threading
import types
from typing import Any

from workbench.snapshot.imported import loaded
from workbench.trial.kinds import Fixed, Instance, IsLeft, Kind, See, Stateless, Token, module_of
from workbench.trial.looking.digests import digest
from workbench.trial.looking.names import of_training


def is_of_keras(obj: Any) -> bool:
    """Whether an object is an optimizer, a loss, a metric or the like of Keras. Its pickle is a file in Keras's format,
    which lacks a part of its state and has the time of day."""
    module = loaded("keras.src.saving.keras_saveable")
    return module is not None and isinstance(obj, module.KerasSaveable)


def is_environment(cls: type) -> bool:
    """Whether objects of a class pickle as the arguments with which they were made, as environments of Gym do
    (``EzPickle``): a pickle lacks where they stand, and their random generators."""
    return any(base.__name__ == "EzPickle" for base in cls.__mro__)


def is_event_loop(obj: Any) -> bool:
    """Whether an object runs tasks of asyncio: its sockets, and the tasks that wait in it, belong to its process."""
    asyncio = loaded("asyncio")
    return asyncio is not None and isinstance(obj, asyncio.AbstractEventLoop | asyncio.Runner)


class OwnRandom(Instance):
    """A generator of a class of one's own, below ``random.Random``, whose own state leaves out its attributes."""

    @staticmethod
    def is_one(kind: type) -> bool:
        """Whether the class has attributes besides the state of Python's generator, and that one's ``getstate``."""
        usual = random.Random
        return (
            issubclass(kind, usual)
            and kind is not usual
            and all(getattr(kind, name) is getattr(usual, name) for name in ("getstate", "setstate", "__reduce__"))
            and all(getattr(kind, name) is getattr(usual, name) for name in ("__getstate__", "__setstate__"))
        )

    def look(self, obj: Any, see: See) -> Token:
        return [super().look(obj, see), digest(pickle.dumps(obj.getstate(), 4))]

    def content(self, obj: Any, left: IsLeft) -> Any:
        return {**super().content(obj, left), "state": obj.getstate()}

    def put(self, obj: Any, content: Any) -> None:
        super().put(obj, content)
        obj.setstate(content["state"])


class Added(Fixed):
    """An object that shows something, or a thread: a new one does as well, but for what a class of the training code
    adds to it (the records of a handler, the sum of a bar). ``names``: its attributes that are state."""

    def __init__(self, names: frozenset[str]) -> None:
        self._names = names

    def look(self, obj: Any, see: See) -> Token:
        return [(name, see(value, f".{name}")) for name, value in self._added(obj).items()]

    def content(self, obj: Any, left: IsLeft) -> Any:
        return {name: value for name, value in self._added(obj).items() if not left(value)}

    def put(self, obj: Any, content: Any) -> None:
        vars(obj).update(content)

    def _added(self, obj: Any) -> dict[str, Any]:
        if isinstance(obj, threading.Thread) and obj.is_alive():  # it goes on beside the loop, and is named as lost
            return {}
        return {name: value for name, value in Instance.own(obj).items() if name in self._names}


def mentioned(cls: type) -> set[str]:
    """The names of attributes in the methods of a class."""
    wrapped = ("__func__", "fget", "fset", "fdel", "func")  # of static and class methods, and of properties
    values = [[value, *(getattr(value, name, None) for name in wrapped)] for value in vars(cls).values()]
    codes = [one.__code__ for one in itertools.chain(*values) if isinstance(one, types.FunctionType)]
    for code in codes:
        codes += [constant for constant in code.co_consts if isinstance(constant, types.CodeType)]
    return {name for code in codes for name in code.co_names}


class Queue(Instance):
    """A ``queue.Queue``: its items. Threads that wait on it are notified; items taken but not done are forgotten."""

    #: Contents and count are restored last, and under its lock: a thread may wait for an item, or take one meanwhile.
    _COUNTED = ("queue", "unfinished_tasks")

    def __init__(self, cls: type) -> None:
        super().__init__(cls)
        # What threads of the set-up have taken is counted before the items are restored by another way to them.
        self.order = 0

    def look(self, obj: Any, see: See) -> Token:
        tokens: list[Token] = [self.name, see(type(obj), ".__class__")]
        tokens += [see(item, f".queue[{number}]") for number, item in enumerate(list(obj.queue))]
        for name, value in self.attributes(obj).items():
            if name not in self._COUNTED:
                tokens += [name, see(value, f".{name}")]
        return tokens

    def content(self, obj: Any, left: IsLeft) -> Any:
        content = super().content(obj, left)
        for name in self._COUNTED:
            content["attributes"].pop(name, None)
            content["kept attributes"].append(name)
        content["items"] = list(obj.queue)
        return content

    def put(self, obj: Any, content: Any) -> None:
        with obj.mutex:
            super().put(obj, content)
            obj.unfinished_tasks -= len(obj.queue)
            obj.queue.clear()

    def wake(self, obj: Any, content: Any) -> None:
        with obj.mutex:
            obj.queue.clear()
            obj.queue.extend(content["items"])
            obj.unfinished_tasks += len(obj.queue)
            obj.not_empty.notify_all()
            obj.not_full.notify_all()


class MemoryView(Kind):
    """A ``memoryview``: the object whose bytes it shows, which are that one's content."""

    def look(self, obj: Any, see: See) -> Token:
        return (obj.format, obj.shape, obj.strides, obj.readonly, see(obj.obj, ".obj"))

    def content(self, obj: Any, left: IsLeft) -> Any:
        return None

    def put(self, obj: Any, content: Any) -> None:
        """Does nothing: it shows the same object."""


class Event(Stateless):
    """A ``threading.Event``: whether it is set."""

    def look(self, obj: Any, see: See) -> Token:
        return obj.is_set()

    def content(self, obj: Any, left: IsLeft) -> Any:
        return obj.is_set()

    def put(self, obj: Any, content: Any) -> None:
        """Does nothing: threads may wait for it."""

    def wake(self, obj: Any, content: Any) -> None:
        (obj.set if content else obj.clear)()


class Logger(Stateless):
    """A logger: its level, and whether it is disabled."""

    def look(self, obj: Any, see: See) -> Token:
        return obj.level, obj.disabled

    def content(self, obj: Any, left: IsLeft) -> Any:
        return obj.level, obj.disabled

    def put(self, obj: Any, content: Any) -> None:
        if content is not None:  # checkpoints of earlier versions have none
            level, obj.disabled = content
            obj.setLevel(level)


class Local(Instance):
    """A ``threading.local``: the attributes that the loop's thread sees."""

    @staticmethod
    def own(obj: Any) -> dict[str, Any]:
        own: dict[str, Any] = vars(obj)
        return own


class Variable(Kind):
    """A ``contextvars.ContextVar``: its value in the context of the loop. That the loop took it away is not saved."""

    def look(self, obj: Any, see: See) -> Token:
        return [see(value, ".get()") for value in values_of(obj)]

    def content(self, obj: Any, left: IsLeft) -> Any:
        return [value for value in values_of(obj) if not left(value)]

    def put(self, obj: Any, content: Any) -> None:
        for value in content:
            obj.set(value)


def values_of(variable: Any) -> list[Any]:
    """The value in the context of the loop, if one was set."""
    context = contextvars.copy_context()
    return [context[variable]] if variable in context else []


class Namespace(Kind):
    """A module that cannot be imported by its name, because code made it or read it from a file: its names."""

    def look(self, obj: Any, see: See) -> Token:
        return [(name, see(value, f".{name}")) for name, value in self._own(obj).items()]

    def content(self, obj: Any, left: IsLeft) -> Any:
        own = self._own(obj)
        kept = [name for name, value in own.items() if left(value) or self._is_code(value, obj)]
        return {name: value for name, value in own.items() if name not in kept}, kept

    def put(self, obj: Any, content: Any) -> None:
        new, kept = content
        for name in [name for name in self._own(obj) if name not in new and name not in kept]:
            del vars(obj)[name]
        vars(obj).update(new)

    @staticmethod
    def _is_code(value: Any, module: Any) -> bool:
        """Whether it is a function or a class of the module, which the set-up makes again."""
        if type(value) is types.FunctionType:
            return value.__globals__ is vars(module)
        return isinstance(value, type) and value.__module__ == module.__name__

    @staticmethod
    def _own(obj: Any) -> dict[str, Any]:
        return of_training(vars(obj))


def is_in_training(obj: Any) -> bool:
    """Whether ``obj`` is a Booster of LightGBM that goes on with ``update``. Its pickle has no training data, without
    which ``update`` crashes."""
    cls = type(obj)
    is_booster = module_of(cls) == "lightgbm.basic" and cls.__name__ == "Booster"
    return is_booster and Instance.own(obj).get("train_set") is not None
