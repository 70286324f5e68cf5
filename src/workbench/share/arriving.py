"""The folder of an import in progress. Law: one import into a store at a time; a refused one leaves nothing, and the
next one removes what a killed one left.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import secrets
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from workbench.store import Store
from workbench.store.files.atomic import REMOVED, telling

#: The prefix of the folder into which an import unpacks, in the store's folder.
PREFIX = ".import-"


@contextmanager
def arriving(store: Store) -> Iterator[Path]:
    """A folder inside the store, which is created if needed; both are removed if the body raises.

    Waits until no other import into the store is in progress.
    """
    existed = store.root.exists()
    with telling(store.root), _alone(store):
        try:
            _sweep(store.root)
            with tempfile.TemporaryDirectory(dir=store.root, prefix=PREFIX) as folder:
                descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
                try:
                    # The lock ends with its process: a folder without one belongs to a killed import.
                    with contextlib.suppress(OSError):
                        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    yield Path(folder)
                finally:
                    os.close(descriptor)
        except BaseException:
            # If an engine has started meanwhile, or another process has launched something, the store stays.
            if not existed and not store.engine_json.exists() and not any(store.experiments.glob("*")):
                shutil.rmtree(store.root, ignore_errors=True)
            raise


@contextmanager
def _alone(store: Store) -> Iterator[None]:
    """Create the store, and lock its folder. Where a file system cannot lock it, imports go on side by side: then the
    last step, the rename of the experiment's folder, succeeds for one of them.
    """
    while True:
        store.create()
        descriptor = os.open(store.root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            with contextlib.suppress(OSError):
                fcntl.flock(descriptor, fcntl.LOCK_EX)
            # A refused import into a new store removes it: a lock on a removed folder locks nothing.
            if os.path.exists(store.root) and os.path.samestat(os.stat(store.root), os.fstat(descriptor)):
                yield
                return
        finally:
            os.close(descriptor)


def _sweep(root: Path) -> None:
    for left in root.glob(f"{PREFIX}*"):
        with contextlib.suppress(OSError):
            descriptor = os.open(left, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(left, ignore_errors=True)
            finally:
                os.close(descriptor)


def take_out(folder: Path) -> None:
    """Remove the experiment in ``folder`` in one rename: half of it is never visible.

    Its blobs and snapshots stay: another experiment may need them by now. Cleaning up removes them otherwise.
    """
    with contextlib.suppress(OSError):
        removed = folder.with_name(f"{REMOVED}{folder.name}-{secrets.token_hex(4)}")
        os.rename(folder, removed)
        shutil.rmtree(removed, ignore_errors=True)
