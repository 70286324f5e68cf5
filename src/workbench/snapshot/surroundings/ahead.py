"""Which packages, of those imported in advance, training really uses. Law: imports work as without this module.

Before training code runs, each import shows which package imports which (:meth:`Ahead.noted`). Later, each time an
already loaded module is imported, Python asks its spec whether it is still being initialised. So the specs of modules
imported in advance report their first import by training, without an extra stack frame.
"""

from __future__ import annotations

import builtins
import contextlib
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from importlib.machinery import ModuleSpec
from types import FrameType, ModuleType
from typing import Any

#: What is around each import.
_AROUND = "workbench.trial.generators.seeds"
#: Packages that were imported in advance and that training has imported since.
_imported: dict[str, None] = {}


class _Watched(ModuleSpec):
    """The spec of a module that was imported in advance. It reports once."""

    @property
    def _initializing(self) -> bool:
        self.__class__ = ModuleSpec  # type: ignore[assignment]
        _imported[top_of(self.name)] = None
        return False

    @_initializing.setter
    def _initializing(self, value: bool) -> None:
        """Python says that it loads the module again."""


class _Finder:
    """Is called for each module that is imported, and finds none."""

    def __init__(self, note: Callable[[str], None]) -> None:
        self._note = note

    def find_spec(self, name: str, path: object = None, target: object = None) -> None:
        """Python's question where ``name`` is."""
        self._note(name)


class Ahead:
    """Packages that are imported in advance of training."""

    def __init__(self) -> None:
        #: For each package, those that it imports.
        self._imports: dict[str, dict[str, None]] = {}
        #: For each package, the variables that its code looks up while it is imported.
        self.variables: dict[str, list[str]] = {}
        self.is_open = False

    @contextlib.contextmanager
    def noted(self) -> Iterator[None]:
        """Record which package imports which, and afterwards which of them training imports."""
        before, original = set(sys.modules), builtins.__import__

        def noting(
            name: str,
            globals: Mapping[str, Any] | None = None,  # noqa: A002 - as Python names them
            locals: Mapping[str, Any] | None = None,  # noqa: A002
            fromlist: Sequence[str] | None = (),
            level: int = 0,
        ) -> ModuleType:
            if not level:
                self._note(name)
            return original(name, globals, locals, fromlist or (), level)

        # The first sees imports of loaded modules, the second all modules that are being loaded.
        finder = _Finder(self._note)
        builtins.__import__ = noting
        sys.meta_path.insert(0, finder)
        self.is_open = True
        try:
            yield
        finally:
            builtins.__import__ = original
            sys.meta_path.remove(finder)
            self.is_open = False
            self._watch(set(sys.modules) - before)

    def _note(self, name: str) -> None:
        self._imports.setdefault(_importer(), {})[top_of(name)] = None

    def wanted(self, packages: Iterable[str]) -> list[str]:
        """``packages``, those imported in advance that training has imported too, and everything that these import."""
        waiting, found = [*packages, *_imported], dict.fromkeys(packages)
        looked_at: set[str] = set()
        while waiting:
            package = waiting.pop()
            if package in looked_at:
                continue
            looked_at.add(package)
            if package == "workbench":
                continue
            if package in sys.modules and package not in sys.stdlib_module_names and package != "__mp_main__":
                found[package] = None
            waiting += self._imports.get(package, ())
        return [*found]

    @staticmethod
    def _watch(names: Iterable[str]) -> None:
        for name in names:
            module = sys.modules.get(name)
            spec = getattr(module, "__spec__", None)
            if top_of(name) in sys.stdlib_module_names:
                continue
            if type(spec) is ModuleSpec:
                spec.__class__ = _Watched
            elif name == top_of(name) and getattr(module, "__file__", None):
                _imported[name] = None  # it is not known, so count it


def _importer() -> str:
    """The package whose code is importing something now, also through Python's own modules."""
    frame: FrameType | None = sys._getframe(3)
    while frame is not None:
        name = str(frame.f_globals.get("__name__", ""))
        package = top_of(name)
        if package and package not in sys.stdlib_module_names and name != _AROUND:
            return package
        frame = frame.f_back
    return ""


def top_of(name: str) -> str:
    """The package (or module) at the top of a name."""
    return name.partition(".")[0]
