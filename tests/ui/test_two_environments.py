"""JupyterLab in one virtual environment, the kernel with torch in another: the cell runs, and the page shows it."""

from __future__ import annotations

import contextlib
import json
import sys
from importlib.metadata import version

import nbformat
import pytest
from conftest import start_cell, wait_for_kernel
from labenv import MARK, lab_python, packages
from playwright.sync_api import expect

from workbench import asked
from workbench.asking import ask
from workbench.errors import WorkbenchError
from workbench.store import Store
from workbench.store.lists.known import experiments
from workbench.store.owner.lease import read_engine
from workbench.store.series import Series

SETUP = """%load_ext workbench
import sys, torch
import workbench as wb
x = torch.linspace(-1, 1, 24).reshape(8, 3)"""
TRAIN = """%%train two --goal min loss --steps 1-3 --parallel 2
import time
lr = loguniform(1e-3, 0.3)
model = torch.nn.Linear(3, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=lr)
for epoch in trial.steps():
    loss = ((model(x) - x.sum(1, keepdim=True)) ** 2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    time.sleep(0.5)
    trial.report(loss=loss.item())"""
LOAD = "print(sys.executable, torch.__version__, tuple(wb.last().best.load().model.weight.shape))"
CELL = "window.jupyterapp.shell.currentWidget.content.model.cells.get(i)"


@pytest.fixture
def lab(start_lab, tmp_path):
    """JupyterLab of its own environment; the kernelspec names the interpreter of these tests, which has torch."""
    kernel = tmp_path / "share" / "kernels" / "training"
    kernel.mkdir(parents=True)
    command = [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
    spec = {"argv": command, "display_name": "Training", "language": "python"}
    (kernel / "kernel.json").write_text(json.dumps(spec))
    root = tmp_path / "notebooks"
    root.mkdir()
    surroundings = {"JUPYTER_PATH": str(tmp_path / "share"), "PYTHONPATH": ""}
    lab = start_lab(root, python=str(lab_python()), WORKBENCH_WORKERS="2", WORKBENCH_IDLE="60", **surroundings)
    yield lab
    lab.end()
    store = Store.find(cwd=root)
    info = read_engine(store) if store.exists else None
    if info is not None and info.alive:
        with contextlib.suppress(WorkbenchError):
            ask(store, asked.End())


def run(page, cell):
    start_cell(page, cell)
    page.wait_for_function(f"i => {CELL}.executionCount !== null", arg=cell, timeout=60_000)


@pytest.mark.timeout(600)
def test_a_cell_trains_with_torch_that_jupyterlab_has_not(lab, opened):
    made = nbformat.v4.new_notebook(metadata={"kernelspec": {"name": "training", "display_name": "Training"}})
    made.cells = [nbformat.v4.new_code_cell(cell) for cell in (SETUP, TRAIN, LOAD)]
    nbformat.write(made, lab.root / "two.ipynb")
    page = opened(lab, "two.ipynb")
    wait_for_kernel(page)
    run(page, 0)
    run(page, 1)
    view = page.locator(".workbench-live")
    expect(view.locator(".wb-title")).to_have_text("two")
    expect(view.locator(".wb-state")).to_contain_text("running", timeout=60_000)
    expect(view.locator(".wb-fact-best .wb-value")).to_contain_text("t00", timeout=60_000)
    page.wait_for_function("() => document.querySelector('.workbench-live .wb-chart')?.data?.length")
    page.wait_for_function(
        f"i => {CELL}.outputs.toJSON().some(output => output.data?.['image/png'])", arg=1, timeout=60_000
    )
    expect(page.locator(".jp-WorkbenchFinished .wb-state")).to_have_text("completed")
    run(page, 2)
    page.wait_for_function(f"i => {CELL}.outputs.length > 0", arg=2)
    printed = "".join(page.evaluate(f"i => {CELL}.outputs.toJSON()", 2)[0]["text"])
    assert printed.strip() == f"{sys.executable} {version('torch')} (1, 3)"

    store = Store.find(cwd=lab.root)
    engine = read_engine(store)
    # The kernel started the engine with its own interpreter. Torch is installed there, but the engine does not load it.
    assert not any(package.endswith("/torch") for package in packages(engine.pid))
    (entry,) = experiments(store)
    assert entry["state"] == "completed"
    training = store.read_spec(entry["id"]).training
    assert training.python == sys.executable
    assert training.versions["torch"] == version("torch")
    assert MARK not in training.versions["workbench"]
    with Series.read(store.experiment(entry["id"]).series) as series:
        assert {leg["detail"]["environment"]["torch"] for leg in series.legs()} == {version("torch")}
