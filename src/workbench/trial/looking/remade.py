"""Functions that graphs call to make objects again. Law: each keeps its name and place, since checkpoints refer to it.

Older ones are in :mod:`workbench.trial.graph`.
"""

from __future__ import annotations

import importlib
import queue
import sys
import threading
import types
from typing import Any

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
    if cls is threading.Condition:
        return cls, (obj._lock,)
    if cls is threading.Event:
        return event, (obj.is_set(),)
    return (cls, (obj._value,)) if cls in WAITED else None


def event(is_set: bool) -> threading.Event:
    """An event that is set, or not."""
    made = threading.Event()
    if is_set:
        made.set()
    return made


def is_of_module(function: types.FunctionType) -> bool:
    """Whether a module's function made this one. It is made again there, with the variables that it closes over."""
    # By its globals: a decorator gives its function the name and the module of another one.
    module = sys.modules.get(function.__globals__.get("__name__", ""))
    return "<locals>" in function.__qualname__ and module is not None and vars(module) is function.__globals__


def function_of(
    module: str, code: types.CodeType, name: str, cells: tuple[types.CellType, ...] | None
) -> types.FunctionType:
    """A function with the globals of ``module``."""
    return types.FunctionType(code, vars(importlib.import_module(module)), name, None, cells)
