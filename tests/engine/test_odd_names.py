"""Names and texts that are not UTF-8: files of older systems have such names, and errors quote them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from running import engine

import workbench as wb
from workbench.errors import TrialFailed
from workbench.store import Store

#: A name as it was written before UTF-8, and as Python has it.
NAME = os.fsdecode(b"caf\xe9.txt")
LR = wb.uniform(0.0, 1.0)
CHOICE = wb.choice(NAME, "plain.txt")


@pytest.fixture(params=["project", os.fsdecode(b"projet\xe9")])
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Iterator[Store]:
    """A store with an engine, in a folder whose data has such a name; and in one that has such a name itself."""
    folder = tmp_path / request.param
    (folder / "data").mkdir(parents=True)
    monkeypatch.chdir(folder)  # training names its files relative to the folder, as in a notebook
    (folder / "data" / NAME).write_text("one")
    store = Store(folder / ".workbench").create()
    with engine(store, workers=1):
        yield store


def searched(store: Store, train: object, name: str) -> wb.Experiment:
    given = {"goal": wb.maximize("score"), "scheduler": wb.Hyperband(max_steps=3), "store": store}
    return wb.Experiment(name, train, **given).start()


def reads(trial: wb.Trial, lr: float = LR) -> None:
    size = 0
    for name in sorted(os.listdir("data")):
        size += len(Path("data", name).read_text())
    for _ in trial.steps():
        trial.report(score=size + lr, **{f"of {NAME}": 1.0})


def chooses(trial: wb.Trial, name: str = CHOICE) -> None:
    size = len(Path("data", name).read_text())
    for _ in trial.steps():
        trial.log(note=f"of {name}")
        trial.report(score=size)


def fails(trial: wb.Trial, lr: float = LR) -> None:
    for _ in trial.steps():
        trial.report(score=lr)
        raise ValueError(f"{NAME} is no picture")


def test_an_error_that_quotes_such_a_name_is_told(store: Store) -> None:
    failed = searched(store, fails, "fails")
    with pytest.raises(TrialFailed, match=r"caf\\udce9\.txt is no picture"):
        failed.wait(60)
    assert failed.state == "failed"


def test_such_a_file_is_recorded_compared_and_brought_back(store: Store) -> None:
    exp = searched(store, reads, "reads").wait(60)
    assert exp.state == "completed"
    assert r"of caf\udce9.txt" in exp.metrics
    assert exp.replay().verdict == "identical"
    exp.best.load()  # it would warn of a file that has changed
    again = searched(store, reads, "reads")
    assert again.id == exp.id, "nothing has changed"
    Path("data", NAME).write_text("another")
    with pytest.warns(UserWarning, match=r"caf\\udce9\.txt"):
        exp.best.load()
    changed = exp.replay()
    assert changed.verdict == "identical", str(changed)
    assert "changed since: 3 → 7 bytes" in str(changed)
    assert sorted(os.listdir("data")) == [NAME]
    assert Path("data", NAME).read_text() == "another"


def test_such_names_are_hyperparameters(store: Store, tmp_path: Path) -> None:
    Path("data", "plain.txt").write_text("two more")
    exp = searched(store, chooses, "chooses").wait(60)
    assert exp.state == "completed"
    shown = NAME.encode("utf-8", "backslashreplace").decode()
    assert set(exp.trials["name"]) <= {shown, "plain.txt"}
    assert {trial.configuration["name"] for trial in exp} <= {NAME, "plain.txt"}
    assert shown in set(exp.trials["name"])
    exp.export(str(tmp_path / "points.csv"))
    assert shown in (tmp_path / "points.csv").read_text()
    page = exp.publish(str(tmp_path / "published"), consent=lambda findings: True)
    assert shown in Path(page).read_text()
