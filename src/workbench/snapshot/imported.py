"""Modules that this process has imported. Law: one that another thread is importing is not read half."""

from __future__ import annotations

import importlib
import sys
from types import ModuleType
from typing import Any

#: Modules whose code has been executed, though their import has not ended yet.
executed: set[str] = set()
#: Modules that were found to be whole: a checkpoint asks thousands of times.
_whole: dict[str, Any] = {}


def loaded(name: str) -> Any:
    """The module, if this process has imported it whole, else None."""
    module = sys.modules.get(name)
    if module is None or _whole.get(name) is module:
        return module
    if _is_partial(module):
        return module if name in executed else None
    _whole[name] = module
    return module


def imported(name: str) -> Any:
    """The same, after the end of an import in another thread.

    Not for a thread that is importing something itself: the other one may wait for that.
    """
    module = sys.modules.get(name)
    if not _is_partial(module):
        return module
    try:
        return importlib.import_module(name)
    except Exception:  # the other thread gets the error
        return None


class Newest:
    """The newest of the modules that are imported now, and how many there are, to tell those that come later.

    There are thousands, and to read one is to count a reference to it: a forked process copies the page of memory for
    that, which takes longer than anything else that it does first. So it reads those that are new.
    """

    def __init__(self) -> None:
        self._count, self._name = len(sys.modules), next(reversed(sys.modules), "")
        self._module = sys.modules.get(self._name)

    def later(self) -> dict[str, ModuleType] | None:
        """The modules that were imported since then, by name, oldest first.

        None if that cannot be told from their number and order: others were removed since, or moved to the end, as
        Python moves a module when its import or reload is done; or another thread is importing now.
        """
        found = []
        try:
            for name in reversed(sys.modules):
                if name == self._name:
                    break
                found.append((name, sys.modules[name]))
        except (RuntimeError, KeyError):
            return None
        is_there = self._module is not None and sys.modules.get(self._name) is self._module
        is_whole = is_there and len(sys.modules) - len(found) == self._count
        return dict(reversed(found)) if is_whole else None


def _is_partial(module: Any) -> bool:
    """True while it is being imported: it is in ``sys.modules`` from the beginning, with few of its names. Python's own
    importer marks its spec in this way.
    """
    return bool(getattr(getattr(module, "__spec__", None), "_initializing", False))
