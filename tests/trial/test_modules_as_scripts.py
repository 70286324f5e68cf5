"""``python -m package.module`` in real runners: its package, relative imports, kills, and processes that it starts."""

from __future__ import annotations

import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest
from trial.test_scripts import TRAIN
from trial.world import points, said

from workbench.errors import BadOption
from workbench.records import Program, Training
from workbench.snapshot.reading.script import read_script

#: The training code of a package: it imports beside itself, and above.
HEAD = """
    from __future__ import annotations
    import __main__, sys, os
    from ..near import FACTOR
    from . import models
    from .models import width_of
    print("as", __name__, __package__, __spec__.name, __spec__.parent, os.path.relpath(__file__), sys.argv, sys.path[0])
    assert models.__name__ == "project.deep.models" and FACTOR == width_of(FACTOR)
    """
WORDS = ("--lr", "loguniform(1e-3, 0.5)", "--layers", "choice([2], [3, 1])")
CONFIGURATION = {"lr": 0.05, "layers": [3, 1]}


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a package in it, which is the working folder."""
    deep = tmp_path / "work" / "project" / "deep"
    deep.mkdir(parents=True)
    (deep.parent / "__init__.py").write_text("LOADED = 1\n")
    (deep.parent / "near.py").write_text("FACTOR = 3\n")
    (deep / "__init__.py").touch()
    (deep / "models.py").write_text("from .. import LOADED\ndef width_of(n): return n * LOADED\n")
    (deep / "train.py").write_text(textwrap.dedent(HEAD) + textwrap.dedent(TRAIN))
    (deep.parent / "__main__.py").write_text(textwrap.dedent(TRAIN))
    monkeypatch.chdir(tmp_path / "work")
    return deep


@pytest.fixture
def searched(experiment: Any) -> Any:
    """``searched("-m project.deep.train")``: an experiment as a launch makes it of that."""

    def make(script: str, *words: str, **changes: Any) -> Any:
        cell = read_script(script, words or WORDS)
        made = Program("script", cell.source, str(cell.file), module=cell.module, arguments=cell.arguments)
        training = Training(sys.executable, str(Path.cwd()), path=(str(Path.cwd()), *sys.path))
        return experiment(cell.source, program=made, training=training, steps=6, **changes)

    return make


def test_it_is_the_main_program_of_its_package(server, package, searched):
    runner = server.runner()
    told = runner.leg(searched("-m project.deep.train").order(configuration=CONFIGURATION))
    assert told[-1]["outcome"] == "completed", told[-1]["error"]["traceback"]
    runner.kill()
    file = package / "train.py"
    argv = [str(file), "--lr", "0.05", "--layers", "3", "1"]
    assert (
        f"as __main__ project.deep project.deep.train project.deep project/deep/train.py {argv} {Path.cwd()}"
        in runner.output()
    )


def test_a_killed_one_resumes_bit_for_bit(server, package, searched):
    whole = points(server.runner().leg(searched("-m project.deep.train").order(configuration=CONFIGURATION)))
    one, heard = searched("-m project.deep.train", save_s=0.001), {}
    assert len(whole) == 12
    runner = server.runner()
    runner.connection.send(one.order(3, levels=(1,), configuration=CONFIGURATION))
    heard |= points(runner.until("saved"))
    runner.kill()
    told = server.runner().leg(one.order(3, resume=True, levels=(1,), configuration=CONFIGURATION))
    assert told[-1]["outcome"] == "reached", told[-1]["error"]["traceback"]
    told += server.runner().leg(one.order(6, start=3, configuration=CONFIGURATION))
    assert told[-1]["outcome"] == "completed", told[-1]["error"]["traceback"]
    assert said(told, "begun")[-1]["step"] == 3
    assert {**heard, **points(told)} == whole


def test_a_package_runs_its_main_module(server, package, searched):
    one = searched("-m project", "--lr", "loguniform(1e-3, 0.5)")
    assert one.spec.program.module == "project.__main__"
    told = server.runner().leg(one.order(configuration={"lr": 0.1}))
    assert told[-1]["outcome"] == "completed", told[-1]["error"]["traceback"]


SPAWNS = """
    import torch
    from torch.utils.data import DataLoader, Dataset
    import workbench as wb
    from workbench import trial
    from .models import width_of
    width = wb.randint(1, 9, default=1)
    class Rows(Dataset):
        def __len__(self): return 8
        def __getitem__(self, at): return torch.full((width_of(width),), float(at))
    def main():
        loader = DataLoader(Rows(), 4, num_workers=1, multiprocessing_context={context!r})
        for epoch in trial.steps():
            trial.report(score=sum(batch.sum().item() for batch in loader))
    {guard}main()
    """


@pytest.mark.parametrize("context", ["spawn", "forkserver"])
@pytest.mark.parametrize("guard", ["", "if __name__ == '__main__': "], ids=["plain", "guarded"])
def test_processes_that_it_starts_have_its_package_and_the_trials_values(server, package, searched, context, guard):
    (package / "spawns.py").write_text(textwrap.dedent(SPAWNS.format(context=context, guard=guard)))
    runner = server.runner()
    told = runner.leg(searched("-m project.deep.spawns", "--x", "1").order(1, configuration={"width": 3}))
    runner.kill()
    assert told[-1]["outcome"] == "reached", told[-1]["error"]["traceback"]
    assert [*points(told).values()] == [84.0]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("project.deep", "project.deep is a package without __main__.py"),
        ("project.deep.no", "Python finds no such module from"),
        ("project/deep/train.py", "Python finds no such module from"),
        ("project.deep.train.py", "Python finds no such module from"),
        ("sys", "Python finds no such module from"),
    ],
)
def test_what_is_no_module_is_refused_with_what_to_write(package, name, expected):
    with pytest.raises(BadOption, match=f"-m {name}: {expected}"):
        read_script(f"-m {name}")


def test_the_code_around_it_belongs_to_it(package):
    imports = read_script("-m project.deep.train", WORDS).imports
    assert {"project", "project.deep", "project.near", "project.deep.models"} <= {*imports}
    assert "models" not in imports
