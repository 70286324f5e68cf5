"""Files below a folder that another person may have filled. Law: no part of a path below that folder is a link."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from io import BufferedReader
from pathlib import Path, PurePath

from workbench.store.files.atomic import PLAIN, NoFile, plain_file

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def open_below(root: Path, path: PurePath) -> BufferedReader:
    """The plain file ``path``, which is relative to ``root``, opened to read it. ``root`` itself may be a link.

    Raises NoFile for anything but a plain file, and for a path that leads out of ``root`` or over a link;
    FileNotFoundError, OSError. Each folder is opened within the one before, so that none can be replaced meanwhile.
    """
    if path.is_absolute() or ".." in path.parts or not path.parts:
        raise NoFile(f"{str(path)[:80]!r} leads out of its folder")
    *folders, name = path.parts
    at = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for folder in folders:
            inner = os.open(folder, _FOLDER, dir_fd=at)
            os.close(at)
            at = inner
        descriptor = os.open(name, PLAIN, dir_fd=at)
    except OSError as error:
        # A link gives ELOOP or, as a folder, ENOTDIR; a socket gives ENXIO.
        if error.errno in (errno.ELOOP, errno.ENOTDIR, errno.ENXIO):
            raise NoFile(f"{str(path)[:80]!r} is not a plain file in plain folders") from None
        raise
    finally:
        os.close(at)
    return plain_file(descriptor)


def is_plain_below(root: Path, folder: Path) -> bool:
    """Whether ``folder`` is a folder, and neither it nor a folder between it and ``root`` is a link."""
    place = root
    with contextlib.suppress(OSError, ValueError):
        for part in folder.relative_to(root).parts:
            place = place / part
            if part == ".." or not stat.S_ISDIR(place.lstat().st_mode):
                return False
        return True
    return False
