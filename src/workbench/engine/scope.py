"""Systemd scopes of an engine and of a forkserver: logging out, or culling a notebook server, ends their group and not
these.

Law: without a systemd session nothing happens; an engine waits for it no longer than a moment.
"""

from __future__ import annotations

import contextlib
import functools
import os
import shutil
import subprocess
import time
from pathlib import Path
from typing import Literal

from workbench.trial.process.meeting import SCOPE, group_of

#: What a scope contains, in its name.
Kind = Literal["engine", "forkserver"]
#: Seconds that systemd has to answer, and for which an engine waits for that.
ANSWER_S, LEAVES_S = 10.0, 0.3
#: Set by the unit of an installed service.
SERVICE = "WORKBENCH_SERVICE"
_MANAGER = ("org.freedesktop.systemd1", "/org/freedesktop/systemd1", "org.freedesktop.systemd1.Manager")


def leave_group() -> bool:
    """Move this process, and all that it will start, into a scope; False if systemd takes too long.

    Only an engine in a session of its own does so: one in the foreground belongs to its terminal, and a service has a
    group already.
    """
    if os.getpid() != os.getsid(0) or not may_leave():
        return True
    until = time.monotonic() + LEAVES_S
    is_done = ask("engine", os.getpid(), most_s=LEAVES_S)
    if not is_done:
        return is_done is not None  # refused: it stays where it is
    # systemd answers before it has moved the process.
    while group_of(Path("/proc/self/cgroup").read_text()) != SCOPE:
        if time.monotonic() > until:
            return False
        time.sleep(0.001)
    return True


def may_leave() -> bool:
    """Whether there may be a systemd session to ask; a service has a group already."""
    if SERVICE in os.environ or shutil.which("busctl") is None:
        return False
    return bool(os.environ.get("DBUS_SESSION_BUS_ADDRESS") or os.environ.get("XDG_RUNTIME_DIR"))


@functools.cache
def answers() -> bool:
    """Whether there is a systemd session that answers. It blocks for some milliseconds, once."""
    words = ["busctl", "--user", "get-property", *_MANAGER, "Version"]
    with contextlib.suppress(OSError, subprocess.TimeoutExpired):
        return (
            may_leave()
            and not subprocess.run(
                words, stdin=subprocess.DEVNULL, capture_output=True, timeout=ANSWER_S, check=False
            ).returncode
        )
    return False


def command(kind: Kind, pid: int, *others: int) -> list[str]:
    """The command that asks systemd for a scope with the process ``pid`` and others."""
    pids = [str(one) for one in (pid, *others)]
    scope = (f"workbench-{kind}-{pid}.scope", "fail")
    properties = ("2", "PIDs", "au", str(len(pids)), *pids, "Description", "s", f"Workbench {kind}")
    return ["busctl", "--user", "call", *_MANAGER, "StartTransientUnit", "ssa(sv)a(sa(sv))", *scope, *properties, "0"]


def ask(kind: Kind, pid: int, *others: int, most_s: float = ANSWER_S) -> bool | None:
    """Move the process ``pid`` and others into a scope; without systemd nothing happens.

    most_s: seconds that the answer may take. Returns False if it is refused, and None if there is no answer by then.
    """
    words = command(kind, pid, *others)
    try:
        done = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, timeout=most_s, check=False)
    except subprocess.TimeoutExpired:
        return None
    except OSError:
        return False
    return done.returncode == 0
