"""Users' requests, one file each. Law: the asker writes the file, in one go; only the engine removes it.

A request is acknowledged when :func:`put` has returned. Its answer is a line of the store's own journal. One with
``not_before`` (UTC, ISO 8601) waits until then, and its asker may withdraw it: of :func:`withdraw` and :func:`take`
only one succeeds, and the other reports it.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import re
import secrets
import threading
import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from workbench.errors import BadName, NewerSchema
from workbench.records import SCHEMA, Json, check_schema
from workbench.store.files.atomic import (
    WRITING,
    fsync_folder,
    make_folder,
    move_away,
    open_file,
    read_json,
    store_error,
    telling,
    write_json,
)
from workbench.store.layout import Store
from workbench.store.owner.ownership import check_ours, claim

#: After this many seconds a file that is still being written counts as abandoned.
ABANDONED_S = 60.0

#: The longest time in seconds that a request may wait for its ``not_before``: an engine stays alive for it.
MOST_WAIT_S = 24 * 3600.0
#: The suffix of a request that an engine has taken, and whose answer is not written yet.
TAKEN = ".taken"

#: The size of the largest request, in bytes. The longest that users write is a note.
MOST_BYTES = 4 << 20
#: Temporary errors: the file is moved away at a later look.
_WAITS = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO})
#: The most requests taken, and invalid files moved away, at one look: the engine has other work.
MOST_DUE, MOST_REFUSED = 1000, 500

_ID = re.compile(r"\d{8}-\d{6}-\d{6}-[0-9a-f]{8}")
_numbering = threading.Lock()
_newest = 0
#: Requests that wait for their time, by path, with the state of their files: they are not read at each look.
_dues: dict[Path, tuple[tuple[int, int, int], datetime]] = {}
#: Invalid files that cannot be moved away either, with their inodes. Each is reported once.
_stuck: set[tuple[Path, int]] = set()


@dataclass(frozen=True, slots=True)
class Refused:
    """A request that could not be read. It is now at ``path``, and ``why`` says what is wrong with it."""

    id: str
    path: Path
    why: str


def put(store: Store, request: Mapping[str, Json]) -> str:
    """Send a request to the engine; return the request's id. It is on the disk when this returns.

    ``request`` is plain data with its ``kind``. Raises NotAdopted for a store of another user, StoreFull or
    StoreReadOnly; then nothing was requested.
    """
    store.check_writable()
    claim(store)
    request_id = _next_id()
    if not store.requests.is_dir():
        make_folder(store.requests, fsync=True)
    write_json(store.requests / f"{request_id}.json", {"schema": SCHEMA, **request})
    return request_id


def pending(
    store: Store, refused: list[Refused] | None = None, skip: Collection[str] = ()
) -> list[tuple[str, dict[str, Json]]]:
    """The requests that are due, oldest first, with those that an engine had taken when it died. For the engine only.

    Invalid files (half-written, of a later Workbench, not JSON, a link, a pipe) are moved to ``requests/refused/``
    and added to ``refused``, so that they are answered once and never read again. Files that are still being written
    are left alone. skip: ids that are being carried out. One look takes at most :data:`MOST_DUE`.
    """
    now = datetime.now(UTC)
    waiting = _waiting(store, [] if refused is None else refused, skip)
    return [(number, request) for number, request, due in waiting if request is not None and _is_due(due, now)]


def _is_due(due: datetime | None, now: datetime) -> bool:
    return due is None or due <= now


def next_due(store: Store) -> float | None:
    """Seconds until the next request is due (0 for one that is); None if none waits."""
    now = datetime.now(UTC)
    waiting = (0.0 if due is None else max(0.0, (due - now).total_seconds()) for _, _, due in _waiting(store, None))
    return min(waiting, default=None)


def take(store: Store, request_id: str) -> bool:
    """Claim a request before acting on it: from now on it cannot be withdrawn. False if it has just been withdrawn.

    It still waits for its answer: if an engine dies before :func:`remove`, the next one handles it.
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
    """Withdraw a request. ``taken``: the engine acts on it; ``gone``: it was answered, withdrawn, or never existed.

    Only with ``withdrawn`` is it certain that the engine never acts on it. Raises BadName for an invalid id.
    """
    store.check_writable()
    check_ours(store)
    path = _path(store, request_id)
    with telling(path):
        try:
            os.unlink(path)
        except FileNotFoundError:
            return "taken" if path.with_suffix(TAKEN).exists() else "gone"
        fsync_folder(path.parent)
    return "withdrawn"


def state(store: Store, request_id: str) -> Literal["waiting", "taken", "gone"]:
    """The state of a request; ``gone`` is answered (the store's journal says how), withdrawn, or never existed."""
    path = _path(store, request_id)
    return "waiting" if path.exists() else "taken" if path.with_suffix(TAKEN).exists() else "gone"


def peek(store: Store) -> list[tuple[str, dict[str, Json]]]:
    """The requests that wait or were taken, oldest first. For viewers: no file is moved."""
    found = []
    with contextlib.suppress(OSError):
        for name in sorted(os.listdir(store.requests)):
            request_id, _, suffix = name.partition(".")
            if f".{suffix}" in (".json", TAKEN) and _ID.fullmatch(request_id):
                with contextlib.suppress(OSError, ValueError):
                    request = read_json(store.requests / name, MOST_BYTES)
                    if isinstance(request, dict):
                        found.append((request_id, request))
    return found


_Waiting = list[tuple[str, dict[str, Json] | None, datetime | None]]


def _waiting(store: Store, refused: list[Refused] | None, skip: Collection[str] = ()) -> _Waiting:
    """Ids with the requests and when they are due. The request is None if it is known to wait for its time.

    Invalid files are moved away and added to ``refused``; if that is None, they count as due, for the engine to move.
    """
    waiting: _Waiting = []
    try:
        names = sorted(os.listdir(store.requests))
    except (FileNotFoundError, NotADirectoryError):
        return []
    now, moved, ready = datetime.now(UTC), 0, 0
    for name in names:
        path = store.requests / name
        request_id, _, suffix = name.partition(".")
        if path == store.refused_requests or request_id in skip:
            continue
        if ready >= MOST_DUE or moved >= MOST_REFUSED:
            break
        known = _dues.get(path)
        if known is not None and known[1] > now and known[0] == _state(path):
            waiting.append((request_id, None, known[1]))
            continue
        _dues.pop(path, None)
        try:
            found = _read(path, request_id, suffix)
        except FileNotFoundError:
            continue  # withdrawn meanwhile
        except (ValueError, TypeError, OSError) as error:
            moved += 1
            if refused is None:
                waiting += [] if (path, _state(path)[0]) in _stuck else [(request_id, None, None)]
            elif (bad := set_aside(store, path, str(error))) is not None:
                refused.append(bad)
            continue
        if found is None:
            continue
        request, due = found
        ready += _is_due(due, now)
        if due is not None and due > now:
            _dues[path] = (_state(path), due)
        waiting.append((request_id, request, due))
    return waiting


def _read(path: Path, request_id: str, suffix: str) -> tuple[dict[str, Json], datetime | None] | None:
    """A request and when it is due; None for one that is being written. Raises ValueError and the like if invalid."""
    if path.name.endswith(WRITING):
        if _age(path) > ABANDONED_S:
            raise ValueError("its writer died before it was complete; it was never acknowledged")
        return None
    if f".{suffix}" not in (".json", TAKEN) or not _ID.fullmatch(request_id):
        raise ValueError("its name is not that of a request")
    try:
        with open_file(path) as file:
            _check_owner(path, os.fstat(file.fileno()))
            request = _parsed(file.read(MOST_BYTES + 1))
        check_schema(request, "it")
        due = _due(request)
    except (FileNotFoundError, NewerSchema):
        raise
    except (ValueError, TypeError, OSError) as error:
        raise ValueError(f"it cannot be read ({error})") from error
    request.pop("schema", None)
    return request, None if suffix == TAKEN[1:] else due


def _check_owner(path: Path, stat: os.stat_result) -> None:
    """Raise ValueError for a file that another user owns or may change: it says what is expected."""
    if stat.st_nlink > 1:
        raise ValueError("it is a hard link: its file has another name elsewhere")
    if stat.st_uid not in (0, os.getuid(), os.stat(path.parent).st_uid):
        raise ValueError(f"it belongs to another user ({stat.st_uid})")


def _parsed(data: bytes) -> dict[str, Json]:
    if len(data) > MOST_BYTES:
        raise ValueError(f"it has more than {MOST_BYTES:,} bytes")
    try:
        request = json.loads(data, object_pairs_hook=_object, parse_constant=_constant)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    if not isinstance(request, dict) or not isinstance(request.get("kind"), str):
        raise ValueError("it is not a JSON object with a kind")
    return request


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a key is there twice")
    return found


def _constant(word: str) -> float:
    raise ValueError(f"{word} is not a number in JSON")


def _state(path: Path) -> tuple[int, int, int]:
    try:
        stat = path.lstat()
    except OSError:
        return (0, 0, 0)
    return (stat.st_ino, stat.st_size, stat.st_mtime_ns)


def _due(request: Mapping[str, Json]) -> datetime | None:
    """When a request may be taken; None for at once. Raises ValueError for an invalid time, or one too far off."""
    text = request.get("not_before")
    if text is None:
        return None
    due = datetime.fromisoformat(text)
    due = due if due.tzinfo else due.replace(tzinfo=UTC)
    if (due - datetime.now(UTC)).total_seconds() > MOST_WAIT_S:
        raise ValueError(f"not_before {text} is more than a day away")
    return due


def remove(store: Store, request_id: str) -> None:
    """Remove an answered request. It may already be gone."""
    path = _path(store, request_id)
    for one in (path, path.with_suffix(TAKEN)):
        with telling(one), contextlib.suppress(FileNotFoundError):
            os.unlink(one)


def _path(store: Store, request_id: str) -> Path:
    if not _ID.fullmatch(request_id):
        raise BadName(f"{request_id[:60]!r} is not the id of a request.")
    return store.requests / f"{request_id}.json"


def set_aside(store: Store, path: Path, why: str) -> Refused | None:
    """Move an invalid file away; None if it cannot be moved and that was reported before."""
    name = path.name.lstrip(".")[:200] or "unnamed"
    request_id = name.split(".")[0]
    try:
        stuck = (path, path.lstat().st_ino)
        if stuck in _stuck:
            return None
        if os.path.lexists(store.refused_requests) and (
            store.refused_requests.is_symlink() or not store.refused_requests.is_dir()
        ):
            move_away(store.refused_requests)
        make_folder(store.refused_requests)
        target = store.refused_requests / name
        if os.path.lexists(target):
            target = target.with_name(f"{name}.{secrets.token_hex(4)}")
        os.replace(path, target)
    except FileNotFoundError:
        return None  # withdrawn meanwhile
    except OSError as error:
        if error.errno in _WAITS:
            raise store_error(path, error) from error  # a full disk: it is moved when there is space
        _stuck.add(stuck)
        return Refused(request_id, path, f"{why}; and it cannot be moved away ({error.strerror or error})")
    return Refused(request_id, target, why)


def _age(path: Path) -> float:
    try:
        return time.time() - path.stat().st_mtime
    except OSError:
        return 0.0


def _next_id() -> str:
    """The time in microseconds and random letters. Rising within a process, even if the clock is set back."""
    global _newest
    with _numbering:
        _newest = max(time.time_ns() // 1000, _newest + 1)
        at = datetime.fromtimestamp(_newest // 1_000_000, UTC)
        return f"{at:%Y%m%d-%H%M%S}-{_newest % 1_000_000:06d}-{secrets.token_hex(4)}"
