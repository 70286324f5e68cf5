"""The tree of processes below one, and their processor time, as Linux reports them."""

from __future__ import annotations

import os
from collections.abc import Collection

_TICKS = os.sysconf("SC_CLK_TCK")
#: Linux: children of every kind, those that a thread started with a signal of its own included (wait(2)).
_WALL = 0x40000000


def descendants(pid: int, but: Collection[int] = ()) -> list[int]:
    """All descendants of ``pid``: the processes that it started, those that they started, and so on. but: without
    these, and what they started."""
    if pid == os.getpid() and _has_no_child():
        return []
    found: list[int] = []
    waiting = [pid]
    while waiting:
        one = waiting.pop()
        try:
            for task in os.listdir(f"/proc/{one}/task"):
                with open(f"/proc/{one}/task/{task}/children", encoding="ascii") as file:
                    children = [one for one in map(int, file.read().split()) if one not in but]
                found += children
                waiting += children
        except OSError:  # it has ended, or this kernel does not report children
            continue
    return found


def _has_no_child() -> bool:
    """Whether this process certainly has no child, which one question tells; reading the tree takes a dozen."""
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT | _WALL)
    except OSError as error:  # it may be that the kernel does not know the question in this form
        return isinstance(error, ChildProcessError)
    return False


def spent(pid: int) -> float | None:
    """Processor seconds of a process, and of those that it has started and waited for; None if it has ended."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            # The name, in brackets, may contain anything.
            fields = file.read().rpartition(b")")[2].split()
        return sum(map(int, fields[11:15])) / _TICKS
    except (OSError, ValueError):
        return None
