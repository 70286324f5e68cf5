"""Which files processes hold open or mapped now, from ``/proc``. Law: it only reads, and sees files of any library."""

from __future__ import annotations

import fcntl
import os
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path

#: Folders without data.
SYSTEM = (
    *("/proc/", "/sys/", "/dev/", "/etc/", "/run/", "/boot/", "/memfd:"),
    *("/usr/", "/lib/", "/lib32/", "/lib64/", "/bin/", "/sbin/"),
)


def opened(process: str) -> Iterator[str]:
    """Regular files that a process holds open for reading."""
    for number in os.listdir(f"/proc/{process}/fd"):
        try:
            path = os.readlink(f"/proc/{process}/fd/{number}")
            if path.startswith("/") and not path.startswith(SYSTEM):
                is_file = stat.S_ISREG(os.stat(f"/proc/{process}/fd/{number}").st_mode)
                if is_file and _flags(process, number) & os.O_ACCMODE != os.O_WRONLY:
                    yield path
        except OSError:
            continue


def _flags(process: str, number: str) -> int:
    """The flags with which a process opened a descriptor."""
    if process == "self":
        return fcntl.fcntl(int(number), fcntl.F_GETFL)
    for line in Path(f"/proc/{process}/fdinfo/{number}").read_text().splitlines():
        if line.startswith("flags:"):
            return int(line.split()[1], 8)
    return os.O_WRONLY


def mapped(process: str) -> Iterator[str]:
    """Files that are mapped into a process's memory, except libraries."""
    found: dict[bytes, None] = {}
    try:
        for line in Path(f"/proc/{process}/maps").read_bytes().splitlines():
            at = line.find(b" /")
            if at > 0 and b".so" not in line:
                found[line[at + 1 :]] = None
    except OSError:
        return
    yield from map(os.fsdecode, found)


def of_children(children: Iterable[int]) -> Iterator[str]:
    """The same for other processes, except the programs that they run."""
    for pid in map(str, children):
        try:
            program = os.readlink(f"/proc/{pid}/exe")
            yield from (path for path in (*opened(pid), *mapped(pid)) if path != program)
        except OSError:  # it has ended
            continue
