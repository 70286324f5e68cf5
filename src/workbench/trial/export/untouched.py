"""The files of a set-up that is run to load a trained trial. Law: no file that was there before changes.

Such a set-up empties, removes or fills what the trial has written since: its log, its best weights, a table. So it
writes copies, as a second run does (:mod:`workbench.trial.course.apart`), and what it removes is gone for it alone.
This process goes on afterwards, with other threads: only the thread that loads is redirected, and only until it has
loaded; another one that loads waits for it. New files are made as usual: a set-up may fetch its data.
"""

from __future__ import annotations

import builtins
import contextlib
import errno
import functools
import io
import os
import shutil
import sqlite3
import sqlite3.dbapi2
import sys
import tempfile
import threading
import urllib.parse
from collections.abc import Callable
from typing import Any, NoReturn

from workbench.errors import CannotResume
from workbench.snapshot.surroundings.arriving import when_imported
from workbench.trial.course.apart import MOST, Apart
from workbench.trial.course.tables import copy_database

_EMPTIES = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
#: The functions whose places are taken, by module.
_FUNCTIONS = {
    builtins: "open",
    io: "open",
    os: "open stat replace rename remove unlink rmdir mkdir symlink truncate chmod utime",
    shutil: "rmtree",
    sqlite3: "connect",
    sqlite3.dbapi2: "connect",
}
#: What redirects now, the innermost last: a set-up may load another trial.
_redirecting: list[Untouched] = []
#: The functions belong to the whole process, and each puts back what it found.
_alone = threading.RLock()


class Untouched(Apart):
    """Redirects the thread that enters it."""

    def __init__(self, store: str, files: str) -> None:
        """store, files: the folders of Workbench's own files and, in there, of the trial's."""
        # The copies go with this object's context: what is open then stays readable.
        self._place = tempfile.TemporaryDirectory(prefix="workbench-load-")
        #: Files and folders that the set-up has removed, and links.
        self._gone: set[str] = set()
        self._links: set[str] = set()
        self._thread = 0
        self._undo = contextlib.ExitStack()
        super().__init__(self._place.name, _too_large, (store, files), contextlib.nullcontext)

    def __enter__(self) -> Untouched:
        _listen()
        _alone.acquire()
        try:
            self._thread = threading.get_ident()
            _redirecting.append(self)
            for module, names in _FUNCTIONS.items():
                for name in names.split():
                    self._undo.callback(setattr, module, name, getattr(module, name))
            self._redirect()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._undo.close()
        if self in _redirecting:
            _redirecting.remove(self)
        # What was imported or made meanwhile may hold one of the functions for good: it does as the real one again.
        self._thread = 0
        self._copies.clear()
        self._gone.clear()
        self._links.clear()
        self._place.cleanup()
        _alone.release()

    def is_copied(self, file: str) -> bool:
        """Whether the set-up has a copy instead of this file."""
        return os.path.realpath(file) in self._copies

    def _redirect(self) -> None:
        super()._redirect()
        os.rmdir = self._removing(os.rmdir, self._is_full)
        shutil.rmtree = self._removing(shutil.rmtree)  # type: ignore[assignment]  # it lacks an attribute
        os.mkdir, os.symlink, os.truncate = self._making(os.mkdir), self._linking(os.symlink), self._cut(os.truncate)
        os.chmod, os.utime = self._marking(os.chmod), self._marking(os.utime)
        sqlite3.connect = sqlite3.dbapi2.connect = self._connecting(sqlite3.connect)
        for name, library in _LIBRARIES.items():
            _redirect_library(self, name, library)

    def open(self, file: Any, mode: str = "r", *rest: Any, **options: Any) -> Any:
        if "x" in mode and self._is_gone(self._mine(file)):
            mode = mode.replace("x", "w")
        if self._mine(file) and not mode.startswith("r"):
            self._makes(file)
        return super().open(file, mode, *rest, **options)

    def os_open(self, path: Any, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
        if self._mine(path, dir_fd) and flags & os.O_CREAT:
            self._makes(path)
        return super().os_open(path, flags, mode, dir_fd=dir_fd)

    def stat(self, path: Any, *, dir_fd: int | None = None, follow_symlinks: bool = True) -> os.stat_result:
        if self._gone and self._is_gone(self._mine(path, dir_fd)):
            raise _error(errno.ENOENT, path)
        return super().stat(path, dir_fd=dir_fd, follow_symlinks=follow_symlinks)

    def remove(self, path: Any, *, dir_fd: int | None = None) -> None:
        self._removing(super().remove, lambda name: errno.EISDIR if os.path.isdir(name) else 0)(path, dir_fd=dir_fd)

    def _is_full(self, name: str) -> int:
        is_full = any(not self._is_gone(os.path.join(name, one)) for one in os.listdir(name))
        return errno.ENOTEMPTY if is_full else 0

    def _removing(
        self, removes: Callable[..., Any], refused: Callable[[str], int] = lambda name: 0
    ) -> Callable[..., Any]:
        """A function that removes a file or a folder, but not one that was there before. refused: the number of the
        error with which the system would refuse to remove that one."""

        @functools.wraps(removes)
        def redirected(path: Any, *rest: Any, **options: Any) -> Any:
            name = self._mine(path, options.get("dir_fd"))
            if name and os.path.islink(path):
                return self._remove_link(path, removes)
            if not name or not self._is_others(name):
                return removes(path, *rest, **options)
            if self._is_gone(name):
                if rest[:1] == (True,) or options.get("ignore_errors"):
                    return None
                raise _error(errno.ENOENT, path)
            if number := refused(name):
                raise _error(number, path)
            self._copies = {one: copy for one, copy in self._copies.items() if not _is_within(one, name)}
            self._gone.add(name)
            return None

        return redirected

    def _remove_link(self, path: Any, removes: Callable[[Any], Any]) -> None:
        name = _of_link(path)
        if name in self._links:
            raise _error(errno.ENOENT, path)
        if name in self._made:
            removes(path)
        else:
            self._links.add(name)

    def _linking(self, links: Callable[..., None]) -> Callable[..., None]:
        """``os.symlink``: a link that was removed is there again, as it was."""

        @functools.wraps(links)
        def redirected(src: Any, dst: Any, *rest: Any, **options: Any) -> None:
            name = _of_link(dst) if self._mine(dst, options.get("dir_fd")) else ""
            if name in self._links:
                self._links.remove(name)
                return
            links(src, dst, *rest, **options)
            if name:
                self._made.add(name)

        return redirected

    def _marking(self, marks: Callable[..., None]) -> Callable[..., None]:
        """``os.chmod`` or ``os.utime``: of the copy of what was there before."""

        @functools.wraps(marks)
        def redirected(path: Any, *rest: Any, **options: Any) -> None:
            name = self._mine(path, options.get("dir_fd"))
            if name in self._copies:
                marks(self._copies[name], *rest, **options)
            elif not name or not self._is_others(name):
                marks(path, *rest, **options)

        return redirected

    def _making(self, makes: Callable[..., None]) -> Callable[..., None]:
        """``os.mkdir``: a folder that was removed is there again."""

        @functools.wraps(makes)
        def redirected(path: Any, *rest: Any, **options: Any) -> None:
            name = self._mine(path, options.get("dir_fd"))
            if name in self._gone:
                self._gone.remove(name)
                self._gone |= {os.path.join(name, one) for one in os.listdir(name)}
                return
            if name and not os.path.lexists(name):
                self._made.add(name)
            makes(path, *rest, **options)

        return redirected

    def _cut(self, cuts: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(cuts)
        def redirected(path: Any, length: int) -> None:
            where = self._where(path, os.O_RDWR)
            cuts(path if where is None else where, length)

        return redirected

    def _connecting(self, connects: Callable[..., Any]) -> Callable[..., Any]:
        """``sqlite3.connect``: to a copy of a database that is there."""

        @functools.wraps(connects)
        def redirected(database: Any, *rest: Any, **options: Any) -> Any:
            name = self._mine(_of_database(database, is_uri=bool(options.get("uri"))))
            where = self._copies.get(name)
            if where is None and name and os.path.isfile(name) and os.path.getsize(name) <= MOST:
                where = self._where(name, _EMPTIES)
                if where is not None and not self._is_gone(name):
                    # Through SQLite, since what was committed last may lie in a file beside it.
                    try:
                        copy_database(name, where, connects)
                    except sqlite3.Error:  # the set-up must not go on with an empty database
                        del self._copies[name]
                        raise
            if where is None:
                return connects(database, *rest, **options)
            return connects(where, *rest, **{**options, "uri": False})

        return redirected

    def _where(self, path: Any, flags: int) -> str | None:
        name = self._mine(path)
        if not name:
            return None
        is_gone = self._is_gone(name)
        if is_gone and not flags & os.O_CREAT:
            raise _error(errno.ENOENT, path)
        try:
            return super()._where(path, flags | os.O_TRUNC if is_gone else flags)
        except OverflowError:  # it goes into the file itself
            return None

    def _moving(self, move: Callable[..., None]) -> Callable[..., None]:
        """``os.replace`` or ``os.rename``: what was there before stays, and moves for this thread alone."""

        @functools.wraps(move)
        def redirected(src: Any, dst: Any, **folders: Any) -> None:
            name = "" if folders else self._mine(src)
            if not name:
                return move(src, dst, **folders)
            if os.path.islink(src):
                return self._move_link(src, dst, move)
            is_others = self._is_others(name)
            if os.path.isdir(src):
                if is_others:
                    raise CannotResume(
                        f"the set-up moves the folder {os.fsdecode(src)!r}, which was there before, and loading a "
                        "trial changes nothing that is there. trial.state has its weights without running the set-up."
                    )
                return move(src, dst)
            where, copy = self._where(dst, _EMPTIES), self._copies.get(name)
            if where is None and copy is None and not is_others:
                return move(src, dst)
            if where is None:  # what was there is not there twice afterwards
                where = self._copies[os.path.realpath(os.fsdecode(dst))] = self._new_name(os.path.basename(name))
            shutil.copyfile(self._where(src, os.O_RDONLY) or src, where)
            self._copies.pop(name, None)
            if is_others:
                self._gone.add(name)
            else:
                self._remove(src)
            return None

        return redirected

    def _move_link(self, src: Any, dst: Any, move: Callable[..., None]) -> None:
        if os.path.lexists(dst) and _of_link(dst) not in self._made:
            self._remove_link(src, self._remove)
            self._links.discard(_of_link(dst))
        elif _of_link(src) in self._made:
            move(src, dst)
            self._made.add(_of_link(dst))

    def _is_gone(self, name: str) -> bool:
        """Whether the set-up has removed it, and not made it again."""
        return name not in self._copies and any(_is_within(name, one) for one in self._gone)

    def _is_new(self, name: str) -> bool:
        return False

    def _is_others(self, name: str) -> bool:
        return self._is_gone(name) or super()._is_others(name)

    def _mine(self, path: Any, folder: Any = None) -> str:
        """The whole path, if this is the thread that loads; otherwise, and below the descriptor of a folder, empty."""
        if folder is not None or threading.get_ident() != self._thread:
            return ""
        return os.path.realpath(os.fsdecode(path)) if isinstance(path, str | bytes | os.PathLike) else ""


def _error(number: int, path: Any) -> OSError:
    return OSError(number, os.strerror(number), path)


def _of_database(database: Any, *, is_uri: bool) -> Any:
    """The path of a database's file; None if there is none, or if it is opened to be read alone."""
    if not isinstance(database, str | bytes | os.PathLike):
        return None
    text = os.fsdecode(database)
    if not (is_uri and text.startswith("file:")):
        return database
    parts = urllib.parse.urlsplit(text)
    options = urllib.parse.parse_qs(parts.query)
    is_read = options.get("mode", [""])[0] in ("ro", "memory") or "immutable" in options
    return None if is_read else urllib.parse.unquote(parts.path) or None


def _of_link(path: Any) -> str:
    """The path of a link itself."""
    folder, name = os.path.split(os.path.abspath(os.fsdecode(path)))
    return os.path.join(os.path.realpath(folder), name)


def _is_within(name: str, folder: str) -> bool:
    return name == folder or name.startswith(os.path.join(folder, ""))


def _too_large(why: str) -> NoReturn:
    raise OverflowError(why)


#: Where a module has functions that open files in C or C++, their names, and what takes their place.
_Library = tuple[Callable[[Any], Any], tuple[str, ...], Callable[[Untouched, Any], None]]
_LIBRARIES: dict[str, _Library] = {
    "torch.serialization": (lambda module: module.torch._C, ("PyTorchFileWriter",), Untouched._redirect_torch),
    "h5py.h5f": (lambda module: module, ("create", "open"), Untouched._redirect_hdf5),
}


def _redirect_library(untouched: Untouched, name: str, library: _Library) -> None:
    module = sys.modules.get(name)
    if module is None:
        return
    place, names, redirects = library
    for one in names:
        untouched._undo.callback(setattr, place(module), one, getattr(place(module), one))
    redirects(untouched, module)


@functools.cache
def _listen() -> None:
    """Redirect these modules also if the set-up is the first to import them."""
    for name, library in _LIBRARIES.items():
        when_imported(name, functools.partial(_redirect_imported, name, library))


def _redirect_imported(name: str, library: _Library, module: Any) -> None:
    for untouched in _redirecting:
        _redirect_library(untouched, name, library)
