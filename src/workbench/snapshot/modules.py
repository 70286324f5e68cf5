"""Project modules: the user's own files that a notebook imports. Law: files are copied as they are on disk at
Shift-Enter, and every leg imports the copy; installed packages and the standard library are recorded by version
instead.
"""

from __future__ import annotations

import ast
import contextlib
import functools
import hashlib
import importlib.util
import itertools
import operator
import os
import shutil
import stat
import sys
import sysconfig
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

from workbench.snapshot.reading.cell import content_of
from workbench.snapshot.surroundings.data import describe, mark
from workbench.snapshot.surroundings.locked import reading

#: Packages of Workbench or a debugger, wherever they are.
_OTHERS = frozenset({"__main__", "__mp_main__", "workbench", "workbench_ext", "debugpy", "pydevd", "_pydevd_bundle"})
_INSTALLED = (f"{os.sep}site-packages{os.sep}", f"{os.sep}dist-packages{os.sep}")
#: Files of loaded modules that are not the project's, by name: a kernel has thousands, and each launch looks at all.
_others: dict[str, str] = {}
#: Within :func:`one_look`: the modules that were looked at, and those of them that are the project's.
_looked: ContextVar[tuple[dict[str, ModuleType], list[tuple[str, Path]]] | None] = ContextVar("_looked", default=None)
#: A file beside the modules of a package is copied up to this size, and linked above it.
_SMALL = 1 << 18
#: The maximum number of files copied for one snapshot; others are imported from their original place.
_FILES = 2000


@dataclass(frozen=True, slots=True)
class ProjectModule:
    """One module of the project.

    path: its file. folder: the folder on the search path from which it is imported. digest: of the file's bytes.
    content: of its code without comments and layout. imports: all modules that it imports, of any kind. changed: the
    file was edited after Python last compiled it, so the kernel may hold an older version.
    """

    name: str
    path: Path
    folder: Path
    digest: str
    content: str
    imports: tuple[str, ...]
    changed: bool = False

    @property
    def top(self) -> str:
        """The top-level package (or module) of its name."""
        return self.name.partition(".")[0]


def project_modules(imports: Iterable[str] = ()) -> dict[str, ProjectModule]:
    """The loaded project modules, those in ``imports``, and everything that these import in turn."""
    found: dict[str, ProjectModule] = {}
    for name, file in loaded_modules():
        _add(found, name, file)
    waiting = [*imports, *(one for module in found.values() for one in module.imports)]
    looked_up: set[str] = set()
    while waiting:
        name = waiting.pop()
        if name in found or name in looked_up:
            continue
        looked_up.add(name)
        path = _find(name)
        added = _add(found, name, path) if path is not None else None
        if added is not None:
            waiting += [*added.imports, *_parents(name)]
    return found


@contextlib.contextmanager
def one_look() -> Iterator[None]:
    """Meanwhile the loaded modules are looked at once, unless others are loaded: who launches asks several times. A
    module that is reloaded from another file is seen by the next look."""
    outer = _looked.set(({}, []))
    try:
        yield
    finally:
        _looked.reset(outer)


def loaded_modules() -> list[tuple[str, Path]]:
    """The names and files of loaded modules that are the project's."""
    modules, looked = sys.modules.copy(), _looked.get()
    if looked is not None and _are_same(looked[0], modules):
        return looked[1]
    found = _project_among(modules)
    if looked is not None:
        _looked.set((modules, found))
    return found


def _are_same(one: Mapping[str, ModuleType], other: Mapping[str, ModuleType]) -> bool:
    return one.keys() == other.keys() and all(map(operator.is_, one.values(), other.values()))


def _project_among(modules: Mapping[str, ModuleType]) -> list[tuple[str, Path]]:
    found = []
    for name, module in modules.items():
        path = getattr(module, "__file__", None)
        if not isinstance(path, str) or _others.get(name) == path:
            continue
        if not is_project(name, path):
            _others[name] = path
        elif name == getattr(module, "__name__", name):
            found.append((name, Path(path)))
    return found


def project_digests(imports: Iterable[str] = ()) -> dict[str, str]:
    """For the top-level name of each project module among ``imports``: the digest of all project code that they import.

    Other loaded modules do not count: otherwise a new kernel would give another digest.
    """
    wanted = {one for name in imports for one in (name, *_parents(name))}
    modules = project_modules(wanted)
    return {name: digest for name, digest in digests_of(modules, wanted).items() if name in wanted}


def digests_of(modules: Mapping[str, ProjectModule], imports: Collection[str] | None = None) -> dict[str, str]:
    """For each top-level name among ``modules``: the digest of its code and of all project code that it imports.

    imports: the modules to start from; None for all of them.
    """
    found = {}
    for top in {module.top for module in modules.values()}:
        reached: set[str] = set()
        waiting = [name for name in modules if modules[name].top == top and (imports is None or name in imports)]
        while waiting:
            name = waiting.pop()
            if name in modules and name not in reached:
                reached.add(name)
                waiting += [*modules[name].imports, *_parents(name)]
        parts = [f"{name} {modules[name].content}" for name in sorted(reached)]
        found[top] = hashlib.sha256("\n".join(parts).encode()).hexdigest()
    return found


def code_of(path: Path) -> str | None:
    """The digest of the code in a file, without comments and layout; None if it cannot be read."""
    try:
        return _read(path, path.stem, path.stat()).content
    except (OSError, ValueError):
        return None


def imports_of(path: Path, name: str) -> tuple[str, ...]:
    """All modules that the module ``name`` in a file imports, and its packages; relative imports by full names."""
    return (*_parents(name), *_read(path, name, path.stat()).imports)


def _parents(name: str) -> list[str]:
    parts = name.split(".")
    return [".".join(parts[:count]) for count in range(1, len(parts))]


def _add(found: dict[str, ProjectModule], name: str, path: Path) -> ProjectModule | None:
    try:
        status = path.stat()
        read = _read(path, name, status)
    except (OSError, ValueError):
        return None  # it is gone: importing it will raise
    found[name] = ProjectModule(
        name, path, folder_of(name, path), read.digest, read.content, read.imports, _changed(path, status)
    )
    return found[name]


def folder_of(name: str, path: Path) -> Path:
    """The folder from which the module ``name`` in the file ``path`` is imported."""
    levels = name.count(".") + (1 if path.name == "__init__.py" else 0)
    return path.parents[levels] if levels < len(path.parents) else path.parent


class _Code(NamedTuple):
    """The code of a file. content: as in :class:`ProjectModule`. imports: the level of each import, its module and the
    names that it takes from there.
    """

    content: str
    imports: tuple[tuple[int, str, tuple[str, ...]], ...]


#: By the digest of its bytes: every snapshot has copies, and parsing a large project takes seconds.
_codes: dict[str, _Code] = {}


class _Read(NamedTuple):
    """What a file holds, as :class:`ProjectModule` has it."""

    digest: str
    content: str
    imports: tuple[str, ...]


def _read(path: Path, name: str, status: os.stat_result) -> _Read:
    return _read_at(str(path), name, status.st_size, *mark(status))


@functools.lru_cache(maxsize=4096)
def _read_at(path: str, name: str, *_mark: int) -> _Read:
    data = Path(path).read_bytes()
    digest = hashlib.sha256(data).hexdigest()
    code = _codes.get(digest)
    if code is None:
        if len(_codes) >= 4 * _FILES:
            _codes.clear()
        code = _codes[digest] = _code(data, digest)
    package = (name if path.endswith("__init__.py") else name.rpartition(".")[0]).split(".")
    imports: dict[str, None] = {}
    for level, named, taken in code.imports:
        base = package[: len(package) - level + 1] if level else []
        module = ".".join(filter(None, [*base, named]))
        imports.update(dict.fromkeys([module, *(f"{module}.{one}" for one in taken)]))
    return _Read(digest, code.content, tuple(filter(None, imports)))


def _code(data: bytes, digest: str) -> _Code:
    try:
        tree = ast.parse(data)
    except (SyntaxError, ValueError, RecursionError):
        return _Code(digest, ())
    imports: dict[tuple[int, str, tuple[str, ...]], None] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            imports.update(dict.fromkeys((0, alias.name, ()) for alias in node.names))
        elif isinstance(node, ast.ImportFrom):
            taken = tuple(alias.name for alias in node.names if alias.name != "*")
            imports[node.level, node.module or "", taken] = None
    return _Code(content_of(tree), tuple(imports))


def _changed(path: Path, status: os.stat_result) -> bool:
    """Whether Python's compiled file is older than the source."""
    try:
        with open(importlib.util.cache_from_source(str(path)), "rb") as file:
            head = file.read(16)
    except (OSError, NotImplementedError):
        return False
    if len(head) < 16 or head[4:8] != bytes(4):
        return False
    return int.from_bytes(head[8:12], "little") != int(status.st_mtime) & 0xFFFFFFFF


@functools.cache
def _python_folders() -> tuple[str, ...]:
    paths = sysconfig.get_paths()
    named = [paths["stdlib"], paths["platstdlib"]]
    return tuple({os.path.join(path, "") for path in (*named, *map(os.path.realpath, named))})


def is_project(name: str, path: str) -> bool:
    """Whether the module ``name`` in the file ``path`` is the user's own."""
    top = name.partition(".")[0]
    if top in _OTHERS or not path.endswith(".py") or any(one in path for one in _INSTALLED):
        return False
    return not path.startswith(_python_folders())


#: Modules of the finders by which `pip install -e` makes a project importable, where no folder on the search path does.
_EDITABLE = ("__editable__", "editables.redirector")


def _find(name: str) -> Path | None:
    """The file of a project module that is not loaded yet, without importing anything."""
    top = name.partition(".")[0]
    if top in sys.stdlib_module_names or top in _OTHERS:
        return None
    loaded = getattr(sys.modules.get(top), "__file__", None)
    if isinstance(loaded, str) and not is_project(top, loaded):
        return None
    for entry in sys.path:
        base = Path(entry or os.getcwd())
        if any(one in f"{base}{os.sep}" for one in _INSTALLED) or f"{base}{os.sep}".startswith(_python_folders()):
            continue
        if (found := file_in(base, name)) is not None:
            return found
    for finder in sys.meta_path:
        if str(getattr(finder, "__module__", "")).startswith(_EDITABLE):
            with contextlib.suppress(Exception):  # another tool's code
                spec = finder.find_spec(top, None)
                if spec is not None and spec.origin is not None and is_project(top, spec.origin):
                    origin = Path(spec.origin)
                    return file_in(origin.parents[1] if origin.name == "__init__.py" else origin.parent, name)
    return None


def file_in(folder: Path, name: str) -> Path | None:
    """The file of the module ``name`` in a folder on the search path; None if there is none."""
    path = folder.joinpath(*name.split("."))
    return next((one for one in (path / "__init__.py", path.with_name(f"{path.name}.py")) if one.is_file()), None)


# ---------------------------------------------------------------------------------------------------------------------
# Copies


def copy_code(modules: Mapping[str, ProjectModule], target: Path) -> None:
    """Copy the project's code into ``target``, as one folder for the search path.

    Whole packages are copied, so that late imports get the copy too. Files beside the code (data that a module finds by
    its ``__file__``) are linked.
    """
    if not modules:
        return
    target.mkdir(parents=True, exist_ok=True)
    left = _FILES
    packages = _packages(modules)
    for folder, top in packages:
        package = folder / top
        if package.is_dir():
            left -= _copy_package(package, target / top, left)
        if (folder / f"{top}.py").is_file():
            _copy(folder / f"{top}.py", target / f"{top}.py")
    for folder in dict.fromkeys(folder for folder, _ in packages):
        _link_siblings(folder, target)


def stale(modules: Mapping[str, ProjectModule]) -> list[str]:
    """Notes for the user about modules that were edited since."""
    return [
        f"{module.path.name} was edited after this kernel imported it; trials use the file as it is on the disk"
        for module in modules.values()
        if module.changed
    ]


def copied(modules: Mapping[str, ProjectModule]) -> str:
    """A digest of all files that :func:`copy_code` copies: modules that are imported by computed names, and small files
    that code reads beside itself, are in no list of modules."""
    state, left = hashlib.sha256(), _FILES
    for folder, top in _packages(modules):
        for source in itertools.islice(_files_of(folder / top), left):
            left -= 1
            try:
                digest = describe(source).digest if _is_copied(source) else ""
            except OSError:
                digest = ""
            state.update(f"{source.relative_to(folder)}\0{digest}\n".encode(errors="surrogateescape"))
    return state.hexdigest()


def _packages(modules: Mapping[str, ProjectModule]) -> list[tuple[Path, str]]:
    """Folders, and the names of packages and modules that are imported from there."""
    tops = {module.top: module.folder for module in reversed([*modules.values()])}
    return [(folder, top) for top, folder in tops.items()]


def _is_copied(source: Path) -> bool:
    """Whether a file is copied, and not linked."""
    try:
        status = source.stat()
    except OSError:
        return False
    return stat.S_ISREG(status.st_mode) and (source.suffix == ".py" or status.st_size <= _SMALL)


def _files_of(package: Path) -> Iterator[Path]:
    """The files of a package that belong into a copy, in order."""
    for here, folders, files in os.walk(package):
        folders[:] = sorted(one for one in folders if one != "__pycache__" and not one.startswith("."))
        for name in sorted(files):
            if not name.endswith((".pyc", ".ipynb")) and not name.startswith("."):
                yield Path(here, name)


def _copy_package(package: Path, target: Path, left: int) -> int:
    count = 0
    target.mkdir(parents=True, exist_ok=True)
    for source in itertools.islice(_files_of(package), left):
        count += 1
        there = target / source.relative_to(package)
        there.parent.mkdir(parents=True, exist_ok=True)
        if _is_copied(source):
            _copy(source, there)
        else:
            _link(source, there)
    return count


def _copy(source: Path, target: Path) -> None:
    try:
        with reading(source) as file, open(target, "wb") as copy:
            shutil.copyfileobj(file, copy)
    except OSError:
        _link(source, target)  # it cannot be read, so leave it out


def _link(source: Path, target: Path) -> None:
    try:
        target.symlink_to(source.absolute())
    except OSError:
        pass  # a file system without links: the module can find its data only through the working directory


def _link_siblings(folder: Path, target: Path) -> None:
    present = {*os.listdir(target)}
    try:
        entries = sorted(os.listdir(folder))[:_FILES]
    except OSError:
        return
    for name in entries:
        source = folder / name
        is_code = name.endswith((".py", ".pyc", ".ipynb")) or name == "__pycache__" or name.startswith(".")
        if not is_code and name not in present and not _holds_store(source):
            _link(source, target / name)


def _holds_store(path: Path) -> bool:
    return (path / "catalog.json").exists()


def sources(modules: Collection[ProjectModule]) -> list[dict[str, str]]:
    """The modules in the form of a snapshot."""
    return [
        {"name": module.name, "path": str(module.path), "digest": module.digest}
        for module in sorted(modules, key=lambda module: module.name)
    ]
