"""References: which blobs and snapshots are still needed. Law: it reads; in doubt an item counts as referenced.

Specs, requests and snapshots refer to blobs by digests, a capture refers to the blobs of its buffers, and a spec to its
snapshot. There is no list of fields here: everything in these files that looks like a digest counts as a reference, so
that a new field, or one of a later Workbench, never loses its blobs.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path

from workbench.store.files.atomic import MOST_JSON, NoFile, open_file, read_file
from workbench.store.layout import Store

#: Names of blobs and snapshots: runs of letters and digits long enough to be unambiguous.
_NAME = re.compile(rb"(?<![0-9A-Za-z])[0-9a-f]{8,128}(?![0-9A-Za-z])")
#: A blob with references is small JSON; captured values may have gigabytes. A capture's list, which begins like this,
#: is read whatever its size.
_MOST_NAMING = 1 << 24
_CAPTURE = b'{"buffers":'
#: Parts of a snapshot with references; its code and notebook have none.
_PARTS = ("snapshot.json", "cells.json", "data.json")

#: The references in a blob, by its path: blobs never change.
_blobs: dict[Path, frozenset[str]] = {}
#: The references in a file, with its state (inode, size, time).
_files: dict[Path, tuple[tuple[int, int, int], frozenset[str]]] = {}


def named_by_experiment(
    store: Store, experiment_id: str, *, data: bool = True, there: Collection[str] | None = None
) -> frozenset[str]:
    """Blobs and snapshots that the experiment needs, recursively, whether they exist or not.

    data: also the kept files that its trials read. there: the names of all blobs and snapshots, if the caller has
    listed them a moment ago; what is not among them is not looked for. That saves most of the time, for most of what
    looks like a name is none. A caller that removes files gives none: what came since that list may refer to old files.
    """
    paths = store.experiment(experiment_id)
    names = everything(store, in_file(paths.spec), there)
    # Only its own list refers to data, and data has no references, whatever its bytes look like.
    return names | in_file(paths.data) if data else names


def named_by_requests(store: Store) -> frozenset[str]:
    """Blobs and snapshots that requests refer to, including refused ones, which the user may still need."""
    found: set[str] = set()
    for folder in (store.requests, store.refused_requests):
        for name in _listed(folder):
            found |= in_file(folder / name)
    return everything(store, found)


def everything(store: Store, names: Iterable[str], there: Collection[str] | None = None) -> frozenset[str]:
    """``names`` with everything that they refer to, recursively. there: as in :func:`named_by_experiment`."""
    found: set[str] = set()
    waiting = set(names)
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            if there is None or name in there:
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
    parts = [in_file(store.snapshots / name / part) for part in _PARTS]
    return frozenset().union(*parts)


def _in_blob(path: Path) -> frozenset[str] | None:
    """The references in the blob at ``path``; None if it does not exist."""
    try:
        with open_file(path) as file:
            head = file.read(len(_CAPTURE))
            small = os.fstat(file.fileno()).st_size <= _MOST_NAMING
            if head != _CAPTURE and not (head.startswith(b"{") and small):
                return frozenset()
            return _names(head + file.read())
    except (OSError, NoFile):
        return None


def in_file(path: Path) -> frozenset[str]:
    """Everything in a file of the store that looks like the name of a blob or snapshot."""
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
