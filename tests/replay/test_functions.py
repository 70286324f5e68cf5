"""Methods, partials and closures after their training: the same again, what changed, replays, and why two differ."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import workbench as wb
from workbench.store import Store

OWN = """
class Runner:
    def __init__(self, rate, rows):
        self.rate, self.rows = rate, rows

    def train(self, trial, lr):
        for _ in trial.steps():
            trial.report(score=lr * self.rate + sum(self.rows))

    def __call__(self, trial, lr):
        self.train(trial, lr)


def fixed(rows, trial, lr, scale):
    for _ in trial.steps():
        trial.report(score=lr * scale + sum(rows))


def outer(rows, rate):
    def train(trial, lr):
        for _ in trial.steps():
            trial.report(score=lr * rate + sum(rows))

    return train


def whole(trial, config):
    for _ in trial.steps():
        trial.report(score=config["lr"] * config["rate"] + sum(config["rows"]))
"""
#: Every form computes the same from the same: lr × rate + the sum of the rows.
SCRIPT = """
import functools, json, sys
import workbench as wb
{own}
rate, rows = float(sys.argv[3]), [1.0] * int(sys.argv[4])
LR = {{"lr": wb.uniform(0, 1)}}
function, space = {{
    "method": (Runner(rate, rows).train, LR),
    "object": (Runner(rate, rows), LR),
    "partial": (functools.partial(fixed, rows, scale=rate), LR),
    "closure": (outer(rows, rate), LR),
    "whole": (whole, {{**LR, "rate": rate, "rows": rows}}),
    "lambda": (lambda trial, lr: fixed(rows, trial, lr, rate), LR),
}}[sys.argv[2]]
name = sys.argv[2] + "_of_{home}"
exp = wb.Experiment(
    name, function, space=space, goal=wb.maximize("score"), scheduler=wb.All(max_steps=2), trials=1, store=sys.argv[1]
)
exp.start().wait(60)
print(json.dumps([exp.label, exp.best.value, exp.changed, sorted(vars(exp.best.load()))]))
"""
#: form → what the object, arguments and variables are called.
SAID = {
    "method": ("Runner.rate", "Runner.rows"),
    "object": ("Runner.rate", "Runner.rows"),
    "partial": ("scale", "fixed(rows)"),
    "closure": ("train: rate", "train: rows"),
    "whole": ("rate", "rows="),
    "lambda": ("rate", "rows"),
}


def run(store: Store, form: str, rate: float, rows: int, home: str = "main", own: str = OWN) -> list:
    """Run the script in a process of its own: the label, the best value, the changes, the names that were loaded."""
    folder = store.root.parent
    (folder / "own_code.py").write_text(own)
    text = SCRIPT.format(own=own if home == "main" else "from own_code import *", home=home)
    (folder / "script.py").write_text(text)
    done = subprocess.run(
        [sys.executable, "script.py", str(store.root), form, str(rate), str(rows)],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(Path(wb.__file__).parent.parent)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def lr_of(value: float, rate: float, rows: int) -> float:
    return (value - rows) / rate


@pytest.mark.parametrize("home", ["main", "module"])
@pytest.mark.parametrize("form", SAID)
def test_each_form_is_reattached_compared_replayed_and_explained(store, form, home):
    name = f"{form}_of_{home}"
    label, value, changed, loaded = run(store, form, 1, 40, home)
    assert (label, changed) == (f"{name}@1", [])
    assert value == pytest.approx(lr_of(value, 1, 40) + 40)
    assert loaded
    assert run(store, form, 1, 40, home)[:2] == [f"{name}@1", value]
    rate, rows = SAID[form]
    _, other, changed, _ = run(store, form, 2, 40, home)
    assert lr_of(other, 2, 40) == pytest.approx(lr_of(value, 1, 40))
    if form in ("partial", "whole"):
        assert changed == ["changed since @1: rate 1.0 → 2.0".replace("rate", rate)]
    else:
        assert changed == [f"changed since @1: {rate} outside of the cell"]
    label, third, changed, _ = run(store, form, 2, 80, home)
    assert label == f"{name}@3"
    assert third == pytest.approx(other + 40)
    assert changed == [f"changed since @2: {rows} outside of the cell"]

    found = wb.compare(f"{name}@1", f"{name}@3", store=store)
    sections = {section["kind"]: section["items"] for section in found.to_dict()["sections"]}
    told = {kind: [item["name"] for item in sections.get(kind, ())] for kind in ("data", "configuration", "code")}
    assert told == {"data": [rows], "configuration": [rate], "code": []}

    assert str(wb.replay(f"{name}@1", store=store)).endswith("the same bit for bit")
    why = wb.why(f"{name}@1/t0000", f"{name}@3/t0000", store=store)
    assert [row.what for row in why.rows] == ["baseline", "nothing", "data", "configuration"]
    assert why.rows[-1].value == value


@pytest.mark.parametrize("form", ["method", "closure", "partial"])
def test_a_project_module_that_was_edited_is_trained_as_it_is_now(store, form):
    name = f"{form}_of_edited"
    _, value, _, _ = run(store, form, 1, 3, "edited")
    edited = "import math\n\n\ndef more():\n    return 1\n\n" + OWN.replace("* self.rate", "* self.rate + 7")
    edited = edited.replace("* scale", "* scale + 7").replace("* rate +", "* rate + 7 +")
    label, other, changed, _ = run(store, form, 1, 3, "edited", edited)
    assert (label, other) == (f"{name}@2", pytest.approx(value + 7))
    assert "own_code" in " ".join(changed)
    assert str(wb.replay(f"{name}@1", store=store)).endswith("the same bit for bit")
