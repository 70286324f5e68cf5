"""Which names a process asks for in folders: by listing, walking or a pattern. Law: it records and does not claim to be
complete; names that the process itself has written do not count.

A file that is added to such a folder changes what training reads, though no file that was read has changed.
"""

from __future__ import annotations

import glob
import itertools
import os
import tempfile
from collections.abc import Callable, Collection, Iterator
from types import FrameType
from typing import Any, NamedTuple

import xxhash

from workbench.records import Json

#: Audit events of listings, and of patterns, which list folders themselves: those listings do not count.
EVENTS = frozenset({"os.listdir", "os.scandir", "glob.glob/2", "pathlib.Path.glob", "pathlib.Path.rglob"})
#: The most listings that are recorded and told for one leg, and the most names that are read for each.
_MOST_NOTED, _MOST_TOLD, _MOST_NAMES = 2000, 64, 20_000
#: Code and notebooks: what is imported counts, and the others come and go.
_CODE = (".py", ".pyc", ".ipynb")
#: Files of Python that list folders to carry out a pattern, and to find code.
_OF_PATTERNS = ("/glob.py", "/pathlib.py", "/pathlib/__init__.py", "/pathlib/_local.py")
_OF_CODE = ("/pkgutil.py", "/zipimport.py", "/inspect.py", "/runpy.py")


class Asked(NamedTuple):
    """Names that were asked for: those in ``folder`` (absolute) that fit ``pattern``, in the form of :mod:`glob`."""

    folder: str
    pattern: str

    def names(self, without: Collection[str] = ()) -> str:
        """A digest of the names there are now. Hidden ones, code and notebooks do not count.

        without: paths that do not count, and folders in which such a path lies do not either.
        """
        above = {parent for path in without for parent in _above(path)}
        state = xxhash.xxh3_128()
        found = glob.iglob(self.pattern, root_dir=self.folder, recursive=True)
        for name in sorted(os.path.normpath(one) for one in itertools.islice(found, _MOST_NAMES)):
            path = os.path.join(self.folder, name)
            if not (name.endswith(_CODE) or "__pycache__" in name or path in without or path in above):
                state.update(f"{name}\n".encode(errors="surrogateescape"))
        return state.hexdigest()


def asked(event: str, arguments: tuple[Any, ...], frame: FrameType) -> Asked | None:
    """What an audit event asks for; None if it does not count. frame: the caller's."""
    if event.startswith("os."):
        folder, file = arguments[0], frame.f_code.co_filename
        if isinstance(folder, int) or file.startswith("<frozen importlib") or "/importlib/" in file:
            return None
        if file.endswith(_OF_CODE) or (event == "os.scandir" and file.endswith(_OF_PATTERNS) and not _walks(frame)):
            return None
        return Asked(os.path.abspath(os.fsdecode("." if folder is None else folder)), "*")
    if event != "glob.glob/2":
        return _split(arguments[0], os.path.join("**" if event.endswith("rglob") else "", os.fspath(arguments[1])))
    pattern, _, root, descriptor = arguments
    return None if descriptor is not None else _split("." if root is None else root, os.fsdecode(pattern))


def _walks(frame: FrameType) -> bool:
    return frame.f_back is not None and frame.f_back.f_code.co_name == "walk"


def _split(folder: Any, pattern: str) -> Asked:
    """The folder is as deep as can be."""
    parts = os.path.join(os.path.abspath(os.fsdecode(folder)), pattern).split(os.sep)
    plain = [*itertools.takewhile(lambda part: not glob.has_magic(part), parts[:-1])]
    return Asked(os.path.abspath(os.sep.join(plain) or os.sep), os.sep.join(parts[len(plain) :]))


def _above(path: str) -> Iterator[str]:
    while (above := os.path.dirname(path)) != path:
        yield above
        path = above


class Listings:
    """What one leg asked for. place: the path under which a folder is reported; None for one that is not data."""

    def __init__(self, place: Callable[[str], str | None]) -> None:
        self._place = place
        #: The names at the first look, and the time of the folder then.
        self._found: dict[Asked, tuple[str, int]] = {}

    def begin(self) -> None:
        """Start a leg: forget what the last one asked for."""
        self._found = {}

    def __contains__(self, one: Asked) -> bool:
        return one in self._found or len(self._found) >= _MOST_NOTED

    def note(self, one: Asked, made: Collection[str]) -> None:
        """Training asks for ``one``. made: what it has written itself."""
        self._found[one] = one.names(made), _changed(one.folder)

    def told(self, made: Collection[str]) -> list[dict[str, Json]]:
        """``folder``, ``pattern`` and ``names``: their digest, which is empty if they changed since the first look.

        Folders are left out in which training itself has written, and those of a whole home or system.
        """
        found: dict[Asked, str] = {}
        own = {parent for path in made for parent in _above(path)}
        nobodys = {os.sep, os.path.expanduser("~"), tempfile.gettempdir()}
        for one, (names, changed) in [*self._found.items()]:
            place = self._place(os.path.join(one.folder, ""))
            if place is None or one.folder in own or (place := os.path.normpath(place)) in nobodys:
                continue
            if changed != (now := _changed(one.folder)):
                names = names if one.names(made) == names else ""
                self._found[one] = names, now
            found[Asked(place, one.pattern)] = names
        together = _together(found, os.path.join(os.getcwd(), ""))
        return [{"folder": one.folder, "pattern": one.pattern, "names": names} for one, names in together.items()]


def _changed(folder: str) -> int:
    try:
        return os.stat(folder).st_mtime_ns
    except OSError:
        return 0


def _together(found: dict[Asked, str], here: str) -> dict[Asked, str]:
    """At most ``_MOST_TOLD``: many folders side by side become all that is below the one above them, if that is not
    ``here`` or above."""
    while len(found) > _MOST_TOLD:
        above = [os.path.dirname(one.folder) for one in found]
        most = max(dict.fromkeys(above), key=above.count)
        inside = os.path.join(most, "")
        if above.count(most) < 2 or here.startswith(inside):
            return dict(itertools.islice(found.items(), _MOST_TOLD))
        found = {one: names for one, names in found.items() if not one.folder.startswith(inside)}
        whole = Asked(most, "**")
        found[whole] = whole.names()
    return found
