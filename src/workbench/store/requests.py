"""What people asked, one file each. Law: who asks writes the file, whole; the engine alone takes it away.

A request is acknowledged when :func:`put` has returned. Its answer is a line of the store's own journal. One with
``not_before`` (UTC, ISO 8601) waits until then, and its asker may take it back: of :func:`withdraw` and :func:`take`
one wins, and the other is told.
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

#: After so many seconds a file that is still being written belongs to nobody any more.
ABANDONED_S = 60.0

#: A request may wait so many seconds for its ``not_before``: an engine stays for it.
MOST_WAIT_S = 24 * 3600.0
#: What ends the name of a request that an engine has taken, and whose answer is not written yet.
TAKEN = ".taken"

#: Bytes of the largest request. The longest that people write is a note.
MOST_BYTES = 4 << 20
#: Errors that pass: then a file is moved away at the next look.
_WAITS = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO})
#: At one look so many requests are taken, and so many that are none are moved away: the engine has other work.
MOST_DUE, MOST_REFUSED = 1000, 500

_ID = re.compile(r"\d{8}-\d{6}-\d{6}-[0-9a-f]{8}")
_numbering = threading.Lock()
_newest = 0
#: Requests that wait for their time, by path, with what their files were like: they are not read at each look.
_dues: dict[Path, tuple[tuple[int, int, int], datetime]] = {}
#: Files that are no requests and cannot be moved away either, with their inodes. Each is told once.
_stuck: set[tuple[Path, int]] = set()


@dataclass(frozen=True, slots=True)
class Refused:
    """A request that could not be read. It lies in ``path`` now, and ``why`` says what is wrong with it."""

    id: str
    path: Path
    why: str


def put(store: Store, request: Mapping[str, Json]) -> str:
    """Ask the engine for something; give the request's id. It is on the disk when this returns.

    ``request`` is plain data with its ``kind``. Raises NotAdopted for a store that is not this person's, StoreFull or
    StoreReadOnly, and then nothing was asked.
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
    """The requests that are due, oldest first; those that an engine had taken when it died too. It is for the engine.

    What is no request (half-written, of a later Workbench, not JSON, a link, a pipe) is moved to ``requests/refused/``
    and added to ``refused``, so that it is answered once and never met again. A file that is being written right now is
    let be. skip: ids that are being carried out. One look does not take more than :data:`MOST_DUE`.
    """
    now = datetime.now(UTC)
    waiting = _waiting(store, [] if refused is None else refused, skip)
    return [(number, request) for number, request, due in waiting if request is not None and _is_due(due, now)]


def _is_due(due: datetime | None, now: datetime) -> bool:
    return due is None or due <= now


def next_due(store: Store) -> float | None:
    """Seconds until the next request is due (0 for one that is); None where none waits."""
    now = datetime.now(UTC)
    waiting = (0.0 if due is None else max(0.0, (due - now).total_seconds()) for _, _, due in _waiting(store, None))
    return min(waiting, default=None)


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
                    request = read_json(store.requests / name, MOST_BYTES)
                    if isinstance(request, dict):
                        found.append((request_id, request))
    return found


_Waiting = list[tuple[str, dict[str, Json] | None, datetime | None]]


def _waiting(store: Store, refused: list[Refused] | None, skip: Collection[str] = ()) -> _Waiting:
    """Ids with the requests and when they are due. The request is None where it is known to wait for its time.

    What is none is moved away and added to ``refused``; without that it counts as due, for somebody to move it.
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
            continue  # taken back meanwhile
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
    """A request and when it is due; None for one that is being written. Raises ValueError and its kin for any other."""
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
    """Raises ValueError for a file that somebody else may change, or owns: it says what they want."""
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
    """When a request may be taken; None for at once. Raises ValueError for no time, or one too far off."""
    text = request.get("not_before")
    if text is None:
        return None
    due = datetime.fromisoformat(text)
    due = due if due.tzinfo else due.replace(tzinfo=UTC)
    if (due - datetime.now(UTC)).total_seconds() > MOST_WAIT_S:
        raise ValueError(f"not_before {text} is more than a day away")
    return due


def remove(store: Store, request_id: str) -> None:
    """Take a request away: it was answered. One that is gone already is no error."""
    path = _path(store, request_id)
    for one in (path, path.with_suffix(TAKEN)):
        with telling(one), contextlib.suppress(FileNotFoundError):
            os.unlink(one)


def _path(store: Store, request_id: str) -> Path:
    if not _ID.fullmatch(request_id):
        raise BadName(f"{request_id[:60]!r} is not the id of a request.")
    return store.requests / f"{request_id}.json"


def set_aside(store: Store, path: Path, why: str) -> Refused | None:
    """Move what is no request away; None where it cannot be moved and that was told before."""
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
        return None  # taken back meanwhile
    except OSError as error:
        if error.errno in _WAITS:
            raise store_error(path, error) from error  # a full disk: it is moved when there is room
        _stuck.add(stuck)
        return Refused(request_id, path, f"{why}; and it cannot be moved away ({error.strerror or error})")
    return Refused(request_id, target, why)


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
