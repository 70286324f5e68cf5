"""A real kernel before which a person sits: cells return at once, and it can be killed."""

from __future__ import annotations

import os
import signal
from pathlib import Path

from jupyter_client.manager import start_new_kernel
from running import alive, until

SETUP = """%load_ext workbench
import workbench as wb"""


class Kernel:
    """A kernel before which a person sits, so that a train cell returns at once."""

    def __init__(self, folder: Path, **env: str) -> None:
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("WORKBENCH_", "JPY_"))}
        surroundings = {**kept, "WORKBENCH_WORKERS": "2", "WORKBENCH_IDLE": "60", **env}
        self.manager, self.client = start_new_kernel(cwd=str(folder), env=surroundings)
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
