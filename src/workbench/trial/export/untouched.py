"""The files of a set-up that is run to load a trained trial. Law: no file that was there before changes.

Such a set-up empties, removes or fills what the trial has written since: its log, its best weights, a table. So it
writes copies, as a second run does (:mod:`workbench.trial.course.apart`), and what it removes is gone for it alone.
This process goes on afterwards, with other threads: only the thread that loads is led, and only until it has loaded;
another one that loads waits for it. New files are made as usual: a set-up may fetch its data.
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
from workbench.trial.looking import databases

_EMPTIES = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
#: A set-up waits so long for a database that another process has locked.
_BUSY_S = 5.0
#: What is led now, the innermost last: a set-up may load another trial.
_leading: list[Aside] = []
#: What is led belongs to the whole process, and each puts back what it found.
_alone = threading.RLock()


class Aside(Apart):
    """Leads the thread that enters it."""

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

    def __enter__(self) -> Aside:
        _listen()
        _alone.acquire()
        try:
            self._lead_all()
        except BaseException:
            self.__exit__()
            raise
        return self

    def _lead_all(self) -> None:
        self._thread = threading.get_ident()
        _leading.append(self)
        leads = {
            builtins: ("open",),
            io: ("open",),
            os: (
                *("open", "stat", "replace", "rename", "remove", "unlink", "rmdir", "mkdir", "symlink"),
                *("truncate", "chmod", "utime"),
            ),
            shutil: ("rmtree",),
            sqlite3: ("connect",),
            sqlite3.dbapi2: ("connect",),
        }
        for module, names in leads.items():
            for name in names:
                self._undo.callback(setattr, module, name, getattr(module, name))
        self._lead()
        os.rmdir = self._removing(os.rmdir)
        shutil.rmtree = self._removing(shutil.rmtree)  # type: ignore[assignment]  # it lacks an attribute
        os.mkdir, os.symlink, os.truncate = self._making(os.mkdir), self._linking(os.symlink), self._cut(os.truncate)
        os.chmod, os.utime, sqlite3.connect = self._marking(os.chmod), self._marking(os.utime), self._connecting()
        sqlite3.dbapi2.connect = sqlite3.connect
        for name, lead in _LIBRARIES.items():
            _lead_library(self, name, lead)

    def __exit__(self, *_: object) -> None:
        self._undo.close()
        if self in _leading:
            _leading.remove(self)
        # What was imported or made meanwhile may hold one of the functions for good: it does as the real one again.
        self._thread = 0
        self._copies.clear()
        self._gone.clear()
        self._links.clear()
        self._place.cleanup()
        _alone.release()

    def is_led(self, file: str) -> bool:
        """Whether the set-up has a copy instead of this file."""
        return os.path.realpath(file) in self._copies

    def _begin(self) -> None:
        """Does nothing until the context begins."""

    def open(self, file: Any, mode: str = "r", *rest: Any, **options: Any) -> Any:
        if "x" in mode and isinstance(file, str | bytes | os.PathLike) and self._is_gone(file):
            mode = mode.replace("x", "w")
        if self._is_mine() and not mode.startswith("r"):
            self._makes(file)
        return super().open(file, mode, *rest, **options)

    def os_open(self, path: Any, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
        if self._is_mine() and flags & os.O_CREAT and dir_fd is None:
            self._makes(path)
        return super().os_open(path, flags, mode, dir_fd=dir_fd)

    def stat(self, path: Any, *, dir_fd: int | None = None, follow_symlinks: bool = True) -> os.stat_result:
        if dir_fd is None and self._gone and isinstance(path, str | bytes | os.PathLike) and self._is_gone(path):
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        return super().stat(path, dir_fd=dir_fd, follow_symlinks=follow_symlinks)

    def remove(self, path: Any, *, dir_fd: int | None = None) -> None:
        self._removing(super().remove)(path, dir_fd=dir_fd)

    def _removing(self, removes: Callable[..., Any]) -> Callable[..., Any]:
        """A function that removes a file or a folder, but not one that was there before."""

        @functools.wraps(removes)
        def led(path: Any, *rest: Any, **options: Any) -> Any:
            others = options.get("dir_fd") is None and isinstance(path, str | bytes | os.PathLike) and self._is_mine()
            name = os.path.realpath(os.fsdecode(path)) if others else ""
            if others and os.path.islink(path):
                return self._remove_link(path, removes)
            if not others or not self._is_others(name):
                return removes(path, *rest, **options)
            if self._is_gone(name):
                if rest[:1] == (True,) or options.get("ignore_errors"):
                    return None
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
            does = getattr(removes, "__name__", "")
            if does in ("remove", "unlink") and os.path.isdir(name):
                raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
            if does == "rmdir" and any(not self._is_gone(os.path.join(name, one)) for one in os.listdir(name)):
                raise OSError(errno.ENOTEMPTY, os.strerror(errno.ENOTEMPTY), path)
            self._copies = {one: copy for one, copy in self._copies.items() if not _is_within(one, name)}
            self._gone.add(name)
            return None

        return led

    def _remove_link(self, path: Any, removes: Callable[[Any], Any]) -> None:
        name = _of_link(path)
        if name in self._links:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        if name in self._made:
            removes(path)
        else:
            self._links.add(name)

    def _linking(self, links: Callable[..., None]) -> Callable[..., None]:
        """``os.symlink``: a link that was removed is there again, as it was."""

        @functools.wraps(links)
        def led(src: Any, dst: Any, *rest: Any, **options: Any) -> None:
            name = _of_link(dst) if self._is_mine() and options.get("dir_fd") is None else ""
            if name in self._links:
                self._links.remove(name)
                return
            links(src, dst, *rest, **options)
            self._made |= {name} - {""}

        return led

    def _marking(self, marks: Callable[..., None]) -> Callable[..., None]:
        """``os.chmod`` or ``os.utime``: of the copy of what was there before."""

        @functools.wraps(marks)
        def led(path: Any, *rest: Any, **options: Any) -> None:
            is_plain = isinstance(path, str | bytes | os.PathLike) and options.get("dir_fd") is None
            name = os.path.realpath(os.fsdecode(path)) if is_plain and self._is_mine() else ""
            if name in self._copies:
                marks(self._copies[name], *rest, **options)
            elif not name or not self._is_others(name):
                marks(path, *rest, **options)

        return led

    def _making(self, makes: Callable[..., None]) -> Callable[..., None]:
        """``os.mkdir``: a folder that was removed is there again."""

        @functools.wraps(makes)
        def led(path: Any, *rest: Any, **options: Any) -> None:
            is_mine = self._is_mine() and options.get("dir_fd") is None
            name = os.path.realpath(os.fsdecode(path)) if is_mine else ""
            if name not in self._gone:
                if name and not os.path.lexists(name):
                    self._made.add(name)
                return makes(path, *rest, **options)
            self._gone.remove(name)
            self._gone |= {os.path.join(name, one) for one in os.listdir(name)}
            return None

        return led

    def _cut(self, cuts: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(cuts)
        def led(path: Any, length: int) -> None:
            where = self._where(path, os.O_RDWR)
            cuts(path if where is None else where, length)

        return led

    def _connecting(self) -> Callable[..., Any]:
        """``sqlite3.connect``: to a copy of a database that is there."""
        connects: Callable[..., Any] = sqlite3.connect

        @functools.wraps(connects)
        def led(database: Any, *rest: Any, **options: Any) -> Any:
            path = _of_database(database, is_uri=bool(options.get("uri"))) if self._is_mine() else None
            name = os.path.realpath(os.fsdecode(path)) if path is not None else ""
            if name in self._copies:
                return connects(self._copies[name], *rest, **{**options, "uri": False})
            if not name or not os.path.isfile(name) or os.path.getsize(name) > MOST:
                return connects(database, *rest, **options)
            where = self._where(name, _EMPTIES)
            if where is None:
                return connects(database, *rest, **options)
            if not self._is_gone(name):
                # Through SQLite, since what was committed last may lie in a file beside it.
                try:
                    with contextlib.closing(connects(name)) as there, contextlib.closing(connects(where)) as copy:
                        databases.copy(there, copy, _BUSY_S)
                except sqlite3.Error:  # the set-up must not go on with an empty database
                    del self._copies[name]
                    raise
            return connects(where, *rest, **{**options, "uri": False})

        return led

    def _where(self, path: Any, flags: int) -> str | None:
        if not self._is_mine() or not isinstance(path, str | bytes | os.PathLike):
            return None
        is_gone = self._is_gone(path)
        if is_gone and not flags & os.O_CREAT:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        try:
            return super()._where(path, flags | os.O_TRUNC if is_gone else flags)
        except OverflowError:  # it goes into the file itself
            return None

    def _led(self, move: Callable[..., None]) -> Callable[..., None]:
        """``os.replace`` or ``os.rename``: what was there before stays, and moves for this thread alone."""

        @functools.wraps(move)
        def led(src: Any, dst: Any, **folders: Any) -> None:
            if not self._is_mine() or folders:
                return move(src, dst, **folders)
            name = os.path.realpath(os.fsdecode(src))
            if os.path.islink(src):
                return self._move_link(src, dst, move)
            if os.path.isdir(src):
                if self._is_others(name):
                    raise CannotResume(
                        f"the set-up moves the folder {os.fsdecode(src)!r}, which was there before, and loading a "
                        "trial changes nothing that is there. trial.state has its weights without running the set-up."
                    )
                return move(src, dst)
            where, copy, is_others = self._where(dst, _EMPTIES), self._copies.get(name), self._is_others(name)
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

        return led

    def _move_link(self, src: Any, dst: Any, move: Callable[..., None]) -> None:
        if os.path.lexists(dst) and _of_link(dst) not in self._made:
            self._remove_link(src, self._remove)
            self._links.discard(_of_link(dst))
        elif _of_link(src) in self._made:
            move(src, dst)
            self._made.add(_of_link(dst))

    def _is_gone(self, path: Any) -> bool:
        """Whether the set-up has removed it, and not made it again."""
        if not self._gone or not self._is_mine():
            return False
        name = os.path.realpath(os.fsdecode(path))
        return name not in self._copies and any(_is_within(name, one) for one in self._gone)

    def _is_new(self, name: str) -> bool:
        return False

    def _is_others(self, name: str) -> bool:
        return self._is_gone(name) or super()._is_others(name)

    def _is_mine(self) -> bool:
        return threading.get_ident() == self._thread


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


#: Where a module has functions that open files in C or C++, their names, and what leads them.
_Lead = tuple[Callable[[Any], Any], tuple[str, ...], Callable[[Aside, Any], None]]
_LIBRARIES: dict[str, _Lead] = {
    "torch.serialization": (lambda module: module.torch._C, ("PyTorchFileWriter",), Aside._lead_torch),
    "h5py.h5f": (lambda module: module, ("create", "open"), Aside._lead_hdf5),
}


def _lead_library(aside: Aside, name: str, lead: _Lead) -> None:
    module = sys.modules.get(name)
    if module is None:
        return
    place, names, leads = lead
    for one in names:
        aside._undo.callback(setattr, place(module), one, getattr(place(module), one))
    leads(aside, module)


@functools.cache
def _listen() -> None:
    """Lead these modules also if the set-up is the first to import them."""
    for name, lead in _LIBRARIES.items():
        when_imported(name, functools.partial(_lead_imported, name, lead))


def _lead_imported(name: str, lead: _Lead, module: Any) -> None:
    for aside in _leading:
        _lead_library(aside, name, lead)
