"""What people asked, one file each. Law: who asks writes the file, whole; the engine alone takes it away.

A request is acknowledged when :func:`put` has returned. Its answer is a line of the store's own journal. One with
``not_before`` (UTC, ISO 8601) waits until then, and its asker may take it back: of :func:`withdraw` and :func:`take`
one wins, and the other is told.
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
from typing import Literal

from workbench.errors import BadName, NewerSchema
from workbench.records import SCHEMA, Json, check_schema
from workbench.store.atomic import WRITING, fsync_folder, make_folder, read_json, telling, write_json
from workbench.store.layout import Store

#: After so many seconds a file that is still being written belongs to nobody any more.
ABANDONED_S = 60.0

#: A request may wait so many seconds for its ``not_before``: an engine stays for it.
MOST_WAIT_S = 24 * 3600.0
#: What ends the name of a request that an engine has taken, and whose answer is not written yet.
TAKEN = ".taken"

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
    """The requests that are due, oldest first; those that an engine had taken when it died too. It is for the engine.

    One that is no request (half-written, of a later Workbench, not JSON) is moved to ``requests/refused/`` and added
    to ``refused``, so that it is answered once and never met again. A file that is being written right now is let be.
    """
    now = datetime.now(UTC)
    return [(number, request) for number, request, due in _waiting(store, refused) if due is None or due <= now]


def next_due(store: Store) -> float | None:
    """Seconds until the next request is due (0 for one that is); None where none waits."""
    now = datetime.now(UTC)
    return min((0.0 if due is None else max(0.0, (due - now).total_seconds()) for _, _, due in _waiting(store)),
               default=None)  # fmt: skip


def take(store: Store, request_id: str) -> bool:
    """Claim a request before acting on it: from now on nobody takes it back. False where somebody just has.

    It still waits for its answer: an engine that dies before :func:`remove` leaves it to the next one.
    """
    path = _path(store, request_id)
    taken = path.with_suffix(TAKEN)
    with telling(path):
        try:
            os.rename(path, taken)
        except FileNotFoundError:
            return taken.exists()
    return True


def withdraw(store: Store, request_id: str) -> Literal["withdrawn", "taken", "gone"]:
    """Take a request back. ``taken``: the engine acts on it; ``gone``: it was answered, withdrawn, or never was.

    Only with ``withdrawn`` is it certain that the engine never acts on it. Raises BadName for what is no id.
    """
    store.check_writable()
    path = _path(store, request_id)
    with telling(path):
        try:
            os.unlink(path)
        except FileNotFoundError:
            return "taken" if path.with_suffix(TAKEN).exists() else "gone"
        fsync_folder(path.parent)
    return "withdrawn"


def state(store: Store, request_id: str) -> Literal["waiting", "taken", "gone"]:
    """Where a request stands; ``gone`` is answered (the store's journal says how), withdrawn, or never there."""
    path = _path(store, request_id)
    return "waiting" if path.exists() else "taken" if path.with_suffix(TAKEN).exists() else "gone"


def peek(store: Store) -> list[tuple[str, dict[str, Json]]]:
    """The requests that wait or were taken, oldest first, as they are. It is for viewers: nothing is moved."""
    found = []
    with contextlib.suppress(OSError):
        for name in sorted(os.listdir(store.requests)):
            request_id, _, suffix = name.partition(".")
            if f".{suffix}" in (".json", TAKEN) and _ID.fullmatch(request_id):
                with contextlib.suppress(OSError, ValueError):
                    request = read_json(store.requests / name)
                    if isinstance(request, dict):
                        found.append((request_id, request))
    return found


def _waiting(store: Store, refused: list[Refused] | None = None) -> list[tuple[str, dict[str, Json], datetime | None]]:
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
        request_id, _, suffix = name.partition(".")
        if f".{suffix}" not in (".json", TAKEN) or not _ID.fullmatch(request_id):
            told.append(_aside(store, path, "its name is no request's"))
            continue
        try:
            request = read_json(path)
            if not isinstance(request, dict) or not isinstance(request.get("kind"), str):
                raise ValueError("it is no JSON object with a kind")
            check_schema(request, "it")
            due = _due(request)
        except FileNotFoundError:
            continue  # taken back meanwhile
        except NewerSchema as error:
            told.append(_aside(store, path, str(error)))
        except (ValueError, TypeError, IsADirectoryError) as error:
            told.append(_aside(store, path, f"it cannot be read ({error})"))
        else:
            request.pop("schema", None)
            waiting.append((request_id, request, None if suffix == TAKEN[1:] else due))
    return waiting


def _due(request: Mapping[str, Json]) -> datetime | None:
    """When a request may be taken; None for at once. Raises ValueError for no time, or one too far off."""
    text = request.get("not_before")
    if text is None:
        return None
    due = datetime.fromisoformat(text)
    due = due if due.tzinfo else due.replace(tzinfo=UTC)
    if (due - datetime.now(UTC)).total_seconds() > MOST_WAIT_S:
        raise ValueError(f"not_before {text} is more than a day off")
    return due


def remove(store: Store, request_id: str) -> None:
    """Take a request away: it was answered. One that is gone already is no error."""
    path = _path(store, request_id)
    for one in (path, path.with_suffix(TAKEN)):
        with telling(one), contextlib.suppress(FileNotFoundError):
            os.unlink(one)


def set_aside(store: Store, path: Path) -> Path:
    """Move the file ``path`` of the requests to those that were refused; where it lies now. No engine may live."""
    return _aside(store, path, "").path


def _path(store: Store, request_id: str) -> Path:
    if not _ID.fullmatch(request_id):
        raise BadName(f"{request_id[:60]!r} is no request's id.")
    return store.requests / f"{request_id}.json"


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
