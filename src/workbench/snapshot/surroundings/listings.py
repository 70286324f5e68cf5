"""Which names a process asks for in folders: by listing, walking or a pattern. Law: it records and does not claim to be
complete; what it cannot tell is said.

A file that is added to such a folder changes what training reads, though no file that was read has changed. Names that
training itself writes do not count.
"""

from __future__ import annotations

import contextlib
import fnmatch
import glob
import itertools
import os
import stat
import tempfile
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import FrameType
from typing import Any, NamedTuple

import xxhash

from workbench.records import Json
from workbench.records.texts import written

#: Audit events of listings, and of patterns, which list folders themselves: those listings do not count.
EVENTS = frozenset({"os.listdir", "os.scandir", "glob.glob/2", "pathlib.Path.glob", "pathlib.Path.rglob"})
#: The most listings that are recorded and told for one leg.
_MOST_NOTED, _MOST_TOLD = 2000, 64
#: The most paths that are recorded as made or removed.
_MOST_MADE = 20_000
#: The most entries that are looked at for one of them, and the most names that are told one by one.
_MOST_ENTRIES, MOST_NAMES = 100_000, 200
#: Code and notebooks: what is imported counts, and the others come and go.
_CODE = (".py", ".pyc", ".ipynb")
#: Files of Python that list folders to carry out a pattern; and of Python and packages, to find code.
_OF_PATTERNS = ("/glob.py", "/pathlib.py", "/pathlib/__init__.py", "/pathlib/_local.py")
_OF_CODE = ("/pkgutil.py", "/zipimport.py", "/inspect.py", "/runpy.py")
_OF_PACKAGES = ("/importlib/", "/importlib_metadata/", "/pkg_resources/")


class Asked(NamedTuple):
    """Names that were asked for: those in ``folder`` (absolute) that fit ``pattern``, in the form of :mod:`glob`."""

    folder: str
    pattern: str

    def names(self) -> frozenset[str] | None:
        """The names there are now, relative to the folder; None if there are too many. Hidden ones, code and notebooks
        do not count."""
        budget = itertools.count()
        try:
            found = {name for name in _fitting(self.folder, self.pattern.split(os.sep), budget) if _counts(name)}
        except _TooManyError:
            return None
        return frozenset(found)


class _TooManyError(Exception):
    """There are more entries than are looked at."""


def _counts(name: str) -> bool:
    return not (name.endswith(_CODE) or "__pycache__" in name.split(os.sep))


def _fitting(folder: str, parts: list[str], budget: Iterator[int], before: str = "") -> Iterator[str]:
    """Names below ``folder`` that fit, with ``before`` in front. Links to folders are not followed by ``**``."""
    part, *rest = parts
    if not glob.has_magic(part):
        path = os.path.join(folder, part)
        if not rest and os.path.lexists(path):
            yield before + part
        elif rest and os.path.isdir(path):
            yield from _fitting(path, rest, budget, f"{before}{part}{os.sep}")
        return
    if part == "**" and rest:
        yield from _fitting(folder, rest, budget, before)
    for entry in _entries(folder, budget):
        name = before + entry.name
        if part == "**":
            if not rest:
                yield name
            if entry.is_dir(follow_symlinks=False):
                yield from _fitting(entry.path, parts, budget, name + os.sep)
        elif fnmatch.fnmatchcase(entry.name, part):
            if not rest:
                yield name
            elif entry.is_dir():
                yield from _fitting(entry.path, rest, budget, name + os.sep)


def _entries(folder: str, budget: Iterator[int]) -> list[os.DirEntry[str]]:
    found = []
    with contextlib.suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            if next(budget) >= _MOST_ENTRIES:
                raise _TooManyError
            if not entry.name.startswith("."):
                found.append(entry)
    return found


def _digest_of(names: Iterable[str]) -> str:
    """A digest of names, in any order."""
    state = xxhash.xxh3_128()
    for name in sorted(names):
        state.update(f"{name}\n".encode(errors="surrogateescape"))
    return state.hexdigest()


def asked(event: str, arguments: tuple[Any, ...], frame: FrameType) -> Asked | None:
    """What an audit event asks for; None if it does not count. frame: the caller's."""
    if event.startswith("os."):
        folder, file = arguments[0], frame.f_code.co_filename
        if isinstance(folder, int) or imports(frame) or any(one in file for one in _OF_PACKAGES):
            return None
        if file.endswith(_OF_CODE) or (event == "os.scandir" and file.endswith(_OF_PATTERNS) and not _is_asked(frame)):
            return None
        return Asked(os.path.abspath(os.fsdecode("." if folder is None else folder)), "*")
    if event != "glob.glob/2":
        return _split(arguments[0], os.path.join("**" if event.endswith("rglob") else "", os.fspath(arguments[1])))
    pattern, _, root, descriptor = arguments
    return None if descriptor is not None else _split("." if root is None else root, os.fsdecode(pattern))


def imports(frame: FrameType) -> bool:
    """Whether the code of ``frame`` carries out an import."""
    return frame.f_code.co_filename.startswith("<frozen importlib")


def _is_asked(frame: FrameType) -> bool:
    """Whether pathlib lists a folder for ``Path.walk`` or ``Path.iterdir`` (since Python 3.13), not for a pattern."""
    is_walk = frame.f_back is not None and frame.f_back.f_code.co_name == "walk"
    return is_walk or frame.f_code.co_name == "iterdir"


def _split(folder: Any, pattern: str) -> Asked:
    """The folder is as deep as can be; only ``pattern`` has wildcards."""
    parts = [part for part in pattern.split(os.sep) if part not in ("", ".")]
    plain = [*itertools.takewhile(lambda part: not glob.has_magic(part), parts[:-1])]
    start = os.sep if pattern.startswith(os.sep) else os.fsdecode(folder)
    return Asked(os.path.abspath(os.path.join(start, *plain)), os.sep.join(parts[len(plain) :]) or "*")


@dataclass(frozen=True)
class Listed:
    """What is told of :class:`Asked`. names: at the first look; None if they are more than ``MOST_NAMES``, and then
    there is their digest; neither if they are too many to look at. own: those that training writes, and others that
    came or went while it trained, which are in neither. changing: whether there are such others.
    """

    asked: Asked
    names: frozenset[str] | None = None
    digest: str = ""
    own: frozenset[str] = frozenset()
    changing: bool = False

    @classmethod
    def of(cls, asked: Asked, first: frozenset[str] | None, now: frozenset[str] | None, own: frozenset[str]) -> Listed:
        """What is told after a look at the beginning and one now."""
        if first is None or now is None or len(own) > MOST_NAMES:
            return cls(asked, changing=True)
        moved = (first ^ now) - own
        names = first - own - moved
        if len(names) > MOST_NAMES:
            return cls(asked, None, _digest_of(names), own | moved, bool(moved))
        return cls(asked, names, "", own | moved, bool(moved))

    @classmethod
    def from_json(cls, told: Mapping[str, Json]) -> Listed:
        """The inverse of :meth:`to_json`."""
        names = frozenset(told["names"]) if "names" in told else None
        asked = Asked(str(told["folder"]), str(told["pattern"]))
        own = frozenset(map(str, told.get("own") or ()))
        return cls(asked, names, str(told.get("digest") or ""), own, bool(told.get("changing")))

    def to_json(self) -> dict[str, Json]:
        """Plain data."""
        told: dict[str, Json] = {"folder": self.asked.folder, "pattern": self.asked.pattern}
        if self.names is not None:
            told["names"] = sorted(self.names)
        more = {"digest": self.digest, "own": sorted(self.own), "changing": self.changing}
        return {**told, **{name: value for name, value in more.items() if value}}

    def together(self, other: Listed) -> Listed:
        """What two legs tell of the same names; this one trained first."""
        own, changing = self.own | other.own, self.changing or other.changing
        if self.names is not None and other.names is not None:
            moved = (self.names ^ other.names) - own
            own |= moved
            if len(own) <= MOST_NAMES:
                return Listed(self.asked, self.names - own, "", own, changing or bool(moved))
        elif self.names is other.names and (self.digest, self.own) == (other.digest, other.own):
            return replace(self, changing=changing)
        return Listed(self.asked, changing=True)

    @property
    def is_known(self) -> bool:
        """Whether there is something to compare with."""
        return self.names is not None or bool(self.digest)

    def change(self, now: frozenset[str], counts: Callable[[str], bool]) -> Change | None:
        """How the names differ ``now``; None if they do not. counts: whether a name counts."""
        if self.names is None:
            others = (name for name in now if written(name) not in self.own)
            return Change() if self.digest and _digest_of(others) != self.digest else None
        there, before = frozenset(map(written, now)) - self.own, frozenset(map(written, self.names))
        new, gone = (tuple(sorted(filter(counts, names))) for names in (there - before, before - there))
        return Change(new, gone) if new or gone else None


class Change(NamedTuple):
    """Names that have come and gone; neither is known of very many names."""

    new: tuple[str, ...] = ()
    gone: tuple[str, ...] = ()

    def __str__(self) -> str:
        words = [f"{word}: {_few(names)}" for word, names in (("new", self.new), ("gone", self.gone)) if names]
        return ", ".join(words) or "other names"


def _few(names: Sequence[str]) -> str:
    return ", ".join(names[:2]) + (f" and {len(names) - 2} more" if len(names) > 2 else "")


class Listings:
    """What one leg asked for. place: the path under which a folder is reported; None for one that is not data. belong:
    those of the names in a folder that are reported with it; by default all.
    """

    def __init__(
        self,
        place: Callable[[str], str | None],
        belong: Callable[[str, frozenset[str]], frozenset[str]] = lambda _, names: names,
    ) -> None:
        self._place, self._belong = place, belong
        self.begin()

    def begin(self) -> None:
        """Start a leg: forget what the last one asked for."""
        #: The names at the first look; those now, and the time of the folder then.
        self._found: dict[Asked, tuple[frozenset[str] | None, frozenset[str] | None, int]] = {}
        #: Paths that training makes or removes in other ways than writing a file.
        self.made: set[str] = set()
        #: These and those that training has written, and all folders above them.
        self._own: set[str] = set()
        #: How many there were beyond the limits.
        self._beyond = 0

    def __contains__(self, one: Asked) -> bool:
        return one in self._found

    def makes(self, path: str) -> None:
        """Training makes or removes a folder, removes a file, or gives one this name."""
        if len(self.made) < _MOST_MADE:
            self.made.add(path)

    def note(self, one: Asked) -> None:
        """Training asks for ``one``."""
        if len(self._found) >= _MOST_NOTED:
            self._beyond += 1
        elif one not in self._found:
            names = self._names(one)
            self._found[one] = names, names, _changed(one.folder)

    def _names(self, one: Asked) -> frozenset[str] | None:
        names = one.names()
        return names if names is None else self._belong(one.folder, names)

    def told(self, written: Collection[str]) -> tuple[list[dict[str, Json]], int]:
        """:class:`Listed` as plain data, and how many are left out. written: the paths that training has written.

        A whole home or system is left out, unless it is the working directory.
        """
        if not self._found:
            return [], self._beyond
        found: dict[Asked, Listed] = {}
        own = self._own
        for path in ({*written} | self.made) - own:
            while path not in own:
                own.add(path)
                path = os.path.dirname(path)
        here = os.getcwd()
        nobodys = {os.sep, os.path.expanduser("~"), tempfile.gettempdir()} - {here}
        for one, (first, last, changed) in [*self._found.items()]:
            place = self._place(os.path.join(one.folder, ""))
            if place is None or (place := os.path.normpath(place)) in nobodys:
                continue
            if changed != (now := _changed(one.folder)):
                last = self._names(one)
                self._found[one] = first, last, now
            shown = Asked(place, one.pattern)
            found[shown] = Listed.of(shown, first, last, _own(one, first, last, own))
        together, beyond = _together(found, own, os.path.join(here, ""))
        return [one.to_json() for one in together], beyond + self._beyond


def _own(one: Asked, first: frozenset[str] | None, last: frozenset[str] | None, own: Collection[str]) -> frozenset[str]:
    names = (first or frozenset()) | (last or frozenset())
    return frozenset(name for name in names if os.path.join(one.folder, name) in own)


def _changed(folder: str) -> int:
    try:
        status = os.stat(folder)
    except OSError:
        return 0
    return status.st_mtime_ns if stat.S_ISDIR(status.st_mode) else 0


def _together(found: dict[Asked, Listed], own: Collection[str], here: str) -> tuple[list[Listed], int]:
    """At most ``_MOST_TOLD``, and how many more there are: many folders side by side become all that is below the one
    above them, if that is not ``here`` or above."""
    while len(found) > _MOST_TOLD:
        above = [os.path.dirname(one.folder) for one in found]
        most = max(dict.fromkeys(above), key=above.count)
        inside = os.path.join(most, "")
        if above.count(most) < 2 or here.startswith(inside):
            break
        found = {one: listed for one, listed in found.items() if not one.folder.startswith(inside)}
        whole = Asked(most, "**")
        names = whole.names()
        found[whole] = Listed.of(whole, names, names, _own(whole, names, names, own))
    return [*found.values()][:_MOST_TOLD], max(0, len(found) - _MOST_TOLD)
