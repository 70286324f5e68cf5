"""Which of the packages that are imported ahead training really uses. Law: an import goes on as if it were not there.

Before training code comes, each import tells which package wants which (:meth:`Ahead.noted`). Later, Python asks the
spec of a module that is there already whether it is still being initialised, each time it is imported: so the specs of
what was imported ahead tell of their first import, and no frame of ours lies between it and the code.
"""

from __future__ import annotations

import builtins
import contextlib
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from importlib.machinery import ModuleSpec
from types import FrameType, ModuleType
from typing import Any

#: Packages that were imported ahead, and that training has imported since.
_imported: dict[str, None] = {}


class _Watched(ModuleSpec):
    """The spec of a module that was imported ahead. It tells once."""

    @property
    def _initializing(self) -> bool:
        self.__class__ = ModuleSpec  # type: ignore[assignment]
        _imported[top_of(self.name)] = None
        return False

    @_initializing.setter
    def _initializing(self, value: bool) -> None:
        """Python says that it loads the module again."""


class _Finder:
    """Hears of each module that is looked for, and finds none."""

    def __init__(self, note: Callable[[str], None]) -> None:
        self._note = note

    def find_spec(self, name: str, path: object = None, target: object = None) -> None:
        """Python's question where ``name`` is."""
        self._note(name)


class Ahead:
    """Packages that are imported ahead of training."""

    def __init__(self) -> None:
        #: By package, those that it imports.
        self._imports: dict[str, dict[str, None]] = {}
        #: By package, the variables that its code looks up while it is imported.
        self.variables: dict[str, list[str]] = {}
        self.is_open = False

    @contextlib.contextmanager
    def noted(self) -> Iterator[None]:
        """Note which package imports which, and afterwards what training imports of it."""
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

        # What is there already is asked for by the one, what is loaded, in whatever way, by the other.
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
        """``packages``, those that training has imported of what was imported ahead, and all that these import."""
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
                _imported[name] = None  # it cannot tell, so it counts


def _importer() -> str:
    """The package whose code imports something now, be it by way of Python's own modules."""
    frame: FrameType | None = sys._getframe(3)
    while frame is not None:
        package = top_of(str(frame.f_globals.get("__name__", "")))
        if package and package not in sys.stdlib_module_names:
            return package
        frame = frame.f_back
    return ""


def top_of(name: str) -> str:
    """The package (or module) at the top of a name."""
    return name.partition(".")[0]
