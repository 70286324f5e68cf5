"""What a notebook sets in a module of its project is named, since training imports the file."""

import importlib
import json
import sys

import pytest

from workbench.launch import Origin, draft, settled
from workbench.records import Goal
from workbench.snapshot.reading.cell import read_cell
from workbench.snapshot.unsent import unsent
from workbench.store import Store

TRAIN = "import settings_here as cfg\nfor epoch in trial.steps():\n    trial.report(score=cfg.rate)\n"
#: Executed cells, and what of the module they set.
SETS = {
    "cfg.rate = 2": ["cfg.rate"],
    "cfg.rate += 1": ["cfg.rate"],
    "cfg.table['lr'] = 1": ["cfg.table"],
    "cfg.table.update(lr=1)": ["cfg.table"],
    "cfg.Net.width = 7": ["cfg.Net.width"],
    "cfg.rate, other = 1, 2": ["cfg.rate"],
    "del cfg.rate": ["cfg.rate"],
    "cfg.gain = lambda: 2": ["cfg.gain"],
    "@cfg.register('my')\nclass My: ...": ["cfg.register"],
    "if cfg.rate:\n    cfg.rate = 3": ["cfg.rate"],
    "x = cfg.rate": [],
    "cfg = 1": [],
    "print(cfg.table['lr'])": [],
    "json.x = 1": [],
    "cfg.update(lr=1)": [],  # a function of the module
    "def later():\n    cfg.rate = 2": [],
}


@pytest.fixture
def namespace(tmp_path, monkeypatch):
    (tmp_path / "settings_here.py").write_text("rate = 1\ntable = {}\nclass Net:\n    width = 1\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.chdir(tmp_path)
    yield {"cfg": importlib.import_module("settings_here"), "json": json}
    del sys.modules["settings_here"]


@pytest.mark.parametrize("text", SETS)
def test_what_a_cell_sets_in_a_module_that_training_imports_is_named(text, namespace):
    told = unsent(TRAIN, [text], namespace, ["settings_here"])
    assert told.partition(" was ")[0] == ", ".join(SETS[text])
    assert ("training imports settings_here.py as on the disk" in told) == bool(SETS[text])
    assert unsent(TRAIN, [text], namespace, ["another"]) == ""


def test_what_the_train_cell_sets_as_well_is_no_matter(namespace):
    assert unsent(f"cfg.rate = 3\n{TRAIN}", ["cfg.rate = 2"], namespace, ["settings_here"]) == ""


def test_several_names_are_one_note(namespace):
    told = unsent(
        TRAIN, ["cfg.rate = 2\ncfg.table['a'] = 1", "cfg.x = 1; cfg.y = 2; cfg.z = 3"], namespace, ["settings_here"]
    )
    assert told.startswith("cfg.rate, cfg.table, cfg.x, cfg.y and 1 more were set in this notebook")


def test_a_draft_has_the_note(namespace, tmp_path):
    read = read_cell(TRAIN, namespace)
    settings = settled(read, goal=Goal("score"), steps=(1, 2), scheduler="all", trials=1)
    cells = [{"source": "import settings_here as cfg\ncfg.rate = 5"}]
    made = draft(read, namespace, "probe", settings, Store(tmp_path / ".workbench").create(), Origin(cells=cells))
    assert any("cfg.rate was set in this notebook" in note for note in made.beside)
