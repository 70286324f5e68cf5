"""The quickstart, executed without a person from beginning to end, as `make demo` does it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


@pytest.fixture
def folder(tmp_path):
    """A folder whose store's engine is ended with the test; otherwise it would wait for more work for a while."""
    yield tmp_path / "demo"
    store = tmp_path / "demo" / ".workbench"
    subprocess.run(
        [sys.executable, "-m", "workbench", "engine", "stop", "--store", store],
        check=False,
        capture_output=True,
        stdin=subprocess.DEVNULL,
    )


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_the_demo_finds_a_good_network_and_says_so(tmp_path, folder):
    done = subprocess.run(
        [sys.executable, ROOT / "notebooks" / "demo.py", folder],
        check=False,
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        cwd=tmp_path,
        env={**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"},
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    said = dict(re.findall(r"^([A-Z][\w -]+): (.+)$", done.stdout, flags=re.MULTILINE))
    assert float(said["Best validation accuracy"]) >= 0.975
    assert float(said["Held-out accuracy"]) >= 0.95
    assert re.fullmatch(r"digits@1/t\d{4} \(lr=\S+, hidden=\d+, dropout=\S+\)", said["Best trial"])
    assert (tmp_path / said["Figure"]).read_bytes().startswith(b"\x89PNG")
    assert (tmp_path / said["Notebook"]).stat().st_size < 2_000_000
    assert "make lab" in said["Next"]
