"""Which paths training asks for without opening them: ``os.path.exists``, ``Path.is_file``, ``os.stat``, ``os.access``.
Law: a wrapper calls the wrapped function with the same arguments; only whether a path is there is recorded.

Python raises no audit event for these, so that wrappers stand in for ``os.stat``, ``os.lstat`` and ``os.access``, by
which ``os.path`` and ``pathlib`` ask as well. Lookups of the import system, of the standard library's own, and of
libraries while they are imported do not count. Sizes and times that training asks for are not recorded.
"""

from __future__ import annotations

import functools
import os
import sys
import tempfile
from collections.abc import Callable, Collection
from types import FrameType
from typing import Any

from workbench import interpreter
from workbench.records import Json
from workbench.snapshot.surroundings.used import is_installed_file

#: The most paths that are recorded for one leg, and told of each kind.
_MOST_NOTED, _MOST_TOLD = 5000, 100
#: The most that are known by the way in which they were given.
_MOST_KNOWN = 20_000
#: Modules that ask on behalf of their caller, and their functions that do; others, as ``realpath`` or ``mkdir``, ask
#: for themselves.
_PATHS = frozenset({"genericpath", "posixpath", "pathlib"})
_ASKS = frozenset(
    {
        *("exists", "lexists", "isfile", "isdir", "islink", "samefile", "getsize", "getmtime", "getctime", "getatime"),
        *("stat", "lstat", "is_file", "is_dir", "is_symlink", "is_fifo", "is_socket", "is_block_device"),
        *("is_char_device", "owner", "group"),
    }
)
#: The most frequent of those that ask for themselves: they look at each part of a path.
_RESOLVE = frozenset({"realpath", "_joinrealpath"})
#: Modules that call what they are given.
_CALLS = frozenset({"threading", "concurrent.futures.thread", "multiprocessing.pool"})
_IMPORTS = frozenset({"importlib", "_frozen_importlib", "_frozen_importlib_external", "zipimport"})
_OURS = os.path.join(interpreter.PACKAGE, "")
_OURS_TOO = ("workbench", "workbench_ext")
#: Code: it does not count where a library asks for it.
_CODE = (".py", ".pyi", ".ipynb")

#: The wrapped functions.
_stat, _lstat, _access = os.stat, os.lstat, os.access
#: Paths as they were given that need no second look.
_known: set[str] = set()
Told = Callable[[str], None]
#: What is called with each path, as it was given.
_told: Told | None = None


class Lookups:
    """The paths that one leg asked for. place: the path under which one is reported; None for one that is not data."""

    def __init__(self, place: Callable[[str], str | None]) -> None:
        self._place = place
        self.begin()

    def begin(self) -> None:
        """Start a leg: forget what the last one asked for."""
        #: Whether it was there at the first look, and the path under which it is reported.
        self._found: dict[str, tuple[bool, str]] = {}
        self._beyond = 0
        _known.clear()

    def note(self, name: str, was_there: bool | None = None) -> bool | None:
        """Record that training asks for ``name`` (absolute). was_there: None to look. Returns whether it is there, and
        None if it was recorded before, or does not count."""
        if name in self._found:
            return None
        if len(self._found) >= _MOST_NOTED:
            self._beyond += 1
            return None
        place = self._place(name)
        if place is None:
            return None
        is_there = _is_there(name) if was_there is None else was_there
        self._found[name] = is_there, place
        return is_there

    def made(self, read: Collection[str], made: Collection[str]) -> list[str]:
        """Those of them that training has ``made`` or removed, without those that it has ``read`` before."""
        found = self._found.items()
        return [place for name, (was_there, place) in found if name in made and not (was_there and name in read)]

    def told(self, read: Collection[str], made: Collection[str]) -> dict[str, Json]:
        """How they were, without empty ones and those that training has ``read`` or ``made``, or has removed.

        absent: they were not there. there: they were. came: they came while it trained, made by a program or
        library that is not seen, or by others. unasked: how many are left out.
        """
        here = os.path.join(os.getcwd(), "")
        found: dict[str, list[str]] = {"absent": [], "there": [], "came": []}
        for name, (was_there, place) in [*self._found.items()]:
            if name in made or (was_there and name in read):
                continue
            is_there = _is_there(name)
            if not was_there:
                found["came" if is_there else "absent"].append(place)
            elif is_there and _stays(os.path.join(place, ""), here):
                found["there"].append(place)
        beyond = self._beyond + sum(len(paths[_MOST_TOLD:]) for paths in found.values())
        told: dict[str, Json] = {kind: paths[:_MOST_TOLD] for kind, paths in found.items() if paths}
        return {**told, "unasked": beyond} if beyond else told


def _stays(path: str, here: str) -> bool:
    """Whether it means something when it is gone: a home stays, temporary files go with their session or job."""
    temporary = os.path.join(tempfile.gettempdir(), "")
    return not (
        here.startswith(path)
        or path == os.path.join(os.path.expanduser("~"), "")
        or (path.startswith(temporary) and not here.startswith(temporary))
    )


def _is_there(name: str) -> bool:
    try:
        _stat(name)
    except (OSError, ValueError):
        return False
    return True


# -- the wrappers ------------------------------------------------------------------------------------------------------


def moved() -> None:
    """The working directory changes: relative paths are others."""
    _known.clear()


def install(told: Told | None = None) -> None:
    """Install the wrappers, for good. From now on they call ``told``, if given, with each path that training asks
    for, itself or by a library."""
    global _told
    _told = told or _told
    for original, wrapper in ((_stat, stat), (_lstat, lstat), (_access, access)):
        name = original.__name__
        if getattr(os, name) is not original:
            continue
        setattr(os, name, wrapper)
        for supports in (os.supports_dir_fd, os.supports_effective_ids, os.supports_fd, os.supports_follow_symlinks):
            if original in supports:
                supports.add(wrapper)


def _wraps(original: Callable[..., Any]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    def named(wrapper: Callable[..., Any]) -> Callable[..., Any]:
        found = functools.wraps(original)(wrapper)
        found.__module__ = "os"  # pickle finds it there, and finds the original where there is no wrapper
        return found

    return named


@_wraps(_stat)
def stat(path: Any, *, dir_fd: Any = None, follow_symlinks: Any = True) -> Any:
    if path.__class__ is not str or path not in _known:
        _look(path, dir_fd)
    return _stat(path, dir_fd=dir_fd, follow_symlinks=follow_symlinks)


@_wraps(_lstat)
def lstat(path: Any, *, dir_fd: Any = None) -> Any:
    if (path.__class__ is not str or path not in _known) and sys._getframe(1).f_code.co_name not in _RESOLVE:
        _look(path, dir_fd)
    return _lstat(path, dir_fd=dir_fd)


@_wraps(_access)
def access(path: Any, mode: Any, *, dir_fd: Any = None, effective_ids: Any = False, follow_symlinks: Any = True) -> Any:
    if path.__class__ is not str or path not in _known:
        _look(path, dir_fd)
    return _access(path, mode, dir_fd=dir_fd, effective_ids=effective_ids, follow_symlinks=follow_symlinks)


def _look(path: Any, dir_fd: Any) -> None:
    if _told is None or dir_fd is not None or path.__class__ is int:
        return
    try:
        name = path if path.__class__ is str else os.fspath(path)
        if name in _known:
            return
        name = os.fsdecode(name)
        is_library = _is_library(sys._getframe(2))
        if is_library is None or (is_library and _is_its_own(name)):
            return
        _told(name)
        if len(_known) < _MOST_KNOWN:
            _known.add(name)
    except Exception:  # noqa: S110 - observing must not make the observed code fail
        pass


def _is_library(frame: FrameType | None) -> bool | None:
    """Whether a library asks, on behalf of training code, and not that itself; None if neither does."""
    while frame is not None:
        module, file = _where(frame)
        if module in _PATHS or module.startswith("pathlib."):
            if frame.f_code.co_name not in _ASKS:
                return None
        elif module not in _CALLS:
            break
        frame = frame.f_back
    if frame is None:
        return False
    if file.startswith(_OURS) or _top(module) in sys.stdlib_module_names:
        return None
    if _is_training(module, file):
        return False
    while (frame := frame.f_back) is not None:
        module, file = _where(frame)
        if file.startswith(_OURS) or _top(module) in _OURS_TOO or _top(module) in _IMPORTS:
            return None
        if _is_training(module, file):
            return True
    return None


def _is_its_own(name: str) -> bool:
    """Whether a library asks for code or hidden files: settings, caches, repositories."""
    hidden = (part for part in name.split(os.sep) if part.startswith(".") and part not in (os.curdir, os.pardir))
    return name.endswith(_CODE) or next(hidden, None) is not None


def _where(frame: FrameType) -> tuple[str, str]:
    return str(frame.f_globals.get("__name__", "")), frame.f_code.co_filename


def _top(module: str) -> str:
    return module.partition(".")[0]


def _is_training(module: str, file: str) -> bool:
    if module == "__main__":
        return not file.startswith(_OURS)
    return not (is_installed_file(file) or file.startswith("<") or _top(module) in (*_OURS_TOO, *_IMPORTS))
