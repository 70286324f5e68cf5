"""The kernel behind the *Workbench* kernelspec. Law: IPython's own kernel, with the magics already loaded.

Threads and determinism settings are in the kernelspec's environment (``kernels/workbench/kernel.json``), because
they must be set before Python and torch start.
"""

from __future__ import annotations

from ipykernel.kernelapp import IPKernelApp


class WorkbenchKernelApp(IPKernelApp):
    """ipykernel, in which ``%%train`` works without ``%load_ext workbench``."""

    name = "workbench-kernel"

    def init_extensions(self) -> None:
        """Load the user's own IPython extensions, then Workbench's."""
        super().init_extensions()
        try:
            self.shell.extension_manager.load_extension("workbench")
        except Exception:
            # A kernel without magics still runs cells; one that dies at its start shows the user nothing.
            self.log.exception("Workbench's magics did not load. `%load_ext workbench` in a cell shows why.")


if __name__ == "__main__":
    WorkbenchKernelApp.launch_instance()
