"""Which files a process is seen to read. Law: it records and never opens files, and does not claim to be complete.

An audit hook reports files and SQLite databases that Python opens, in the process itself and in forked ones (loaders'
workers). Wrappers report files that other readers open (``readers.py``), and a command line shows which files a
subprocess may read. Files held open or mapped, also by children, are looked up in ``/proc``. A file that any other
library or a subprocess opens and closes by itself is not seen.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import sys
import sysconfig
import threading
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias
from urllib.parse import unquote

from workbench.snapshot.originals import Originals
from workbench.snapshot.surroundings import listings, lookups, readers
from workbench.snapshot.surroundings.code import CODE, data_in, is_ours
from workbench.snapshot.surroundings.data import opened_mark
from workbench.snapshot.surroundings.held import SYSTEM, mapped, of_children, opened
from workbench.snapshot.surroundings.programs import files_named, started
from workbench.store.owner.runtime import ours

#: The maximum number of paths recorded for one leg; others are only counted.
MOST_NOTED = 20_000
#: The maximum number of entries reported for one leg, and of files of one folder reported individually.
MOST_TOLD, MOST_OF_A_FOLDER = 64, 32
#: The maximum number of read files whose time is recorded, which tells whether they changed before they were digested.
_MOST_MARKED = 500
#: The maximum number of written files that are checked for being data.
_MOST_WRITTEN = 1000
_EVENTS = frozenset({"open", "sqlite3.connect", "subprocess.Popen", "os.system", "os.posix_spawn", "os.exec"})
#: Events that make or remove names otherwise.
_MOVES = frozenset({"os.mkdir", "os.remove", "os.rename", "os.rmdir"})
_HEARD = _EVENTS | _MOVES | listings.EVENTS | {"os.chdir"}
#: Flags that create or truncate a file.
_MAKES = os.O_CREAT | os.O_TRUNC
#: What a library reads at each connection. Of other files with secrets, such as ``.env``, a digest is recorded.
_SECRET = ("/.netrc",)
#: What SQLite keeps beside a database while it is open.
_BESIDE_SQLITE = ("-wal", "-shm", "-journal")
#: The maximum number of listed programs, and of examined children.
MOST_PROGRAMS, _MOST_CHILDREN = 16, 64
#: Prefixes in messages between processes for entries other than reads: a file named to a subprocess, a program, names
#: that are asked for in a folder, and a path that was there when it was asked for, or was not.
_NAMED, _PROGRAM, _LISTING, _THERE, _ABSENT = "\x01", "\x02", "\x03", "\x05", "\x06"
#: It separates the path of a read file from its mark.
_MARKED = "\x04"
#: As :func:`opened_mark` has it of a file when it was opened; None if that was not recorded.
_Mark: TypeAlias = "tuple[int, ...] | None"
#: Parts of paths of libraries' own files.
_LIBRARIES = (
    *("/site-packages/", "/dist-packages/", "/__pycache__/", "/.git/", "/.cache/matplotlib/", "/.cache/fontconfig/"),
    *("/.triton/", "/torchinductor_", "/.nv/", "/pymp-"),
)
#: Hidden folders of a home in which data sets are kept; all others are settings and secrets.
_DATA_AT_HOME = frozenset({".cache", ".keras", ".fastai", ".data"})


def _installed() -> tuple[str, ...]:
    paths = sysconfig.get_paths()
    folders = {paths[name] for name in ("stdlib", "platstdlib", "purelib", "platlib")}
    for prefix in {sys.prefix, sys.base_prefix}:
        folders |= {f"{prefix}/{part}" for part in ("lib", "lib64", "share", "etc", "bin", "include", "conda-meta")}
    folders |= {os.path.realpath(folder) for folder in folders}
    return tuple(f"{folder.rstrip('/')}/" for folder in folders)


class Seen:
    """The files that this process reads, from :meth:`begin` on. It hooks into the interpreter for good.

    file: where a process that was started by another writes what it sees, for that one to read.
    """

    def __init__(self, file: str | None = None) -> None:
        self._is_child = file is not None
        flags = os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC
        self._shared = os.memfd_create("workbench-seen") if file is None else os.open(file, flags)
        fcntl.fcntl(self._shared, fcntl.F_SETFL, os.O_APPEND)
        self._read: dict[str, _Mark] = {}
        self._made: set[str] = set()
        #: Files that were read first, and opened for writing later; and the other way round.
        self._changed: set[str] = set()
        self._reread: set[str] = set()
        self._beyond = 0
        self._taken = 0
        self._passed: tuple[str, ...] = ()
        self._passes = False
        self._store = ""
        self._kept: dict[str, _Mark] = {}
        self._checked = 0
        self._forget = _installed()
        #: Files that a command line named and that were not seen to be read; started programs.
        self._named: dict[str, None] = {}
        self._programs: dict[str, None] = {}
        #: Copies that replace changed files, and the paths of those files.
        self._copies: dict[str, str] = {}
        #: Files of the project that were read in the copy of its code, and their copies.
        self.copied: dict[str, str] = {}
        self._originals = Originals()
        self._home = os.path.join(os.path.expanduser("~"), "")
        #: Folders whose names were listed, inside :meth:`apart`.
        self._listed: dict[str, None] | None = None
        self._listings = listings.Listings(self._data, self._originals.names)
        self._lookups = lookups.Lookups(self._data)
        #: The thread that looks at a folder's names just now.
        self._asking = 0
        #: A pattern for Workbench's own paths, computed on first use in the training process.
        self._ours: re.Pattern[str] | None = None
        os.register_at_fork(after_in_child=self._forked)
        sys.addaudithook(self._heard)
        readers.tell(self._read_by)
        readers.install()
        lookups.install(self._looked_up)

    @property
    def file(self) -> str:
        """The file in which child processes report what they see."""
        return f"/proc/{os.getpid()}/fd/{self._shared}"

    def begin(self, store: str | os.PathLike[str], copies: Mapping[str, str] | None = None) -> None:
        """Start a leg: forget what the last one read. store: its files are not data. copies: by path, the files that
        copies in the store replace.
        """
        os.ftruncate(self._shared, 0)
        self._taken = self._beyond = self._checked = 0
        self._read, self._made, self._changed, self._reread, self._kept = {}, set(), set(), set(), {}
        self._listings.begin()
        self._lookups.begin()
        self._named, self._programs = {}, {}
        self._copies, self.copied = dict(copies or {}), {}
        self._store = os.path.join(os.path.realpath(store), "")
        self._passed = (self._store, os.path.join(os.path.abspath(store), ""))

    def look(self, children: Sequence[int] = ()) -> None:
        """Record files that are open or mapped now, by any reader, also in these children. Half a millisecond in a
        process with torch.
        """
        for path in (*opened("self"), *mapped("self"), *of_children(children[:_MOST_CHILDREN])):
            if path not in self._made and not path.endswith(_BESIDE_SQLITE):
                self._note(path)

    def note(self, paths: Iterable[str]) -> None:
        """Record that these files were read, though not by this process."""
        for path in paths:
            self._note(path)

    @contextlib.contextmanager
    def apart(self) -> Iterator[list[str]]:
        """Collect the data that is read inside the block, also what was read or written before it. At the end the list
        has them, with a ``/`` behind folders whose names were listed."""
        found: list[str] = []
        self._take_shared()
        held = {*opened("self"), *mapped("self")}
        outside = self._read, self._made, self._named
        self._read, self._made, self._named, self._listed = {}, set(), {}, {}
        try:
            yield found
        finally:
            self._take_shared()
            for path in ({*opened("self"), *mapped("self")} - held) - self._made:
                self._note(path)
            read, made, named, listed = self._read, self._made, self._named, self._listed
            (self._read, self._made, self._named), self._listed = outside, None
            self._named.update(named)
            for path, mark in read.items():
                if path not in self._made:
                    self._note(path, mark)
            self._made |= made
            data = [self._data(path) for path in {**read, **named}]
            found += sorted({path for path in data if path is not None and os.path.isfile(path)})
            folders = {self._data(os.path.join(path, "")) for path in listed}
            found += sorted(path for path in folders if path is not None and os.path.isdir(path))

    @contextlib.contextmanager
    def passing(self) -> Iterator[None]:
        """What is opened or listed inside the block is not the training code's doing."""
        self._passes = True
        try:
            yield
        finally:
            self._passes = False

    def has_read(self, path: str) -> bool:
        """Whether ``path`` itself was read, and not only its copy."""
        return path in self._read

    def told(self) -> tuple[list[str], int]:
        """The read files by path, in order; folders with many read files (``/`` at the end); the number of others."""
        self._take_shared()
        new = list(self._read)[self._checked :]
        self._checked = len(self._read)
        for path in new:
            kept = self._data(path)
            if kept is not None:
                self._kept.setdefault(kept, self._read[path])
        for path in list(self._named):
            kept = self._data(path)
            if kept is not None:
                self._kept.setdefault(kept, None)
        found = grouped(self._kept, os.getcwd())
        return found[:MOST_TOLD], self._beyond + len(found[MOST_TOLD:])

    def marks(self, paths: Collection[str]) -> dict[str, list[int]]:
        """For each of ``paths`` and each file in folders among them, if known, its :data:`_Mark`."""
        folders = tuple(path for path in paths if path.endswith("/"))
        inside = [path for path in self._kept if path.startswith(folders)] if folders else []
        return {path: [*mark] for path in (*paths, *inside) if (mark := self._kept.get(path)) is not None}

    def written(self) -> dict[str, list[str]]:
        """The files that were ``made`` here, and those that were ``changed``: read first, and written after that."""
        asked = self._lookups.made(self._read, self._made | self._listings.made)
        made = dict.fromkeys([*self._data_of(self._made), *asked])
        told = {"made": [*made], "changed": self._data_of(self._changed)}
        return {key: paths for key, paths in told.items() if paths}

    @property
    def writes(self) -> bool:
        """Whether any file was opened for writing, also in the store; files in memory are Workbench's own."""
        return bool(self._changed) or not all(path.startswith("/proc/") for path in self._made)

    def asks(self, folders: Iterable[str]) -> None:
        """Record that the names in these folders are asked for, though not by this process."""
        for folder in folders:
            self._look_at(listings.Asked(os.path.abspath(folder), "*"))

    def listed(self) -> dict[str, Any]:
        """The names that were asked for in folders, as :meth:`Listings.told` has them: ``listed``, ``unlisted``."""
        listed, beyond = self._listings.told({*self._made, *self._changed})
        return {"listed": listed, **({"unlisted": beyond} if beyond else {})}

    def looked_up(self) -> dict[str, Any]:
        """The paths that were asked for and not opened, as :meth:`Lookups.told` has them."""
        return self._lookups.told(self._read, {*self._made, *self._changed, *self._listings.made})

    def passed_on(self) -> list[str]:
        """Files below the working directory that were written here and read as well, in one order or the other."""
        folder = os.path.join(os.getcwd(), "")
        return [path for path in self._data_of(self._reread | self._changed) if path.startswith(folder)]

    def _data_of(self, paths: Iterable[str]) -> list[str]:
        """Those of ``paths`` that are data and exist, by the paths under which they are reported."""
        places = {path: self._data(path) for path in sorted(paths)[:_MOST_WRITTEN]}
        found = {place for path, place in places.items() if place is not None and os.path.exists(path)}
        return sorted(found)[:MOST_TOLD]

    def around(self, packages: Collection[str] | None = None) -> dict[str, list[str]]:
        """Further facts, without empty ones; call :meth:`told` first. packages: those that training uses; None: all
        that are imported.

        named: files that were only named to a subprocess. programs: started programs. not_seen: used packages that
        may read files without being seen.
        """
        read = {self._data(path) for path in list(self._read)} if self._named else set()
        named = [self._data(path) for path in list(self._named)]
        told = {
            "named": [path for path in named if path is not None and path not in read],
            "programs": list(self._programs)[:MOST_PROGRAMS],
            "not_seen": readers.not_seen(packages),
        }
        return {key: value for key, value in told.items() if value}

    # -- noting -------------------------------------------------------------------------------------------------------

    def _heard(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event not in _HEARD:
            return
        try:
            if event == "open":
                self._opened(*arguments)
            elif event in listings.EVENTS:
                self._asks(event, arguments)
            elif event == "os.chdir":
                lookups.moved()
            elif event in _MOVES:
                self._moves(*map(os.path.abspath, map(os.fsdecode, arguments[: 2 if event == "os.rename" else 1])))
            elif event == "sqlite3.connect":
                self._connected(os.fsdecode(arguments[0]))
            elif event == "os.system":
                self._started(arguments[0], None)
            else:
                self._started(arguments[1], arguments[2] if event == "subprocess.Popen" else None)
        except Exception:  # noqa: S110 - observing must not make the observed code fail
            pass

    def _opened(self, path: Any, _: Any, flags: Any) -> None:
        if self._passes or path in self._read or isinstance(path, int) or not isinstance(flags, int):
            return
        is_written = flags & os.O_ACCMODE == os.O_WRONLY or flags & _MAKES
        if path.__class__ is str and path.startswith("/proc/") and ".." not in path and not is_written:
            return  # Workbench itself looks there again and again, and it is never data
        name = os.path.abspath(os.fsdecode(path))
        if name.startswith(self._passed) and is_ours(sys._getframe(2)):
            return
        if is_written:
            self._make(name)
        elif name in self._made:
            self._reread.add(name)
        elif not flags & os.O_DIRECTORY and (read := data_in(name, sys._getframe(2))) is not None:
            self._note(read)

    def _asks(self, event: str, arguments: tuple[Any, ...]) -> None:
        """Record that the names in a folder are asked for. Looking at them asks for them as well."""
        if self._passes or self._asking == threading.get_ident():
            return
        caller = sys._getframe(2)
        if self._listed is not None and event.startswith("os.") and not listings.imports(caller):
            self._listed[os.path.abspath(os.fsdecode(arguments[0] or "."))] = None
        if is_ours(caller):
            return
        one = listings.asked(event, arguments, caller)
        if one is None or one in self._listings or self._data(os.path.join(one.folder, "")) is None:
            return  # transformers lists hundreds of its own folders
        self._look_at(one)
        if self._is_child:
            os.write(self._shared, os.fsencode(_LISTING + _LISTING.join(one)) + b"\0")

    def _looked_up(self, path: str) -> None:
        """Record that training asks for ``path``."""
        name = os.path.abspath(path)
        is_there = self._lookups.note(name)
        if is_there is not None and self._is_child:
            os.write(self._shared, os.fsencode((_THERE if is_there else _ABSENT) + name) + b"\0")

    def _look_at(self, one: listings.Asked) -> None:
        self._asking = threading.get_ident()
        try:
            self._listings.note(one)
        finally:
            self._asking = 0

    def _moves(self, path: str, to: str | None = None) -> None:
        """Record that a name is made or removed, or that the file at ``path`` gets another one."""
        self._listings.makes(path)
        if to is not None:
            self._listings.makes(to)
            if path in self._made:
                self._make(to)

    def _connected(self, database: str) -> None:
        if database.startswith("file:"):
            path, _, query = database.removeprefix("file:").partition("?")
            if "mode=memory" in query:
                return
            database = unquote(path)
            if database.startswith("//"):  # an authority, which is empty or localhost
                database = "/" + database[2:].partition("/")[2]
        if database in ("", ":memory:"):
            return
        self._read_by(database, not os.path.exists(database))
        log = f"{database}-wal"
        if os.path.exists(log) and os.path.getsize(log):
            self._read_by(log, False)

    def _started(self, arguments: Any, folder: Any) -> None:
        programs, words = started(arguments)
        for name in programs:
            self._remember(self._programs, name, _PROGRAM)
        for path in files_named(words, os.fsdecode(folder) if folder is not None else os.getcwd()):
            if path not in self._made:
                self._remember(self._named, path, _NAMED)

    def _remember(self, known: dict[str, None], name: str, kind: str) -> None:
        if name not in known and len(known) < MOST_TOLD:
            known[name] = None
            if self._is_child:
                os.write(self._shared, os.fsencode(kind + name) + b"\0")

    def _read_by(self, path: str, is_made: bool) -> None:
        """Record that a reader other than Python opens ``path``."""
        name = os.path.abspath(path)
        if is_made:
            self._make(name)
        elif name not in self._made and os.path.isfile(name):
            self._note(name)

    def _make(self, name: str) -> None:
        written = self._changed if name in self._read else self._made
        if len(written) < MOST_NOTED:
            written.add(name)

    def _note(self, name: str, mark: _Mark = None) -> None:
        if name in self._read:
            return
        if len(self._read) >= MOST_NOTED:
            self._beyond += 1
            return
        if mark is None and len(self._read) < _MOST_MARKED:
            mark = opened_mark(name)
        self._read[name] = mark
        if self._is_child:
            told = name if mark is None else f"{name}{_MARKED}{' '.join(map(str, mark))}"
            os.write(self._shared, os.fsencode(told) + b"\0")

    def _forked(self) -> None:
        self._is_child = True

    def _take_shared(self) -> None:
        size = os.fstat(self._shared).st_size
        if size > self._taken:
            data = os.pread(self._shared, size - self._taken, self._taken)
            whole = data.rpartition(b"\0")[0]
            self._taken += len(whole) + 1 if whole else 0
            for name in whole.split(b"\0"):
                told = os.fsdecode(name)
                if told.startswith(_LISTING):
                    self._look_at(listings.Asked(*told[1:].split(_LISTING)))
                elif told.startswith((_THERE, _ABSENT)):
                    self._lookups.note(told[1:], was_there=told.startswith(_THERE))
                elif told.startswith(_NAMED):
                    self._named.setdefault(told[1:])
                elif told.startswith(_PROGRAM):
                    self._programs.setdefault(told[1:])
                elif told:
                    path, _, mark = told.partition(_MARKED)
                    self._note(path, tuple(map(int, mark.split())) or None)

    # -- telling data from the rest -----------------------------------------------------------------------------------

    def _data(self, path: str) -> str | None:
        """The path under which ``path`` is reported, or None if it is not data."""
        if path.startswith(self._passed):
            path = os.path.realpath(path)  # a file that lies beside project code is linked into the copy of that code
            copy, path = path, self._copies.get(path, path)
            if path.startswith(self._store):
                path = self._originals.of(path) or ""
                if not path:
                    return None
                self.copied[path] = copy
        if path.startswith((*SYSTEM, *self._forget)) or path.endswith((*CODE, *_SECRET, " (deleted)")):
            return None
        if self._ours is None:
            self._ours = ours()
        if any(part in path for part in _LIBRARIES) or self._ours.match(path):
            return None
        if path.startswith(self._home):
            top = path[len(self._home) :].partition("/")[0]
            if top.startswith(".") and top not in _DATA_AT_HOME:
                return None
        return path


def grouped(paths: Iterable[str], here: str) -> list[str]:
    """``paths``, with many paths of one folder replaced by the folder; never by ``here`` or a folder above it."""
    found = list(paths)
    if len(found) <= MOST_OF_A_FOLDER:
        return found
    most = MOST_OF_A_FOLDER
    while True:
        folders = Counter(f"{os.path.dirname(path.rstrip('/'))}/" for path in found)
        many = {
            folder
            for folder, count in folders.items()
            if count > most and not f"{here}/".startswith(folder) and folder.count("/") > 2
        }
        if many:
            found = list(dict.fromkeys(_inside(path, many) for path in found))
        elif len(found) <= MOST_TOLD or most <= 1:
            return found
        else:
            most //= 2


def _inside(path: str, folders: set[str]) -> str:
    at = len(path)
    while (at := path.rfind("/", 0, at)) > 0:
        if path[: at + 1] in folders:
            return path[: at + 1]
    return path
