"""Figures, images and other things to look at, kept as files of the trial; and fingerprints of data files."""

from __future__ import annotations

import json
import os
import re
import shutil
from pathlib import Path
from typing import Any

import xxhash

_NOT_IN_NAMES = re.compile(r"[^\w.-]+")
_PIECE = 1 << 20


def keep(folder: Path, step: int, name: str, value: Any) -> bool:
    """Write ``value`` into ``folder`` under its name and step; False if its type cannot be shown.

    Figures of matplotlib and Plotly, PIL images, text, and paths of files, which are copied.
    """
    stem = f"{_NOT_IN_NAMES.sub('-', name).strip('.-') or 'file'}-{step:06d}"
    if isinstance(value, str):
        _with(folder, f"{stem}.txt").write_text(value, encoding="utf-8")
    elif isinstance(value, Path):
        shutil.copy2(value, _with(folder, stem + value.suffix))
    elif hasattr(value, "savefig"):
        value.savefig(_with(folder, f"{stem}.png"))
    elif hasattr(value, "to_plotly_json"):
        _with(folder, f"{stem}.plotly.json").write_text(value.to_json(), encoding="utf-8")
    elif type(value).__module__.startswith("PIL.") and hasattr(value, "save"):
        value.save(_with(folder, f"{stem}.png"))
    elif isinstance(value, dict | list):
        _with(folder, f"{stem}.json").write_text(json.dumps(value, default=str, indent=1), encoding="utf-8")
    else:
        return False
    return True


def _with(folder: Path, name: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    return folder / name


def free_name(folder: Path, step: int, stem: str, suffix: str) -> Path:
    """An unused name in ``folder``, for things that the training code does not name."""
    number = 1
    while (path := _with(folder, f"{stem}-{step:06d}-{number}{suffix}")).exists():
        number += 1
    return path


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
    """Size and modification time (ns) of a file; zeros if it does not exist."""
    try:
        status = os.stat(path)
    except OSError:
        return 0, 0
    return status.st_size, status.st_mtime_ns
