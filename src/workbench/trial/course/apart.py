"""The files of a second run: of the set-up, or of a trial that is checked. Law: no file that was there before changes.

The first run trains meanwhile, or has trained further, and its files are the ones to keep: a log, an array in a file,
the best weights. So Python and torch write copies, of files that are there and of new ones, which may have a name that
the first run is about to use; this process reads the copies from then on. What would remove or rename a file that is
there, or change it in a way that cannot be redirected, ends the second run.
"""

from __future__ import annotations

import builtins
import errno
import io
import itertools
import os
import shutil
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, NoReturn, Self

from workbench.snapshot.surroundings.arriving import when_imported

#: What is opened inside its context is not the training code's doing.
Unseen = Callable[[], AbstractContextManager[object]]
#: Larger files, in bytes, are not copied.
MOST = 1 << 28
_WRITES = os.O_WRONLY | os.O_RDWR
#: The flags with which ``w`` and ``a`` open a file.
_NEW, _AT_THE_END = os.O_WRONLY | os.O_CREAT | os.O_TRUNC, os.O_WRONLY | os.O_CREAT
#: Devices, and what Python and compilers make again by themselves.
PASSED, _CACHES = ("/dev/", "/proc/", "/sys/"), ("__pycache__", "/torchinductor_", "/.triton/")
#: Events of Python's audit hooks that name one file or folder which goes or is cut.
_GOES = frozenset({"os.remove", "os.rmdir", "os.truncate", "shutil.rmtree"})


def is_written(mode: object, flags: int | None) -> bool:
    """Whether a file is opened for writing, as Python's audit event ``open`` tells it."""
    if isinstance(mode, str):
        return any(one in mode for one in "wax+")
    return bool((flags or 0) & _WRITES)


class Apart:
    """The copies, and the functions that use them once they take the place of Python's own: see :meth:`hook`."""

    def __init__(self, folder: str, end: Callable[[str], NoReturn], folders: tuple[str, str], unseen: Unseen) -> None:
        """folder: for the copies. end: ends this process, given the reason. folders: of Workbench's own files, which
        are not looked at, and of the trial's, in there, which are. unseen: for what is read only for a copy."""
        self._folder, self._end, self._unseen = folder, end, unseen
        within = [os.path.join(os.path.realpath(one), "") for one in (folder, *folders)]
        self._passed, self._files = (*PASSED, *within[:2]), within[2]
        self._copies: dict[str, str] = {}
        self._numbers = itertools.count()
        #: Files and folders that this process has made.
        self._made: set[str] = set()
        self._open, self._os_open, self._stat, self._remove = io.open, os.open, os.stat, os.remove

    def hook(self) -> Self:
        """Hook into this process for good."""
        self._redirect()
        sys.addaudithook(self._heard)
        when_imported("torch.serialization", self._redirect_torch)
        when_imported("h5py.h5f", self._redirect_hdf5)
        return self

    def _redirect(self) -> None:
        """Take the place of Python's own functions."""
        builtins.open = io.open = self.open
        os.open, os.stat = self.os_open, self.stat
        os.replace, os.rename = self._moving(os.replace), self._moving(os.rename)
        os.remove = os.unlink = self.remove

    @property
    def copied(self) -> list[str]:
        """The files that are written as copies."""
        return list(self._copies)

    def open(self, file: Any, mode: str = "r", *rest: Any, **options: Any) -> Any:
        """As Python's ``open``."""
        flags = _NEW if "w" in mode else _AT_THE_END if "a" in mode else os.O_RDWR if "+" in mode else os.O_RDONLY
        where = self._where(file, flags)
        if where is None:
            return self._open(file, mode, *rest, **options)
        found: Any = self._open(where, mode, *rest, **options)
        raw = getattr(getattr(found, "buffer", found), "raw", found)
        raw.name = file  # as the first run has it
        return found

    def os_open(self, path: Any, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
        """As Python's ``os.open``."""
        where = None
        if dir_fd is None and not flags & os.O_EXCL:
            where = self._where(path, flags)
        return self._os_open(path if where is None else where, flags, mode, dir_fd=dir_fd)

    def stat(self, path: Any, *, dir_fd: int | None = None, follow_symlinks: bool = True) -> os.stat_result:
        """As Python's ``os.stat``, which other functions use to find out how large a file is."""
        where = self._where(path, os.O_RDONLY) if self._copies and dir_fd is None else None
        return self._stat(path if where is None else where, dir_fd=dir_fd, follow_symlinks=follow_symlinks)

    def remove(self, path: Any, *, dir_fd: int | None = None) -> None:
        """As Python's ``os.remove``; a new file goes with its copy."""
        name = None if dir_fd is not None else os.path.realpath(os.fsdecode(path))
        if name not in self._copies or os.path.lexists(name):
            return self._remove(path, dir_fd=dir_fd)
        return self._remove(self._copies.pop(name))

    def _moving(self, move: Callable[..., None]) -> Callable[..., None]:
        """``os.replace`` or ``os.rename``: a file of this process, or a copy, becomes a copy of another name."""

        def redirected(src: Any, dst: Any, **folders: Any) -> None:
            name = os.path.realpath(os.fsdecode(src))
            is_own = name in self._copies or (os.path.isfile(name) and not self._is_others(name))
            where = None if folders or not is_own or os.path.isdir(dst) else self._where(dst, _NEW)
            if where is None:
                return move(src, dst, **folders)
            source = self._copies.pop(name, name)
            try:
                move(source, where)
            except OSError as error:
                if error.errno != errno.EXDEV:
                    raise
                shutil.copyfile(source, where)
                self._remove(source)

        return redirected

    def _redirect_torch(self, module: Any) -> None:
        """Redirect ``torch.save``, which opens its file in C++."""
        writer = module.torch._C.PyTorchFileWriter

        def redirected(file: Any, *rest: Any, **options: Any) -> Any:
            where = self._where(file, _NEW)
            return writer(file if where is None else where, *rest, **options)

        module.torch._C.PyTorchFileWriter = redirected

    def _redirect_hdf5(self, module: Any) -> None:
        """Redirect HDF5: it opens files in C, and empties one before it finds that the first run has locked it."""
        create, opens = module.create, module.open

        def redirected_create(name: Any, flags: int = module.ACC_TRUNC, *rest: Any, **options: Any) -> Any:
            is_there = os.path.exists(name) or os.path.realpath(os.fsdecode(name)) in self._copies
            where = None if flags & module.ACC_EXCL and is_there else self._where(name, _NEW)
            if where is None:
                return create(name, flags, *rest, **options)
            return create(os.fsencode(where), module.ACC_TRUNC, *rest, **options)

        def redirected_open(name: Any, flags: int = module.ACC_RDWR, *rest: Any, **options: Any) -> Any:
            where = self._where(name, os.O_RDWR if flags & module.ACC_RDWR else os.O_RDONLY)
            return opens(name if where is None else os.fsencode(where), flags, *rest, **options)

        module.create, module.open = redirected_create, redirected_open

    def _where(self, path: Any, flags: int) -> str | None:
        """The copy to use instead of the file that is opened with ``flags``; None for the file itself."""
        if not isinstance(path, str | bytes | os.PathLike):
            return None
        name = os.path.realpath(os.fsdecode(path))
        if name in self._copies or not flags & _WRITES:
            return self._copies.get(name)
        is_new = bool(flags & os.O_CREAT) and self._is_new(name)
        if not is_new and not self._is_others(name):
            return None
        is_empty = is_new or bool(flags & os.O_TRUNC)
        if not is_empty and os.path.getsize(name) > MOST:
            self._end(f"it writes {name}, which is too large to be copied")
        copy = self._new_name(os.path.basename(name))
        if is_empty:
            os.close(self._os_open(copy, os.O_WRONLY | os.O_CREAT, 0o600))
        else:
            with self._unseen():
                shutil.copyfile(name, copy)
        self._copies[name] = copy
        return copy

    def _new_name(self, name: str) -> str:
        """Where a copy of a file of that name can lie."""
        return os.path.join(self._folder, f"{next(self._numbers)}-{name}"[:200])

    def _is_new(self, name: str) -> bool:
        """Whether the file would come into a folder that this process has not made."""
        return not os.path.lexists(name) and os.path.isdir(above := os.path.dirname(name)) and self._is_others(above)

    def _is_others(self, name: str) -> bool:
        """Whether the file or folder is there, and this process has not made it."""
        within = os.path.join(name, "")  # a folder is in itself
        is_passed = within.startswith(self._passed) and not within.startswith(self._files)
        if is_passed or any(one in name for one in _CACHES) or not os.path.lexists(name):
            return False
        above = name
        while above not in self._made:
            if above == os.path.dirname(above):
                return os.path.isfile(name) or os.path.isdir(name)
            above = os.path.dirname(above)
        return False

    def _heard(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event == "open":
            path, mode, flags = arguments
            if is_written(mode, flags):
                self._changes(path)
        elif event in _GOES or event == "sqlite3.connect":
            self._changes(arguments[0])
        elif event == "os.rename":
            self._changes(arguments[0])
            self._changes(arguments[1])
        elif event == "os.mkdir":
            self._makes(arguments[0])

    def _changes(self, path: Any) -> None:
        if isinstance(path, str | bytes | os.PathLike):
            name = os.path.realpath(os.fsdecode(path))
            if self._is_others(name):
                self._end(f"it changes {name}")
            self._makes(name)

    def _makes(self, path: Any) -> None:
        if isinstance(path, str | bytes | os.PathLike):
            name = os.path.realpath(os.fsdecode(path))
            if not os.path.lexists(name):
                self._made.add(name)
