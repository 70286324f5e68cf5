"""Where a person's own files lie, outside of every store. Law: it only says where; nothing is made by asking."""

from __future__ import annotations

import os
from pathlib import Path


def folder() -> Path:
    """The person's state folder: ``$XDG_STATE_HOME/workbench``, else ``~/.local/state/workbench``.

    Raises RuntimeError where the person has no home folder.
    """
    named = os.environ.get("XDG_STATE_HOME") or ""
    # The specification says that a relative path is to be ignored.
    return Path(named) / "workbench" if os.path.isabs(named) else usual()


def usual() -> Path:
    """The same where the surroundings name no other place."""
    return Path.home() / ".local" / "state" / "workbench"
