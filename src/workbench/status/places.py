"""Stores in the words of the machine's commands. Law: text in, text out."""

from __future__ import annotations

import os

from workbench.store.layout import FOLDER
from workbench.terminal import clean


def place(root: str) -> str:
    """A store as people name it: ``~/nlp`` for ``/home/me/nlp/.workbench``."""
    folder = os.path.dirname(root) if os.path.basename(root) == FOLDER else root
    home = os.path.expanduser("~")
    if home != "/" and (folder == home or folder.startswith(f"{home}/")):
        folder = f"~{folder.removeprefix(home)}"
    return clean(folder or root or "another process")
