"""Folders of trials. Law: they are made only inside a store that exists.

A store that a user removes while it trains must not come back in part: the part would have no mark of its owner, and
the next search would take it for another person's store.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from workbench.store.files.atomic import FOLDER_MODE, make_folder, telling
from workbench.store.layout import CHECKS, EXPERIMENTS, TRIALS


def make_inside(folder: Path) -> None:
    """Make ``folder``, of a trial or of what an experiment's trials share, and missing parents inside its store.

    Raises StoreError if the store does not exist. Folders outside of a store are made with all parents.
    """
    if folder.is_dir():
        return
    home = _experiments(folder)
    if home is None:
        make_folder(folder)
        return
    at = home
    for name in folder.relative_to(home).parts:
        at /= name
        # Never with parents: whether the folder above still exists is for the operating system to say, at that moment.
        with telling(at), contextlib.suppress(FileExistsError):
            os.mkdir(at, FOLDER_MODE)
    make_folder(folder)  # a file in its place is named


def _experiments(folder: Path) -> Path | None:
    """The folder ``experiments`` of the store that ``folder``, of an experiment's trials, lies in; None if in none."""
    for one in (folder, *folder.parents):
        if one.name in (TRIALS, CHECKS) and one.parent.parent.name == EXPERIMENTS:
            return one.parent.parent
    return None
