"""Who launches an experiment, on which host, and the state of the code's git repository. Law: for people; nothing
depends on it, and nothing fails because of it.
"""

from __future__ import annotations

import os
import re
import subprocess
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

from workbench.records import Json
from workbench.store.owner.listed import account

#: Seconds that git may take: in a very large repository its state is left out.
GIT_S = 1.0
#: No program that the repository names is started, and nothing is written into it.
_STATUS = ("-c", "core.fsmonitor=false", "status", "--porcelain=v2", "--branch", "--untracked-files=no")
_SECRET = re.compile(r"(?<=://)[^/@]+@")


def launched(folder: Path) -> Json:
    """``account``, ``host``, and ``git`` if ``folder`` is in a repository."""
    return again({"git": git(folder)})


def asked_aside(folder: Path) -> Future[Json]:
    """The same, found out in a thread: in a large repository git takes long."""
    pool = ThreadPoolExecutor(1, "workbench-git")
    try:
        return pool.submit(launched, folder)
    finally:
        pool.shutdown(wait=False)


def again(before: Json) -> Json:
    """The same for an experiment that trains the code of another one, which was launched as in ``before``."""
    return {"account": account(), "host": os.uname().nodename, "git": (before or {}).get("git")}


def git(folder: Path) -> dict[str, Json] | None:
    """The ``commit`` (None before the first), the ``branch`` (None if detached), the ``remote``, and how many tracked
    files have ``changed``; None without a repository, or without git."""
    told = _asked(folder, *_STATUS)
    if told is None:
        return None
    lines = told.splitlines()
    head = dict(line[2:].split(" ", 1) for line in lines if line.startswith("# branch."))
    commit, branch = head.get("branch.oid"), head.get("branch.head")
    remote = (_asked(folder, "config", "--get", "remote.origin.url") or "").strip()
    return {
        "commit": None if commit == "(initial)" else commit,
        "branch": None if branch == "(detached)" else branch,
        "remote": _SECRET.sub("", remote) or None,
        "changed": sum(not line.startswith("#") for line in lines),
    }


def _asked(folder: Path, *words: str) -> str | None:
    try:
        done = subprocess.run(
            ["git", "-C", str(folder), *words],
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
            timeout=GIT_S,
            stdin=subprocess.DEVNULL,
            env={**os.environ, "GIT_OPTIONAL_LOCKS": "0", "LC_ALL": "C"},
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout if done.returncode == 0 else None
