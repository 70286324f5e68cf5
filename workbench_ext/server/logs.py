"""A trial's log, piece by piece. Law: complete lines, each once; a line that is still being redrawn is sent separately.

An offset counts bytes from the trial's first one, as far as this server has seen: rotation moves files and drops the
oldest, but offsets stay valid.
"""

from __future__ import annotations

import codecs
import contextlib
import io
import os
import threading
from collections import OrderedDict
from pathlib import Path
from typing import Any, BinaryIO

from workbench.store import Store
from workbench.store.files import packed
from workbench_ext.server.pages import paths_of

Json = Any

#: The most bytes in one answer.
MOST = 1 << 20
#: The most older files of a log.
_PARTS = 9
#: The number of logs whose offsets are remembered.
_LOGS = 1_000

_remembered: OrderedDict[Path, dict[int, int]] = OrderedDict()
_remembering = threading.Lock()


def log(store: Store, name: str, number: int, offset: int, limit: int) -> Json:
    """Complete lines from ``offset`` on, at most ``limit`` bytes; ``offset`` -1 requests the last ones.

    offset: where the text starts. next: the offset for the next request. size: where the log ends. line: the last line
    so far, which may still be redrawn; it is sent again in ``text`` once it is complete.
    """
    path = paths_of(store, name, number).log
    with contextlib.ExitStack() as stack:
        parts = [stack.enter_context(part) for part in _opened(path)]
        placed = _placed(path, [_about(part) for part in parts])
        first = placed[0][0] if placed else 0
        size = placed[-1][0] + placed[-1][1] if placed else 0
        tail = offset < 0
        start = max(size - limit, first) if tail else max(offset, first)
        if start > size:  # from an earlier server process, or the log was removed
            start, tail = max(size - limit, first), True
        data = b"".join(_read(part, *place, start, limit) for part, place in zip(parts, placed, strict=True))
    end = start + len(data)
    if tail and start > first and (cut := data.find(b"\n")) >= 0:
        start, data = start + cut + 1, data[cut + 1 :]
    rest = b""
    if end >= size and not data.endswith(b"\n"):
        data, rest = _apart(data)
    elif end < size and b"\n" in data:
        data = data[: data.rfind(b"\n") + 1]
    # A line longer than the answer may be cut within a character: its bytes are sent with the next answer.
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    text = decoder.decode(data, final=data.endswith(b"\n"))
    return {
        "offset": start,
        "next": start + len(data) - len(decoder.getstate()[0]),
        "size": size,
        "text": text,
        "line": rest.decode("utf-8", "replace"),
    }


def _apart(data: bytes) -> tuple[bytes, bytes]:
    whole = data.rfind(b"\n") + 1
    return data[:whole], data[whole:]


def _opened(path: Path) -> list[BinaryIO]:
    """The files of a log, the oldest first. The newest is opened first: a file rotated meanwhile is then seen twice,
    not missed."""
    opened: list[BinaryIO] = []
    seen: set[int] = set()
    for number in range(_PARTS + 1):
        part = path if number == 0 else path.with_name(f"{path.name}.{number}")
        try:
            file: BinaryIO = open(part, "rb", opener=_carefully)
        except OSError:
            if number:
                break
            data = packed.read(part) if not part.is_symlink() else None
            if data is None:
                continue
            file = io.BytesIO(data)
        inode, _ = _about(file)
        if inode in seen:
            file.close()
            continue
        seen.add(inode)
        opened.append(file)
    return opened[::-1]


def _carefully(name: str, flags: int) -> int:
    return os.open(name, flags | os.O_NOFOLLOW | os.O_NONBLOCK)


def _about(part: BinaryIO) -> tuple[int, int]:
    """Inode and size; for a file that was packed when its experiment ended, 0 and its size."""
    if isinstance(part, io.BytesIO):
        return 0, len(part.getbuffer())
    stat = os.fstat(part.fileno())
    return stat.st_ino, stat.st_size


def _placed(path: Path, stats: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Where each file starts, counted from the trial's first byte, and its size."""
    with _remembering:
        known = _remembered.pop(path, {})
        placed: list[tuple[int, int]] = []
        for inode, size in stats:
            after = sum(placed[-1]) if placed else 0
            placed.append((known.get(inode, after), size))
        # A file that was first seen short has grown since: the next one starts at its real end.
        for place in range(1, len(placed)):
            placed[place] = (max(placed[place][0], sum(placed[place - 1])), placed[place][1])
        _remembered[path] = {inode: start for (inode, _), (start, _) in zip(stats, placed, strict=True)}
        while len(_remembered) > _LOGS:
            _remembered.popitem(last=False)
    return placed


def _read(file: BinaryIO, begin: int, size: int, start: int, limit: int) -> bytes:
    """The bytes of the file, which starts at ``begin``, between ``start`` and ``start + limit``."""
    low, high = max(start, begin), min(start + limit, begin + size)
    if low >= high:
        return b""
    file.seek(low - begin)
    return file.read(high - low)
