"""The folders of a user's own files, outside of every store. Law: it only returns paths, and creates nothing."""

from __future__ import annotations

import os
from pathlib import Path


def folder() -> Path:
    """The user's state folder: ``$XDG_STATE_HOME/workbench``, else ``~/.local/state/workbench``.

    Raises RuntimeError if the user has no home folder.
    """
    named = os.environ.get("XDG_STATE_HOME") or ""
    # The specification says to ignore a relative path.
    return Path(named) / "workbench" if os.path.isabs(named) else usual()


def usual() -> Path:
    """The default state folder, regardless of the environment."""
    return Path.home() / ".local" / "state" / "workbench"
