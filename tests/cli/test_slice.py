"""`workbench slice` writes the cells that a trial needs, and they make the same trial in a fresh kernel."""

from __future__ import annotations

import json
from pathlib import Path

import nbformat
import notebook_kernel
import pytest
from notebook_kernel import Kernel
from running import until

import workbench as wb
from workbench.cli import main
from workbench.cli.codes import BAD, MISSING
from workbench.store import Store

CELLS = (
    "import numpy as np\nimport matplotlib\nmatplotlib.use('Agg')\nimport matplotlib.pyplot as plt",
    "np.random.seed(7)",
    "X = np.random.randn(20, 3)",
    "plt.plot(X[:, 0])\nplt.savefig('x.png')\nprint(X.mean())",
    "shift = 1.0",
    "def target(x):\n    return x.sum(1) + shift",
    "weights = np.zeros(3)\nfor _ in range(3):\n    weights -= 0.1 * (X.T @ (X @ weights - target(X)))",
    "shift = 2.0",
    "X[0] = 0",
    "Y = X + 1",
)
TRAIN = """%%train digits --goal max val_acc --steps 1-3
lr = choice(0.1, 0.2)
w = np.zeros(3)
for epoch in trial.steps():
    w -= lr * X.T @ (X @ w - target(X)) / len(X) + 0.001 * np.random.randn(3)
    trial.report(val_acc=-float(((X @ w - target(X)) ** 2).mean()))
"""


def test_a_slice_makes_the_same_trials_in_a_fresh_kernel(tmp_path: Path, monkeypatch, capsys) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    for folder in (first, second):
        folder.mkdir()
    kernel = Kernel(first)
    try:
        for cell in (*CELLS, TRAIN):
            kernel.run(cell)
        store = Store(first / ".workbench")
        before = until(lambda: (exp := wb.open("digits@1", store=store)).is_ended and exp, what="the end")
    finally:
        kernel.end()
    made = second / "slice.ipynb"
    order = ["--store", str(store.root), "slice", "digits@1/t0001", "--output", str(made)]
    assert main(order) == 0
    assert "slice.ipynb: 8 cells of 12 make digits@1-t0001." in capsys.readouterr().out
    assert main(order) == BAD  # it is there already
    capsys.readouterr()
    assert main([*order, "--force", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["missing"] == []

    notebook = nbformat.read(made, 4)
    wanted = [CELLS[number] for number in (0, 1, 2, 5, 7, 8)]
    assert [cell.source for cell in notebook.cells][1:] == [*wanted, TRAIN.strip()]
    for name in ("WORKBENCH_HOME", "JPY_SESSION_NAME"):
        monkeypatch.delenv(name, raising=False)
    notebook_kernel.execute(notebook, second)
    again = wb.open("digits@1", store=Store(second / ".workbench"))
    for trial in before.records:
        assert dict(again[trial.label].curve("val_acc")) == dict(trial.curve("val_acc"))
    assert again.spec.content == before.spec.content


@pytest.mark.parametrize(
    ("words", "message"), [(["digits@9"], "no experiment 'digits'"), (["--output", "a.txt", "x"], "no experiment 'x'")]
)
def test_what_is_not_there_is_refused(tmp_path: Path, capsys, words: list[str], message: str) -> None:
    Store(tmp_path / "store").create()
    assert main(["--store", str(tmp_path / "store"), "slice", *words]) == MISSING
    assert message in capsys.readouterr().err
