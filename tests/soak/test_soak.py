"""`make soak`: a whole search under fifty faults of every kind equals the calm one. It takes some minutes."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from mounts import NAMESPACE, may_mount

ROOT = Path(__file__).parents[2]


def chaos(folder: Path, *options: str, prefix: list[str] | None = None) -> dict:
    """Run chaos in a process of its own; its verdict."""
    command = [*(prefix or []), sys.executable, str(Path(__file__).with_name("chaos.py")), str(folder), *options]
    path = os.pathsep.join([str(ROOT / "src"), str(ROOT / "tests")])
    done = subprocess.run(
        command, stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": path}, check=False
    )
    print(done.stdout)
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.timeout(3000)
@pytest.mark.parametrize("seed", [int(seed) for seed in os.environ.get("SOAK_SEEDS", "0").split(",")])
def test_fifty_faults_change_nothing(tmp_path: Path, seed: int) -> None:
    disk = ["--disk-mb", "400"] if may_mount() else []
    verdict = chaos(tmp_path, "--faults", "50", "--seed", str(seed), *disk, prefix=NAMESPACE if disk else None)
    assert verdict["differences"] == []
    assert verdict["faults"] >= 50
    expected = {
        "runner",
        "worker",
        "forkserver",
        "engine",
        "kernel",
        "dask-scheduler",
        "freeze",
        "checkpoint",
        "catalog",
    }
    assert expected <= set(verdict["kinds"])
