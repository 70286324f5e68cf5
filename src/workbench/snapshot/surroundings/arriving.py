"""Calls a function with a module as soon as that is imported. Law: imports behave as without it."""

from __future__ import annotations

import contextlib
import importlib.machinery
import sys
import types
from collections.abc import Callable
from typing import Any

_Do = Callable[[types.ModuleType], None]
_waiting: dict[str, list[_Do]] = {}


def when_imported(name: str, do: _Do) -> None:
    """Call ``do`` with the module ``name``: now, if it is imported already, and each time that it is executed."""
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Finder())
    _waiting.setdefault(name, []).append(do)
    module = sys.modules.get(name)
    if module is not None:
        do(module)


class _Finder:
    """Delegates to the other finders, and tells of a module once it has been executed."""

    def __init__(self) -> None:
        #: Modules being looked up. Another finder may do the same, and so call this one again.
        self._asking: set[str] = set()

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> importlib.machinery.ModuleSpec | None:
        """Called by Python's import for every module; nearly none of them is waited for."""
        if name not in _waiting or name in self._asking:
            return None
        self._asking.add(name)
        try:
            spec = self._found(name, path, target)
        finally:
            self._asking.discard(name)
        if spec is not None and hasattr(spec.loader, "exec_module"):
            _tell_after(spec)
        return spec

    def _found(self, name: str, path: Any, target: Any) -> importlib.machinery.ModuleSpec | None:
        for finder in sys.meta_path:
            find = None if finder is self else getattr(finder, "find_spec", None)
            spec: importlib.machinery.ModuleSpec | None = find(name, path, target) if find is not None else None
            if spec is not None:
                return spec
        return None


def _tell_after(spec: importlib.machinery.ModuleSpec) -> None:
    loader: Any = spec.loader
    run = loader.exec_module

    def exec_module(module: types.ModuleType) -> None:
        run(module)
        for do in _waiting[module.__name__]:
            do(module)

    with contextlib.suppress(AttributeError):  # a loader without a dictionary
        loader.exec_module = exec_module
