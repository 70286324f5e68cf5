"""Ids of experiments and notebooks' runs: names of folders, in the order of time."""

from __future__ import annotations

import re
import secrets
from datetime import UTC, datetime

from workbench.errors import BadName

#: All valid ids.
VALID = re.compile(r"[0-9a-z](?:[0-9a-z-]{0,62}[0-9a-z])?")
_LETTERS = "abcdefghijkmnpqrstuvwxyz"  # neither l nor o: they look like digits


def new_id() -> str:
    """A unique id that sorts by time: the second (UTC), its part in three letters (to 72 µs), three random letters."""
    now, base = datetime.now(UTC), len(_LETTERS)
    part = now.microsecond * base**3 // 1_000_000
    letters = [_LETTERS[part // base**place % base] for place in (2, 1, 0)]
    return f"{now:%Y%m%d-%H%M%S}-{''.join(letters + [secrets.choice(_LETTERS) for _ in range(3)])}"


def checked_id(text: str) -> str:
    """``text`` itself if it is a valid id, and so a valid folder name. Raises BadName for anything else."""
    if not VALID.fullmatch(text):
        shown = text if len(text) <= 40 else text[:37] + "..."
        raise BadName(
            f"{shown!r} is not an id: expected 1 to 64 of 0-9, a-z and -. Take the id that workbench ls shows."
        )
    return text
