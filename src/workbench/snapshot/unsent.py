"""Values that a notebook sets in modules of its project. Law: training imports these modules as their files are, so
what only the kernel's modules hold is named, and not sent.
"""

from __future__ import annotations

import types
from collections.abc import Iterable, Mapping
from typing import Any

from workbench.snapshot.modules import is_project
from workbench.snapshot.reading.effects import effects_of
from workbench.words import enumerated, few

#: The most names in the note.
_SAID = 4


def unsent(source: str, executed: Iterable[str], namespace: Mapping[str, Any], project: Iterable[str]) -> str:
    """A note about what ``executed`` cells have set in modules that training imports, or empty.

    source: the train cell, which may set the same. project: top-level names of the modules that it reaches.
    """
    reached = {*project}
    files: dict[str, str] = {}
    for part in sorted({part for text in executed for part in effects_of(text).parts} - effects_of(source).parts):
        module = namespace.get(part.partition(".")[0])
        path = getattr(module, "__file__", None)
        if not isinstance(module, types.ModuleType) or not path or not is_project(module.__name__, path):
            continue
        if module.__name__.partition(".")[0] in reached:
            files[part] = path.rpartition("/")[2]
    if not files:
        return ""
    are, them = ("were", "them") if len(files) > 1 else ("was", "it")
    return (
        f"{enumerated(few([*files], _SAID))} {are} set in this notebook, and training imports "
        f"{enumerated(sorted({*files.values()}))} as on the disk: set {them} in the train cell"
    )
