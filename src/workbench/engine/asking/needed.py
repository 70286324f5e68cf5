"""The distributions that training needs: those of the packages that it imports, and all their dependencies.

Law: it reads metadata and imports nothing.
"""

from __future__ import annotations

import ast
import contextlib
import functools
import re
from collections.abc import Collection, Hashable, Iterable, Mapping
from importlib import metadata

from workbench.compare.sections.packages import likely
from workbench.errors import WorkbenchError
from workbench.records import Spec
from workbench.snapshot import read_snapshot
from workbench.store import Store

#: For each distribution of an environment: its packages, and the distributions that it requires.
_Known = Mapping[str, tuple[frozenset[str], frozenset[str]]]
#: Workbench itself: the processes that train and those that drive them must be of one release.
_OURS = frozenset({"workbench", "jupyter-workbench"})


def needed(folders: Collection[str], packages: Collection[str], changed: Mapping[str, Hashable]) -> set[str]:
    """Distributions that training needs if it imports ``packages``, including those of ``changed`` that are gone.

    changed: distributions by name, each with a value that differs between two changes.
    """
    known = _known(tuple(folders), frozenset(changed.items()))
    lower = {package.lower() for package in packages}
    found = set(_OURS)
    waiting = [name for name, (held, _) in known.items() if held & set(packages)]
    waiting += [name for name in changed if name not in known and likely(name) & lower]
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            waiting += known.get(name, (frozenset(), frozenset()))[1]
    return found


def imports_of(store: Store, spec: Spec) -> set[str]:
    """The packages that a snapshot's code imports, as far as its text shows."""
    found = {name.partition(".")[0] for name in _imports(spec.program.source)}
    with contextlib.suppress(WorkbenchError, OSError, ValueError, KeyError):
        if spec.snapshot is not None:
            captured = read_snapshot(store, spec.snapshot).get("capture") or {}
            found |= {str(name).partition(".")[0] for name in captured.get("modules") or ()}
            code = store.code(spec.snapshot)
            for path in code.rglob("*.py"):
                found |= {name.partition(".")[0] for name in _imports(path.read_text("utf-8", "replace"))}
    return found


def _imports(text: str) -> Iterable[str]:
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError):
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and not node.level and node.module:
            yield node.module


@functools.lru_cache(maxsize=4)
def _known(folders: tuple[str, ...], _changed: frozenset[tuple[str, Hashable]]) -> _Known:
    """Read again after each change: a changed distribution may hold other packages and require others."""
    found: dict[str, tuple[frozenset[str], frozenset[str]]] = {}
    for one in metadata.distributions(path=[*folders]):
        with contextlib.suppress(Exception):  # it is being installed, or is damaged
            name = _plain(one.metadata["Name"])
            if name not in found:
                found[name] = (_packages(one) | likely(name), frozenset(_required(one)))
    return found


def _packages(one: metadata.Distribution) -> frozenset[str]:
    tops = (one.read_text("top_level.txt") or "").split()
    if not tops:
        tops = [file.parts[0] for file in one.files or () if file.parts]
    return frozenset(re.sub(r"(\.[\w-]+)?\.(py|so|pyd)$", "", top) for top in tops)


def _required(one: metadata.Distribution) -> Iterable[str]:
    for text in one.requires or ():
        match = re.match(r"[\w.-]+", text)
        if match is not None and not re.search(r"\bextra\s*==", text):
            yield _plain(match[0])


def _plain(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()
