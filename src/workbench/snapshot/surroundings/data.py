"""The files that a notebook names: size, time and digest. Law: it reads and never writes; it samples large files, and
says so.
"""

from __future__ import annotations

import functools
import os
import re
import time
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import BinaryIO

import xxhash

from workbench.records import Json
from workbench.snapshot.surroundings.locked import reading

#: Files up to this size are read whole.
_WHOLE = 1 << 26
#: Of larger ones, this many evenly spaced pieces of a mebibyte, including the first and the last.
_PIECES, _PIECE = 64, 1 << 20
#: The maximum number of files read in a folder.
_ENTRIES = 20_000
#: The maximum number of bytes of a folder's files that are read; for the rest, only names and sizes count.
_FOLDER = 1 << 32
#: Files in which each line is a row.
_TEXT = frozenset({".csv", ".tsv", ".txt", ".jsonl", ".ndjson"})
#: The first number of the shape in the heading of a NumPy array's file.
_NPY_SHAPE = re.compile(rb"'shape': \((\d+),")
#: What stands for a byte that is not UTF-8 in a recorded name.
_ESCAPE = re.compile(r"\\u(?P<code>dc[89a-f][0-9a-f])")
#: A quoted text that may name a file or folder.
_QUOTED = re.compile(r"""(?P<quote>['"])(?P<path>(?:~|\.{0,2})/?[^'"\n\r\t*?{}|<>:]{1,400})(?P=quote)""")


@dataclass(frozen=True, slots=True)
class DataFile:
    """A file or folder as it was.

    size: in bytes, of a folder the sum. files: how many. modified: the newest time of a change (UTC). digest: xxh3 of
    the content (of a folder: of its entries' names, sizes and times). sampled: the digest is of samples. rows: lines of
    a text file that was read whole, or the length of a NumPy array's file; None if that is not known.
    """

    path: str
    size: int
    files: int
    modified: str
    digest: str
    sampled: bool = False
    rows: int | None = None

    def to_json(self) -> dict[str, Json]:
        """Plain data."""
        return asdict(self)


def as_named(path: str) -> str:
    """A recorded path as the file system has it: the inverse of ``written``, unless there is such a path."""
    if "\\udc" not in path or os.path.lexists(path):
        return path
    return _ESCAPE.sub(lambda found: chr(int(found["code"], 16)), path)


def describe(path: str | os.PathLike[str]) -> DataFile:
    """The file or folder at ``path`` now. Raises OSError if there is none."""
    place = Path(path).expanduser()
    status = place.stat()
    if place.is_dir():
        return _folder(place, str(path))
    digest, sampled, rows = _file(str(place.resolve()), status.st_size, *mark(status))
    return DataFile(str(path), status.st_size, 1, _utc(status.st_mtime), digest, sampled, rows)


def mark(status: os.stat_result) -> tuple[int, int, int]:
    """What tells that a file may hold something else now. A program can set the first time, but not the last one."""
    return status.st_mtime_ns, status.st_ino, status.st_ctime_ns


def opened_mark(path: str) -> tuple[int, ...] | None:
    """What tells that a file has changed since training opened it: size, time of the last change (ns) and inode number;
    None if it is gone. New links to it and new rights change none of them."""
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_size, status.st_mtime_ns, status.st_ino


def is_marked(status: os.stat_result, before: Sequence[int] | None) -> bool:
    """Whether a file has the mark ``before``. Earlier versions kept the first two parts of it."""
    return before is not None and len(before) > 0 and list(mark(status)[: len(before)]) == list(before)


def content_of_folder(path: str | os.PathLike[str], without: Collection[str] = ()) -> Json:
    """The digest of a folder's content, regardless of its files' times, and whether it is of samples.

    without: paths of files that do not belong to it. Raises OSError if the folder does not exist.
    """
    place = Path(path).expanduser()
    place.stat()
    state, left, is_sampled = xxhash.xxh3_128(), _FOLDER, False
    for at, (file, status) in enumerate(_files_in(place)):
        if at >= _ENTRIES:
            is_sampled = True
            break
        if str(file) in without or file.name.startswith(".") or file.parent.name == "__pycache__":
            continue
        state.update(f"{file.relative_to(place)}\0{status.st_size}\0".encode(errors="surrogateescape"))
        if status.st_size > left:
            is_sampled = True
            continue
        left -= status.st_size
        try:
            digest, sampled, _ = _file(str(file), status.st_size, *mark(status))
        except OSError:
            digest, sampled = "unreadable", True
        is_sampled = is_sampled or sampled
        state.update(f"{digest}\n".encode())
    return {"digest": state.hexdigest(), **({"sampled": True} if is_sampled else {})}


def named_files(sources: Iterable[str], folder: Path, *, seconds: float = 0.2, limit: int = 200) -> list[DataFile]:
    """The existing files and folders that quoted texts in ``sources`` name, relative to ``folder``.

    Newest source first, for at most ``seconds``: the rest is not listed.
    """
    end = time.perf_counter() + seconds
    found: dict[Path, DataFile] = {}
    tried: set[str] = set()
    for source in reversed([*sources]):
        for match in _QUOTED.finditer(source):
            text = match["path"]
            if text in tried or not ("/" in text or "." in text.strip(".")) or text in ("/", "~", "~/", "./", "../"):
                continue
            tried.add(text)
            if len(found) >= limit or time.perf_counter() > end:
                return [*found.values()]
            try:
                place = folder / Path(text).expanduser()
                if place.resolve() not in found and place.resolve() != folder.resolve() and _is_data(place):
                    found[place.resolve()] = describe(place)
            except (OSError, ValueError, RuntimeError):
                continue
    return [*found.values()]


def _is_data(place: Path) -> bool:
    inside_system = place.is_absolute() and place.parts[:2] in {("/", part) for part in ("dev", "proc", "sys", "etc")}
    return not inside_system and (place.is_file() or (place.is_dir() and len(place.resolve().parts) > 2))


def _utc(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds")


@functools.lru_cache(maxsize=4096)
def _file(path: str, size: int, *_mark: int) -> tuple[str, bool, int | None]:
    state = xxhash.xxh3_128()
    with reading(path) as file:
        if size <= _WHOLE:
            lines, last = 0, b""
            while piece := file.read(_PIECE):
                state.update(piece)
                lines, last = lines + piece.count(b"\n"), piece[-1:]
            return state.hexdigest(), False, _rows(Path(path), file, lines + (last not in (b"", b"\n")))
        state.update(str(size).encode())
        for number in range(_PIECES):
            file.seek((size - _PIECE) * number // (_PIECES - 1))
            state.update(file.read(_PIECE))
    return state.hexdigest(), True, None


def _rows(path: Path, file: BinaryIO, lines: int) -> int | None:
    """The number of rows in a file of that name with that many lines; a heading counts as a row."""
    if path.suffix.lower() in _TEXT:
        return lines
    if path.suffix.lower() != ".npy":
        return None
    file.seek(0)
    match = _NPY_SHAPE.search(file.read(256))
    return int(match[1]) if match else None


def _folder(place: Path, shown: str) -> DataFile:
    state = xxhash.xxh3_128()
    size = files = 0
    newest = place.stat().st_mtime
    for file, status in _files_in(place):
        if files >= _ENTRIES:
            return DataFile(shown, size, files, _utc(newest), state.hexdigest(), sampled=True)
        files += 1
        size += status.st_size
        newest = max(newest, status.st_mtime)
        inside = os.path.relpath(file, place)
        state.update(f"{inside}\0{status.st_size}\0{status.st_mtime_ns}\n".encode(errors="surrogateescape"))
    return DataFile(shown, size, files, _utc(newest), state.hexdigest())


def _files_in(place: Path) -> Iterator[tuple[Path, os.stat_result]]:
    """The files of a folder and of those below it, in order; hidden folders are left out."""
    for here, folders, names in os.walk(place):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in sorted(names):
            try:
                yield Path(here, name), os.stat(os.path.join(here, name))
            except OSError:
                continue
