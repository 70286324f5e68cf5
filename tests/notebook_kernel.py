"""A real kernel before which a person sits: cells return at once, and it can be killed."""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
import weakref
from pathlib import Path
from typing import Any

from jupyter_client.manager import KernelManager
from nbclient import NotebookClient
from running import alive, until
from traitlets.config import Config

SETUP = """%load_ext workbench
import workbench as wb"""


def started(kernel_name: str = "python3", **how: Any) -> tuple[KernelManager, Any]:
    """A kernel that has started, and its client. It listens at files: of ports, another test's process may take the one
    that was free before the kernel listens there."""
    folder = tempfile.mkdtemp(prefix="kernel-")
    manager = KernelManager(kernel_name=kernel_name, transport="ipc", ip=f"{folder}/socket")
    weakref.finalize(manager, shutil.rmtree, folder, ignore_errors=True)
    manager.start_kernel(**how)
    client = manager.client()
    client.start_channels()
    try:
        client.wait_for_ready(timeout=60)
    except RuntimeError:
        client.stop_channels()
        manager.shutdown_kernel()
        raise
    return manager, client


def execute(notebook: Any, folder: Path, timeout: int = 120, **how: Any) -> None:
    """Execute a notebook in ``folder``, in a kernel that listens at files."""
    with tempfile.TemporaryDirectory(prefix="kernel-") as sockets:
        config = Config(KernelManager={"transport": "ipc", "ip": f"{sockets}/socket"})
        place = {"metadata": {"path": str(folder)}}
        NotebookClient(notebook, timeout=timeout, kernel_name="python3", config=config, resources=place).execute(**how)


class Kernel:
    """A kernel before which a person sits, so that a train cell returns at once."""

    def __init__(self, folder: Path, **env: str) -> None:
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("WORKBENCH_", "JPY_"))}
        surroundings = {**kept, "WORKBENCH_WORKERS": "2", "WORKBENCH_IDLE": "60", **env}
        self.manager, self.client = started(cwd=str(folder), env=surroundings)
        self.pid = self.manager.provisioner.pid
        self.run(SETUP)

    def run(self, code: str, timeout: float = 120) -> str:
        """Run a cell; the text of its value, or what it printed."""
        said: list[str] = []

        def hear(message: dict) -> None:
            content = message["content"]
            said.append(content.get("text") or content.get("data", {}).get("text/plain", ""))

        reply = self.client.execute_interactive(code, allow_stdin=True, output_hook=hear, timeout=timeout)["content"]
        assert reply["status"] == "ok", reply
        return "".join(said)

    def begin(self, code: str) -> None:
        """Run a cell and do not wait for it."""
        self.client.execute(code)

    def kill(self) -> None:
        """As the system kills what takes too much memory."""
        os.kill(self.pid, signal.SIGKILL)
        until(lambda: not alive([self.pid]), 10, "the kernel's end")
        self.end()

    def end(self) -> None:
        self.client.stop_channels()
        self.manager.shutdown_kernel(now=True)
