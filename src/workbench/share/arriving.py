"""The folder of an import in progress. Law: a refused import leaves nothing, and the next import removes what a killed
one left.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import secrets
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from workbench.store import Store
from workbench.store.files.atomic import REMOVED, telling

#: The prefix of the folder into which an import unpacks, in the store's folder.
PREFIX = ".import-"


@contextmanager
def arriving(store: Store) -> Iterator[Path]:
    """A folder inside the store, which is created if needed; both are removed if the body raises."""
    existed = store.root.exists()
    try:
        store.create()
        _sweep(store.root)
        with telling(store.root), tempfile.TemporaryDirectory(dir=store.root, prefix=PREFIX) as folder:
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


def _sweep(root: Path) -> None:
    for left in root.glob(f"{PREFIX}*"):
        with contextlib.suppress(OSError):
            descriptor = os.open(left, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(left, ignore_errors=True)
            finally:
                os.close(descriptor)


def take_out(placed: Iterable[Path]) -> None:
    """Remove what was placed, the experiment first and in one rename: half of it is never visible."""
    for path in reversed([*placed]):
        with contextlib.suppress(OSError):
            aside = path.with_name(f"{REMOVED}{path.name}-{secrets.token_hex(4)}")
            os.rename(path, aside)
            if aside.is_dir():
                shutil.rmtree(aside, ignore_errors=True)
            else:
                aside.unlink()
