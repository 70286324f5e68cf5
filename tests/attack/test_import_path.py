"""No process of ours imports from a store, from the notebook's folder or from the current one.

A module for each name that Workbench imports anywhere, and those that Python itself looks for when it begins, is
planted in all three. One that is imported says so. Training still imports its own modules from the notebook's folder.
"""

from __future__ import annotations

import ast
import dataclasses
import functools
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from running import ended, spec_of

from workbench import asked
from workbench.asking import ask
from workbench.interpreter import import_path
from workbench.records import Scheduler, Spec
from workbench.space import uniform
from workbench.store import Store
from workbench.store.owner.lease import read_engine

ROOT = Path(__file__).parents[2]
#: What Python imports by itself where it finds it, and what others import for us.
_MORE = ("sitecustomize", "usercustomize", "torch", "tblib", "msgpack", "yaml", "zict", "psutil", "runpy", "secrets")

TRAINING = """
import helper
x = uniform(0.0, 1.0)
for epoch in trial.steps():
    trial.report(score=helper.twice(x) + epoch)
"""


@functools.cache
def read() -> tuple[set[str], set[str]]:
    """Top-level names of all that Workbench imports from elsewhere, and its modules that have `-m` in their code.

    Reading it all takes three seconds.
    """
    names, starting = set(_MORE), set()
    for path in (*(ROOT / "src" / "workbench").rglob("*.py"), *(ROOT / "workbench_ext" / "server").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                names |= {alias.name.partition(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                names.add(node.module.partition(".")[0])
            elif isinstance(node, ast.Constant) and node.value == "-m":
                starting.add(str(path.relative_to(ROOT)))
    return names - {"workbench", "workbench_ext", "__future__"}, starting


def plant(folder: Path, told: Path) -> None:
    """A module of each name that tells which process imported it."""
    names, _ = read()
    for name in names:
        (folder / f"{name}.py").write_text(
            f"import os\nwith open({str(told)!r}, 'a') as file:\n"
            "    with open('/proc/self/cmdline') as line:\n"
            "        file.write(f'{__name__} from {__file__} in {line.read()!r}\\n')\n"
            "raise ImportError('planted')\n"
        )


@pytest.fixture
def told(tmp_path: Path) -> Path:
    """Where planted modules tell that they were imported."""
    return tmp_path / "imported.txt"


@pytest.fixture
def project(tmp_path: Path, told: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A notebook's folder with a store, and another current folder, each with planted modules."""
    folder, here = tmp_path / "project", tmp_path / "here"
    for one in (folder, here):
        one.mkdir()
        plant(one, told)
    store = Store(folder / ".workbench").create()
    plant(store.root, told)
    (folder / "helper.py").write_text("def twice(x):\n    return 2 * x\n")
    monkeypatch.chdir(here)
    # As in many a shell's profile: an empty entry, a relative one, and the project itself.
    monkeypatch.setenv("PYTHONPATH", f":.:{folder}:")
    yield folder
    info = read_engine(store)
    if info is not None and info.alive:
        ask(store, asked.End())


def search(project: Path) -> Spec:
    """Two trials whose training imports a module of the project."""
    spec = spec_of(
        TRAINING,
        project,
        space={"x": uniform(0.0, 1.0)},
        scheduler=Scheduler("all", 1, 2, 2),
        trials=2,
        storage=(project.parent / "storage").as_uri(),
        mirror=({"kind": "tensorboard", "where": str(project.parent / "events")},),
    )
    path = (str(project), *filter(None, sys.path))
    return dataclasses.replace(spec, training=dataclasses.replace(spec.training, path=path))


def test_a_search_imports_nothing_that_was_planted(project: Path, told: Path) -> None:
    """Engine, workers and their nannies, the forkserver, runners, a storage's fetchers and a mirror."""
    store, spec = Store(project / ".workbench"), search(project)
    store.write_spec(spec)
    ask(store, asked.Start(experiment=spec.id))
    state = ended(store, spec)
    assert not told.exists(), told.read_text()
    assert state == "completed"


@pytest.mark.parametrize("words", [("ls",), ("doctor",), ("engine", "run", "--workers", "1", "--idle", "0.1")])
def test_the_command_line_imports_nothing_that_was_planted(
    project: Path, told: Path, words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    # What a person's own PYTHONPATH names, Python itself imports before any of our lines.
    monkeypatch.delenv("PYTHONPATH")
    script = project.parent / "bin" / "workbench"  # `python -m` itself imports importlib from the current folder
    script.parent.mkdir()
    script.write_text("import sys\nfrom workbench.cli import main\nsys.exit(main())\n")
    command = [sys.executable, str(script), "--store", str(project / ".workbench"), *words]
    for folder in (project, project / ".workbench"):
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
    assert not told.exists(), told.read_text()


def test_what_is_executed_again_and_exported_imports_nothing_that_was_planted(project: Path, told: Path) -> None:
    """Helpers that the command line and the panel start: a notebook's executor, a model's exporter, a fetcher."""
    from workbench import interpreter

    around = interpreter.surroundings(os.environ, project, project / ".workbench")
    for module in ("workbench.replay.executing", "workbench.exporters.model.exporting",
                   "workbench.exporters.mirrors.following", "workbench.store.keeping.remote",
                   "workbench.trial.process.forkserver", "workbench.kernel"):  # fmt: skip
        for folder in (project, project / ".workbench"):
            command = [*interpreter.command(module)[:2], "-c", f"import {module}"]
            done = subprocess.run(command, cwd=folder, env=around, capture_output=True, text=True, check=False)
            assert done.returncode == 0, done.stderr
    assert not told.exists(), told.read_text()


def test_every_process_of_ours_is_started_by_one_function() -> None:
    """`-m` stands in one place, where `-P` stands beside it; what is not ours is named here."""
    others = {"src/workbench/interpreter.py", "src/workbench/replay/place.py"}  # venv and pip, in the root folder
    _, found = read()
    # These read it in the words of a user's command.
    readers = {"src/workbench/snapshot/surroundings/programs.py", "src/workbench/experiment/grammar.py"}
    assert found - readers == others


def test_entries_that_mean_the_current_folder_are_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "link").symlink_to(tmp_path)
    assert import_path(f":.:lib:/opt/lib:{tmp_path}:{tmp_path}/link:{tmp_path}/lib:") == f"/opt/lib:{tmp_path}/lib"
    assert import_path("/opt/lib:/data/store", "/data/store") == "/opt/lib"
