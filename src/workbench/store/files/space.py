"""Space on file systems. Law: one that tells no sizes is never full."""

from __future__ import annotations

import os
from pathlib import Path


def space_left(path: Path) -> int | None:
    """Bytes that this user may still write at ``path``; None if its file system tells no sizes. Raises OSError."""
    return left_to(os.geteuid(), os.statvfs(path))


def left_to(user: int, told: os.statvfs_result) -> int | None:
    """The same for ``user``, from what the file system ``told``."""
    if told.f_blocks <= 0:
        return None
    blocks = told.f_bavail if user else told.f_bfree  # root may also use what is reserved
    return blocks * told.f_frsize
