"""Where the files of copied code are in the project, and the other way round. Law: it reads what a snapshot says of its
modules, and nothing else of it.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from workbench.snapshot.modules import folder_of
from workbench.store.files.atomic import read_json
from workbench.store.layout import CopiedCode


class Originals:
    """The originals of files in copies of project code, of any snapshots."""

    def __init__(self) -> None:
        #: By snapshot and top-level name: the folder from which it is imported.
        self._folders: dict[Path, dict[str, str]] = {}
        #: By snapshot: the folder of what lies beside its modules. All modules, of any folders, are copied into one.
        self._beside: dict[Path, str] = {}

    def of(self, path: str) -> str | None:
        """The path of the file whose copy is at ``path``; None if that is not in a snapshot's copy of code."""
        place = CopiedCode.at(path)
        if place is None:
            return None
        folder = self._folder(place.snapshot, place.name)
        return None if folder is None else os.path.join(folder, place.name)

    def names(self, path: str, names: frozenset[str]) -> frozenset[str]:
        """Those of the ``names`` in the folder at ``path`` that its original has too: beside copied modules are links
        to what was in the folders of all of them."""
        path = os.path.realpath(path)
        place = CopiedCode.at(path)
        if place is None or place.name:
            return names
        folder = self._folder(place.snapshot, "")
        return frozenset(name for name in names if self._folder_in(path, place.snapshot, name) == folder)

    def _folder_in(self, path: str, snapshot: Path, name: str) -> str | None:
        top = os.path.join(path, name.partition(os.sep)[0])
        return os.path.dirname(os.readlink(top)) if os.path.islink(top) else self._folder(snapshot, name)

    def _folder(self, snapshot: Path, name: str) -> str | None:
        folders = self._of(snapshot)
        top = name.partition(os.sep)[0]
        return folders.get(top) or folders.get(top.removesuffix(".py")) or self._beside.get(snapshot)

    def copies(self, path: str, code: str) -> list[str]:
        """The copies of the file at ``path`` in ``code``, one of the folders on a leg's search path."""
        place = CopiedCode.at(code)
        folders = set() if place is None else {*self._of(place.snapshot).values()}
        found = (os.path.join(code, os.path.relpath(path, folder)) for folder in folders)
        return [copy for copy in found if os.path.isfile(copy) and self.of(os.path.realpath(copy)) == path]

    def present(self, path: str) -> str:
        """Where this process reads the project's file at ``path``: in the copy on its search path, if it is there."""
        return next((copy for entry in sys.path for copy in self.copies(path, entry)), path)

    def _of(self, snapshot: Path) -> dict[str, str]:
        if snapshot not in self._folders:
            try:
                found = read_json(snapshot / "snapshot.json")
                modules, here = found["modules"], str(found.get("folder") or "")
            except (OSError, ValueError, KeyError):
                modules, here = (), ""
            folders = self._folders[snapshot] = {
                one["name"].partition(".")[0]: str(folder_of(one["name"], Path(one["path"]))) for one in modules
            }
            if folders:
                self._beside[snapshot] = here if here in folders.values() else next(iter(folders.values()))
        return self._folders[snapshot]
