"""The Workbench kernelspec: IPython with the magics, and with the settings that must stand before Python starts."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from jupyter_client.manager import KernelManager

ROOT = Path(__file__).parent.parent
SPEC = json.loads((ROOT / "kernels" / "workbench" / "kernel.json").read_text(encoding="utf-8"))


@pytest.fixture
def run(tmp_path, monkeypatch):
    """Run code in a kernel that was started by the kernelspec's own command line and environment."""
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    for name, value in SPEC["env"].items():
        monkeypatch.setenv(name, value)
    manager = KernelManager(connection_file=str(tmp_path / "kernel.json"))
    command = [sys.executable, *SPEC["argv"][1:]]
    manager.kernel_spec.argv = command
    manager.start_kernel(cwd=tmp_path)
    client = manager.client()
    client.start_channels()
    try:
        client.wait_for_ready(timeout=60)

        def run(code: str) -> str:
            printed: list[str] = []
            reply = client.execute_interactive(
                code, timeout=60, output_hook=lambda message: printed.append(message["content"].get("text", ""))
            )
            assert reply["content"]["status"] == "ok", reply["content"]
            return "".join(printed).strip()

        yield run
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)
        manager.cleanup_resources()


def test_train_needs_no_load_ext(run):
    assert run("print('train' in get_ipython().magics_manager.magics['cell'])") == "True"
    assert run("%reload_ext workbench\nprint('still here')").endswith("still here")


def test_its_settings_stand_before_python_starts(run):
    assert run("import os, sys; print(os.environ['OMP_NUM_THREADS'], sys.flags.hash_randomization)") == "1 0"
