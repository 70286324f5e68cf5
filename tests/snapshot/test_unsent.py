"""What a notebook sets in a module of its project is named, since training imports the file."""

import importlib
import json
import sys
import types

import pytest

from workbench.launch import Origin, draft
from workbench.records import Goal
from workbench.settled import settled
from workbench.snapshot.reading.cell import read_cell
from workbench.snapshot.unsent import unsent
from workbench.store import Store

TRAIN = "import settings_here as cfg\nfor epoch in trial.steps():\n    trial.report(score=cfg.rate)\n"
SETTINGS = """
import random, types
rate, table, sizes = 1, {}, [1, 2]
conf = types.SimpleNamespace(width=8, deep=types.SimpleNamespace(n=1))
draws = random.Random(1)
class Net:
    width = 1
def read(): ...
"""
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
    "setattr(cfg, 'rate', 2)": ["cfg.rate"],
    "for key, value in given.items():\n    setattr(cfg.Net, key, value)": ["cfg.Net.*"],
    "delattr(cfg, 'rate')": ["cfg.rate"],
    "Net.width = 7": ["Net.width"],  # a class of the module, which is imported as well
    "read.calls = 0": ["read.calls"],
    "ours.width = 7": [],  # a class of the notebook
    "made.width = 7": [],  # an object, which is captured
    "conf.width = 64": ["conf.width"],  # an object of the module, of which training has another
    "setattr(conf, 'width', 64)": ["conf.width"],
    "conf.deep.n += 1": ["conf.deep.n"],
    "vars(conf).update(width=64)": [],  # what a call returns is not known
    "sizes.append(3)": ["sizes"],
    "sizes[0] = 3": ["sizes"],
    "sizes += [3]": ["sizes"],
    "sizes = [3]": [],  # a name of the notebook, which is captured
    "width += 1": [],  # a number, which the module has as well
    "json.loads = own": [],  # only "another" and the project's module are reached
    "x = cfg.rate": [],
    "cfg = 1": [],
    "print(cfg.table['lr'])": [],
    "json.x = 1": [],
    "cfg.update(lr=1)": [],  # a function of the module
    "def later():\n    cfg.rate = 2": [],
}


@pytest.fixture
def namespace(tmp_path, monkeypatch):
    (tmp_path / "settings_here.py").write_text(SETTINGS)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.chdir(tmp_path)
    module = importlib.import_module("settings_here")
    (tmp_path / "trains.py").write_text("from settings_here import conf, sizes\nimport settings_here\n")
    (tmp_path / "within").mkdir()
    (tmp_path / "within" / "deep.py").write_text("rate = 1\n")
    importlib.import_module("trains")
    within = importlib.import_module("within.deep") and sys.modules["within"]
    ours = type("ours", (), {"__module__": "__main__"})
    own = types.FunctionType(compile("0", "", "eval"), {"__name__": "__main__"})
    found = {
        "cfg": module,
        "Net": module.Net,
        "read": module.read,
        "made": module.Net(),
        "conf": module.conf,
        "sizes": module.sizes,
        "width": module.rate,
        "ours": ours,
        "within": within,
    }
    yield {**found, "json": types.ModuleType("json"), "own": own}
    for name in ("settings_here", "trains", "within.deep", "within"):
        del sys.modules[name]


@pytest.mark.parametrize("text", SETS)
def test_what_a_cell_sets_in_a_module_that_training_imports_is_named(text, namespace):
    told = unsent(TRAIN, [text], namespace, ["settings_here"])
    assert told.partition(" was ")[0] == ", ".join(SETS[text])
    assert ("training imports settings_here.py as on the disk" in told) == bool(SETS[text])
    assert unsent(TRAIN, [text], namespace, ["another"]) == ""


def test_what_the_train_cell_sets_as_well_is_no_matter(namespace):
    assert unsent(f"cfg.rate = 3\n{TRAIN}", ["cfg.rate = 2"], namespace, ["settings_here"]) == ""


def test_a_module_that_another_one_imports_and_one_in_a_folder_without_an_init_are_named(namespace):
    assert unsent("trains.fit()", ["cfg.rate = 2"], namespace, ["trains"]).startswith("cfg.rate was set")
    assert "imports deep.py as" in unsent("x = within.deep.rate", ["within.deep.rate = 2"], namespace, ["within"])


def test_code_of_the_notebook_in_an_installed_module_is_named_and_other_values_are_not(namespace):
    module = namespace["json"]
    module.loads = namespace["own"]
    told = unsent("json.loads('')", ["json.loads = own", "json.indent = 2"], namespace, ["json"])
    assert (
        told
        == "json.loads was set in this notebook, and training imports json as on the disk: set it in the train cell"
    )
    assert unsent("json.loads('')", ["json.loads = own"], namespace, ["another"]) == ""
    module.loads = json.loads
    assert unsent("json.loads('')", ["json.loads = before"], namespace, ["json"]) == ""


def test_several_names_are_one_note(namespace):
    told = unsent(
        TRAIN, ["cfg.rate = 2\ncfg.table['a'] = 1", "cfg.x = 1; cfg.y = 2; cfg.z = 3"], namespace, ["settings_here"]
    )
    assert told.startswith("cfg.rate, cfg.table, cfg.x, cfg.y and 1 more were set in this notebook")


@pytest.mark.parametrize("magic", ["", "%%time\n", "%%capture out\n"])
@pytest.mark.parametrize("train", [TRAIN, TRAIN.partition("\n")[2]], ids=["imported there", "imported before"])
def test_a_draft_has_the_note(train, magic, namespace, tmp_path):
    read = read_cell(train, namespace)
    settings = settled(read, goal=Goal("score"), steps=(1, 2), scheduler="all", trials=1)
    cells = [{"source": source} for source in ("%%train\nx.y = 1", "%%bash\nx.y = 1", f"{magic}cfg.rate = 5")]
    made = draft(read, namespace, "probe", settings, Store(tmp_path / ".workbench").create(), Origin(cells=cells))
    assert any("cfg.rate was set in this notebook" in note for note in made.beside)


def test_no_property_of_an_object_is_asked():
    class Careful:
        @property
        def part(self):
            raise RuntimeError("not now")

    assert unsent("", ["careful.part.rate = 1"], {"careful": Careful()}, ()) == ""
