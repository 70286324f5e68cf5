"""``default=``: a script with distributions of its own runs without Workbench, and is searched with it."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

import workbench as wb
from workbench.errors import BadCell, BadOption, BadSpace
from workbench.snapshot.reading.script import read_script
from workbench.space import Distribution

SCRIPT = """
import random
from random import uniform
import workbench as wb
from workbench import choice, trial

lr = wb.loguniform(1e-4, 1.0, default=0.01)
layers: list = choice([64, 64], [32], default=[32])
momentum = choice(None, 0.9, default=None)
noise = uniform(2.0, 3.0)            # of Python's own
picked = random.choice([1, 1])

for epoch in trial.steps():
    trial.report(score=lr)
print(lr, layers, momentum, noise > 2, picked)
"""
#: What the function form searches over.
FUNCTION = """
def train(lr=wb.uniform(0, 1, default=0.5)):
    return lr
print(type(train()).__name__)
"""


def test_a_plain_script_gets_the_defaults_and_a_parameter_its_distribution(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(SCRIPT + FUNCTION)
    found = subprocess.run([sys.executable, "train.py"], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert found.stdout.splitlines()[-2:] == ["0.01 [32] None True 1", "Uniform"]


def test_elsewhere_a_distribution_stays_one() -> None:
    assert isinstance(wb.uniform(0, 1, default=0.5), Distribution)
    names: dict[str, object] = {"wb": wb, "__name__": "__main__"}  # a notebook's: it has no file
    exec("lr = wb.uniform(0, 1, default=0.5)", names)
    assert isinstance(names["lr"], Distribution)


def test_the_space_of_a_script_is_that_of_its_text_and_its_arguments(tmp_path: Path) -> None:
    file = tmp_path / "train.py"
    file.write_text(SCRIPT)
    cell = read_script(file, ["--opt", "choice(a, b)"])
    assert cell.space.describe().splitlines() == [
        "lr = loguniform(0.0001, 1.0)", "layers = choice([64, 64], [32])", "momentum = choice(None, 0.9)",
        "opt = choice('a', 'b')",
    ]  # fmt: skip
    with pytest.raises(BadOption, match=r"lr is a hyperparameter in train\.py and in its arguments"):
        read_script(file, ["--lr", "uniform(0, 1)"])


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("x = [wb.uniform(0, 1)]", "train.py, line 4: "),
        ("x = wb.uniform(0, 1, default=2)", "default=2 is not one of its values"),
        ("x = wb.uniform(1, 0)", "train.py, line 4: "),
        ("def f(x=wb.uniform(0, 1)): pass", "train.py, line 4: "),
    ],
)
def test_a_distribution_that_is_none_is_refused_with_its_line(tmp_path: Path, line: str, told: str) -> None:
    file = tmp_path / "train.py"
    text = f"""
    import workbench as wb
    from workbench import trial
    {line}
    for step in trial.steps():
        trial.report(score=1)
    """
    file.write_text(textwrap.dedent(text))
    with pytest.raises((BadCell, BadSpace), match="default" if "default" in told else "line 4") as raised:
        read_script(file)
    assert told in str(raised.value)


@pytest.mark.parametrize("make", [lambda: wb.choice(1, 2, default=3), lambda: wb.randint(1, 3, default=1.5)])
def test_a_default_is_one_of_the_values(make) -> None:
    with pytest.raises(BadSpace, match="is not one of its values"):
        make()
