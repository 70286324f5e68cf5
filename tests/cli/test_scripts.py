"""``workbench run`` and ``try``: scripts as people have them, by processes as people start them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from running import engine, until
from trial.test_scripts import PRINTS

import workbench as wb
from workbench.store import Store

Typed = Callable[..., "subprocess.CompletedProcess[str]"]
#: A script without torch, whose import would take most of the time of each test.
TRAIN = """
    import argparse, os, random, sys
    import near
    from workbench import trial

    def main():
        parser = argparse.ArgumentParser()
        parser.add_argument("--lr", type=float, default=0.1)
        parser.add_argument("--layers", type=int, nargs="+", default=[2])
        parser.add_argument("--amp", action="store_true")
        args = parser.parse_args()
        print("begins as", __name__, os.path.basename(__file__), sys.argv[1:])
        weights = [near.FACTOR * random.random() for _ in range(args.layers[0])]
        for epoch in trial.steps():
            weights = [one + args.lr * (random.random() - one) for one in weights]
            trial.report(score=sum(weights) + args.amp, seen=epoch)
        print("after the loop")

    if __name__ == "__main__":
        sys.exit(main())
    """
SPACE = ("--lr", "loguniform(1e-3, 0.5)", "--layers", "choice([2], [3, 1])", "--amp", "flag()")
ASKS = ("--goal", "max", "score", "--steps", "1-3")


def written(project: Path) -> Path:
    """A folder with scripts, as they are in a project."""
    (project / "src").mkdir(parents=True)
    for name in ("train.py", "versions.py"):
        (project / "src" / name).write_text(textwrap.dedent(TRAIN))
    (project / "src" / "near.py").write_text("FACTOR = 1\n")
    (project / "prints.py").write_text(textwrap.dedent(PRINTS))
    return project


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Such a folder, which is the current one."""
    monkeypatch.chdir(written(tmp_path / "project"))
    return tmp_path / "project"


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Such a folder, whose store has a living engine: one for all tests, each with a script of its own."""
    folder = written(tmp_path_factory.mktemp("scripts") / "project")
    with engine(Store(folder / ".workbench").create(), workers=2):
        yield folder
    # What ``load`` has imported from there: other tests' snapshots would tell that it was edited.
    for name, module in [*sys.modules.items()]:
        if (getattr(module, "__file__", None) or "").startswith(f"{folder}{os.sep}"):
            del sys.modules[name]


@pytest.fixture
def typed(project: Path) -> Typed:
    """``typed("run", …)``: a command line in that folder."""

    def run(*words: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "workbench", *words]
        return subprocess.run(command, cwd=project, capture_output=True, text=True, timeout=100, check=False)

    return run


def test_a_search_over_a_script_from_its_plan_to_its_weights(typed: Typed, project: Path) -> None:
    asked = ("src/train.py", *ASKS, "--", *SPACE)
    planned = typed("run", *asked[: -len(SPACE) - 1], "--plan", "--", *SPACE)
    assert planned.returncode == 0, planned.stderr
    assert "trials" in planned.stdout
    done = typed("run", *asked)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1].startswith("train@1 completed: ")
    again = typed("run", *asked)
    assert "train@1" in again.stdout.splitlines()[-1]
    assert again.returncode == 0
    exp = wb.open("train", store=Store(project / ".workbench"))
    assert exp.spec.program.kind == "script"
    assert set(exp.best.configuration) == {"lr", "layers", "amp"}
    words, path = sys.argv, list(sys.path)
    loaded = exp.best.load()
    assert (sys.argv, sys.path) == (words, path)
    assert loaded.args.lr == exp.best.configuration["lr"]
    assert len(loaded.weights) == exp.best.configuration["layers"][0]
    assert sum(loaded.weights) + loaded.args.amp == exp.best.value
    replayed = typed("replay", f"train/{exp.best.label}")
    assert replayed.stdout.splitlines()[-1].startswith("train-replay@1: identical"), replayed


def test_a_version_says_what_changed_in_arguments_and_in_modules_beside_it(typed: Typed, project: Path) -> None:
    asked = ("run", "src/versions.py", *ASKS, "--scheduler", "all", "--trials", "2", "--detach", "--")
    first = typed(*asked, *SPACE)
    assert first.stdout == "versions@1 is started. `workbench watch versions@1` follows it.\n", first.stderr
    assert typed("watch", "versions").returncode == 0
    other = typed(*asked, *SPACE, "--amp")
    assert "versions@2 is started" in other.stdout
    (project / "src" / "near.py").write_text("FACTOR = 2\n")
    assert "versions@3 is started" in typed(*asked, *SPACE, "--amp").stdout
    assert typed("watch", "versions").returncode == 0
    # The list of experiments is written at most twice a second.
    told = until(
        lambda: "versions@3" in (shown := typed("history", "versions").stdout) and shown, what="the third version"
    )
    assert "--amp added" in told
    assert "near" in told
    assert "--amp" in typed("diff", "versions@1", "versions@2").stdout


def test_one_that_prints_is_stopped_early_and_never_trained_again_from_the_start(typed: Typed) -> None:
    done = typed("run", "prints.py", "--goal", "max", "score", "--steps", "1-9", "--trials", "4",
                 "--metric", r"score=([\d.]+)", "--json", "--", "--seed=randint(0, 9)")  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.splitlines()[-1])["state"] == "completed"
    shown = typed("show", "prints@1").stdout
    assert "asha" in shown


def test_two_steps_are_tried_here_and_an_error_shows_its_line(typed: Typed, project: Path) -> None:
    tried = typed("try", "src/train.py", "--goal", "max", "score", "--", *SPACE)
    assert tried.returncode == 0, tried.stderr
    assert "step 2: score" in tried.stdout
    assert "step 3" not in tried.stdout
    assert "`workbench run` searches" in tried.stdout
    (project / "fails.py").write_text("print('score=1')\nboom\n")
    failed = typed("try", "fails.py", "--goal", "max", "score", "--metric", r"score=(\d)")
    assert failed.returncode == 1
    assert 'fails.py", line 2, in <module>' in failed.stderr
    assert "NameError" in failed.stderr


def test_a_script_runs_without_workbench(folder: Path) -> None:
    found = subprocess.run([sys.executable, "src/train.py", "--lr", "0.1"], cwd=folder, capture_output=True, text=True,
                           env={**os.environ, "WORKBENCH_STEPS": "2"}, check=True)  # fmt: skip
    assert [line.partition(":")[0] for line in found.stdout.splitlines()] == [
        "begins as __main__ train.py ['--lr', '0.1']", "step 1", "step 2", "after the loop",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["run"], "no script was given"),
        (["run", *ASKS, "--", "--lr", "uniform(0, 1)"], "no script was given"),
        (["run", "none.py", *ASKS], "none.py cannot be read (No such file or directory)"),
        (["run", "a.ipynb", *ASKS], "is a notebook"),
        (["run", "src/train.py", "prints.py", *ASKS], "two scripts"),
        (["run", "src/train.py", "--steps", "1-3"], "--goal is missing"),
        (["run", "src/train.py", "--goal", "max", "score"], "--steps is missing"),
        (["run", "src/train.py", "--goal", "max", "scor", "--steps", "1-3"], "reports score, seen"),
        (["run", "src/train.py", *ASKS, "--lr", "uniform(0, 1)"], "--lr is not an option"),
        (["run", "src/train.py", *ASKS, "--", "uniform(0, 1)"], "stands alone"),
        (["run", "src/train.py", *ASKS, "--from", "a/t0001"], "--from is for train cells"),
        (["run", "prints.py", *ASKS], "prints.py says no metric"),
        (["run", "prints.py", *ASKS, "--metric", "score=("], "Expected a regular expression"),
        (["run", "prints.py", *ASKS, "--metric", "score"], "expected one group"),
        (["run", "prints.py", *ASKS, "--metric", "(?P<loss>.)"], "Report score"),
        (["run", "broken.py", *ASKS], "broken.py, line 1"),
    ],
)  # fmt: skip
def test_bad_input_is_refused_before_anything_is_written(folder: Path, capsys, words: list[str], told: str) -> None:
    from workbench.cli import main

    (folder / "broken.py").write_text("for\n")
    assert main(words) == 2
    assert told in capsys.readouterr().err
    assert not (folder / ".workbench").exists()


def test_a_plan_writes_nothing(folder: Path, capsys) -> None:
    from workbench.cli import main

    assert main(["run", "src/train.py", *ASKS, "--plan", "--", *SPACE]) == 0
    assert "trials" in capsys.readouterr().out
    assert not (folder / ".workbench").exists()


@pytest.mark.parametrize("verb", ["run", "try"])
def test_help_shows_the_options_and_how_to_write_the_space(capsys, verb: str) -> None:
    from workbench.cli import main

    assert main([verb, "--help"]) == 0
    shown = capsys.readouterr().out
    for words in ("--goal max|min METRIC", "--metric REGEX", "--amp 'flag()'", "loguniform(1e-4, 1)"):
        assert words in shown


def test_a_module_is_searched_and_replayed_as_python_runs_it(typed: Typed, project: Path) -> None:
    package = project / "project"
    package.mkdir()
    (package / "__init__.py").write_text("FACTOR = 1\n")
    (package / "models.py").write_text("def width_of(n): return n\n")
    (package / "near.py").write_text("FACTOR = 1\n")
    head = "import __main__\nfrom . import FACTOR\nfrom .models import width_of\nassert __package__ == 'project'\n"
    (package / "fit.py").write_text(head + textwrap.dedent(TRAIN).replace("import near", "from . import near"))
    tried = typed("try", "-m", "project.fit", "--goal", "max", "score", "--", *SPACE)
    assert tried.returncode == 0, tried.stderr
    done = typed("run", "-m", "project.fit", *ASKS, "--", *SPACE)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1].startswith("fit@1 completed: ")
    assert "fit@1" in typed("run", "-m", "project.fit", *ASKS, "--", *SPACE).stdout.splitlines()[-1]
    exp = wb.open("fit", store=Store(project / ".workbench"))
    assert exp.spec.program.module == "project.fit"
    assert exp.best.load().args.lr == exp.best.configuration["lr"]
    (package / "models.py").write_text("raise ValueError('edited after the launch')\n")
    replayed = typed("replay", f"fit/{exp.best.label}")
    assert replayed.stdout.splitlines()[-1].startswith("fit-replay@1: identical"), replayed
    refused = typed("run", "-m", "project.none", *ASKS, "--", *SPACE)
    assert refused.returncode != 0
    assert "-m project.none: Python finds no such module" in refused.stderr
