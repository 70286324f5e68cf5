"""Ids of experiments and notebooks' runs: names of folders, in the order of time."""

from __future__ import annotations

import re
import secrets
import threading
import time
from datetime import UTC, datetime

from workbench.errors import BadName

_VALID = re.compile(r"[0-9a-z](?:[0-9a-z-]{0,62}[0-9a-z])?")
_numbering = threading.Lock()
_newest = 0
_LETTERS = "abcdefghijkmnpqrstuvwxyz"  # neither l nor o: they look like digits


def new_id() -> str:
    """A unique id that sorts by time: the second (UTC), its part in three letters (to 72 µs), three random letters."""
    global _newest
    base = len(_LETTERS)
    with _numbering:  # two of one process differ, and sort, even within 72 µs
        _newest = max(time.time_ns() * base**3 // 1_000_000_000, _newest + 1)
        second, part = divmod(_newest, base**3)
    letters = [_LETTERS[part // base**place % base] for place in (2, 1, 0)]
    at = datetime.fromtimestamp(second, UTC)
    return f"{at:%Y%m%d-%H%M%S}-{''.join(letters + [secrets.choice(_LETTERS) for _ in range(3)])}"


def is_id(text: str) -> bool:
    """Whether ``text`` is a valid id, of whatever origin."""
    return _VALID.fullmatch(text) is not None


def checked_id(text: str) -> str:
    """``text`` itself if it is a valid id, and so a valid folder name. Raises BadName for anything else."""
    if not is_id(text):
        shown = text if len(text) <= 40 else text[:37] + "..."
        raise BadName(
            f"{shown!r} is not an id: expected 1 to 64 of 0-9, a-z and -. Take the id that workbench ls shows."
        )
    return text
