"""Globals of the experiment's own modules: they are state, like the cell's names. Law: installed modules are not state.

A module that the set-up imported is a root of the survey, with all its names. Of one that only the loop imports,
values are saved, and plain attributes of its classes: importing it again makes its functions and classes.
"""

from __future__ import annotations

import collections
import importlib
import importlib.machinery
import operator
import sys
import types
from collections.abc import Collection, Iterable
from typing import Any

from workbench.errors import CannotResume
from workbench.snapshot.imported import Newest, loaded
from workbench.trial.discovery import Names
from workbench.trial.kinds import SCALARS
from workbench.trial.looking.names import is_of_class, of_training
from workbench.trial.process.isolation import is_installed

_OURS = frozenset({"__main__", "__mp_main__", "workbench", "workbench_ext"})
#: Beginnings of names of modules that compilers make, without a file.
_MADE = ("cython", "swig_runtime_data")
_COMPILED = tuple(importlib.machinery.EXTENSION_SUFFIXES)
_PLAIN = (bytearray, list, dict, set, tuple, collections.deque)
#: What an import makes again.
_IMPORTED = (type, types.ModuleType, types.FunctionType, types.BuiltinFunctionType)


#: Modules known not to be the experiment's own, by name: there are thousands, and each checkpoint looks for new ones.
_foreign: dict[str, object] = {}
#: The last of the modules that :func:`know_installed` has looked at, and all of them.
_ahead: Newest | None = None
_known: _Modules | None = None
#: Those that it found to be an experiment's own: an installed package had imported them.
_held: dict[str, types.ModuleType] = {}
#: All modules when a look last found none of an experiment's own, which the next leg will hardly change.
_none_own: _Modules | None = None


class _Modules:
    """All modules but that of the training code, in order. Two lists, since comparing them reads neither a module nor a
    name."""

    def __init__(self) -> None:
        now = sys.modules.copy()
        for name in ("__main__", "__mp_main__"):
            now.pop(name, None)
        self.names, self.modules = list(now), list(now.values())

    def is_same(self, other: _Modules | None) -> bool:
        """Whether ``other`` has the same modules."""
        return other is not None and len(self.names) == len(other.names) and self.begins_with(other)

    def begins_with(self, other: _Modules) -> bool:
        """Whether the first of them are those of ``other``."""
        count = len(other.names)
        return self.names[:count] == other.names and all(map(operator.is_, self.modules, other.modules))

    def pairs(self) -> list[tuple[str, Any]]:
        """Those that may be an experiment's own, each with its name: the ones that were known ahead are left out."""
        if _known is None or not self.begins_with(_known):
            return [*zip(self.names, self.modules, strict=True)]
        count = len(_known.names)
        held = [(name, module) for name, module in _held.items() if sys.modules.get(name) is module]
        return [*held, *zip(self.names[count:], self.modules[count:], strict=True)]


def know_installed() -> None:
    """Look at all modules that are imported now, so that processes forked from this one need not."""
    for name, module in sys.modules.copy().items():
        is_own = isinstance(module, types.ModuleType) and _is_own(name, module)
        (_held if is_own else _foreign)[name] = module
    global _ahead, _known
    _ahead, _known = Newest(), _Modules()


class OwnModules:
    """The modules that belong to one experiment in this process. ``main`` is the namespace of its training code."""

    def __init__(self, main: dict[str, Any]) -> None:
        self._main = main
        self._last: _Modules | None = None
        self._found: dict[str, types.ModuleType] = {}

    def first(self) -> dict[str, types.ModuleType]:
        """As :meth:`look`, when the set-up is done. What takes the place of a module that was imported ahead is left to
        the next look."""
        later = None if _ahead is None else _ahead.later()
        if later is None:
            return self.look()
        now = {name: module for name, module in _held.items() if sys.modules.get(name) is module} | later
        return {name: module for name, module in now.items() if self._belongs(name, module)}

    def look(self) -> dict[str, types.ModuleType]:
        """The modules as they are now, by name, except the one with the namespace ``main``."""
        global _none_own
        now = _Modules()
        if now.is_same(self._last):
            return self._found
        self._last, is_main = now, self._main is getattr(sys.modules.get("__main__"), "__dict__", None)
        if is_main and now.is_same(_none_own):
            self._found = {}
            return self._found
        pairs = now.pairs()
        self._found = {name: module for name, module in pairs if self._belongs(name, module)}
        # Only of modules that are known for good: others are the training code's here, or would be kept alive.
        is_foreign = all(_foreign.get(name) is module for name, module in pairs)
        _none_own = now if is_main and is_foreign else None
        return self._found

    def _belongs(self, name: str, module: Any) -> bool:
        if _foreign.get(name) is module or not isinstance(module, types.ModuleType) or vars(module) is self._main:
            return False
        if _is_own(name, module):
            return True
        _foreign[name] = module
        return False


def _is_own(name: str, module: types.ModuleType) -> bool:
    top = name.partition(".")[0]
    if top in _OURS or top.lstrip("_").startswith(_MADE) or getattr(module, "__name__", name) != name:
        return False
    if top != name and top in sys.modules and is_installed(sys.modules[top]):  # made by an installed package
        return False
    file = getattr(module, "__file__", None)
    if file is None:  # made by code, or a folder without __init__.py, which only contains modules
        return "." not in name and getattr(module, "__spec__", None) is None
    if is_installed(module):
        return False
    return not str(file).endswith(_COMPILED) or _is_found(name, file)


def _is_found(name: str, file: str) -> bool:
    """Whether an import by this name finds this file. Compilers load what they have made from folders of their own."""
    above = sys.modules.get(name.rpartition(".")[0])
    spec = importlib.machinery.PathFinder.find_spec(name, getattr(above, "__path__", None))
    return spec is not None and spec.origin == file


def module_roots(modules: dict[str, types.ModuleType]) -> list[Names]:
    """The modules' globals as roots, labelled ``counting.``."""
    return [_root(name, module, late=False) for name, module in sorted(modules.items())]


def late_roots(modules: dict[str, types.ModuleType], known: Collection[str]) -> list[Names]:
    """The same for modules imported since the set-up: those whose label is not ``known``."""
    late = {name: module for name, module in modules.items() if f"{name}." not in known}
    return [_root(name, module, late=True) for name, module in sorted(late.items())]


def import_late(labels: Iterable[str], known: Collection[str]) -> list[Names]:
    """Import modules that the loop had imported when the checkpoint was taken. Raises CannotResume."""
    names = [label.removesuffix(".") for label in labels if label not in known]
    found = {}
    for name in names:
        try:
            found[name] = importlib.import_module(name)
        except Exception as error:
            raise CannotResume(
                f"the checkpoint holds values of the module {name}, which the loop had imported; importing it now "
                f"failed: {type(error).__name__}: {error}"
            ) from None
    return [_root(name, module, late=True) for name, module in found.items()]


def _root(name: str, module: types.ModuleType, *, late: bool) -> Names:
    def values() -> dict[str, Any]:
        found = of_training(vars(module))
        if not late:
            return found
        kept = {key: value for key, value in found.items() if not isinstance(value, _IMPORTED)}
        return kept | _of_classes(module)

    def put(changed: dict[str, Any], gone: list[str]) -> None:
        vars(module).update({key: value for key, value in of_training(changed).items() if "." not in key})
        for key in gone:
            vars(module).pop(key, None)
        for key, value in changed.items():
            cls, _, attribute = key.rpartition(".")
            if cls and isinstance(vars(module).get(cls), type):
                setattr(vars(module)[cls], attribute, value)

    return Names(f"{name}.", values, put)


def _of_classes(module: types.ModuleType) -> dict[str, Any]:
    """The plain attributes of a module's own classes, by ``Class.name``."""
    return {
        f"{key}.{name}": value
        for key, cls in list(vars(module).items())
        if isinstance(cls, type) and cls.__module__ == module.__name__
        for name, value in list(vars(cls).items())
        if _is_plain(value) and not is_of_class(name, value)
    }


def _is_plain(value: Any) -> bool:
    if type(value) in SCALARS or isinstance(value, _PLAIN):
        return True
    torch, numpy = loaded("torch"), loaded("numpy")
    return (torch is not None and isinstance(value, torch.Tensor)) or (
        numpy is not None and isinstance(value, numpy.ndarray)
    )
