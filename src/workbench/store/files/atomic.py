"""Atomic file writes. Law: a file in the store has the old bytes or the new ones, never a part of either."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import secrets
import stat
from collections.abc import Iterator
from io import BufferedReader
from pathlib import Path

from workbench.errors import StoreError, StoreFull, StoreReadOnly
from workbench.records import Json

FILE_MODE = 0o600
FOLDER_MODE = 0o700
#: The suffix of a file that is still being written. Readers ignore such files.
WRITING = ".writing"
#: The prefix of names that were taken out of the store and will be removed.
REMOVED = ".removed-"

#: The maximum size of a JSON file. A longer one was not written by Workbench.
MOST_JSON = 256 << 20
#: Kinds of files other than plain files.
_KINDS = (
    (stat.S_ISLNK, "a link"),
    (stat.S_ISDIR, "a folder"),
    (stat.S_ISFIFO, "a named pipe"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISBLK, "a device"),
    (stat.S_ISCHR, "a device"),
)

_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode
_decode = json.JSONDecoder().raw_decode
_FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
_READ_ONLY = frozenset({errno.EROFS, errno.EACCES, errno.EPERM})


def store_error(path: Path | str, error: OSError) -> StoreError:
    """The StoreError, for users, of an ``error`` that occurred while writing ``path``."""
    told: StoreError
    if error.errno in _FULL:
        told = StoreFull(
            f"no space is left to write {path} ({error.strerror}); what was there before is untouched. "
            "Free some space there, or choose another place with --store or WORKBENCH_HOME."
        )
    elif error.errno in _READ_ONLY:
        told = StoreReadOnly(
            f"{path} cannot be written ({error.strerror}). Give yourself write permission there, "
            "or choose another place with --store or WORKBENCH_HOME."
        )
    elif not Path(path).parent.is_dir():
        told = StoreError(
            f"{path} could not be written: there is no folder {Path(path).parent}. Make it, or choose another place."
        )
    else:
        told = StoreError(f"{path} could not be written: {error.strerror or error}. Check the disk, then try again.")
    told.errno = error.errno
    return told


@contextlib.contextmanager
def telling(path: Path | str) -> Iterator[None]:
    """Convert the operating system's errors inside to :class:`StoreError` and its subclasses, naming ``path``."""
    try:
        yield
    except StoreError:
        raise
    except OSError as error:
        raise store_error(path, error) from error


def unfinished_name(path: Path) -> Path:
    """A new name beside ``path`` for what takes its place once it is whole. A crash leaves it; cleaning removes it."""
    return path.with_name(f".{path.name}.{secrets.token_hex(4)}{WRITING}")


def write_atomic(path: Path, data: bytes | bytearray | memoryview, *, fsync: bool = True) -> None:
    """Write ``data`` to ``path`` atomically, readable only by its owner.

    With ``fsync`` the file and its name are on disk when this returns. A crash meanwhile leaves the old file, and at
    most a stray one whose name ends in ``.writing``. Raises StoreFull, StoreReadOnly or StoreError.
    """
    temporary = unfinished_name(path)
    with telling(path):
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, FILE_MODE)
        try:
            try:
                write_all(descriptor, data)
                if fsync:
                    os.fsync(descriptor)
            finally:
                os.close(descriptor)
            os.replace(temporary, path)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(temporary)
            raise
        if fsync:
            fsync_folder(path.parent)


def write_json(path: Path, data: Json, *, fsync: bool = True) -> None:
    """Write ``data`` as JSON to ``path`` atomically. NaN and infinities are written as Python writes them."""
    write_atomic(path, to_json(data), fsync=fsync)


def to_json(data: Json) -> bytes:
    """``data`` as UTF-8 JSON on one line."""
    try:
        return _encode(data).encode()
    except UnicodeEncodeError:
        # Half a surrogate pair, as in a file name that is not UTF-8: escaped, it is valid JSON.
        return json.dumps(data).encode()


def from_json(data: bytes) -> Json:
    """Parse the output of :func:`to_json`. Raises ValueError for anything else."""
    text = str(data, "utf-8")
    try:
        found, end = _decode(text)  # without skipping surrounding space, which takes half as long again
        if text[end:] in ("", "\n"):
            return found
    except ValueError:
        pass
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    return json.loads(text)


def read_json(path: Path, most: int = MOST_JSON) -> Json:
    """The JSON in ``path``. Raises FileNotFoundError if there is no file, ValueError if it is not a plain file or not
    JSON."""
    return from_json(read_file(path, most))


class NoFile(ValueError):
    """A name in the store that is not a plain file: a link, a folder, a pipe, a socket, a device."""


def kind_of(mode: int) -> str | None:
    """``a named pipe`` and the like for anything but a plain file; None for a plain file."""
    return next((word for is_kind, word in _KINDS if is_kind(mode)), None)


#: How a file is opened to be read: a pipe does not block, and a link is not followed.
PLAIN = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC


def open_file(path: Path) -> BufferedReader:
    """Open the plain file at ``path`` to read it, and nothing else: a pipe would block, a link leads elsewhere.

    Raises NoFile for anything but a plain file, FileNotFoundError if nothing is there, OSError.
    """
    try:
        descriptor = os.open(path, PLAIN)
    except OSError as error:
        # A link gives ELOOP, a socket ENXIO.
        if error.errno in (errno.ELOOP, errno.ENXIO) and (kind := kind_of(os.lstat(path).st_mode)) is not None:
            raise NoFile(f"it is {kind}, expected a file") from None
        raise
    return plain_file(descriptor)


def plain_file(descriptor: int) -> BufferedReader:
    """The plain file that was opened as ``descriptor``. Anything else is closed. Raises NoFile."""
    try:
        if (kind := kind_of(os.fstat(descriptor).st_mode)) is not None:
            raise NoFile(f"it is {kind}, expected a file")
        return os.fdopen(descriptor, "rb")
    except BaseException:
        os.close(descriptor)
        raise


def read_file(path: Path, most: int) -> bytes:
    """The bytes of the plain file at ``path``. Raises like :func:`open_file`, and ValueError for more than ``most``
    bytes."""
    with open_file(path) as file:
        size = os.fstat(file.fileno()).st_size
        data = b"" if size > most else file.read(most + 1)
        if max(size, len(data)) > most:
            raise ValueError(f"it has {max(size, len(data)):,} bytes, and at most {most:,} are read")
        return data


def move_away(path: Path) -> Path | None:
    """Rename ``path``, of any kind, to ``NAME.broken-<n>`` beside it; None if nothing is there."""
    for n in range(1, 10**6):
        target = path.with_name(f"{path.name}.broken-{n}")
        if os.path.lexists(target):
            continue
        with telling(path):
            try:
                os.rename(path, target)
            except FileNotFoundError:
                return None
        return target
    raise StoreError(f"{path} has too many broken copies beside it. Remove those that you do not need.")


def write_all(descriptor: int, data: bytes | bytearray | memoryview) -> None:
    """Write every byte of ``data``; one system call may write fewer."""
    rest = memoryview(data).cast("B")
    while rest:
        rest = rest[os.write(descriptor, rest) :]


def fsync_folder(folder: Path) -> None:
    """Fsync ``folder``; otherwise a new file may lose its name in a power cut."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    except OSError as error:
        # Some network file systems cannot sync a folder; they write names through.
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):
            raise
    finally:
        os.close(descriptor)


def make_folder(folder: Path, *, fsync: bool = False) -> None:
    """Make ``folder`` and missing parents, accessible only to the owner."""
    if folder.is_dir():
        return
    with telling(folder):
        if not folder.parent.is_dir():
            make_folder(folder.parent, fsync=fsync)
        with contextlib.suppress(FileExistsError):
            os.mkdir(folder, FOLDER_MODE)
        if not folder.is_dir():
            raise StoreError(f"{folder} is a file, expected a folder. Move it away, or use another --store.")
        if fsync:
            fsync_folder(folder.parent)


def size_of(path: Path) -> int:
    """Bytes of all files below ``path``, or of the file itself; links are not followed. 0 if nothing is there."""
    try:
        if not path.is_dir():
            return path.lstat().st_size
    except OSError:
        return 0
    return tree_size(str(path))


def tree_size(folder: str, links: bool = True) -> int:
    """Bytes of all files below ``folder``; without ``links``, files with another hard link are left out."""
    total = 0
    for entry in entries_in(folder):
        try:
            if entry.is_dir(follow_symlinks=False):
                total += tree_size(entry.path, links)
            else:
                stat = entry.stat(follow_symlinks=False)
                total += stat.st_size if links or stat.st_nlink == 1 else 0
        except OSError:  # it was removed meanwhile
            continue
    return total


def entries_in(folder: str) -> Iterator[os.DirEntry[str]]:
    """The entries of ``folder``; empty if it does not exist."""
    try:
        with os.scandir(folder) as entries:
            yield from entries
    except OSError:
        return
