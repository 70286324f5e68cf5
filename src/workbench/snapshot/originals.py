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

    def of(self, path: str) -> str | None:
        """The path of the file whose copy is at ``path``; None if that is not in a snapshot's copy of code."""
        place = CopiedCode.at(path)
        if place is None:
            return None
        folders = self._of(place.snapshot)
        folder = folders.get(place.name.partition(os.sep)[0]) or next(iter(folders.values()), None)
        return None if folder is None else os.path.join(folder, place.name)

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
                modules = read_json(snapshot / "snapshot.json")["modules"]
            except (OSError, ValueError, KeyError):
                modules = ()
            self._folders[snapshot] = {
                one["name"].partition(".")[0]: str(folder_of(one["name"], Path(one["path"]))) for one in modules
            }
        return self._folders[snapshot]
