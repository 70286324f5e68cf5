"""Ten situations of real notebooks: executed in a real kernel, trained, snapshotted, and replayed to the same bits."""

from __future__ import annotations

import os
from pathlib import Path

import nbformat
import notebook_kernel
import pytest
from nbformat.v4 import new_code_cell, new_notebook
from running import engine
from situations.notebooks import ALL, Situation

import workbench as wb
from workbench.cli import main
from workbench.snapshot import read_snapshot
from workbench.store import Store


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    """One store for all of them, with a living engine."""
    found = Store(tmp_path_factory.mktemp("situations") / "store")
    with engine(found, workers=2):
        yield found


@pytest.mark.parametrize("situation", ALL, ids=lambda one: one.name)
def test_a_notebook_is_executed_trained_snapshotted_and_replayed(situation: Situation, store, tmp_path, capsys):
    folder = tmp_path / situation.folder
    folder.mkdir(exist_ok=True)
    put(folder, situation.files)
    notebook = folder / "notebook.ipynb"
    execute(situation, notebook, store)
    exp = wb.open(situation.name, store=store)
    assert exp.state == "completed"
    assert exp.best.step == 4
    snapshot = read_snapshot(store, exp.spec.snapshot)
    assert [cell["source"] for cell in snapshot["cells"]["cells"]] == situation.sources
    put(folder, situation.later)
    code = main(["--store", str(store.root), "replay", situation.name])
    said = capsys.readouterr().out
    assert code == 0, said
    assert said.splitlines()[-1].startswith(f"{situation.name}-replay@1: identical"), said


def put(folder: Path, files: dict[str, str]) -> None:
    """Write files, named from the notebook's folder."""
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def execute(situation: Situation, notebook: Path, store: Store) -> None:
    """Execute the notebook in a real kernel, whose train cell waits for its result."""
    node = new_notebook(
        cells=[new_code_cell(source) for source in situation.sources],
        metadata={"kernelspec": {"name": "python3", "display_name": "Python 3"}},
    )
    nbformat.write(node, notebook)
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("WORKBENCH_", "JPY_"))}
    surroundings = {**kept, "WORKBENCH_HOME": str(store.root), "JPY_SESSION_NAME": str(notebook)}
    notebook_kernel.execute(node, notebook.parent, timeout=60, env=surroundings)
