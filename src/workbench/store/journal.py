"""The append-only file of events. Law: a line is acknowledged when ``commit`` has returned, and never before.

A line is one JSON object: ``n`` (its sequence number, which is the order), ``at`` (UTC, for people), ``schema``, and
the writer's fields. A last line without its newline was never acknowledged: readers skip it, and the writer cuts it off
when it opens the file.
"""

from __future__ import annotations

import contextlib
import functools
import os
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, cast

from workbench.errors import NewerSchema, StoreError
from workbench.records import SCHEMA, Json
from workbench.store.files.atomic import (
    FILE_MODE,
    NoFile,
    from_json,
    fsync_folder,
    make_folder,
    open_file,
    store_error,
    telling,
    to_json,
)

if TYPE_CHECKING:
    import msgspec

#: Keys that the journal itself adds to a line.
OWN = frozenset({"n", "at", "schema"})
_BLOCK = 1 << 16
#: The maximum length of a line in bytes. A longer one was not written by Workbench, and is not kept in memory.
MOST_LINE = 64 << 20
#: Journals of at most this many bytes are decoded at once.
_AT_ONCE = 8 << 20
_OPENING = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


@dataclass(frozen=True, slots=True)
class Damage:
    """A part of a file that could not be read. ``where`` is its byte offset."""

    path: Path
    where: int
    what: str
    #: Whether it is the end of a line that was never acknowledged, which a reader may skip without loss.
    is_torn: bool = False

    def __str__(self) -> str:
        return f"{self.path}, byte {self.where}: {self.what}"


class Journal:
    """The writer of one journal: the engine, which holds the store's lease."""

    def __init__(self, path: Path, descriptor: int, size: int, n: int, damage: tuple[Damage, ...]) -> None:
        self.path = path
        #: The parts that were cut off when the file was opened.
        self.damage = damage
        #: Called by :meth:`commit`, in its thread, before it writes: stores what the lines refer to. If it raises, no
        #: line is written.
        self.first: Callable[[], object] = _nothing
        self._descriptor = descriptor
        #: The number of acknowledged bytes. Bytes after them are a torn write, and are overwritten.
        self._size = size
        self._n = n
        self._durable = n
        self._lines: list[bytes] = []
        self._appending = threading.Lock()
        self._committing = threading.Lock()

    @classmethod
    def open(cls, path: Path) -> Journal:
        """Open ``path`` to append to it; create it if it is missing, and cut off a torn tail.

        Raises NewerSchema if a later Workbench wrote to it: it can be read, not continued.
        """
        make_folder(path.parent)
        with telling(path):
            check_journal(path)
            descriptor = os.open(path, _OPENING, FILE_MODE)
            try:
                size, n, damage = _sound(path, descriptor)
                if damage:
                    os.ftruncate(descriptor, size)
                    os.fsync(descriptor)
                if size == 0:
                    fsync_folder(path.parent)
            except BaseException:
                os.close(descriptor)
                raise
        return cls(path, descriptor, size, n, damage)

    @property
    def n(self) -> int:
        """The sequence number of the last line appended; 0 before the first."""
        return self._n

    @property
    def durable(self) -> int:
        """The sequence number of the last acknowledged line, which is on disk."""
        return self._durable

    def append(self, event: Mapping[str, Json], at: str | None = None) -> int:
        """Append ``event`` as the next line and return its sequence number. It is on disk after the next commit.

        at: when it happened (UTC, ISO 8601); by default now.
        """
        if not OWN.isdisjoint(event):
            raise ValueError(f"an event may not hold {sorted(OWN & event.keys())}: the journal gives them.")
        at = at or datetime.now(UTC).isoformat(timespec="milliseconds")
        with self._appending:
            n = self._n + 1
            line = to_json({"n": n, "at": at, "schema": SCHEMA, **event})
            self._lines.append(line)
            self._n = n
        return n

    def take_back(self, n: int) -> None:
        """Drop line ``n`` if it is the newest and not committed yet; any other line stays."""
        with self._committing, self._appending:
            if n == self._n > self._durable:
                self._lines.pop()
                self._n -= 1

    def commit(self) -> int:
        """Write all appended lines to disk with one write and one fsync; return the last one's number.

        It blocks, so it is called in a thread; lines may be appended meanwhile, and several threads may commit. If it
        raises (StoreFull if the disk is full), nothing is lost and no line is torn: the lines wait for the next call.
        """
        with self._committing:
            with self._appending:
                lines, n = len(self._lines), self._n
                data = b"".join([line + b"\n" for line in self._lines])
            if self._descriptor >= 0:
                self.first()
            if not data:
                return n
            if self._descriptor < 0:
                raise StoreError(f"{self.path} is closed. Open the journal again.")
            try:
                # At the acknowledged size, not at the file's end: this overwrites the rest of a failed write. All bytes
                # are written again after a failed fsync, since the kernel may have dropped them.
                _pwrite(self._descriptor, data, self._size)
                os.fsync(self._descriptor)
            except OSError as error:
                with contextlib.suppress(OSError):
                    os.ftruncate(self._descriptor, self._size)
                raise store_error(self.path, error) from error
            self._size += len(data)
            self._durable = n
            with self._appending:
                del self._lines[:lines]
            return n

    def close(self) -> None:
        """Commit waiting lines and close the file. The file is closed even if committing raises."""
        try:
            self.commit()
        finally:
            with self._committing:
                if self._descriptor >= 0:
                    os.close(self._descriptor)
                    self._descriptor = -1

    def __enter__(self) -> Journal:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _nothing() -> None:
    """Do nothing: the default of ``first``."""


def check_journal(path: Path) -> None:
    """Raises StoreError if ``path`` is something other than a plain file."""
    try:
        open_file(path).close()
    except FileNotFoundError:
        return
    except NoFile as error:
        raise StoreError(
            f"{path} cannot be a journal: {error}. Move it away, or restore the file from a copy."
        ) from error


def read(path: Path, after: int = 0, *, damage: list[Damage] | None = None) -> Iterator[dict[str, Json]]:
    """The lines after sequence number ``after``, in order; none if there is no file.

    A torn last line is skipped: it was never acknowledged. Damage further up is skipped too. Both are added to
    ``damage``. Lines of a later Workbench are returned unchanged. With a large ``after``, only new lines are read.
    """
    told: list[Damage] = [] if damage is None else damage
    try:
        file = open_file(path)
    except FileNotFoundError:
        return
    except NoFile as error:
        told.append(Damage(path, 0, str(error)))
        return
    with file:
        if after <= 0 and (lines := _intact(file)) is not None:
            yield from lines
            return
        where = _place(file, after) if after > 0 else 0
        file.seek(where)
        last = 0
        while raw := file.readline(MOST_LINE):
            if len(raw) == MOST_LINE and not raw.endswith(b"\n"):
                told.append(
                    Damage(path, where, f"a line of more than {MOST_LINE:,} bytes; it and the rest are not read")
                )
                return
            line = _line(raw)
            if line is None:
                told.append(_damage(path, where, raw))
            else:
                if line["n"] != last + 1 and (last or not where):
                    told.append(Damage(path, where, f"line {line['n']} follows line {last}"))
                last = line["n"]
                if last > after:
                    yield line
            where += len(raw)


def _intact(file: BinaryIO) -> list[dict[str, Json]] | None:
    """All lines of a journal that has no damage, decoded at once, which takes half the time; None for others and for
    large ones."""
    data = file.read(_AT_ONCE + 1)
    if len(data) > _AT_ONCE or not data.endswith(b"\n"):
        return None
    decoder, refused = _decoder()
    try:
        lines = decoder.decode_lines(data)
    except refused:
        return None
    # One object on each line: it may lie between other lines.
    starts = data.startswith(b"{") + data.count(b"\n{")
    if not starts == data.count(b"\n") == len(lines):
        return None
    is_intact = all(_is_line(line) and line["n"] == number for number, line in enumerate(lines, 1))
    return lines if is_intact else None


def lasting(path: Path, damage: list[Damage]) -> list[Damage]:
    """The ``damage`` that no writer cuts off: before the last intact line, or all of it if there is none."""
    pieces = [piece for piece in damage if not piece.is_torn]
    end = 0
    with contextlib.suppress(OSError, NoFile):
        if pieces:
            with open_file(path) as file:
                end = next((where + len(raw) for where, raw in _backwards(file) if _line(raw) is not None), 0)
    return [piece for piece in pieces if piece.where < end or end == 0]


def last(path: Path) -> dict[str, Json] | None:
    """The last whole line, or None. It costs the same however long the journal is."""
    with contextlib.suppress(FileNotFoundError, NoFile), open_file(path) as file:
        for _, raw in _backwards(file):
            line = _line(raw)
            if line is not None:
                return line
    return None


def _pwrite(descriptor: int, data: bytes, offset: int) -> None:
    rest = memoryview(data)
    while rest:
        written = os.pwrite(descriptor, rest, offset)
        rest, offset = rest[written:], offset + written


def _line(raw: bytes) -> dict[str, Json] | None:
    """The event in ``raw``, or None if it is torn or not a line of a journal."""
    if not raw.endswith(b"\n"):
        return None
    try:
        line = _decoded(raw)
    except ValueError:
        return None
    return cast("dict[str, Json]", line) if _is_line(line) else None


def _is_line(line: Json) -> bool:
    return isinstance(line, dict) and type(line.get("n")) is int and isinstance(line.get("kind", ""), str)


def _decoded(raw: bytes) -> Json:
    """``raw`` as :func:`from_json` reads it, in a third of the time where msgspec can read it: it knows neither NaN nor
    half a surrogate pair."""
    decoder, refused = _decoder()
    try:
        return decoder.decode(raw)
    except refused:
        return from_json(raw)


@functools.cache
def _decoder() -> tuple[msgspec.json.Decoder[Json], tuple[type[Exception], ...]]:
    import msgspec  # late: many programs start that read no journal

    return msgspec.json.Decoder(), (msgspec.DecodeError, ValueError, RecursionError)


def _damage(path: Path, where: int, raw: bytes) -> Damage:
    if raw.endswith(b"\n"):
        return Damage(path, where, f"a line that is not an event ({raw[:40]!r}…)")
    what = f"the last line is incomplete after {len(raw)} bytes; it was never acknowledged"
    return Damage(path, where, what, is_torn=True)


def _sound(path: Path, descriptor: int) -> tuple[int, int, tuple[Damage, ...]]:
    """Size and last sequence number of the intact part, and the damage: lines at the end that are not events."""
    damage: list[Damage] = []
    with os.fdopen(os.dup(descriptor), "rb") as file:
        for where, raw in _backwards(file):
            line = _line(raw)
            if line is None:
                damage.append(_damage(path, where, raw))
                continue
            schema = int(line.get("schema", 1))
            if schema > SCHEMA:
                raise NewerSchema(
                    f"{path} was written by a later Workbench (schema {schema}; this one knows up to {SCHEMA}). "
                    "It can be read. Upgrade Workbench to continue it."
                )
            return where + len(raw), int(line["n"]), tuple(reversed(damage))
    return 0, 0, tuple(reversed(damage))


def _backwards(file: BinaryIO) -> Iterator[tuple[int, bytes]]:
    """The lines of ``file`` from the last to the first, each with its offset.

    Of a line that is too long, only the ends are returned.
    """
    end = file.seek(0, os.SEEK_END)
    later: list[bytes] = []  # the blocks of a line that starts further up, its end first
    held = 0
    while end > 0:
        start = max(0, end - _BLOCK)
        file.seek(start)
        data = file.read(end - start)
        where = end
        if later and data.endswith(b"\n"):
            yield where, b"".join(reversed(later))
            later, held = [], 0
        lines = _split(data)
        first = lines.pop(0) if start > 0 else b""
        for raw in reversed(lines):
            where -= len(raw)
            yield where, b"".join((raw, *reversed(later)))
            later, held = [], 0
        if first:
            later.append(first)
            held += len(first)
        if held > MOST_LINE:
            later = [later[0], later[-1]]
        end = start


def _split(data: bytes) -> list[bytes]:
    """``data`` in lines that keep their newline; the last one may have none."""
    lines = [line + b"\n" for line in data.split(b"\n")]
    lines[-1] = lines[-1][:-1]
    return lines if lines[-1] else lines[:-1]


def _place(file: BinaryIO, after: int) -> int:
    """The offset of the lines after ``after``, searched from the end, since readers mostly need new lines."""
    place = 0
    for where, raw in _backwards(file):
        line = _line(raw)
        if line is not None and line["n"] <= after:
            place = where
            break
    return place
