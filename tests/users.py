"""Processes of other users of this machine: real ones, with numbers that no account has. Only root can start them."""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

ALICE, BOB = 61001, 61002
_HERE = Path(__file__).resolve().parent

only_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can start processes of other users")


def acting(user: int | None, act: Callable[[], Any]) -> Any:
    """What ``act`` gives in a forked process of ``user`` (None: of this one's), or ``{"error": …}``."""
    ours, theirs = os.pipe()
    child = os.fork()
    if child == 0:  # nothing of the tests may run twice: it leaves by os._exit
        told: Any
        try:
            if user is not None:
                become(user)
            told = act()
        except BaseException as error:
            told = {"error": f"{type(error).__name__}: {error}"}
        os.write(theirs, json.dumps(told).encode())
        os._exit(0)
    os.close(theirs)
    with os.fdopen(ours, "rb") as pipe:
        told = json.loads(pipe.read())
    os.waitpid(child, 0)
    return told


@contextlib.contextmanager
def meanwhile(user: int, act: Callable[[], Any]) -> Iterator[int]:
    """A process of ``user`` that has done ``act`` and lives until the end of the block, with all that it holds."""
    ours, theirs = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            become(user)
            kept = act()
            os.write(theirs, b"done")
        except BaseException as error:
            kept = None
            os.write(theirs, repr(error).encode())
        signal.pause()
        os._exit(0 if kept is None else 1)
    os.close(theirs)
    try:
        with os.fdopen(ours, "rb") as pipe:
            told = pipe.read1(4096)
        assert told == b"done", told
        yield child
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def become(user: int) -> None:
    os.setgroups([])
    os.setgid(user)
    os.setuid(user)


@contextlib.contextmanager
def common() -> Iterator[Path]:
    """A folder that all users can enter, unlike those of pytest."""
    folder = Path(tempfile.mkdtemp(prefix="several-users-"))
    folder.chmod(0o755)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def home(folder: Path, user: int) -> dict[str, str]:
    """A new home of ``user``, with all that processes expect there, in variables."""
    root = folder / f"home-{user}"
    for path in (root, root / "run", root / "tmp"):
        path.mkdir(mode=0o700)
        os.chown(path, user, user)
    return {"HOME": str(root), "XDG_RUNTIME_DIR": str(root / "run"), "TMPDIR": str(root / "tmp"), "USER": str(user)}


def python(user: int, script: str, *words: str, variables: Mapping[str, str]) -> list[str]:
    """The command that runs ``script`` as ``user`` with this Python. Skips the test where that cannot be."""
    path = os.pathsep.join((str(_HERE), str(_HERE.parent / "src")))
    known = {"PATH": os.environ["PATH"], "PYTHONPATH": path, **variables}
    inner = ["env", "-i", *(f"{name}={value}" for name, value in known.items()), sys.executable, "-c", script, *words]
    return [*_as(user), *inner]


def _as(user: int) -> list[str]:
    """A command's first words: as this user, who sees this Python and these sources wherever they are."""
    changed = ["setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups"]
    needed = {Path(sys.base_prefix).resolve(), Path(sys.prefix).resolve(), _HERE.parent}
    lines = ["set -e"]
    for closed in {top for path in needed for top in _closed(path)}:
        # Only in a mount namespace of its own: a folder that others can enter, with what is needed of the closed one.
        shown = [path for path in needed if path.is_relative_to(closed)]
        lines.append("T=$(mktemp -d); chmod 755 $T")
        for path in shown:
            inside = f"$T/{shlex.quote(str(path.relative_to(closed)))}"
            lines.append(f"mkdir -p {inside}; mount --bind {shlex.quote(str(path))} {inside}")
        lines.append(f"mount --rbind $T {shlex.quote(str(closed))}")
    words = [*changed] if len(lines) == 1 else [
        "unshare", "--mount", "sh", "-c", "; ".join([*lines, 'exec "$@"']), "sh", *changed]  # fmt: skip
    probe = subprocess.run(
        [*words, sys.executable, "-c", "import dask"], capture_output=True, text=True, check=False, cwd="/"
    )
    if probe.returncode:
        pytest.skip(f"another user cannot start this Python: {(probe.stderr.strip().splitlines() or ['?'])[-1]}")
    return words


def _closed(path: Path) -> list[Path]:
    """The uppermost folder on the way to ``path`` that others cannot enter, if there is one."""
    return [one for one in reversed((path, *path.parents)) if not one.stat().st_mode & stat.S_IXOTH][:1]
