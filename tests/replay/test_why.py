"""Why two trials differ: hybrids of both, trained by a real engine, down to the row that equals the baseline."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import nbformat
import pytest
from notebook_world import Notebook
from running import ended

import workbench as wb
from workbench.cli import main
from workbench.errors import BadOption
from workbench.records import Spec
from workbench.store import Store, requests

CELLS = (
    "import numpy as np\nX = np.linspace(0, 1, 24).reshape(8, 3)",
    "decay = 0.9",
    "def target(x):\n    return x.sum()",
)
TRAIN = """
lr = loguniform(1e-3, 0.3)
total = 0.0
for epoch in trial.steps():
    total = decay * total + lr * target(X) + X.std() + 0.01 * np.random.normal()
    trial.report(val_acc=total)
"""


def trained(store: Store, *cells: str, train: str = TRAIN, name: str = "digits", **settings) -> Spec:
    """An experiment of two trials of three steps, trained."""
    spec = Notebook(store, Path()).run(*cells).launch(train, name=name, steps=(3, 3), trials=2, **settings)
    requests.put(store, {"kind": "start", "experiment": spec.id})
    assert ended(store, spec) == "completed"
    return spec


@pytest.fixture(scope="module")
def base(store, folder) -> str:
    """The baseline's first trial."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        return f"{trained(store, *CELLS).id}/t0000"


def replaced(**texts: str) -> list[str]:
    return [texts.get(f"cell{number}", cell) for number, cell in enumerate(CELLS)]


def whats(found) -> list[str]:
    return [row.what for row in found.rows]


@pytest.mark.parametrize(
    ("cause", "cells", "settings"),
    [
        ("data", replaced(cell0=CELLS[0].replace("24", "30").replace("8,", "10,")), {}),
        ("configuration", replaced(cell1="decay = 0.5"), {}),
        ("configuration", CELLS, {"train": TRAIN.replace("0.3)", "0.1)")}),
        ("code", replaced(cell2=CELLS[2].replace("x.sum()", "x.sum() + 1")), {}),
        ("code", CELLS, {"train": TRAIN.replace("+ X.std()", "- X.std()")}),
        ("seeds", CELLS, {"seed": 7}),
    ],
)
def test_a_single_change_is_found_and_put_back(store, base, cause, cells, settings):
    spec = trained(store, *cells, **settings)
    found = wb.why(base, f"{spec.id}/t0000", store=store)
    # Another seed also gives another configuration: proposals come from it.
    assert whats(found) == ["baseline", "nothing", *(["configuration"] if cause == "seeds" else []), cause]
    assert found.explained
    assert found.rows[1].apart != 0.0
    assert found.rows[-1].apart == 0.0


def test_a_reported_time_is_no_difference_that_something_explains(store, folder):
    train = "import time\n" + TRAIN.replace("val_acc=total", "val_acc=total, at=time.time()")
    one, other = (trained(store, *cells, train=train) for cells in (CELLS, replaced(cell1="decay = 0.5")))
    found = wb.why(f"{one.id}/t0000", f"{other.id}/t0000", store=store)
    assert whats(found) == ["baseline", "nothing", "configuration"]
    assert found.explained
    [note] = [note for note in found.notes if "bit for bit" in note]
    assert note.startswith("configuration: val_acc is the same bit for bit, but not at ")
    assert found.rows[-1].others == ["at"]
    assert f"its val_acc equals that of {found.a} bit for bit" in found.words


def test_a_closure_that_holds_a_changed_value_is_put_back_with_the_code(store, folder):
    cells = ("def factory(n):\n    return lambda x: n * x", "n = 5", "X = [float(i) for i in range(n)]\nf = factory(n)")
    train = "lr = loguniform(1e-3, 0.3)\nfor epoch in trial.steps():\n    trial.report(val_acc=sum(map(f, X)))\n"
    one = trained(store, *cells, train=train, name="closure")
    other = trained(store, cells[0], "n = 6", cells[2], train=train, name="closure")
    found = wb.why(f"{one.id}/t0000", f"{other.id}/t0000", store=store)
    assert found.explained
    assert whats(found)[-1] == "code"


def test_all_at_once_are_put_back_one_after_the_other(store, base, folder):
    cells = replaced(
        cell0=CELLS[0].replace("24", "30").replace("8,", "10,"),
        cell1="decay = 0.5",
        cell2=CELLS[2].replace("x.sum()", "x.sum() + 1"),
    )
    spec = trained(store, *cells, train=TRAIN.replace("+ X.std()", "- X.std()"), seed=3)
    said: list[str] = []
    other = f"{spec.id}/t0001"
    found = wb.why(base, other, store=store, say=said.append)
    assert whats(found) == ["baseline", "nothing", "data", "configuration", "code", "seeds"]
    assert [row.parts_at for row in found.rows] == [None, 1, 1, 1, 1, None]
    assert found.explained
    assert found.cause in ("data", "configuration", "code", "seeds")
    assert len(said) == 6
    made = [store.read_spec_json(one)["puts_back"] for one in store.experiment_ids()]
    kept = sorted((one["back"] for one in made if one and one["b"].endswith(f"@{spec.version}/t0001")), key=len)
    assert kept == [["data"], ["data", "configuration"], ["data", "configuration", "code"],
                    ["data", "configuration", "code", "seeds"]]  # fmt: skip

    before = store.experiment_ids()
    assert main(["--store", str(store.root), "why", base, other, "--output", "answer.ipynb"]) == 0
    assert store.experiment_ids() == before  # nothing is trained twice
    notebook = nbformat.read("answer.ipynb", 4)
    nbformat.validate(notebook)
    assert "bit for bit" in notebook.cells[1].outputs[0]["data"]["text/plain"]


def test_a_library_is_put_back_by_its_own_folder(store, folder, monkeypatch):
    for version, factor in (("1.0", 1.0), ("2.0", 1.5)):
        place = folder / version / "site-packages"
        (place / f"augment-{version}.dist-info").mkdir(parents=True)
        (place / "augment.py").write_text(f"def augment(value):\n    return {factor} * value\n")
    train = TRAIN.replace("X.std()", "augment.augment(X.std())")
    made = []
    for version in ("1.0", "2.0"):
        with monkeypatch.context() as patch:
            patch.syspath_prepend(str(folder / version / "site-packages"))
            patch.delitem(sys.modules, "augment", raising=False)
            made.append(trained(store, *CELLS, "import augment", train=train, name="augmented"))
            patch.delitem(sys.modules, "augment", raising=False)
    found = wb.why(f"{made[0].id}/t0000", f"{made[1].id}/t0000", store=store)
    assert whats(found) == ["baseline", "nothing", "libraries"]
    assert found.rows[-1].words == "augment 1.0 → 2.0"
    assert found.explained
    # Where the old version is gone, it is said.
    (folder / "1.0/site-packages/augment-1.0.dist-info").rename(folder / "1.0/site-packages/augment-1.1.dist-info")
    found = wb.why(f"{made[0].id}/t0001", f"{made[1].id}/t0001", store=store)
    assert "augment 1.0 → 1.1; --env rebuild builds the recorded ones" in found.rows[-1].could_not


def test_nothing_is_built_before_libraries_are_known_to_differ(store, folder, monkeypatch):
    """Where only the machine differs, where everything is explained before, and where the recorded ones are here."""
    place = folder / "site-packages"
    (place / "augment-1.0.dist-info").mkdir(parents=True)
    monkeypatch.syspath_prepend(str(place))
    one = trained(store, *CELLS, name="built")
    other = trained(store, *replaced(cell1="decay = 0.5"), name="built")
    environment = store.snapshot(other.snapshot) / "environment.json"
    recorded = json.loads(environment.read_text())

    def why_now(**changes):
        environment.write_text(json.dumps({**recorded, **changes}))
        return wb.why(f"{one.id}/t0000", f"{other.id}/t0000", env="rebuild", store=store)

    machine = {**recorded["machine"], "processor": "another"}
    packages = {**recorded["distributions"], "augment": "2.0"}
    for changes in ({"machine": machine}, {"distributions": packages}, {"machine": machine, "distributions": packages}):
        found = why_now(**changes)
        assert found.explained
        assert found.notes[-1].startswith("libraries need not be restored")
        assert not store.environments.exists()
    # They have to be put back, and are here as they were recorded.
    seeded = trained(store, *CELLS, name="built", seed=5)
    environment = store.snapshot(seeded.snapshot) / "environment.json"
    environment.write_text(json.dumps({**recorded, "machine": machine, "distributions": packages}))
    found = wb.why(f"{one.id}/t0000", f"{seeded.id}/t0000", env="rebuild", store=store)
    assert whats(found)[-2:] == ["libraries", "seeds"]
    assert found.explained
    assert not store.environments.exists()
    # They are not here: now they are built, or it is said why they cannot be.
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    baseline = store.snapshot(one.snapshot) / "environment.json"
    baseline.write_text(json.dumps({**recorded, "distributions": {**recorded["distributions"], "augment": "3.0"}}))
    found = wb.why(f"{one.id}/t0001", f"{seeded.id}/t0001", env="rebuild", store=store)
    [step] = [row for row in found.rows if row.what == "libraries"]
    assert "the recorded environment cannot be built" in step.could_not[0]
    assert store.environments.exists()


def test_a_file_whose_bytes_are_gone_is_said(store, folder):
    train = TRAIN.replace("total = 0.0", "total = float(open('start.txt').read())")
    Path("start.txt").write_text("1.0\n")
    one = trained(store, *CELLS, train=train, name="started", keep_data=0)
    Path("start.txt").write_text("2.00\n")
    other = trained(store, *CELLS, train=train, name="started", keep_data=0)
    found = wb.why(f"{one.id}/t0000", f"{other.id}/t0000", store=store)
    assert found.rows[-1].what == "data"
    assert not found.explained
    assert "only the digest of start.txt (4 B) is kept: --keep-data off" in found.rows[-1].could_not[0]
    assert json.dumps(found.to_dict())
    assert main(["--store", str(store.root), "why", f"{one.id}/t0000", f"{other.id}/t0000", "--json"]) == 1


def test_what_makes_no_sense_is_refused(store, base):
    with pytest.raises(BadOption, match="was named twice"):
        wb.why(base, base, store=store)


def test_what_was_trained_with_other_files_is_trained_anew(store, folder):
    # The file's name stands in no source, so that no snapshot describes it: only the hybrid's own legs know of it.
    train = TRAIN.replace("total = 0.0", "total = float(open(f'part{trial.number}.txt').read())")

    def made(text: str, source: str = train) -> str:
        Path("part0.txt").write_text(text)
        Path("part1.txt").write_text(text)
        return f"{trained(store, *CELLS, train=source, name='parted', keep_data=0).id}/t0000"

    one, other = made("1.0\n"), made("2.0\n", train + "    0\n")
    Path("part0.txt").write_text("5.0\n")
    first = wb.why(one, other, store=store)
    assert not first.explained
    Path("part0.txt").write_text("1.0\n")
    again = wb.why(one, other, store=store)
    assert again.explained
    known = store.experiment_ids()
    assert wb.why(one, other, store=store).to_dict() == again.to_dict()
    assert store.experiment_ids() == known
