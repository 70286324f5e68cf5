"""Files that the set-up of a resumed leg empties or removes, such as a log. Law: what earlier steps wrote stays.

``open("log.csv", "w")`` empties the file, ``os.remove`` and ``shutil.rmtree`` remove it. So a copy is made just before
that, and what it holds is put back when the set-up is done; the open file goes on at its end. A copy that a killed
process has left is the one to put back. A file that does not begin with what the set-up has written is not a log: it
may be another trial's, and stays as written. What the set-up itself has made and removes is gone.
"""

from __future__ import annotations

import contextlib
import functools
import gc
import io
import os
import shutil
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import xxhash

from workbench.snapshot.surroundings.held import mapped
from workbench.store.files.inside import make_inside
from workbench.store.layout import TrialPaths
from workbench.trial.course.apart import MOST, PASSED, Unseen
from workbench.trial.course.tables import Tables

#: The ending of the file that names a copied file which the set-up removes.
_NAME = ".name"
_STREAMS = (io.TextIOWrapper, io.BufferedWriter, io.BufferedRandom, io.FileIO)
#: Events of files that go, with the number of paths in each; descriptors of folders follow.
_GOES = {"os.remove": 1, "shutil.rmtree": 1, "os.rename": 2}
_CONNECTS = {"sqlite3.connect": Tables.connects, "sqlite3.connect/handle": Tables.connected}
#: What listens now: audit hooks stay for good, and a process has many legs.
_listening: list[Reopened] = []


class Reopened:
    """The files that one set-up empties. Make it before that starts."""

    def __init__(self, own: TrialPaths, files: str, store: Path, unseen: Unseen, *, trained: bool) -> None:
        """own: the trial's paths. files: the folder of the trial's files, of which alone those in the store count.
        unseen: for what is read only for a copy. trained: whether the trial has trained before, so that its files hold
        something."""
        self._folder, self._files, self._store, self._unseen = own.copies, files, store, unseen
        self._copies: dict[str, Path] = {}
        #: Processes that the set-up forks are not looked at: they may remove files long afterwards.
        self.pid = os.getpid()
        self._begun_ns = time.time_ns()
        #: The databases among the files; rows that they lack are in its ``lost``.
        self.tables = Tables(self._copy_of, files, unseen, self._begun_ns)
        _listening.clear()
        if not trained:
            if self._folder.exists():
                shutil.rmtree(self._folder, ignore_errors=True)
            return
        with unseen():
            for named in self._folder.glob(f"*{_NAME}"):
                self._copies[os.fsdecode(named.read_bytes())] = named.with_suffix("")
        _listen()
        _listening.append(self)

    def goes(self, path: str) -> None:
        """A file or a folder is about to be removed or replaced."""
        if os.path.islink(path):  # what it points to stays
            return
        with self._unseen():
            inside = [os.path.join(above, name) for above, _, names in os.walk(path) for name in names]
            files = [one for one in inside or [path] if os.path.isfile(one) and not os.path.islink(one)]
            found = [(one, os.stat(one)) for one in files]
        old = sorted((stat.st_size, one) for one, stat in found if stat.st_ctime_ns < self._begun_ns)
        room = MOST
        for size, one in old:  # a log is small beside the weights in its folder
            room -= size
            if room < 0:
                return
            self.heard(one)
            copy = self._copies.get(os.path.realpath(one))
            if copy is not None:
                # The next attempt, if this one is killed now, finds nothing to remove.
                with self._unseen():
                    copy.with_suffix(_NAME).write_bytes(os.fsencode(os.path.realpath(one)))

    def heard(self, path: str) -> None:
        """A file is about to be emptied."""
        name = os.path.realpath(path)
        copy = self._copy_of(name)
        if copy is None or name in self._copies:
            return
        if not copy.exists():
            if not os.path.isfile(name) or not 0 < os.path.getsize(name) <= MOST:
                return
            make_inside(self._folder)
            half = copy.with_suffix(".half")
            with self._unseen():
                shutil.copyfile(name, half)
            os.replace(half, copy)
        self._copies[name] = copy

    def _copy_of(self, name: str) -> Path | None:
        """Where the copy of a file lies; None for files of Workbench's own and of the system."""
        files, store = (os.path.join(os.path.realpath(one), "") for one in (self._files, self._store))
        is_ours = name.startswith((store, *PASSED)) and not name.startswith(files)
        return None if is_ours else self._folder / xxhash.xxh3_128_hexdigest(os.fsencode(name))

    def put_back(self, goes_on: bool) -> None:
        """The set-up is done. goes_on: False if the trial begins again from its start, and nothing is put back."""
        _listening.clear()
        if not (self._copies or self.tables.copies or self.tables.lost):
            return
        self.tables.put_back(goes_on)
        # A database is never copied as a file: a connection of the set-up may have it open.
        for name in self.tables.copies:
            if os.path.isfile(name):
                self._copies.pop(name, None)
        if not goes_on or not self._copies:
            self._forget()
            return
        # An array in a file is saved with the other arrays.
        arrays = {os.path.realpath(path) for path in mapped("self")}
        streams = list(_open_streams())
        flush(streams)
        with self._unseen():
            logs = {name for name, copy in self._copies.items() if name not in arrays and _begins(copy, name)}
            for name in logs:
                os.makedirs(os.path.dirname(name), exist_ok=True)
                shutil.copyfile(self._copies[name], name)
        for stream in streams:
            if os.path.realpath(f"/proc/self/fd/{stream.fileno()}") in logs:
                with contextlib.suppress(OSError, ValueError):
                    stream.seek(0, os.SEEK_END)
        self._forget()

    def _forget(self) -> None:
        self._copies.clear()
        shutil.rmtree(self._folder, ignore_errors=True)
        with contextlib.suppress(OSError):  # it was made for the copies, or holds more
            self._folder.parent.rmdir()


def _begins(whole: Path, part: str) -> bool:
    """Whether the first file begins with all that the other one holds, or the other one is not there."""
    try:
        with open(whole, "rb") as one, open(part, "rb") as other:
            return all(one.read(len(piece)) == piece for piece in iter(lambda: other.read(1 << 20), b""))
    except FileNotFoundError:  # the set-up has removed it
        return whole.exists()
    except OSError:
        return False


def flush(streams: list[Any] | None = None) -> None:
    """Write what files that are open for writing still hold in memory: all of them, or ``streams``."""
    for stream in _open_streams() if streams is None else streams:
        with contextlib.suppress(OSError, ValueError):
            stream.flush()


def _open_streams() -> Iterator[Any]:
    """The files that Python has open for writing; text files first, since they write into the others."""
    found = [one for one in gc.get_objects() if type(one) in _STREAMS]
    for one in sorted(found, key=lambda stream: _STREAMS.index(type(stream))):
        with contextlib.suppress(OSError, ValueError):
            if not one.closed and one.writable() and one.fileno() > 2:
                yield one


@functools.cache
def _listen() -> None:
    sys.addaudithook(_heard)


def _heard(event: str, arguments: tuple[Any, ...]) -> None:
    if not _listening or _listening[0].pid != os.getpid():
        return
    if event in _CONNECTS:
        # The set-up's own connection will say so.
        with contextlib.suppress(OSError, ValueError, sys.modules["sqlite3"].Error):
            _CONNECTS[event](_listening[0].tables, arguments[0])
    if event != "open" and event not in _GOES:
        return
    path = arguments[0]
    if event == "open":
        _, mode, flags = arguments
        empties = "w" in mode if isinstance(mode, str) else bool((flags or 0) & os.O_TRUNC)
        if empties and isinstance(path, str | bytes | os.PathLike):
            with contextlib.suppress(OSError):  # the open itself will say so
                _listening[0].heard(os.fsdecode(path))
        return
    # ``rmtree`` removes one file after the other by descriptors of their folders, after this event.
    paths = () if any(one not in (None, -1) for one in arguments[_GOES[event] :]) else arguments[: _GOES[event]]
    for path in paths:
        with contextlib.suppress(OSError):
            _listening[0].goes(os.fsdecode(path))
