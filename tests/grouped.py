"""A control group with little memory: what runs in it finds a limit that is real."""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from running import until

#: Enters a control group, and becomes an engine.
ENTERING = """
import os, runpy, sys
with open(sys.argv.pop(1), "w") as group:
    group.write(str(os.getpid()))
runpy.run_module("workbench.engine", run_name="__main__", alter_sys=True)
"""


@contextlib.contextmanager
def limited(most: int) -> Iterator[Path]:
    """A control group with ``most`` bytes of memory, below this process's own, whose limits hold on."""
    found = _made(most)
    if found is None:
        # Only the kernel itself can kill for want of memory; what the engine makes of it, test_faults.py shows.
        pytest.skip("this machine lets nobody make a control group with a limit of memory")
    yield found
    until(lambda: _is_gone(found), 20, f"the end of {found}")


def _is_gone(group: Path) -> bool:
    """Remove a group; while its last processes are being buried that is refused."""
    with contextlib.suppress(OSError):
        group.rmdir()
    return not group.exists()


def _made(most: int) -> Path | None:
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        mounted = {"memory": "/sys/fs/cgroup/memory", "": "/sys/fs/cgroup"}.get(controllers)
        made = Path(f"{mounted}/{path.strip('/')}/workbench-test-{uuid.uuid4().hex[:8]}")
        if mounted is None or not made.parent.is_dir():
            continue
        with contextlib.suppress(OSError):
            made.mkdir()
            try:
                (made / ("memory.limit_in_bytes" if controllers else "memory.max")).write_text(str(most))
                return made
            except OSError:
                made.rmdir()
    return None
