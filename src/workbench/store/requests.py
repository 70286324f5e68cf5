"""What people asked, one file each. Law: who asks writes the file, whole; the engine alone takes it away.

A request is acknowledged when :func:`put` has returned. Its answer is a line of the store's own journal.
"""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from workbench.errors import BadName, NewerSchema
from workbench.records import SCHEMA, Json, check_schema
from workbench.store.atomic import WRITING, make_folder, read_json, telling, write_json
from workbench.store.layout import Store

#: After so many seconds a file that is still being written belongs to nobody any more.
ABANDONED_S = 60.0

_ID = re.compile(r"\d{8}-\d{6}-\d{6}-[0-9a-f]{8}")
_numbering = threading.Lock()
_newest = 0


@dataclass(frozen=True, slots=True)
class Refused:
    """A request that could not be read. It lies in ``path`` now, and ``why`` says what is wrong with it."""

    id: str
    path: Path
    why: str


def put(store: Store, request: Mapping[str, Json]) -> str:
    """Ask the engine for something; give the request's id. It is on the disk when this returns.

    ``request`` is plain data with its ``kind``. Raises StoreFull or StoreReadOnly, and then nothing was asked.
    """
    store.check_writable()
    request_id = _next_id()
    if not store.requests.is_dir():
        make_folder(store.requests, fsync=True)
    write_json(store.requests / f"{request_id}.json", {"schema": SCHEMA, **request})
    return request_id


def pending(store: Store, refused: list[Refused] | None = None) -> list[tuple[str, dict[str, Json]]]:
    """The requests that wait, oldest first. It is for the engine.

    One that is no request (half-written, of a later Workbench, not JSON) is moved to ``requests/refused/`` and added
    to ``refused``, so that it is answered once and never met again. A file that is being written right now is let be.
    """
    told: list[Refused] = [] if refused is None else refused
    waiting = []
    try:
        names = sorted(os.listdir(store.requests))
    except (FileNotFoundError, NotADirectoryError):
        return []
    for name in names:
        path = store.requests / name
        if path == store.refused_requests:
            continue
        if name.endswith(WRITING):
            if _age(path) > ABANDONED_S:
                told.append(_aside(store, path, "its writer died before it was whole; nobody was told it was taken"))
            continue
        request_id = name.removesuffix(".json")
        if not name.endswith(".json") or not _ID.fullmatch(request_id):
            told.append(_aside(store, path, "its name is no request's"))
            continue
        try:
            request = read_json(path)
            if not isinstance(request, dict) or not isinstance(request.get("kind"), str):
                raise ValueError("it is no JSON object with a kind")
            check_schema(request, "it")
        except FileNotFoundError:
            continue  # taken back meanwhile
        except NewerSchema as error:
            told.append(_aside(store, path, str(error)))
        except (ValueError, TypeError, IsADirectoryError) as error:
            told.append(_aside(store, path, f"it cannot be read ({error})"))
        else:
            request.pop("schema", None)
            waiting.append((request_id, request))
    return waiting


def remove(store: Store, request_id: str) -> None:
    """Take a request away: it was answered. One that is gone already is no error."""
    if not _ID.fullmatch(request_id):
        raise BadName(f"{request_id[:60]!r} is no request's id.")
    path = store.requests / f"{request_id}.json"
    with telling(path), contextlib.suppress(FileNotFoundError):
        os.unlink(path)


def _aside(store: Store, path: Path, why: str) -> Refused:
    make_folder(store.refused_requests)
    target = store.refused_requests / path.name.lstrip(".")
    if target.exists():
        target = target.with_name(f"{target.name}.{secrets.token_hex(4)}")
    with telling(path):
        os.replace(path, target)
    return Refused(path.name.lstrip(".").split(".")[0], target, why)


def _age(path: Path) -> float:
    try:
        return time.time() - path.stat().st_mtime
    except OSError:
        return 0.0


def _next_id() -> str:
    """The time in microseconds and random letters. Rising within a process, even where the clock is set back."""
    global _newest
    with _numbering:
        _newest = max(time.time_ns() // 1000, _newest + 1)
        at = datetime.fromtimestamp(_newest // 1_000_000, UTC)
        return f"{at:%Y%m%d-%H%M%S}-{_newest % 1_000_000:06d}-{secrets.token_hex(4)}"
