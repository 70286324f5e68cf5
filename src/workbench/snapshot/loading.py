"""Loading captured names. Law: it runs in every runner and in loaders' workers, so it imports little; large arrays are
mapped and not read, and writes into them stay in this process.
"""

from __future__ import annotations

import contextlib
import ctypes
import io
import json
import linecache
import mmap
import os
import pickle
import sys
import weakref
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, Protocol

from workbench.errors import VersionsDiffer
from workbench.records import Json, check_schema
from workbench.snapshot.rebuilding import loading_into


class Blobs(Protocol):
    """The part of a store that a capture needs."""

    def put_blob(self, data: bytes | bytearray | memoryview) -> str:
        """Keep bytes by content; their sha256."""

    def get_blob(self, sha: str, *, verify: bool = False) -> bytes:
        """The bytes; with ``verify``, compared with their name first."""

    def blob_path(self, sha: str) -> Path:
        """Their file."""


def load(store: Blobs, digest: str, namespace: dict[str, Any]) -> dict[str, Any]:
    """Put the captured names into ``namespace`` and return it; captured functions and classes use it as their globals.

    Large arrays are mapped from the store: they are read when they are used, and writes into them stay in this process.
    Raises VersionsDiffer if another Python version wrote it, NewerSchema if a later Workbench did.
    """
    manifest = _manifest(store, digest)
    here = python_of_captures()
    if manifest["python"] != here:
        raise VersionsDiffer(
            f"These names were captured by Python {manifest['python']}, and this is Python {here}: compiled functions "
            "do not work in another version. Use the notebook's Python, or run its cells again in this one."
        )
    for filename, text in manifest["sources"].items():
        if filename not in linecache.cache:
            linecache.cache[filename] = (len(text), None, text.splitlines(keepends=True), filename)
    regions = [mapped(store.blob_path(sha)) for sha in manifest["regions"]]
    stream = io.BytesIO(store.get_blob(manifest["stream"], verify=True))
    found: dict[str, Any] = {}
    with loading_into(namespace):
        for name in manifest["submodules"]:
            with contextlib.suppress(ImportError):  # the code that uses it will raise
                __import__(name)
        unpickler = Unpickler(stream, namespace, [regions[index] for index in manifest["buffers"]])
        for _ in manifest["names"]:
            name, value = unpickler.load()
            namespace[name] = found[name] = value
    return found


def overlay(store: Blobs, digest: str, names: Collection[str], namespace: dict[str, Any]) -> None:
    """Load ``names`` from the capture ``digest``, and leave the other names of ``namespace`` unchanged.

    Functions and classes use the names in ``namespace``, whichever capture these come from.
    """
    before = dict(namespace)
    for name in load(store, digest, namespace):
        if name in names:
            continue
        if name in before:
            namespace[name] = before[name]
        else:
            del namespace[name]


def contents(store: Blobs, digest: str) -> dict[str, dict[str, str]]:
    """Names and modules of a capture with their digests and versions, without loading it."""
    manifest = _manifest(store, digest)
    return {"names": manifest["names"], "modules": manifest["modules"]}


def blobs_of(store: Blobs, digest: str) -> list[str]:
    """Every blob that the capture ``digest`` needs, itself first: cleaning up must keep these."""
    manifest = _manifest(store, digest)
    return [digest, manifest["stream"], *manifest["regions"]]


def _manifest(store: Blobs, digest: str) -> dict[str, Json]:
    manifest: dict[str, Json] = json.loads(store.get_blob(digest, verify=True))
    check_schema(manifest, "this capture")
    return manifest


def python_of_captures() -> str:
    """The Python version whose compiled code a capture holds."""
    return "{}.{}".format(*sys.version_info)


class Unpickler(pickle.Unpickler):
    """Looks names of ``__main__`` up in the namespace being loaded into."""

    def __init__(self, file: io.BytesIO, namespace: Mapping[str, Any], buffers: list[Any]) -> None:
        super().__init__(file, buffers=buffers)
        self.namespace = namespace

    def find_class(self, module: str, name: str, /) -> Any:
        if module == "__main__":
            first, *rest = name.split(".")
            value = self.namespace[first] if first in self.namespace else getattr(sys.modules["__main__"], first)
            for part in rest:
                value = getattr(value, part)
            return value
        return super().find_class(module, name)


_libc = ctypes.CDLL(None, use_errno=True)
_libc.mmap.restype = ctypes.c_void_p
_libc.mmap.argtypes = (
    *(ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int),
    *(ctypes.c_int, ctypes.c_int, ctypes.c_long),
)
_libc.munmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t)


def mapped(path: Path) -> memoryview:
    """The bytes of a file, mapped privately: written pages belong to this process only.

    Uses the C library, since :mod:`mmap` keeps a file descriptor open for every mapping, and a model has hundreds.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        size = os.fstat(descriptor).st_size
        protection = mmap.PROT_READ | mmap.PROT_WRITE
        address = _libc.mmap(None, size, protection, mmap.MAP_PRIVATE, descriptor, 0)
    finally:
        os.close(descriptor)
    if address in (None, ctypes.c_void_p(-1).value):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), str(path))
    memory = (ctypes.c_ubyte * size).from_address(address)
    weakref.finalize(memory, _libc.munmap, address, size).atexit = False
    return memoryview(memory).cast("B")
