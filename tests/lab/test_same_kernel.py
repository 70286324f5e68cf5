"""The same cell in a new kernel, and the same script once more, after something around it changed: real kernels."""

import json
import subprocess
import sys

import pytest
from notebook_kernel import Kernel
from running import until

from workbench import asked
from workbench.asking import ask
from workbench.store import Store
from workbench.store.owner.lease import read_engine

CELL = """%%train digits --goal max score --steps 1-2 --scheduler all --trials 1 --verify off --wait{options}
import helper, os, torch
total = helper.gain() * sum(float(line) for line in open("train" + ".csv")) * float(os.environ.get("GAIN", "1"))
total *= torch.zeros(1).element_size() / 4
for epoch in trial.steps():
    trial.report(score=total)
"""
SCRIPT = """
import json
import workbench as wb

def train(trial, lr=wb.loguniform(1e-3, 1.0)):
    total = sum(float(line) for line in open("train" + ".csv"))
    for epoch in trial.steps():
        trial.report(score=total)

if __name__ == "__main__":
    exp = wb.Experiment("scripted", train, goal=wb.maximize("score"), scheduler=wb.All(max_steps=1), trials=1)
    exp.start(same={same}).wait()
    print(json.dumps([exp.label, exp.best.value, exp.changed]))
"""


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "train.csv").write_text("1\n1\n")
    (tmp_path / "helper.py").write_text("def gain():\n    return 1.0\n")
    store = Store(tmp_path / ".workbench").create()
    yield tmp_path
    info = read_engine(store)
    if info is not None and info.alive:
        ask(store, asked.End())
        until(lambda: (info := read_engine(store)) is None or not info.alive, 20, "the engine's end")


def run(folder, options="", before="", **env):
    """Run the cell in a new kernel: what it said, and the experiment, its best value and its header."""
    kernel = Kernel(folder, **env)
    try:
        kernel.run(before)
        said = kernel.run(CELL.format(options=options))
        found = kernel.run("import json; print(json.dumps([wb.last().label, wb.last().best.value, wb.last().changed]))")
    finally:
        kernel.end()
    return said, *json.loads(found)


@pytest.mark.timeout(300)
def test_a_new_kernel_trains_again_what_has_changed_around_the_cell_and_names_it(folder):
    _, *found = run(folder, OMP_NUM_THREADS="1")
    assert found == ["digits@1", 2.0, []]
    said, label, best, _ = run(folder, OMP_NUM_THREADS="1", TERM="other", SSH_CLIENT="10.0.0.7 1 22")
    assert (label, best) == ("digits@1", 2.0)
    assert "digits@1 was trained before with the same content; nothing is trained. Use --again to retrain.\n" in said
    (folder / "train.csv").write_text("1\n1\n1\n1\n")
    _, *found = run(folder, OMP_NUM_THREADS="1")
    assert found == ["digits@2", 4.0, ["changed since @1: train.csv (content)"]]
    _, *found = run(folder, OMP_NUM_THREADS="4")
    assert found == ["digits@3", 4.0, ["changed since @2: OMP_NUM_THREADS 1 → 4"]]
    (folder / "helper.py").write_text("def gain():\n    return 2.0\n")
    _, *found = run(folder, OMP_NUM_THREADS="4")
    assert found == ["digits@4", 8.0, ["changed since @3: helper.py"]]
    _, *found = run(folder, OMP_NUM_THREADS="4", GAIN="0.5")
    assert found == ["digits@5", 4.0, ["changed since @4: GAIN not set → 0.5"]]
    double = "import torch; torch.set_default_dtype(torch.float64)"
    _, *found = run(folder, "", double, OMP_NUM_THREADS="4", GAIN="0.5")
    assert found == ["digits@6", 8.0, ["changed since @5: torch.set_default_dtype as usual → torch.float64"]]
    (folder / "train.csv").write_text("5\n")
    said, label, best, _ = run(folder, " --same", double, OMP_NUM_THREADS="4", GAIN="0.5")
    assert (label, best) == ("digits@6", 8.0)
    assert "digits@6 was trained before; changed since: train.csv (content). --same shows it anyway.\n" in said


def test_a_script_that_is_run_again_says_what_changed(folder):
    def script(same=False):
        (folder / "train.py").write_text(SCRIPT.format(same=same))
        words = [sys.executable, "train.py"]
        done = subprocess.run(words, cwd=folder, capture_output=True, text=True, timeout=100, check=False)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout.splitlines()[-1])

    assert script() == ["scripted@1", 2.0, []]
    assert script() == ["scripted@1", 2.0, ["the same content as before"]]
    (folder / "train.csv").write_text("1\n1\n1\n1\n")
    assert script(same=True) == ["scripted@1", 2.0, ["changed since: train.csv (content)"]]
    assert script() == ["scripted@2", 4.0, ["changed since @1: train.csv (content)"]]
