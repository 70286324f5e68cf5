"""The project's modules as an experiment was trained with, for a process that has others. Law: afterwards the search
path is as before, and so are the project's modules that the process had imported.
"""

from __future__ import annotations

import contextlib
import functools
import sys
import warnings
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any, Literal

from workbench.errors import WorkbenchError
from workbench.records import ENDED, Json, Spec
from workbench.snapshot import read_snapshot
from workbench.snapshot.modules import ProjectModule, code_of, file_in, is_project, project_modules
from workbench.store import Store
from workbench.store.layout import CopiedCode
from workbench.store.series import Series
from workbench.words import few

#: changed: its file was edited since. another: the process has one from another file, or from before an edit. gone:
#: the process cannot import it.
Kind = Literal["changed", "another", "gone"]

#: The maximum number of files that a warning names.
_SAID = 4
#: Modules that were imported from copies, by the folder of these: all trials of an experiment have the same classes.
_imported: dict[Path, dict[str, ModuleType]] = {}


@contextlib.contextmanager
def as_trained(store: Store, spec: Spec) -> Iterator[None]:
    """Import the project's modules from the copies in the snapshot of ``spec`` if one of them now has other code.

    Otherwise imports give the process's own modules. Warns about each module that has changed.
    """
    code = _code(store, spec)
    copies = {} if code is None else _copies(store, spec, code)
    different = _different(store, spec, copies)
    if code is None or not different:
        yield
        return
    files = {str(copies[name].relative_to(code)): kind for name, kind in different.items()}
    for sentence in _sentences(spec.label, files):
        warnings.warn(sentence, stacklevel=6)  # the line that calls `exp.best.load()`
    with _lent(code, {name.partition(".")[0] for name in copies}):
        yield


def _code(store: Store, spec: Spec) -> Path | None:
    """The folder with the copies; a replay imports those of the original."""
    digests = [] if spec.snapshot is None else [spec.snapshot]
    digests += [place.digest for entry in spec.training.path if (place := CopiedCode.at(entry)) and not place.name]
    return next((code for digest in digests if (code := store.code(digest)).is_dir()), None)


def _copies(store: Store, spec: Spec, code: Path) -> dict[str, Path]:
    """The copy of each module of the project that the trials imported; while they train, of each that they may."""
    used: dict[str, Json] = {}
    state = ""
    with contextlib.suppress(WorkbenchError, OSError), Series.read(store.experiment(spec.id).series) as series:
        meta = series.meta()
        used, state = meta.get("used") or {}, str(meta.get("state") or "")
    names = {*(used.get("modules") or ())}
    if state not in ENDED or not used.get("complete"):
        names |= {str(one["name"]) for one in _recorded(store, spec)}
    found = {name: file_in(code, name) for name in sorted(names)}
    return {name: file for name, file in found.items() if file is not None}


def _recorded(store: Store, spec: Spec) -> list[dict[str, Json]]:
    with contextlib.suppress(WorkbenchError, OSError, ValueError):
        if spec.snapshot is not None:
            return list(read_snapshot(store, spec.snapshot).get("modules") or ())
    return []


# ---------------------------------------------------------------------------------------------------------------------
# What differs


def _different(store: Store, spec: Spec, copies: dict[str, Path]) -> dict[str, Kind]:
    """The modules whose code is not what this process would use."""
    if not copies:
        return {}
    paths = {str(one["name"]): str(one["path"]) for one in _recorded(store, spec)}
    present = project_modules(copies)
    found: dict[str, Kind] = {}
    for name, copy in copies.items():
        now = present.get(name)
        if now is None:
            found[name] = "gone"
        elif now.content != code_of(copy):
            found[name] = "changed" if paths.get(name, str(now.path)) == str(now.path) else "another"
        elif not _is_as_written(sys.modules.get(name), now):
            found[name] = "another"
    return found


def _is_as_written(module: ModuleType | None, written: ProjectModule) -> bool:
    """Whether the functions of a loaded module are those in its file: it may have been edited since the import."""
    loader = getattr(getattr(module, "__spec__", None), "loader", None)
    if module is None or type(loader) is not SourceFileLoader:
        return True  # others change the code that they load
    known = _compiled(written.path, written.digest)
    if known is None:
        return True
    file = str(module.__file__)
    return all(
        any(_is_same(code, one) for one in known.get(code.co_qualname, ()))
        for code in _functions(vars(module), module.__name__)
        if code.co_filename == file
    )


@functools.lru_cache(maxsize=1024)
def _compiled(path: Path, _digest: str) -> Mapping[str, Sequence[CodeType]] | None:
    """The codes of a file with this digest, by their qualified names; None if it cannot be compiled."""
    try:
        whole = compile(path.read_bytes(), str(path), "exec", dont_inherit=True)
    except (OSError, SyntaxError, ValueError):
        return None
    known: dict[str, list[CodeType]] = {}
    for code in _inside(whole):
        known.setdefault(code.co_qualname, []).append(code)
    return known


def _inside(code: CodeType) -> Iterator[CodeType]:
    yield code
    for one in code.co_consts:
        if isinstance(one, CodeType):
            yield from _inside(one)


def _functions(names: Mapping[str, Any], module: str, owner: str = "") -> Iterator[CodeType]:
    """The code of functions and methods that a module, or a class of it, defines itself."""
    for name, value in [*names.items()]:
        value = getattr(value, "fget", None) if isinstance(value, property) else getattr(value, "__func__", value)
        if isinstance(value, FunctionType):
            if value.__module__ == module:
                yield value.__code__
        elif isinstance(value, type) and (value.__module__, value.__qualname__) == (module, f"{owner}{name}"):
            yield from _functions(vars(value), module, f"{value.__qualname__}.")


def _is_same(code: CodeType, other: CodeType) -> bool:
    """Whether two codes do the same, on whichever lines they stand."""
    if len(code.co_consts) != len(other.co_consts):
        return False
    parts = ("co_code", "co_names", "co_varnames", "co_freevars", "co_flags")
    return all(getattr(code, part) == getattr(other, part) for part in parts) and all(
        _is_same(one, two)
        if isinstance(one, CodeType) and isinstance(two, CodeType)
        else type(one) is type(two) and (one == two or repr(one) == repr(two))
        for one, two in zip(code.co_consts, other.co_consts, strict=True)
    )


def _sentences(label: str, different: dict[str, Kind]) -> Iterator[str]:
    changed = [name for name, kind in different.items() if kind == "changed"]
    another = [name for name, kind in different.items() if kind == "another"]
    if len(changed) == 1:
        yield f"{changed[0]} has changed since {label} was trained: load uses it as it was then."
    elif changed:
        yield f"{_listed(changed)} have changed since {label} was trained: load uses them as they were then."
    if another:
        yield f"this process has another {_listed(another)} than {label} was trained with: load uses that of {label}."


def _listed(names: list[str]) -> str:
    return ", ".join(few(names, _SAID))


# ---------------------------------------------------------------------------------------------------------------------
# Importing the copies


@contextlib.contextmanager
def _lent(code: Path, tops: Collection[str]) -> Iterator[None]:
    """Imports of the packages and modules ``tops`` give those in the folder ``code``."""
    own, path = _taken(lambda name, module: name.partition(".")[0] in tops and _is_own(name, module)), [*sys.path]
    sys.path.insert(0, str(code))
    sys.modules.update(_imported.get(code, {}))
    try:
        yield
    finally:
        inside = f"{code}/"
        _imported[code] = _taken(
            lambda name, module: (
                str(getattr(module, "__file__", None)).startswith(inside)
                or (name.partition(".")[0] in tops and _is_own(name, module))
            )
        )
        sys.modules.update(own)
        sys.path[:] = path


def _taken(chosen: Callable[[str, ModuleType], bool]) -> dict[str, ModuleType]:
    """The loaded modules that are ``chosen``, which are loaded no longer."""
    found = {name: module for name, module in [*sys.modules.items()] if chosen(name, module)}
    for name in found:
        del sys.modules[name]
    return found


def _is_own(name: str, module: ModuleType) -> bool:
    file = getattr(module, "__file__", None)
    return file is None or is_project(name, file)
