"""What lies outside of stores while processes live: locks of slots, temporary folders. Law: this person's alone.

The runtime folder is ``$XDG_RUNTIME_DIR/workbench`` or, without a session, ``workbench-UID`` where temporary files
lie. It is used only where it is a folder (no link) of this person that other people cannot enter.
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

#: How names begin of the temporary folders that this program makes.
PREFIX = "workbench-"
#: In the runtime folder: a locked file for each temporary folder in use, which holds its path.
_TEMPORARY = "temporary"
#: Those of this process, with the descriptors of their locks; -1 for one without.
_held: dict[Path, int] = {}


def place() -> Path:
    """Where the runtime folder is. Nothing is made by asking."""
    user = os.geteuid()
    for named in (os.environ.get("XDG_RUNTIME_DIR") or "", f"/run/user/{user}"):
        # Under sudo it may be another person's: what root makes there that person could not use any more.
        if os.path.isabs(named) and _owner(named) == user:
            return Path(named) / "workbench"
    return Path(tempfile.gettempdir()) / f"{PREFIX}{user}"


def folder(*parts: str) -> Path:
    """The runtime folder or a folder in it, made where it is missing. Raises StoreError where it cannot be trusted."""
    path = place()
    for part in ("", *parts):
        path = path / part
        if not os.path.lexists(path):
            with telling(path), contextlib.suppress(FileExistsError):
                os.mkdir(path, FOLDER_MODE)
        _check(path)
    return path


def ours() -> re.Pattern[str]:
    """What paths match at their beginning that lie in the runtime folder or a temporary folder of this program.

    None of them is data of training. Worked out before anything listens to what is opened: asking for the folder of
    temporary files may open one.
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
    """A new folder that only this person can enter, with a name that cannot be foreseen.

    It is removed when this process ends; where the process is killed, by the next one that asks for such a folder,
    unless a process that holds it (:func:`hold`) lives on.
    """
    sweep()
    path = Path(tempfile.mkdtemp(prefix=f"{PREFIX}{purpose}-"))
    try:
        mark = folder(_TEMPORARY) / path.name
        descriptor = os.open(mark, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, FILE_MODE)
        fcntl.flock(descriptor, fcntl.LOCK_SH)
        os.write(descriptor, os.fsencode(path))
        _keep(path, descriptor)
    except (OSError, StoreError):  # without a mark it goes with this process alone
        _keep(path, -1)
    return path


def hold(inner: Path) -> None:
    """Keep the temporary folder in which ``inner`` lies while this process lives. Elsewhere it does nothing."""
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
                if path.name == mark.name and not path.is_symlink() and path.stat().st_uid == os.geteuid():
                    shutil.rmtree(path, ignore_errors=True)
                if not path.exists():
                    mark.unlink()


@contextlib.contextmanager
def _unheld(mark: Path) -> Iterator[Path]:
    """The path in ``mark``. Raises BlockingIOError where a process holds it."""
    descriptor = os.open(mark, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        content = os.read(descriptor, 4096)
        if not content:  # it is being made at this moment
            raise BlockingIOError
        yield Path(os.fsdecode(content))
    finally:
        os.close(descriptor)


def _let_go(owner: int) -> None:
    if os.getpid() != owner:  # a forked child has the list, and not the folders
        return
    for path, descriptor in _held.items():
        if descriptor < 0:
            shutil.rmtree(path, ignore_errors=True)
        else:
            os.close(descriptor)
    sweep()
