"""Values that a notebook sets in modules. Law: training imports modules as their files are, so what only the kernel's
modules hold is named, and not sent.
"""

from __future__ import annotations

import sys
import types
from collections.abc import Iterable, Mapping
from typing import Any

from workbench.snapshot.modules import is_project, loaded_modules, project_modules
from workbench.snapshot.reading.effects import effects_of
from workbench.words import enumerated, few

#: The most names in the note.
_SAID = 4
#: What cannot be changed.
_PLAIN = (int, float, complex, str, bytes, tuple, frozenset, type(None))


def unsent(source: str, executed: Iterable[str], namespace: Mapping[str, Any], imports: Iterable[str]) -> str:
    """A note about what ``executed`` cells have set in modules that training imports, or empty.

    source: the train cell, which may set the same. imports: top-level names of the modules that it reaches by itself
    or by what is captured.
    """
    files: dict[str, str] = {}
    reached: set[str] | None = None
    for part in sorted({part for text in executed for part in _changed(text)} - _changed(source)):
        found = _set_in(part, namespace)
        if found is None:
            continue
        reached = _reached(imports) if reached is None else reached
        if found[0].partition(".")[0] in reached:
            files[part] = found[1]
    if not files:
        return ""
    are, them = ("were", "them") if len(files) > 1 else ("was", "it")
    return (
        f"{enumerated(few([*files], _SAID))} {are} set in this notebook, and training imports "
        f"{enumerated(sorted({*files.values()}))} as on the disk: set {them} in the train cell"
    )


def _changed(text: str) -> set[str]:
    """The attributes that a cell sets, and the names of objects that it changes otherwise."""
    effects = effects_of(text)
    roots = {part.partition(".")[0] for part in effects.parts}
    return {*effects.parts, *(effects.changed - roots)}


def _set_in(part: str, namespace: Mapping[str, Any]) -> tuple[str, str] | None:
    """The module in which ``part`` (``conf.Net.width``) is set, and its file; None if it travels, or may be a setting.

    Of an installed module, only code of the notebook counts: other values may be settings without an effect.
    """
    root, *attributes = part.split(".")
    value, home = namespace.get(root), ""
    if not isinstance(value, types.ModuleType | type | types.FunctionType):
        return _held(value)
    for at in range(len(attributes) + 1):
        if isinstance(value, types.ModuleType):
            home = value.__name__
        elif isinstance(value, type | types.FunctionType) and not home:
            home = value.__module__  # it is imported by its name, as modules are
        if at < len(attributes):
            # Not by `getattr`: an object's properties are the user's code.
            value = vars(value).get(attributes[at]) if isinstance(value, types.ModuleType | type) else None
    path = getattr(sys.modules.get(home), "__file__", None)
    if home in ("", "__main__") or not attributes:
        return None
    if path and is_project(home, path):
        return home, path.rpartition("/")[2]
    is_notebooks = isinstance(value, type | types.FunctionType) and value.__module__ == "__main__"
    return (home, home.partition(".")[0]) if is_notebooks else None


def _held(value: Any) -> tuple[str, str] | None:
    """The project module of which an object is a global, such as its settings, and its file. A cell that changes it
    changes it for all who import it; in training they have it as the module makes it."""
    if isinstance(value, _PLAIN):  # equal ones may be the same object
        return None
    names = [name for name, _ in loaded_modules() if any(one is value for one in vars(sys.modules[name]).values())]
    modules = project_modules() if len(names) > 1 else {}
    # The one that makes it, and not those that import it from there.
    made = [name for name in names if name not in modules or not set(modules[name].imports).intersection(names)]
    for name in made or names:
        return name, str(sys.modules[name].__file__).rpartition("/")[2]
    return None


def _reached(imports: Iterable[str]) -> set[str]:
    """``imports``, and the top-level names of what project modules among them import in turn."""
    modules = project_modules().values()
    reached, waiting = set[str](), [*imports]
    while waiting:
        if (top := waiting.pop().partition(".")[0]) not in reached:
            reached.add(top)
            waiting += [one for module in modules if module.top == top for one in module.imports]
    return reached
