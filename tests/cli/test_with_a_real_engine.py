"""The verbs on a real search: watched to its end, its best found, its log read, by processes as people start them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from running import engine, spec_of, start

from workbench.space import uniform
from workbench.store import Store

CELL = """
x = uniform(0.0, 1.0)
for epoch in trial.steps():
    print("turn", epoch)
    trial.report(score=x * (epoch + 1))
"""


def test_a_search_from_watch_to_best(tmp_path: Path) -> None:
    store = Store(tmp_path / "store")
    spec = spec_of(CELL, tmp_path, space={"x": uniform(0.0, 1.0)}, name="probe")

    def workbench(*words: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "workbench", "--store", str(store.root), *words]
        return subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)

    with engine(store):
        start(store, spec)
        watched = workbench("watch", spec.id)
        assert watched.returncode == 0, watched
        assert watched.stdout.splitlines()[-1].startswith("probe@1 completed: 17 trials")
        assert "Traceback" not in watched.stderr
        assert workbench("stop", "probe").stdout == "probe@1 is completed already; there is nothing to stop.\n"
        assert workbench("engine", "status").returncode == 0
        assert workbench("engine", "stop").returncode == 0
    assert workbench("engine", "status").returncode == 4
    best = json.loads(workbench("best", "probe", "--json").stdout)
    assert best["step"] == best["checkpoint"]["step"] == 9
    assert best["value"] == 9 * best["configuration"]["x"]
    # It has ended: its small checkpoints are packed, and named by the file that they were in.
    assert Path(best["checkpoint"]["path"]).parent.name == f"{best['trial']}.zip"
    log = workbench("logs", f"probe@1/{best['trial']}").stdout
    assert [f"turn {turn}" for turn in range(9)] == [line for line in log.splitlines() if line.startswith("turn")]
    assert workbench("doctor").returncode == 0
