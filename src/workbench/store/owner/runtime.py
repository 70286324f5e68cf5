"""Files outside of stores while processes are alive: locks of slots, temporary folders. Law: only this user can access
them.

The runtime folder is ``$XDG_RUNTIME_DIR/workbench`` or, without a session, ``workbench-UID`` in the folder for
temporary files. It is used only if it is a folder (not a link) of this user that other users cannot enter.
"""

from __future__ import annotations

import atexit
import contextlib
import fcntl
import os
import re
import shutil
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path

from workbench.errors import StoreError
from workbench.store.files.atomic import FILE_MODE, FOLDER_MODE, telling

#: The prefix of Workbench's temporary folders.
PREFIX = "workbench-"
#: In the runtime folder: a locked file for each temporary folder in use, with its path.
_TEMPORARY = "temporary"
#: This process's temporary folders, with the descriptors of their locks; -1 for one without.
_held: dict[Path, int] = {}


def place() -> Path:
    """The path of the runtime folder. This creates nothing."""
    user = os.geteuid()
    for named in (os.environ.get("XDG_RUNTIME_DIR") or "", f"/run/user/{user}"):
        # Under sudo it may be another user's, who could not use files made there by root.
        if os.path.isabs(named) and _owner(named) == user:
            return Path(named) / "workbench"
    return Path(tempfile.gettempdir()) / f"{PREFIX}{user}"


def folder(*parts: str) -> Path:
    """The runtime folder or a folder in it, created if missing. Raises StoreError if it cannot be trusted."""
    path = place()
    for part in ("", *parts):
        path = path / part
        if not os.path.lexists(path):
            with telling(path), contextlib.suppress(FileExistsError):
                os.mkdir(path, FOLDER_MODE)
        _check(path)
    return path


def ours() -> re.Pattern[str]:
    """A pattern for the beginnings of paths in the runtime folder or in a temporary folder of Workbench.

    None of them is training data. Compute it before opened files are recorded: determining the folder for temporary
    files may open one.
    """
    names = rf"{re.escape(tempfile.gettempdir())}/{PREFIX}(\d+|[a-z]+-[a-z0-9_]{{8}})(/|$)"
    return re.compile(rf"{names}|{re.escape(str(place()))}/")


def _owner(path: str) -> int | None:
    try:
        return os.stat(path).st_uid
    except OSError:
        return None


def _check(path: Path) -> None:
    with telling(path):
        found = os.lstat(path)
    what = None
    if not stat.S_ISDIR(found.st_mode):
        what = "a link" if stat.S_ISLNK(found.st_mode) else "no folder"
    elif found.st_uid != os.geteuid():
        what = f"a folder of the user with number {found.st_uid}"
    elif stat.S_IMODE(found.st_mode) & 0o077:
        what = f"open to other users (mode {stat.S_IMODE(found.st_mode):o})"
    elif not os.access(path, os.R_OK | os.W_OK | os.X_OK):
        what = f"closed to you (mode {stat.S_IMODE(found.st_mode):o})"
    if what is not None:
        raise StoreError(
            f"{path} is {what}. Expected a folder that belongs to you and that only you can enter: `chmod 700 {path}`, "
            "remove it, or set XDG_RUNTIME_DIR to such a folder."
        )


# ---------------------------------------------------------------------------------------------------------------------
# Temporary folders


def temporary(purpose: str) -> Path:
    """A new folder that only this user can enter, with an unpredictable name.

    It is removed when this process ends. If the process is killed, the next one that asks for such a folder removes it,
    unless a live process holds it (:func:`hold`).
    """
    sweep()
    path = Path(tempfile.mkdtemp(prefix=f"{PREFIX}{purpose}-"))
    try:
        mark = folder(_TEMPORARY) / path.name
        descriptor = os.open(mark, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, FILE_MODE)
        fcntl.flock(descriptor, fcntl.LOCK_SH)
        os.write(descriptor, os.fsencode(path))
        _keep(path, descriptor)
    except (OSError, StoreError):  # without a mark only this process removes it
        _keep(path, -1)
    return path


def remove(path: Path) -> None:
    """Remove a folder that :func:`temporary` has made in this process, before the process ends."""
    shutil.rmtree(path, ignore_errors=True)
    descriptor = _held.pop(path, -1)
    if descriptor >= 0:
        with contextlib.suppress(OSError):
            (place() / _TEMPORARY / path.name).unlink()
        os.close(descriptor)


def hold(inner: Path) -> None:
    """Keep the temporary folder that contains ``inner`` while this process is alive. No effect on other paths."""
    for path in (inner, *inner.parents):
        if path.name.startswith(PREFIX) and path not in _held:
            with contextlib.suppress(OSError):
                mark = place() / _TEMPORARY / path.name
                descriptor = os.open(mark, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
                fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
                _keep(path, descriptor)
            return


def _keep(path: Path, descriptor: int) -> None:
    if not _held:
        atexit.register(_let_go, os.getpid())
    _held[path] = descriptor


def sweep() -> None:
    """Remove the temporary folders that no process holds any more."""
    with contextlib.suppress(OSError, StoreError):
        for mark in folder(_TEMPORARY).iterdir():
            with contextlib.suppress(OSError), _unheld(mark) as path:
                # Where the folder is gone already, only its mark is left.
                if path.name == mark.name and not path.is_symlink() and _owner(str(path)) == os.geteuid():
                    shutil.rmtree(path, ignore_errors=True)
                if not path.exists():
                    mark.unlink()


@contextlib.contextmanager
def _unheld(mark: Path) -> Iterator[Path]:
    """The path in ``mark``. Raises BlockingIOError if a process holds it."""
    descriptor = os.open(mark, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        content = os.read(descriptor, 4096)
        if not content:  # it is just being made
            raise BlockingIOError
        yield Path(os.fsdecode(content))
    finally:
        os.close(descriptor)


def _let_go(owner: int) -> None:
    if os.getpid() != owner:  # a forked child has the list, but does not own the folders
        return
    while _held:
        path, descriptor = _held.popitem()
        if descriptor < 0:
            shutil.rmtree(path, ignore_errors=True)
        else:
            os.close(descriptor)
    sweep()
