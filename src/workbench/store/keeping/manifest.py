"""Manifests of checkpoints. Law: a manifest is written last, and its digests cover every byte of the checkpoint.

The standard library suffices; if xxhash is installed, it computes the digests, since a checkpoint may have gigabytes.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from workbench.errors import StoreError
from workbench.records import SCHEMA, Json, check_schema
from workbench.store.files.atomic import read_json

try:
    import xxhash
except ImportError:  # a training environment of the user's own
    xxhash = None  # type: ignore[assignment,unused-ignore]

NAME = "manifest.json"
_ALGORITHM = "blake2b" if xxhash is None else "xxh3_128"
_BLOCK = 1 << 20


@dataclass(frozen=True, slots=True)
class File:
    """One file of a checkpoint in its manifest: size in bytes, and digest as ``algorithm:hexadecimal``."""

    size: int
    digest: str


@dataclass(frozen=True, slots=True)
class Manifest:
    """The contents of a checkpoint. It is written last: without it there is no checkpoint."""

    step: int
    attempt: int
    created: str
    files: Mapping[str, File]
    #: Plain data added by the publisher.
    details: Mapping[str, Json]

    @property
    def size(self) -> int:
        """Bytes of all its files."""
        return sum(file.size for file in self.files.values())

    @property
    def digest(self) -> str:
        """One digest of the whole checkpoint: of the names and digests of its files."""
        text = "".join(f"{name}\0{file.digest}\n" for name, file in sorted(self.files.items()))
        return hashlib.sha256(text.encode()).hexdigest()


def digest(data: bytes | bytearray | memoryview, like: str = "") -> str:
    """The digest of ``data`` in the form of manifests, by the algorithm of the digest ``like`` if given."""
    algorithm = like.partition(":")[0] or _ALGORITHM
    hasher = _hasher(algorithm)
    hasher.update(data)
    return f"{algorithm}:{hasher.hexdigest()}"


def is_changed(data: bytes, file: File) -> bool:
    """Whether the digest shows that ``data`` differs from ``file``."""
    return _hasher_known(file.digest) and digest(data, file.digest) != file.digest


def files_in(folder: Path, prefix: str = "") -> Iterator[tuple[str, int]]:
    """Names (with ``/``) and sizes of the files below ``folder``. Links may not lead out of a checkpoint."""
    with os.scandir(folder) as entries:
        for entry in entries:
            name = prefix + entry.name
            if entry.is_symlink():
                raise StoreError(
                    f"{entry.path} is a link, and a checkpoint holds files only, so that it stays whole. "
                    "Copy the file instead of linking it."
                )
            if entry.is_dir():
                yield from files_in(Path(entry.path), f"{name}/")
            elif name != NAME:
                yield name, entry.stat().st_size


def to_plain(manifest: Manifest) -> dict[str, Json]:
    """``manifest`` in the form of its file."""
    return {
        "schema": SCHEMA,
        "step": manifest.step,
        "attempt": manifest.attempt,
        "created": manifest.created,
        "files": {name: {"size": file.size, "digest": file.digest} for name, file in manifest.files.items()},
        "details": dict(manifest.details),
    }


def read_manifest(folder: Path) -> Manifest:
    """The manifest of the checkpoint in ``folder``. Raises FileNotFoundError, NewerSchema, ValueError, KeyError…"""
    return from_plain(read_json(folder / NAME), f"the checkpoint in {folder}")


def from_plain(data: dict[str, Any], what: str) -> Manifest:
    """The manifest in the form of :func:`to_plain`, of ``what``. Raises NewerSchema, ValueError, KeyError…"""
    check_schema(data, what)
    files = {name: File(int(file["size"]), str(file["digest"])) for name, file in data["files"].items()}
    return Manifest(int(data["step"]), int(data["attempt"]), data["created"], files, data.get("details") or {})


def what_is_wrong(folder: Path, manifest: Manifest, verify: str) -> str | None:
    """What is wrong with the files in ``folder``, or None."""
    for name, file in manifest.files.items():
        if name.startswith("/") or ".." in name.split("/"):
            return f"it names a file outside of itself ({name!r})"
        path = folder / name
        try:
            found = path.lstat()
            if not stat.S_ISREG(found.st_mode) or found.st_size != file.size:
                return f"{name} has {found.st_size} bytes instead of {file.size}"
            if verify == "digest" and _hasher_known(file.digest) and digest_file(path, file.digest) != file.digest:
                return f"the bytes of {name} have changed"
        except OSError as error:
            return f"{name} cannot be read ({error.strerror})"
    return None


def _hasher(algorithm: str) -> Any:
    return xxhash.xxh3_128() if algorithm == "xxh3_128" else hashlib.blake2b(digest_size=16)


def _hasher_known(digest: str) -> bool:
    # Without xxhash, only the size can be compared.
    return digest.startswith("blake2b:") or (digest.startswith("xxh3_128:") and xxhash is not None)


def digest_file(path: Path, like: str = _ALGORITHM) -> str:
    """The digest of a file, by the algorithm of the digest ``like``."""
    algorithm = like.partition(":")[0]
    hasher = _hasher(algorithm)
    with open(path, "rb", buffering=0) as file:
        while block := file.read(_BLOCK):
            hasher.update(block)
    return f"{algorithm}:{hasher.hexdigest()}"
