"""Keeps files that training read, by content. Law: in parallel to training, and each content once; a file that changed
while it was copied is not kept, and a secret never is."""

from __future__ import annotations

import contextlib
import os
import re

import xxhash

from workbench.errors import StoreError
from workbench.messages import Plain
from workbench.store import Store
from workbench.store.files.space import space_left
from workbench.store.keeping.kept import QUOTA, kept_bytes

#: Bytes that must stay free on the store's disk.
_ROOM = 1_000_000_000
#: The most contents of one path: a file that training itself changes again and again is not data to restore.
_CONTENTS = 16
#: How often a file that changes meanwhile is read.
_TRIES = 3
#: Names of files that hold secrets.
_SECRET = re.compile(
    r"(?ix) \.env(\..*)? | .*\.(pem|key|p12|pfx|jks|keystore|kdbx|gpg|asc|ppk) | \.?netrc | \.pgpass | \.htpasswd"
    r"| id_(rsa|dsa|ecdsa|ed25519) | \.?git-credentials | kaggle\.json | .*(secret|credential|password|passwd|token)s?"
    r"(\.(json|ya?ml|toml|ini|txt|cfg|conf|env))? | \.(npm|pypi)rc | service[-_]account.*\.json"
)
_SQLITE = b"SQLite format 3\0"


def is_secret(path: str) -> bool:
    """Whether a file's name suggests that it holds a secret."""
    return _SECRET.fullmatch(os.path.basename(path)) is not None


class Keeper:
    """Keeps files for the legs of one store. It is used in one thread.

    most: bytes of the largest file that is kept; 0 keeps none.
    """

    def __init__(self, store: Store, most: int, quota: int = QUOTA) -> None:
        self.store, self.most = store, most
        self._quota = quota
        #: Bytes of kept files in the store; None until they are counted.
        self._total: int | None = None
        self._contents: dict[str, set[str]] = {}

    def keep(self, path: str, found: Plain) -> Plain:
        """Keep the file at ``path``, which ``found`` described a moment ago.

        Returns the fields for its leg's page: ``kept`` (a blob) and, for a database, ``beside``; or ``not_kept``, a
        word of ``store.kept.NOT_KEPT``.
        """
        why = self._refused(path, found)
        if why is not None:
            return {"not_kept": why}
        try:
            for _ in range(_TRIES):
                parts = _copied(path)
                if parts is None:
                    continue
                if not found.get("sampled") and xxhash.xxh3_128(parts[""]).hexdigest() != found["digest"]:
                    return {"not_kept": "changing"}
                return self._put(path, parts)
        except (OSError, StoreError):
            return {"not_kept": "full" if not self._has_room(0) else "changing"}
        return {"not_kept": "changing"}

    def has(self, said: Plain) -> bool:
        """Whether the kept bytes still exist. They are touched, so that cleaning up spares them until they are
        referenced."""
        if "kept" not in said:
            return True
        path = self.store.blob_path(said["kept"])
        with contextlib.suppress(PermissionError):  # another user's blob cannot be touched
            try:
                os.utime(path)
            except FileNotFoundError:
                return False
        return path.exists()

    def _refused(self, path: str, found: Plain) -> str | None:
        size = int(found["size"])
        if not self.most:
            return "off"
        if path.endswith("/") or found.get("files") is not None:
            return "folder"
        if is_secret(path):
            return "secret"
        if size > self.most:
            return "large"
        if len(self._contents.get(path, ())) >= _CONTENTS:
            return "changes"
        if self._total is None:
            self._total = kept_bytes(self.store)
        if self._total + size > self._quota:
            return "quota"
        return None if self._has_room(size) else "full"

    def _has_room(self, size: int) -> bool:
        left = space_left(self.store.root)
        return left is None or left > size + _ROOM

    def _put(self, path: str, parts: dict[str, bytes]) -> Plain:
        names = {}
        for ending, data in parts.items():
            names[ending] = self.store.put_blob(data)
        contents = self._contents.setdefault(path, set())
        if names[""] not in contents:
            contents.add(names[""])
            assert self._total is not None
            self._total += sum(map(len, parts.values()))
        beside = {ending: name for ending, name in names.items() if ending}
        return {"kept": names[""], **({"beside": beside} if beside else {})}


def _copied(path: str) -> dict[str, bytes] | None:
    """The bytes of a file and of the files that belong to it, by ending; None if it changed meanwhile."""
    before = _marks(path)
    with open(path, "rb") as file:
        parts = {"": file.read()}
    if parts[""].startswith(_SQLITE):
        # A write-ahead log is part of the database; a journal means that a program is writing at this moment.
        if before["-journal"] is not None and before["-journal"][1]:
            return None
        if before["-wal"] is not None and before["-wal"][1]:
            with open(f"{path}-wal", "rb") as file:
                parts["-wal"] = file.read()
    return parts if _marks(path) == before else None


def _marks(path: str) -> dict[str, tuple[int, int, int] | None]:
    found: dict[str, tuple[int, int, int] | None] = {}
    for ending in ("", "-wal", "-journal"):
        try:
            status = os.stat(path + ending)
            found[ending] = (status.st_ino, status.st_size, status.st_mtime_ns)
        except OSError:
            found[ending] = None
    return found
