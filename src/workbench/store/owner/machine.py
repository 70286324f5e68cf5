"""What the users of one machine share: its slots, the users' weights, what is drained. Law: a file's owner, whom the
kernel knows, is its user; no content is trusted, and nothing outside of the folder is changed.

An administrator makes the folder once (:func:`prepare`), at :data:`PLACE` or where the variable says. Only its owner
can write there, except in ``claims``, where each user makes files that other users can neither write nor remove.
Without the folder, only engines of one user share slots.
"""

from __future__ import annotations

import contextlib
import fcntl
import math
import os
import stat
import tomllib
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from pathlib import Path

from workbench.errors import StoreError
from workbench.store.files.atomic import telling
from workbench.store.owner.listed import person

PLACE = Path("/var/lib/workbench")
#: The variable that names another folder; ``off`` for none.
VARIABLE = "WORKBENCH_MACHINE"
OFF = "off"
SLOTS, DRAINED, CLAIMS, WEIGHTS = "slots", "drained", "claims", "weights.toml"
#: Modes of the folders: claims are made by all users, and removed only by their makers.
_MODES = {SLOTS: 0o755, DRAINED: 0o755, CLAIMS: 0o1777}
#: The maximum size of the file of weights, and the bounds of a weight.
_MOST = 1 << 16
_LEAST_WEIGHT, _MOST_WEIGHT = 1e-3, 1e3
_ABOUT_WEIGHTS = """\
# The weight of each user, by name or number; 1 for those that are not named. It counts at once.
# alice = 2
"""


@dataclass(frozen=True, slots=True)
class Machine:
    """The folder that the users of this machine share. owner: the number of the user who made it, its administrator."""

    place: Path
    owner: int

    @property
    def slots(self) -> frozenset[str]:
        """The slots that users share."""
        return _names(self.place / SLOTS)

    @property
    def drained(self) -> frozenset[str]:
        """The slots that the administrator took out of use."""
        return _names(self.place / DRAINED)

    @property
    def is_mine(self) -> bool:
        """Whether this user is its administrator."""
        return self.owner == os.geteuid()

    def drain(self, name: str) -> None:
        """Take a slot out of use, for all users. Raises StoreError."""
        path = self.place / DRAINED / name
        with telling(path), contextlib.suppress(FileExistsError):
            os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o444))

    def use_again(self, name: str) -> None:
        """Undo :meth:`drain`. Raises StoreError."""
        path = self.place / DRAINED / name
        with telling(path):
            path.unlink(missing_ok=True)

    def lock(self, name: str) -> int | None:
        """A descriptor with the lock of a slot; None if it is taken, or not a slot that users share.

        No write permission is needed for it, so no user can change or remove a file that another one has locked.
        """
        path = self.place / SLOTS / name
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
        except OSError:
            return None
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.path.samestat(os.fstat(descriptor), os.stat(path)):  # otherwise it was removed meanwhile
                return descriptor
        except OSError:
            pass
        os.close(descriptor)
        return None

    def weight(self, user: int) -> float:
        """The weight of a user."""
        known, _ = self.weights()
        return known.get(person(user), known.get(str(user), 1.0))

    def weights(self) -> tuple[dict[str, float], str | None]:
        """The weights by user, and what is wrong with the file, in words. What is wrong counts as not written."""
        path = self.place / WEIGHTS
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
        except FileNotFoundError:
            return {}, None
        except OSError as error:
            return {}, f"{path} cannot be read ({error.strerror}), so all users have weight 1."
        with os.fdopen(descriptor, "rb") as file:
            found = os.fstat(descriptor)
            if not stat.S_ISREG(found.st_mode) or found.st_uid != self.owner or found.st_mode & 0o022:
                return {}, f"{path} is not a file that only {person(self.owner)} can write, so all users have weight 1."
            try:
                told = tomllib.loads(file.read(_MOST).decode())
            except (OSError, ValueError, RecursionError) as error:
                return {}, f"{path} is not valid TOML ({error}), so all users have weight 1."
        good = {name: float(weight) for name, weight in told.items() if _is_weight(weight)}
        bad = ", ".join(sorted(name for name in told if name not in good))
        words = f"{path}: expected weights from {_LEAST_WEIGHT:g} to {_MOST_WEIGHT:g}; not so, and 1: {bad}."
        return good, words if bad else None


def shared() -> Machine | None:
    """What the users of this machine share; None if there is no such folder, or one that cannot be trusted."""
    return _found()[0]


def trouble() -> str | None:
    """Why a folder that is there, or that the variable names, is not used, in words."""
    return _found()[1]


def _found() -> tuple[Machine | None, str | None]:
    named = os.environ.get(VARIABLE) or ""
    if named == OFF:
        return None, None
    path = Path(named) if named else PLACE
    make = f"An administrator can make it: `workbench share-machine {path}`."
    if not path.is_absolute():
        return None, f"{VARIABLE}={named}: expected the absolute path of a folder, or `{OFF}`."
    try:
        top = os.lstat(path)
        parts = [os.lstat(path / part) for part in _MODES]
    except OSError as error:
        # Without the variable, a folder of another program may be there.
        is_meant = named or os.path.lexists(path / SLOTS)
        return None, f"{path} cannot be used ({error.strerror}). {make}" if is_meant else None
    folders = zip((path, *(path / part for part in _MODES)), (top, *parts), (0o755, *_MODES.values()), strict=True)
    for at, there, mode in folders:
        if not stat.S_ISDIR(there.st_mode):
            return None, f"{at} is not a folder. {make}"
        if there.st_uid != (top.st_uid if named else 0):
            owner = person(top.st_uid if named else 0)
            return None, f"{at} belongs to {person(there.st_uid)}, and not to {owner}. {make}"
        # Without the sticky bit, any user could remove the files of others.
        if there.st_mode & 0o022 and not (mode & stat.S_ISVTX and there.st_mode & stat.S_ISVTX):
            return None, f"{at} has mode {stat.S_IMODE(there.st_mode):o}; expected {mode:o}. {make}"
    return Machine(path, top.st_uid), None


def prepare(path: Path, slots: Collection[str]) -> Machine:
    """Make the folder, or make it right, with these slots. Other slots there are removed if none holds them.

    Raises StoreError, also for a path that is not a folder of this user.
    """
    for at, mode in ((path, 0o755), *((path / part, mode) for part, mode in _MODES.items())):
        with telling(at):
            with contextlib.suppress(FileExistsError):
                os.mkdir(at, mode)
            found = os.lstat(at)
            if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid():
                what = f"a folder of {person(found.st_uid)}" if stat.S_ISDIR(found.st_mode) else "not a folder"
                raise StoreError(f"{at} is {what}. Expected a path that does not exist yet, or a folder of yours.")
            os.chmod(at, mode)
    machine = Machine(path, os.geteuid())
    for name in sorted(slots):
        _make(path / SLOTS / name, 0o444, b"")
    _make(path / WEIGHTS, 0o644, _ABOUT_WEIGHTS.encode())
    for name in machine.slots - set(slots):
        descriptor = machine.lock(name)
        if descriptor is not None:
            with telling(path / SLOTS / name):
                os.unlink(path / SLOTS / name)
            os.close(descriptor)
    return machine


def _make(path: Path, mode: int, content: bytes) -> None:
    with telling(path), contextlib.suppress(FileExistsError):
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
        with os.fdopen(descriptor, "wb") as file:
            os.fchmod(descriptor, mode)  # whatever the umask is
            file.write(content)


def _names(folder: Path) -> frozenset[str]:
    names: Iterable[str] = ()
    with contextlib.suppress(OSError):
        names = os.listdir(folder)
    return frozenset(name for name in names if not name.startswith("."))


def _is_weight(value: object) -> bool:
    is_number = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    return is_number and _LEAST_WEIGHT <= value <= _MOST_WEIGHT  # type: ignore[operator]
