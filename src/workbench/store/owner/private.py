"""Data that is never in a store: a user's key, and the secrets with which running experiments train.

Law: everything here is in the user's own state folder (``$XDG_STATE_HOME/workbench``, else
``~/.local/state/workbench``), readable only by that user. Stores, snapshots and exports contain keyed hashes.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import json
import os
import secrets
import time
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path

from workbench.store.files.atomic import FILE_MODE, WRITING, make_folder, telling, write_json
from workbench.store.ids import checked_id
from workbench.store.owner.personal import folder, usual

#: Seconds after which values are removed if their store is gone, or no engine has released them.
STALE_S = 90 * 86_400.0


def digest(name: str, value: str) -> str:
    """The keyed hash of a secret: equal for equal values, and useless without the user's key.

    Raises StoreError if the key cannot be stored.
    """
    text = f"{name}\0{value}".encode(errors="surrogateescape")
    return hmac.new(_key(), text, hashlib.sha256).hexdigest()[:32]


def _key() -> bytes:
    path = folder() / "key"
    try:
        return path.read_bytes()
    except FileNotFoundError:
        pass
    make_folder(path.parent)
    temporary = path.with_name(f".key.{secrets.token_hex(4)}{WRITING}")
    with telling(path):
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, FILE_MODE)
        try:
            os.write(descriptor, secrets.token_bytes(32))
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        try:
            with contextlib.suppress(FileExistsError):  # another process made one at the same moment: use that one
                os.link(temporary, path)
        finally:
            os.unlink(temporary)
        return path.read_bytes()


# ---------------------------------------------------------------------------------------------------------------------
# Values, for as long as an experiment is not over


def keep(store: Path, experiment: str, values: Mapping[str, str]) -> None:
    """Keep secrets for an experiment, in addition to those already kept. Raises StoreError."""
    if not values:
        return
    path = folder() / "secrets" / _name(store, experiment)
    make_folder(path.parent)
    _sweep(path.parent)
    write_json(path, {"store": str(store), "values": {**kept(store, experiment), **values}})


def kept(store: Path, experiment: str) -> dict[str, str]:
    """The secrets kept for an experiment; empty if there are none."""
    for place in _folders():
        with contextlib.suppress(OSError, ValueError):
            found = json.loads((place / _name(store, experiment)).read_bytes())
            values: dict[str, str] = found["values"] if found.get("store") == str(store) else {}
            return values
    return {}


def forget(store: Path, experiment: str, *, ended: str | None = None) -> None:
    """Remove the secrets of an experiment that has ended or was deleted.

    ended: the time of its end; values kept since then are for its extension, and stay.
    """
    for place in _folders():
        path = place / _name(store, experiment)
        with contextlib.suppress(OSError):
            if ended is None or path.stat().st_mtime < datetime.fromisoformat(ended).timestamp():
                path.unlink()


def forget_ended(store: Path, ended: Mapping[str, str | None]) -> None:
    """The same for the ``ended`` experiments of a store: an engine may have died before it did so."""
    for place in _folders():
        with contextlib.suppress(OSError):
            for entry in os.listdir(place):
                experiment = entry.rpartition("-")[0]
                if experiment in ended:
                    forget(store, experiment, ended=ended[experiment])


def places() -> list[Path]:
    """The folders in which values may be: an engine's shell may set another one than the process that kept them."""
    return [folder(), usual()]


def _folders() -> list[Path]:
    return [place / "secrets" for place in places()]


def _name(store: Path, experiment: str) -> str:
    # Two stores may have the same experiment: one was copied from the other.
    place = hashlib.sha256(str(store).encode(errors="surrogateescape")).hexdigest()[:12]
    return f"{checked_id(experiment)}-{place}.json"


def _sweep(there: Path) -> None:
    """Remove values that no engine will need any more."""
    for entry in os.scandir(there):
        with contextlib.suppress(OSError, ValueError, KeyError):
            old = time.time() - entry.stat().st_mtime > STALE_S
            if old or not os.path.isdir(json.loads(Path(entry.path).read_bytes())["store"]):
                os.unlink(entry.path)
