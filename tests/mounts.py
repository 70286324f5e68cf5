"""Scripts that mount a small file system of their own, in a namespace that ends with them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

#: A namespace in which this process may mount: root's own, or one in which it is root.
NAMESPACE = ["unshare", "--mount"] if os.getuid() == 0 else ["unshare", "--map-root-user", "--mount"]


def may_mount() -> bool:
    probe = [*NAMESPACE, "mount", "-t", "tmpfs", "none", "/mnt"]
    try:
        return subprocess.run(probe, capture_output=True, check=False).returncode == 0
    except FileNotFoundError:
        return False


def with_a_disk_of_its_own(script: Path, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run ``script``, which is told ``folder``, where it may mount."""
    tests = Path(__file__).parent
    return subprocess.run(
        [*NAMESPACE, sys.executable, str(script), str(folder)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join((str(tests), str(tests.parent / "src")))},
        capture_output=True,
        text=True,
        check=False,
    )
