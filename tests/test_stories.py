"""The notebooks that tell a story, executed without a person; their own assertions are the test."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import nbformat
import papermill
import pytest

ROOT = Path(__file__).parent.parent


def executed(name: str, folder: Path) -> str:
    """What the notebook ``name`` shows, executed in ``folder``."""
    out = folder / name
    try:
        papermill.execute_notebook(
            ROOT / "notebooks" / name,
            out,
            cwd=folder,
            kernel_name="python3",
            progress_bar=False,
            extra_arguments=["--IPKernelApp.log_level=ERROR"],
        )
    finally:
        subprocess.run(
            [sys.executable, "-m", "workbench", "engine", "stop", "--store", folder / ".workbench"],
            check=False,
            capture_output=True,
            stdin=subprocess.DEVNULL,
        )
    outputs = [output for cell in nbformat.read(out, 4).cells for output in cell.get("outputs", ())]
    return "\n".join(output.get("text") or output.get("data", {}).get("text/plain", "") for output in outputs)


@pytest.fixture(autouse=True)
def store(tmp_path, monkeypatch):
    monkeypatch.setenv("WORKBENCH_HOME", str(tmp_path / ".workbench"))


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of papermill's own
def test_every_cause_is_found_and_the_last_row_equals_the_baseline(tmp_path):
    shown = executed("reproduce.ipynb", tmp_path)
    assert "it equals digits@1/t0000 bit for bit" in shown
    assert "identical: 12 values of 6 steps" in shown
    assert "samples.npz, which the trial was seen to read, changed since" in shown


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of papermill's own
def test_a_search_in_which_things_die_equals_the_calm_one(tmp_path):
    shown = executed("faults.ipynb", tmp_path)
    assert shown.count("kill -9") == 3
    assert shown.count("   identical") == 3


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of papermill's own
def test_frameworks_are_searched_and_a_replay_is_identical(tmp_path):
    shown = executed("frameworks.ipynb", tmp_path)
    assert "identical" in shown
    for name, least in (("Lightning", 0.9), ("XGBoost", 0.8), ("scikit-learn", 0.9)):
        (value,) = re.findall(rf"^{name}: (\S+) with", shown, re.MULTILINE)
        assert float(value) > least


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of papermill's own
def test_two_searches_share_two_cores_and_a_trial_trains_on_both(tmp_path):
    shown = executed("sharing.ipynb", tmp_path)
    held = re.findall(r"^(cpu\d+) +\S+ +(\w+)@1", shown, re.MULTILINE)
    assert sorted(name for _, name in held) == ["heavy", "light", "light", "light"], "before and after room was made"
    assert re.search(r"^waiting .*\n\S+ +light@1, heavy@1 +2 slots +1 ", shown, re.MULTILINE)
    (step,) = re.findall(r"^light@1/t000[01], after step (\d+): made room for heavy@1$", shown, re.MULTILINE)
    assert 0 < int(step) < 130
    assert "identical: 260 values of 130 steps" in shown
    (difference,) = re.findall(r"^16 values; the largest difference is (\S+)$", shown, re.MULTILINE)
    assert 0 < float(difference) < 1e-5
    for name in ("one-slot", "two-slots", "light", "heavy"):
        (hours,) = re.findall(rf"^\S+ +\S+ +{name}@1 +<?(\d\S*) +\d+%", shown, re.MULTILINE)
        assert float(hours) > 0
