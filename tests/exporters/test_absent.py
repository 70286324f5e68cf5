"""Workbench where no exporter is installed: all but what exporters write works, and an error says what to install."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest
from running import SLOW, ended, engine, spec_of, start, until

from workbench import interpreter
from workbench.records import Scheduler
from workbench.space import uniform
from workbench.store import Store
from workbench.store.lists.catalog import read_catalog
from workbench.store.lists.mirrors import Mirror

ALONE = """
import importlib.util, sys
import workbench as wb
from workbench.cli import main

def train(trial, x=wb.uniform(0.0, 1.0)):
    for _ in trial.steps():
        trial.report(score=x)

def experiment(**options):
    rule = wb.All(max_steps=2)
    return wb.Experiment(
        "alone", train, goal=wb.maximize("score"), scheduler=rule, trials=2, verify=False, store=sys.argv[1], **options
    )

assert importlib.util.find_spec("workbench.exporters") is None, importlib.util.find_spec("workbench.exporters")
made = experiment().start().wait(60)
made.export("alone.zip")
for words in (["ls"], ["show", "alone"], ["export", "alone", "alone.csv"]):
    assert main(["--store", sys.argv[1], *words]) == 0
assert main(["--store", sys.argv[1], "export", "alone", "--to", "box/Containerfile"]) == 2
for wanted in (
    lambda: made.export("tensorboard:runs"),
    lambda: made.best.export("onnx"),
    lambda: experiment(mirror="mlflow"),
):
    try:
        wanted()
    except wb.errors.BadOption as error:
        print(error, file=sys.stderr)
main(["--store", sys.argv[1], "engine", "stop"])
"""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """This Workbench as it is installed without its exporters."""
    folder = tmp_path_factory.mktemp("without") / "site-packages"
    left_out = shutil.ignore_patterns("__pycache__", "exporters")
    shutil.copytree(interpreter.PACKAGE, folder / "workbench", ignore=left_out)
    info = folder / f"workbench-{version('workbench')}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: workbench\nVersion: {version('workbench')}\n")
    return folder


def test_all_else_works_and_an_error_says_what_to_install(site: Path, tmp_path: Path) -> None:
    script = tmp_path / "alone.py"
    script.write_text(ALONE)
    command = [sys.executable, str(script), str(tmp_path / "store")]
    around = {**os.environ, "PYTHONPATH": str(site)}
    done = subprocess.run(command, cwd=tmp_path, env=around, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    missing = r"no exporter for ([\w, ]+) is installed for (\S+)\. Run \2 -m pip install 'workbench\[exporters\]'"
    runs = "runs of mlflow, tensorboard and wandb"
    assert [what for what, _ in re.findall(missing, done.stderr)] == ["Containerfiles", runs, "trained models", runs]
    assert {"alone.zip", "alone.csv"} < {path.name for path in tmp_path.iterdir()}


def test_an_experiment_with_mirrors_trains_and_is_written_once_there_is_an_exporter(
    site: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    store = Store(tmp_path / "store").create()
    mirror = (Mirror("mlflow", (tmp_path / "mlruns").as_uri()).to_json(),)
    spec = spec_of(
        SLOW, tmp_path, name="waits", mirror=mirror, space={"x": uniform(0.0, 1.0)}, trials=2, verify=False,
        scheduler=Scheduler("all", 1, 2),
    )  # fmt: skip

    def word() -> str | None:
        return next((entry.get("mirror") for entry in read_catalog(store) if entry["id"] == spec.id), None)

    with engine(store, workers=1, PYTHONPATH=str(site)):
        start(store, spec)
        assert ended(store, spec) == "completed"
        until(lambda: (word() or "").startswith("mlflow waits: no exporter for runs of mlflow"), 10, "what is missing")
    assert not (tmp_path / "mlruns").exists()
    with engine(store, workers=1):
        until(lambda: word() is None, 40, "all of it in the mirror")
    assert (tmp_path / "mlruns").exists()
