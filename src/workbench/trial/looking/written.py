"""Files that the loop opens for writing and keeps open. Law: a resumed trial writes on where the checkpoint was taken.

Otherwise the loop finds no file, opens it once more with ``"w"``, and what its earlier steps wrote is gone. A file of
the set-up is opened by the set-up (:mod:`workbench.trial.course.reopened`).
"""

from __future__ import annotations

import csv
import gc
import io
import os
import stat
import types
import weakref
from collections.abc import Callable
from typing import Any

from workbench.snapshot.imported import loaded
from workbench.trial.looking import maps

_TYPES = (io.TextIOWrapper, io.BufferedWriter, io.FileIO)
#: Names by which a process opens its own output: another process has another one.
_OUTPUTS = ("/dev/std", "/dev/fd/", "/proc/")
#: What ``newline=`` takes besides None.
_NEWLINES = ("", "\n", "\r", "\r\n")
LACKING = (
    "the file is gone, or shorter than when the checkpoint was taken: it is written on without what earlier steps wrote"
)
#: The furthest place of each file at a checkpoint: one that was further is written again from time to time, and a trial
#: that is killed may leave it short.
_furthest: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()
#: Names of files that were made again without all that they held.
_lacking: list[str] = []


def is_one(obj: Any) -> bool:
    """Whether ``obj`` is a file on the disk that is open for writing alone."""
    if type(obj) not in _TYPES:
        return False
    try:
        name, raw = obj.name, _raw(obj)
        if obj.closed or obj.readable() or not obj.writable() or not obj.seekable() or type(raw) is not io.FileIO:
            return False
        if not isinstance(name, str | bytes | os.PathLike) or os.path.abspath(os.fsdecode(name)).startswith(_OUTPUTS):
            return False
        found = os.fstat(raw.fileno())
        return stat.S_ISREG(found.st_mode) and os.path.samestat(found, os.stat(name))
    except (OSError, ValueError, AttributeError):  # it has no descriptor, or is no longer there under that name
        return False


def _raw(obj: Any) -> Any:
    """The file of the system below ``obj``; something else where data are changed on their way to it."""
    below = obj.buffer if type(obj) is io.TextIOWrapper else obj
    return below.raw if type(below) is io.BufferedWriter else None if below is not obj else obj


def is_writer(obj: Any) -> bool:
    """Whether ``obj`` is what ``csv.writer`` returns for a file that can be saved."""
    file = _file_of(obj)
    return type(file) is io.StringIO or is_one(file)


def _file_of(obj: Any) -> Any:
    """What a ``csv.writer`` writes to; None for another object, and for a writer with a function of Python's own."""
    cls = type(obj)
    if cls.__name__ != "writer" or getattr(cls, "__module__", "") != "_csv":
        return None
    found = [one for one in gc.get_referents(obj) if type(one) is types.BuiltinMethodType and one.__name__ == "write"]
    return found[0].__self__ if found else None


def reduced(obj: Any) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    """How a pickle makes such a file, or such a writer, again."""
    if type(obj) not in _TYPES:
        dialect = {name: getattr(obj.dialect, name) for name in _DIALECT}
        return writer, (_file_of(obj), dialect)
    obj.flush()
    raw, is_text, path = _raw(obj), type(obj) is io.TextIOWrapper, os.fsdecode(obj.name)
    options: dict[str, Any] = {"buffering": 0} if raw is obj else {}
    if is_text:
        options = {"encoding": obj.encoding, "errors": obj.errors, "newline": _newline(obj)}
        options["buffering"] = 1 if obj.line_buffering else -1
    place = None if raw.mode.startswith("a") else raw.tell()
    furthest = _furthest[obj] = max(_furthest.get(obj, 0), place or 0)
    return opened, (path, is_text, place, options, _own(path), furthest, is_text and obj.write_through)


def _newline(file: io.TextIOWrapper) -> str | None:
    """The ``newline=`` with which a text file was opened. It has no attribute; the file refers to the text itself, and
    after a flush to no other text that could be taken for it."""
    return next((one for one in gc.get_referents(file) if type(one) is str and one in _NEWLINES), None)


def opened(
    path: str,
    is_text: bool,
    place: int | None,
    options: dict[str, Any],
    own: str | None,
    furthest: int = 0,  # graphs of before do not have this, nor what follows
    is_through: bool = False,
) -> Any:
    """The file, written on at ``place``; None for its end. own: its path in the trial's folder, if it lies there.
    furthest: its furthest place at any checkpoint. is_through: its text does not wait in memory."""
    mode, is_fork = ("a" if place is None else "w") + ("" if is_text else "b"), maps.is_fork()
    if maps.is_loaded():
        return open(os.devnull, mode, **options)
    if own is not None and (folder := _folder()) is not None:  # a fork has a folder of its own
        path = os.path.join(folder, own)
    os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
    is_gone = not os.path.exists(path)
    file: Any = open(path, mode, opener=_without_emptying, **options)
    if is_through:
        file.reconfigure(write_through=True)
    end = os.fstat(file.fileno()).st_size
    _furthest[file] = furthest
    is_short = place is not None and end < place and place == furthest
    if (is_gone or is_short) and not is_fork:
        _lacking.append(os.path.basename(path))
    if place is not None:
        # What later steps wrote before the trial was killed, they write again.
        if end > place and not is_fork:
            file.truncate(place)
        file.seek(end if is_fork else min(place, end))
    return file


def lacking() -> dict[str, str]:
    """Files made again since the last call without all that they held: reasons by name."""
    found = dict.fromkeys(_lacking, LACKING)
    _lacking.clear()
    return found


def writer(file: Any, dialect: dict[str, Any]) -> Any:
    """A ``csv.writer`` on that file."""
    return csv.writer(file, **dialect)


_DIALECT = (
    *("delimiter", "doublequote", "escapechar", "lineterminator"),
    *("quotechar", "quoting", "skipinitialspace", "strict"),
)


def _own(path: str) -> str | None:
    folder = _folder()
    inside = None if folder is None else os.path.relpath(os.path.realpath(path), folder)
    return None if inside is None or inside.startswith(os.pardir) else inside


def _folder() -> str | None:
    """The folder of the trial's own files; None where no trial trains."""
    trial: Any = loaded("workbench.trial")
    current = None if trial is None else trial.current_or_none()
    return None if current is None else os.path.realpath(current._folder)  # asking for it by ``folder`` makes it


def _without_emptying(path: str, flags: int) -> int:
    return os.open(path, flags & ~os.O_TRUNC, 0o666)
