"""What a runner sees instead of files that have changed since: their old bytes. Law: no file of the user is written,
moved or removed; what cannot be shown is reported.

If the system permits it, a runner gets its own mount namespace, in which copies are mounted over the files: every
reader sees them, whatever its language and whatever path it uses. Elsewhere, and for files that are gone, the runner
works in a folder of links to the user's files and to the copies: relative paths lead to those, absolute ones do
not.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

_NEWNS, _NEWUSER = 0x00020000, 0x10000000
_BIND, _REC, _PRIVATE = 0x1000, 0x4000, 1 << 18
_DUMPABLE = 4
_CAPABILITIES = 0x20080522

#: Files that copies cover in this process, by their paths.
covered: frozenset[str] = frozenset()


@dataclass(slots=True)
class View:
    """What one leg sees. copies: by path, the copies that replace files. lost: why others are not available.

    where: its working directory.
    """

    copies: dict[str, str] = field(default_factory=dict)
    lost: dict[str, str] = field(default_factory=dict)
    where: str = ""

    def told(self) -> dict[str, Any] | None:
        """What the leg's page says about it; None if no file is replaced."""
        if not (self.copies or self.lost):
            return None
        return {"shown": sorted(self.copies), "not_shown": self.lost, "mounted": bool(covered)}


def cover(pairs: Sequence[tuple[str, str]]) -> None:
    """Mount copies over files, for this process and its children: (file, copy). Missing files are skipped.

    Call it in a process with one thread. If the system does not permit it, nothing happens.
    """
    global covered
    there = [(file, copy) for file, copy in pairs if os.path.isfile(file)]
    if not there or not _tried(there):
        return
    with contextlib.suppress(OSError):
        if _mount(there):
            covered = frozenset(file for file, _ in there)


def _tried(pairs: Sequence[tuple[str, str]]) -> bool:
    """Whether a child of this process may do it; its effects end with it."""
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            status = 0 if _mount(pairs) else 1
        finally:
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


def _mount(pairs: Sequence[tuple[str, str]]) -> bool:
    libc = ctypes.CDLL(None, use_errno=True)
    user, group = os.getuid(), os.getgid()
    if user != 0 or libc.unshare(_NEWNS) != 0:
        if libc.unshare(_NEWNS | _NEWUSER) != 0:
            return False
        # The same user as before, who then may do no more than before.
        for name, text in (("setgroups", "deny"), ("uid_map", f"{user} {user} 1"), ("gid_map", f"{group} {group} 1")):
            Path(f"/proc/self/{name}").write_text(text)
        is_new = True
    else:
        is_new = False
    done = libc.mount(b"none", b"/", None, _REC | _PRIVATE, None) == 0 and all(
        libc.mount(os.fsencode(copy), os.fsencode(file), None, _BIND, None) == 0 for file, copy in pairs
    )
    if is_new:
        header, nothing = (ctypes.c_uint32 * 2)(_CAPABILITIES, 0), (ctypes.c_uint32 * 6)()
        libc.capset(header, nothing)
        libc.prctl(_DUMPABLE, 1, 0, 0, 0)  # else its own children cannot read what it tells them
    return done


def arrange(order: Mapping[str, Any] | None, folder: str) -> View:
    """The view of a leg to which ``order`` gives copies and whose notebook is in ``folder``.

    It makes the folder of links if needed.
    """
    view = View(where=folder)
    if not order:
        return view
    view.lost = dict(order["lost"])
    linked = {}
    root = _root(folder)
    for file, copy in order["copies"].items():
        if file in covered:
            view.copies[file] = copy
        elif os.path.commonpath([root, file]) == root:
            linked[file] = view.copies[file] = copy
        else:
            view.lost[file] = (
                "it lies outside the notebook's folder, and the system permits no mounts"
                if os.path.exists(file)
                else "it is gone, and lies outside the notebook's folder"
            )
    if linked:
        place = order["place"]
        _link(place, root, linked, folder)
        view.where = os.path.normpath(os.path.join(place, os.path.relpath(folder, root)))
    return view


def _root(folder: str) -> str:
    """The folder where links start: one above the notebook's, for ``../data``, but never a user's whole home."""
    above = os.path.dirname(folder)
    return above if len(Path(above).parts) > 3 and os.access(above, os.R_OK | os.X_OK) else folder


def _link(place: str, original: str, copies: Mapping[str, str], folder: str) -> None:
    """Make ``place`` look like ``original``: links to its entries, and to the copies."""
    os.makedirs(place)
    deeper: dict[str, dict[str, str]] = {}
    here: dict[str, str] = {}
    for file, copy in copies.items():
        first, _, rest = os.path.relpath(file, original).partition(os.sep)
        if rest:
            deeper.setdefault(first, {})[file] = copy
        else:
            here[first] = copy
    if folder != original and os.path.commonpath([original, folder]) == original:
        deeper.setdefault(os.path.relpath(folder, original).partition(os.sep)[0], {})
    there = os.listdir(original) if os.path.isdir(original) else []
    for name in there:
        if name not in deeper and name not in here:
            os.symlink(os.path.join(original, name), os.path.join(place, name))
    for name, copy in here.items():
        os.symlink(copy, os.path.join(place, name))
    for name, inside in deeper.items():
        _link(os.path.join(place, name), os.path.join(original, name), inside, folder)
