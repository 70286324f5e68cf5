"""Files that a trial read: loading it warns by name if they have changed since."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from running import engine

import workbench as wb
from workbench.experiment import Experiment
from workbench.store import Store


def train(trial, lr):
    with open("data.csv") as file:
        mean = sum(map(float, file)) / 3
    if os.path.exists("more.csv"):
        mean += float(Path("more.csv").read_text())
    weight = 0.0
    for _ in trial.steps():
        weight += lr
        Path("written.txt").write_text(f"{weight}")
        trial.report(score=weight * mean)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    store = Store(tmp_path_factory.mktemp("files") / "store")
    with engine(store, workers=1):
        yield store


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data.csv").write_text("1\n2\n3\n")
    return tmp_path


def trained(store: Store, name: str) -> Experiment:
    exp = wb.Experiment(
        name, train, space={"lr": wb.uniform(0.5, 1)}, goal=wb.maximize("score"), scheduler=wb.All(max_steps=2),
        trials=1, store=store,
    )  # fmt: skip
    exp.start().wait(60)
    assert exp.state == "completed"
    return exp


def test_loading_warns_of_a_changed_file_by_name_and_of_no_other(store: Store, folder: Path) -> None:
    exp = trained(store, "read")
    (folder / "written.txt").write_text("0")
    os.utime(folder / "data.csv", (1, 1))  # a new date does not count
    assert exp.best.load().mean == 2  # warnings are errors here
    (folder / "data.csv").write_text("100\n200\n300\n")
    with pytest.warns(UserWarning, match=r"^data\.csv has changed since read@1/t0000 was trained: ") as told:
        assert exp.best.load().mean == 200
    assert [one.filename for one in told] == [__file__]
    (folder / "data.csv").write_text("1\n2\n3\n")
    assert exp.best.load().mean == 2


def test_loading_warns_of_files_that_are_gone(store: Store, folder: Path) -> None:
    (folder / "more.csv").write_text("4")
    exp = trained(store, "gone")
    assert exp.best.load().mean == 6
    (folder / "more.csv").unlink()
    with pytest.warns(UserWarning, match=r"^more\.csv is gone since gone@1/t0000 was trained"):
        exp.best.load()
    (folder / "data.csv").write_text("100\n200\n300\n")
    with pytest.warns(UserWarning, match=r"^(data|more)\.csv, (data|more)\.csv have changed or are gone since"):
        exp.best.load()
