"""How Workbench starts its processes. Law: they import installed packages, and nothing from the folder in which they
start.

``python -m`` puts the current folder first on the import path, and an empty or relative entry of ``PYTHONPATH`` means
it too. A ``json.py`` in a store or beside a notebook would then run in the engine. This module does not handle
training's own modules: the runner gets their folders, and puts them on its path when training begins.

All processes of a training have the same versions of what :func:`versions` names.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

PATH = "PYTHONPATH"
#: ``0``: no process begins before it is needed.
AHEAD = "WORKBENCH_AHEAD"
#: The folder of this very Workbench.
PACKAGE = Path(__file__).parent
#: The folder that contains it: a ``site-packages``, or the ``src`` of a checkout.
_OWN = str(PACKAGE.parent)
#: Versions of distributions, by name and by the folders in which they were looked for; and how many are remembered.
_versions: dict[tuple[str, tuple[tuple[str, int], ...]], str] = {}
_MOST = 64


def command(module: str, *words: str, python: str | None = None) -> list[str]:
    """The command line that runs ``module`` in a new process (``python``: this one's interpreter)."""
    return [python or sys.executable, "-P", "-m", module, *words]


def spare_grammar() -> None:
    """Have jsonschema, which nbformat imports, do without its grammar of international addresses: compiling that takes
    two seconds. For processes of Workbench's own, which check no such address.
    """
    sys.modules.setdefault("rfc3987_syntax", None)  # type: ignore[arg-type]  # with None its import fails


def surroundings(around: Mapping[str, str], *folders: str | os.PathLike[str]) -> dict[str, str]:
    """``around`` for such a process: its import path without entries that mean the current folder or ``folders``."""
    made = dict(around)
    if PATH in made:
        kept = import_path(made.pop(PATH), *folders)
        if not is_installed(_OWN):  # a removed entry may have been the one that finds it
            kept = os.pathsep.join(dict.fromkeys([_OWN, *kept.split(os.pathsep)])).rstrip(os.pathsep)
        if kept:
            made[PATH] = kept
    return made


def import_path(written: str, *folders: str | os.PathLike[str]) -> str:
    """``PYTHONPATH`` as ``written``, without relative entries, the current folder and ``folders``."""
    away = {os.path.realpath(folder) for folder in (*folders, os.curdir)}
    entries = [entry for entry in written.split(os.pathsep) if os.path.isabs(entry)]
    return os.pathsep.join(entry for entry in entries if os.path.realpath(entry) not in away)


def is_installed(entry: str) -> bool:
    """Whether a folder of an import path belongs to an interpreter, and not to a user's project."""
    parts = Path(entry).parts
    return bool({"site-packages", "dist-packages"} & {*parts}) or any(part.startswith("python3") for part in parts[-2:])


def versions() -> dict[str, str]:
    """Versions of this interpreter and of the packages that must be the same on every worker; it imports none of them.

    As their distributions name them, since the kernel may not have imported them: a module may call itself
    ``2.14.1+cu130`` where its distribution is ``2.14.1``.
    """
    found = {"python": sys.version.split()[0]}
    for name in ("torch", "numpy", "workbench"):
        told = _installed(name) or getattr(sys.modules.get(name), "__version__", None)
        if told is not None:
            found[name] = str(told)
    return found


def _installed(name: str) -> str | None:
    """The version of a distribution. Each installation changes a folder of the import path."""
    from importlib import metadata

    key = (name, changed(entry or os.curdir for entry in sys.path))
    if key not in _versions:
        with contextlib.suppress(Exception):  # it is not there, or its metadata are damaged
            found = metadata.version(name)
            if len(_versions) > _MOST:
                _versions.clear()
            _versions[key] = found
    return _versions.get(key)


def changed(paths: Iterable[str]) -> tuple[tuple[str, int], ...]:
    """When these were changed (nanoseconds), as far as they exist."""
    found = []
    for path in paths:
        with contextlib.suppress(OSError):
            found.append((path, os.stat(path).st_mtime_ns))
    return tuple(found)
