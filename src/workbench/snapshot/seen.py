"""Which files a process reads, as far as it can be seen. Law: it notes and never opens; what it misses, nobody claims.

An audit hook hears of files that Python opens, in the process itself and in those forked from it (loaders' workers).
What other readers hold open or mapped is looked up in ``/proc/self``. A file that is read by a library of its own and
closed again is not seen.
"""

from __future__ import annotations

import fcntl
import os
import stat
import sys
import sysconfig
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

#: Most paths that are noted for one leg; what is beyond is counted.
MOST_NOTED = 20_000
#: Most entries that are told of one leg, and most files of one folder that are told one by one.
MOST_TOLD, MOST_OF_A_FOLDER = 64, 32
#: Most files that were written at which it is looked whether they are data.
_MOST_WRITTEN = 1000
#: Flags by which a file is opened to be made or emptied.
_MAKES = os.O_CREAT | os.O_TRUNC
#: Code, however it is opened, and what holds secrets.
_CODE = (".py", ".pyc", ".pyi", ".so", ".pyd", ".pth")
_SECRET = ("/.env", "/.netrc")
_SYSTEM = (
    *("/proc/", "/sys/", "/dev/", "/etc/", "/run/", "/boot/", "/memfd:"),
    *("/usr/", "/lib/", "/lib32/", "/lib64/", "/bin/", "/sbin/"),
)
#: Parts of paths of what libraries keep for themselves.
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
        self._read: dict[str, None] = {}
        self._made: set[str] = set()
        #: Files that were read first, and opened for writing later.
        self._changed: set[str] = set()
        self._beyond = 0
        self._taken = 0
        self._passed: tuple[str, ...] = ()
        self._store = ""
        self._kept: dict[str, None] = {}
        self._checked = 0
        self._forget = _installed()
        self._home = os.path.join(os.path.expanduser("~"), "")
        os.register_at_fork(after_in_child=self._forked)
        sys.addaudithook(self._heard)

    @property
    def file(self) -> str:
        """Where processes that this one starts tell what they see."""
        return f"/proc/{os.getpid()}/fd/{self._shared}"

    def begin(self, store: str | os.PathLike[str]) -> None:
        """A leg begins: forget what the last one read. store: its files are nobody's data."""
        os.ftruncate(self._shared, 0)
        self._taken = self._beyond = self._checked = 0
        self._read, self._made, self._changed, self._kept = {}, set(), set(), {}
        self._store = os.path.join(os.path.realpath(store), "")
        self._passed = (self._store, os.path.join(os.path.abspath(store), ""))

    def look(self) -> None:
        """Note what is open or mapped now, by whoever opened it. Half a millisecond in a process with torch."""
        for path in (*_open(), *_mapped()):
            if path not in self._made:
                self._note(path)

    def told(self) -> tuple[list[str], int]:
        """The files that were read, by path, in order; folders of which many were (with a ``/`` at their end); and
        how many more there may be.
        """
        self._take_shared()
        new = list(self._read)[self._checked :]
        self._checked = len(self._read)
        for path in new:
            kept = self._data(path)
            if kept is not None:
                self._kept[kept] = None
        found = grouped(self._kept, os.getcwd())
        return found[:MOST_TOLD], self._beyond + len(found[MOST_TOLD:])

    def written(self) -> dict[str, list[str]]:
        """The files that were ``made`` here, and those that were ``changed``: read first, and written after that."""
        told = {"made": self._data_of(self._made), "changed": self._data_of(self._changed)}
        return {key: paths for key, paths in told.items() if paths}

    def _data_of(self, paths: Iterable[str]) -> list[str]:
        """Those of ``paths`` that are data and there, by the paths under which they are told."""
        found = {self._data(path) for path in sorted(paths)[:_MOST_WRITTEN] if os.path.exists(path)}
        return sorted(path for path in found if path is not None)[:MOST_TOLD]

    # -- noting -------------------------------------------------------------------------------------------------------

    def _heard(self, event: str, arguments: tuple[object, ...]) -> None:
        if event != "open":
            return
        try:
            path, _, flags = arguments
            if path in self._read or isinstance(path, int) or not isinstance(flags, int):
                return
            name = os.path.abspath(os.fsdecode(path))  # type: ignore[arg-type]  # what is no path raises, below
            if flags & os.O_ACCMODE == os.O_WRONLY or flags & _MAKES:
                written = self._changed if name in self._read else self._made
                if len(written) < MOST_NOTED:
                    written.add(name)
            elif not (flags & os.O_DIRECTORY or name.endswith(_CODE) or name in self._made):
                self._note(name)
        except Exception:  # noqa: S110 - whoever looks on must not make fail what it looks at
            pass

    def _note(self, name: str) -> None:
        if name in self._read:
            return
        if len(self._read) >= MOST_NOTED:
            self._beyond += 1
            return
        self._read[name] = None
        if self._is_child:
            os.write(self._shared, os.fsencode(name) + b"\0")

    def _forked(self) -> None:
        self._is_child = True

    def _take_shared(self) -> None:
        size = os.fstat(self._shared).st_size
        if size > self._taken:
            data = os.pread(self._shared, size - self._taken, self._taken)
            whole = data.rpartition(b"\0")[0]
            self._taken += len(whole) + 1 if whole else 0
            for name in whole.split(b"\0"):
                if name:
                    self._note(os.fsdecode(name))

    # -- telling data from the rest -----------------------------------------------------------------------------------

    def _data(self, path: str) -> str | None:
        """The path under which ``path`` is told, or None where it is no data."""
        if path.startswith(self._passed):
            path = os.path.realpath(path)  # a file that lies beside project code is linked into the copy of that code
            if path.startswith(self._store):
                return None
        if path.startswith(_SYSTEM) or path.endswith((*_CODE, *_SECRET, " (deleted)")) or path.startswith(self._forget):
            return None
        if any(part in path for part in _LIBRARIES) or path.startswith(f"{tempfile.gettempdir()}/workbench"):
            return None
        if path.startswith(self._home):
            top = path[len(self._home) :].partition("/")[0]
            if top.startswith(".") and top not in _DATA_AT_HOME:
                return None
        return path


def grouped(paths: Iterable[str], here: str) -> list[str]:
    """``paths``, with the folders of which many are among them in place of those; ``here`` and above are no such
    folders.
    """
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


def _open() -> Iterator[str]:
    """Regular files that this process holds open for reading."""
    for number in os.listdir("/proc/self/fd"):
        try:
            path = os.readlink(f"/proc/self/fd/{number}")
            if path.startswith("/") and not path.startswith(_SYSTEM):
                is_file = stat.S_ISREG(os.fstat(int(number)).st_mode)
                if is_file and fcntl.fcntl(int(number), fcntl.F_GETFL) & os.O_ACCMODE != os.O_WRONLY:
                    yield path
        except OSError:
            continue


def _mapped() -> Iterator[str]:
    """Files that are mapped into this process's memory, libraries left out."""
    found: dict[bytes, None] = {}
    try:
        for line in Path("/proc/self/maps").read_bytes().splitlines():
            at = line.find(b" /")
            if at > 0 and b".so" not in line:
                found[line[at + 1 :]] = None
    except OSError:
        return
    yield from map(os.fsdecode, found)
