"""Fingerprints and copies of files that training code names."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import xxhash

_PIECE = 1 << 20


def fingerprint(path: Path) -> dict[str, Any]:
    """Size, modification time and digest of a file, or of all files of a folder together."""
    files = sorted(one for one in path.rglob("*") if one.is_file()) if path.is_dir() else [path]
    state = xxhash.xxh3_128()
    size, changed = 0, 0.0
    for file in files:
        status = file.stat()
        size, changed = size + status.st_size, max(changed, status.st_mtime)
        if path.is_dir():
            state.update(str(file.relative_to(path)).encode("utf-8", "surrogateescape"))
        with open(file, "rb") as stream:
            while piece := stream.read(_PIECE):
                state.update(piece)
    return {"size": size, "changed": changed, "digest": state.hexdigest()}


def listing(folder: str) -> str:
    """A digest of the names in a folder. Raises OSError."""
    return xxhash.xxh3_128_hexdigest(b"\0".join(sorted(map(os.fsencode, os.listdir(folder)))))


def copy_into(source: Path, target: Path) -> None:
    """Copy a file or folder below ``target``, as ``saved``."""
    if source.is_dir():
        shutil.copytree(source, target / "saved")
    else:
        (target / "saved").mkdir()
        shutil.copy2(source, target / "saved" / source.name)


def stamp(path: str) -> tuple[int, int]:
    """Size of a file, and the time (ns) of the last change of its content or, where a program has set that time back,
    of the file itself; zeros if it does not exist."""
    try:
        status = os.stat(path)
    except OSError:
        return 0, 0
    return status.st_size, max(status.st_mtime_ns, status.st_ctime_ns)
