"""What names what: which blobs and snapshots somebody still needs. Law: it reads; in doubt a thing is named.

Specs, requests and snapshots name blobs by digests, a capture names the blobs of its buffers, and a spec names its
snapshot. No list of fields is kept here: whatever is written as a digest in a file that names things counts as named,
so that a new field, or a later Workbench's, never loses what it speaks of.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from workbench.store.files.atomic import MOST_JSON, NoFile, open_file, read_file
from workbench.store.layout import Store

#: Names of blobs and snapshots: runs of letters and digits that are long enough to be nothing else.
_NAME = re.compile(rb"(?<![0-9A-Za-z])[0-9a-f]{8,128}(?![0-9A-Za-z])")
#: A blob that names others is JSON and small; captured values may be gigabytes. A capture's list, which begins so, is
#: read whatever its size.
_MOST_NAMING = 1 << 24
_CAPTURE = b'{"buffers":'
#: Parts of a snapshot that name things; its code and notebook do not.
_PARTS = ("snapshot.json", "cells.json", "data.json")

#: What a blob names, by its path: blobs never change.
_blobs: dict[Path, frozenset[str]] = {}
#: What a file names, with its state (inode, size, time).
_files: dict[Path, tuple[tuple[int, int, int], frozenset[str]]] = {}


def named_by_experiment(store: Store, experiment_id: str, *, data: bool = True) -> frozenset[str]:
    """Blobs and snapshots that the experiment needs, with all that those need, whether they are there or not.

    data: also the files that its trials read, as far as they are kept.
    """
    paths = store.experiment(experiment_id)
    names = everything(store, _in_file(paths.spec))
    # Data is named by nothing but its own list, and names nothing, whatever its bytes look like.
    return names | _in_file(paths.data) if data else names


def named_by_requests(store: Store) -> frozenset[str]:
    """Blobs and snapshots that requests name, the refused ones too: a person may still want them."""
    found: set[str] = set()
    for folder in (store.requests, store.refused_requests):
        for name in _listed(folder):
            found |= _in_file(folder / name)
    return everything(store, found)


def everything(store: Store, names: Iterable[str]) -> frozenset[str]:
    """``names`` with all that they name, and those name."""
    found: set[str] = set()
    waiting = set(names)
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            waiting |= _named_by(store, name) - found
    return frozenset(found)


def _named_by(store: Store, name: str) -> frozenset[str]:
    if len(name) == 64:
        path = store.blobs / name
        known = _blobs.get(path)
        if known is None:
            known = _in_blob(path)
            if known is not None:
                _blobs[path] = known
        if known:
            return known
    parts = [_in_file(store.snapshots / name / part) for part in _PARTS]
    return frozenset().union(*parts)


def _in_blob(path: Path) -> frozenset[str] | None:
    """What the blob at ``path`` names; None where it is not there."""
    try:
        with open_file(path) as file:
            head = file.read(len(_CAPTURE))
            small = os.fstat(file.fileno()).st_size <= _MOST_NAMING
            if head != _CAPTURE and not (head.startswith(b"{") and small):
                return frozenset()
            return _names(head + file.read())
    except (OSError, NoFile):
        return None


def _in_file(path: Path) -> frozenset[str]:
    try:
        stat = path.stat()
        state = (stat.st_ino, stat.st_size, stat.st_mtime_ns)
        known = _files.get(path)
        if known is None or known[0] != state:
            known = _files[path] = (state, _names(read_file(path, MOST_JSON)))
    except (OSError, ValueError):
        return frozenset()
    return known[1]


def _names(data: bytes) -> frozenset[str]:
    return frozenset(found.decode("ascii") for found in _NAME.findall(data))


def _listed(folder: Path) -> Iterator[str]:
    try:
        yield from os.listdir(folder)
    except (FileNotFoundError, NotADirectoryError):
        return
