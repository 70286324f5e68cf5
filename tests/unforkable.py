"""A process that may start no other one, as under a limit of processes: by the kernel's real limits."""

from __future__ import annotations

import contextlib
import os
import resource
from collections.abc import Iterator
from pathlib import Path

import pytest


@contextlib.contextmanager
def unforkable(pid: int) -> Iterator[None]:
    """Meanwhile each fork of the process ``pid`` fails, and what it has started lives. Root's processes have no limit
    of their own: it is a control group's then, and the test is skipped where none can be made."""
    if os.geteuid() != 0:
        before = resource.prlimit(pid, resource.RLIMIT_NPROC, (0, resource.getrlimit(resource.RLIMIT_NPROC)[1]))
        try:
            yield
        finally:
            resource.prlimit(pid, resource.RLIMIT_NPROC, before)
        return
    home = _group(pid)
    limited = home / f"workbench-test-{pid}"
    try:
        limited.mkdir()
    except OSError as error:
        pytest.skip(f"no control group can be made: {error}")
    try:
        if not (limited / "pids.max").exists():
            pytest.skip(f"{home} limits no processes")
        (limited / "pids.max").write_text("0")
        (limited / "cgroup.procs").write_text(str(pid))
        try:
            yield
        finally:
            with contextlib.suppress(ProcessLookupError):
                (home / "cgroup.procs").write_text(str(pid))
    finally:
        limited.rmdir()


def _group(pid: int) -> Path:
    """The folder of the control group that counts the processes of ``pid``: of version 1, or of 2."""
    lines = [line.split(":", 2) for line in Path(f"/proc/{pid}/cgroup").read_text().splitlines()]
    for _, controllers, path in lines:
        if "pids" in controllers.split(","):
            return Path("/sys/fs/cgroup/pids", path.lstrip("/"))
    return Path("/sys/fs/cgroup", *(path.lstrip("/") for _, controllers, path in lines if not controllers))
