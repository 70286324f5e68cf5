"""Which of the experiments with one content is shown again: running, failed, stopped, deleted, older and moved ones."""

import dataclasses
import os
import shutil
import sys
import types

import pytest
from running import ended, engine, until
from same_world import World, begin, inside, write

from workbench import asked
from workbench.asking import ask
from workbench.compare.same import Now, standing
from workbench.errors import BadOption
from workbench.experiment.versions import changes
from workbench.records import Searcher
from workbench.store.owner.trust import mark, trust
from workbench.store.series import Series

#: It reads what its configuration says, and computed names tell no one.
READS = """
{space}
total = sum(float(line) for name in {names} for line in open("{folder}" + "/" + name))
for epoch in trial.steps():
    trial.report(score=total)
    {turn}
"""


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    found = World(tmp_path_factory.mktemp("twins"))
    with inside(found.folder), engine(found.store, workers=2):
        yield found


def cell(folder, names=("train.csv",), space="", turn=""):
    return READS.format(space=space, names=names, folder=folder, turn=turn)


def test_where_an_older_one_fits_again_that_one_is_shown(world):
    text = cell("back")
    write(world.path("back/train.csv"), "1\n1\n")
    first = world.train(world.draft("back", text))
    write(world.path("back/train.csv"), "1\n1\n1\n1\n")
    made = world.draft("back", text)
    assert (made.twin, made.former, made.version) == (None, first.id, 2)
    second = world.train(made)
    assert changes(world.store, first, second) == ["changed since @1: back/train.csv (content)"]
    assert world.draft("back", text).twin == second.id
    write(world.path("back/train.csv"), "1\n1\n")
    assert world.draft("back", text).twin == first.id


def test_same_shows_the_former_one_and_again_trains_anew(world):
    text = cell("asked")
    write(world.path("asked/train.csv"), "1\n")
    first = world.train(world.draft("asked", text))
    write(world.path("asked/train.csv"), "2\n")
    made = world.draft("asked", text)
    assert made.shown(again=False, same=True) == first.id
    assert str(made.standing) == "changed since: asked/train.csv (content)"
    assert made.shown(again=True, same=False) is made.shown(again=False, same=False) is None
    with pytest.raises(
        BadOption, match=r"--again retrains, and --same shows what was trained before\. Expected only one"
    ):
        made.shown(again=True, same=True)
    write(world.path("asked/train.csv"), "1\n")
    assert world.draft("asked", text).shown(again=False, same=True) == first.id


def test_a_running_one_is_shown_while_what_it_has_read_is_as_it_was(world):
    text = cell("runs", turn="import os, time\n    while not os.path.exists('go'): time.sleep(0.01)")
    write(world.path("runs/train.csv"), "1\n")
    made = world.draft("runs", text)
    assert made.former is None
    spec = begin(made)
    assert world.draft("runs", text).twin == spec.id  # it waits, or has just begun
    path = world.store.experiment(spec.id).series

    def read():
        with Series.read(path) as series:
            files = (series.meta().get("used") or {}).get("files") or {}
            return files and all("digest" in file for file in files.values())

    until(lambda: path.exists() and read(), 60, "the first leg's word of what it reads")
    assert world.draft("runs", text).twin == spec.id
    write(world.path("runs/train.csv"), "2\n")
    made = world.draft("runs", text)
    assert (made.twin, made.former) == (None, spec.id)
    write(world.path("go"), "")
    assert ended(world.store, spec) == "completed"


#: How training reads a file, and then waits in its set-up, when no digest is known yet.
READING = {
    "its code": "rows = open('early.csv').read()\nwait()",
    "its code, while it trains": "rows = ''",
    "a process of its own": "rows = multiprocessing.get_context('fork').Pool(1).map(read, ['early.csv'])[0]\nwait()",
    "a cached function": "def load(salt):\n    return read('early.csv')\nrows = trial.cached(load, {salt!r})\nwait()",
}
WAITS = """
import multiprocessing, os, time
def read(path):
    with open(path) as file:
        return file.read()
def wait():
    open('opened', 'w').close()
    while not os.path.exists('go'):
        time.sleep(0.01)
{reading}
for epoch in trial.steps():
    if not rows:
        rows = read('early.csv')
        wait()
    trial.report(score=float(rows))
"""


def changed_when_opened(world, draft, path):
    """Train it, and change the file at ``path`` when the set-up has opened it, and waits."""
    for name in ("go", "opened"):
        world.path(name).unlink(missing_ok=True)
    spec = begin(draft)
    until(world.path("opened").exists, 60, "its reading")
    write(world.path(path), "2\n")
    write(world.path("go"), "")
    assert ended(world.store, spec) == "completed"
    return spec


def test_one_of_many_files_of_a_folder_changes_just_after_training_has_opened_it(world):
    for number in range(40):
        write(world.path(f"early/{number}.txt"), "1\n")
    reading = "rows = sum(float(read(f'early/{number}.txt')) for number in range(40))\nwait()"
    text = WAITS.format(reading=reading)
    changed_when_opened(world, world.draft("many", text), "early/7.txt")
    made = world.draft("many", text)
    assert made.twin is None
    assert "early/ (changed while it trained)" in str(made.standing)
    assert world.train(made).id == world.draft("many", text).twin


@pytest.mark.parametrize("way", READING)
def test_a_file_that_changes_just_after_training_has_opened_it_is_no_longer_the_one_it_read(world, way):
    write(world.path("early.csv"), "1\n")
    text = WAITS.format(reading=READING[way].format(salt=way))
    spec = changed_when_opened(world, world.draft("early", text), "early.csv")
    made = world.draft("early", text)
    assert (made.twin, made.former) == (None, spec.id)
    assert "early.csv (changed while it trained)" in str(made.standing)
    world.train(made)
    assert world.draft("early", text).twin not in (None, spec.id)


def test_one_that_failed_for_want_of_a_file_is_trained_again_once_the_file_is_there(world):
    text = cell("missing")
    world.path("missing").mkdir()
    failed = world.train(world.draft("missing", text), "failed")
    assert world.draft("missing", text).twin == failed.id
    write(world.path("missing/train.csv"), "1\n")
    made = world.draft("missing", text)
    assert made.twin is None
    assert str(made.standing) == "changed since: missing/train.csv (was not there)"
    world.train(made)


def test_one_that_was_imported_does_not_count_as_trained_before_it_is_trusted(world):
    text = cell("imported")
    write(world.path("imported/train.csv"), "1\n")
    spec = world.train(world.draft("imported", text))
    mark(world.store, spec.id)
    made = world.draft("imported", text)
    assert (made.twin, made.former, made.version) == (None, None, 2)
    assert made.shown(again=False, same=True) is None
    trust(world.store, spec.id)
    assert world.draft("imported", text).twin == spec.id


def test_files_of_all_trials_count(world):
    text = cell("union", names='(("a.csv",) if x < 0.5 else ("b.csv",))', space="x = choice(0.0, 1.0)")
    for name in ("a.csv", "b.csv"):
        write(world.path(f"union/{name}"), "1\n")
    spec = world.train(world.draft("union", text, trials=2, searcher=Searcher("grid")))
    for name in ("a.csv", "b.csv"):
        write(world.path(f"union/{name}"), "2\n")
        assert str(standing(world.store, spec.id, Now.here())) == f"changed since: union/{name} (content)"
        write(world.path(f"union/{name}"), "1\n")
    assert standing(world.store, spec.id, Now.here()).holds


def test_a_stopped_one_is_shown_and_a_deleted_one_is_not(world):
    text = cell("gone", turn="import os, time\n    while not os.path.exists('never'): time.sleep(0.01)")
    write(world.path("gone/train.csv"), "1\n")
    spec = begin(world.draft("gone", text))
    until(world.store.experiment(spec.id).series.exists, 60, "its start")
    ask(world.store, asked.Stop(experiment=spec.id, trial=None))
    assert ended(world.store, spec) == "stopped"
    assert world.draft("gone", text).twin == spec.id
    ask(world.store, asked.Delete(experiment=spec.id))
    made = world.draft("gone", text)
    assert (made.twin, made.former) == (None, None)


def test_a_folder_that_moved_is_the_same_and_a_change_in_it_is_seen(world, tmp_path):
    text = cell("moves")
    write(world.path("moves/train.csv"), "1\n1\n")
    spec = world.train(world.draft("moves", text))
    there = tmp_path / "elsewhere" / "project"
    shutil.copytree(world.folder, there, symlinks=True, ignore=shutil.ignore_patterns(".workbench"))
    with inside(there):
        made = world.draft("moves", text)
        assert (made.twin, made.standing.unchecked) == (spec.id, ())
        write(there / "moves/train.csv", "3\n3\n")
        assert str(world.draft("moves", text).standing) == "changed since: moves/train.csv (content)"
        (there / "moves/train.csv").unlink()
        made = world.draft("moves", text)
        assert made.standing.not_checked == "not checked: moves/train.csv (it is in the folder of before only)"


def test_what_cannot_be_checked_is_said(world):
    text = cell("said", names=("train.csv", "large.csv"))
    write(world.path("said/train.csv"), "1\n")
    large = world.path("said/large.csv")
    large.write_text("2\n" + "0" * (1 << 26) + "\n")
    spec = world.train(world.draft("said", text))
    assert standing(world.store, spec.id, Now.here()).unchecked == ()
    copies = world.train(world.draft("copies", cell("said", turn="dict(__import__('os').environ)")))
    words = ("variables that it took from a copy of os.environ",)
    assert standing(world.store, copies.id, Now.here()).unchecked == words
    os.utime(large, (1, 1))
    found = standing(world.store, spec.id, Now.here())
    assert str(found) == ("the same content as before; not checked: said/large.csv (samples of it are as they were)")
    world.path("said/train.csv").unlink()
    world.path("said/train.csv").symlink_to("train.csv")  # it leads to itself
    large.unlink()
    found = standing(world.store, spec.id, Now.here())
    assert [str(one) for one in found.differences] == ["said/large.csv (gone)"]
    assert found.unchecked == ("said/train.csv (too many levels of symbolic links)",)
    now = Now.here()
    elsewhere = dataclasses.replace(now, host="another")
    assert standing(world.store, spec.id, elsewhere).unchecked[1] == f"said/large.csv (on {now.host})"


def test_packages_of_other_cells_count_only_where_training_uses_them(world, monkeypatch):
    write(world.path("others/train.csv"), "1\n")
    text = cell("others")
    spec = world.train(world.draft("others", f"import tokenizers\n{text}"))
    words = ("files that tokenizers may have read unseen",)
    assert standing(world.store, spec.id, Now.here()).unchecked == words
    # Another cell has imported it since: a new forkserver imports it, and what was imported for this folder before.
    monkeypatch.setitem(sys.modules, "transformers", types.ModuleType("transformers"))
    spec = world.train(world.draft("after", text))
    assert "transformers" in spec.training.preload
    assert standing(world.store, spec.id, Now.here()).unchecked == ()


def test_an_experiment_of_an_older_release_is_shown_and_what_is_not_known_is_said(world):
    text = cell("older")
    write(world.path("older/train.csv"), "1\n")
    spec = world.train(world.draft("older", text))
    with Series.open(world.store.experiment(spec.id).series) as series:
        series.put_meta("used", None)
        series.flush()
    made = world.draft("older", text)
    assert made.twin == spec.id
    assert made.standing.not_checked == (
        "not checked: the packages, variables and settings that it used (an older release did not record them)"
    )
    write(world.path("older/train.csv"), "2\n")
    assert str(world.draft("older", text).standing).startswith("changed since: older/train.csv (content); not checked")


def test_code_that_changed_is_told_with_what_changed_around_it(world):
    write(world.path("both/train.csv"), "1\n")
    first = world.train(world.draft("both", cell("both")))
    write(world.path("both/train.csv"), "2\n")
    made = world.draft("both", cell("both") + "print(total)\n")
    assert (made.twin, made.former) == (None, None)
    assert changes(world.store, first, made.spec(None)) == [
        "changed since @1: 1 line of code",
        "both/train.csv (content)",
    ]


#: What is read in a copied package, and where: the file, its content for a value, and the expression.
IN_A_PACKAGE = {
    "beside its code": ("gain.yaml", "{}\n", "kit.read()"),
    "beside its code, in a cached function": ("gain.yaml", "{}\n", "trial.cached(kit.read)"),
    "a module that is imported by a computed name": ("plugin.py", "GAIN = {}\n", "kit.load('plu' + 'gin').GAIN"),
    "one that a cached function imports": ("plugin.py", "GAIN = {}\n", "trial.cached(kit.gain, 'plu' + 'gin')"),
    "names in a folder": ("parts/{}", "", "kit.most()"),
}  # fmt: skip
KIT = """
import importlib
from pathlib import Path
here = Path(__file__).parent
def read():
    return float((here / "gain.yaml").read_text())
def load(name):
    return importlib.import_module(f"{__name__}.{name}")
def gain(name):
    return load(name).GAIN
def most():
    return max(float(path.name) for path in (here / "parts").iterdir())
"""


@pytest.mark.parametrize("what", IN_A_PACKAGE)
def test_what_has_changed_in_a_package_is_trained_as_it_is_now(world, what):
    file, text, expression = IN_A_PACKAGE[what]
    package = f"kit{[*IN_A_PACKAGE].index(what)}"
    name = package.replace("kit", "kits")
    write(world.path(f"{package}/__init__.py"), KIT)
    cell = f"import {package} as kit\nfor epoch in trial.steps():\n    trial.report(score={expression})\n"

    def trained(value):
        write(world.path(f"{package}/{file.format(value)}"), text.format(value))
        made = world.draft(name, cell)
        assert made.twin is None
        spec = world.train(made)
        with Series.read(world.store.experiment(spec.id).series) as series:
            [trial] = series.trials()
        assert trial["value"] == value
        return spec

    first, second, third = trained(1), trained(2), trained(3)
    assert changes(world.store, first, second)
    assert changes(world.store, second, third)
    assert world.draft(name, cell).twin == third.id


#: How training asks for the names of files: the cell's code, and what is said of a file that comes.
ASKING = {
    "a module beside the notebook does": (
        "import nearby\nvalue = nearby.most()",
        "*.csv (new: c.csv)",
    ),
    "a loader's worker does": (
        """
import torch, glob
class Rows(torch.utils.data.IterableDataset):
    def __iter__(self):
        yield from (float(open(name).read()) for name in sorted(glob.glob("*.csv")))
value = max(float(row) for row in torch.utils.data.DataLoader(Rows(), batch_size=None, num_workers=1))""",
        "*.csv (new: c.csv)",
    ),
    "a cached function does": (
        """
import glob
def load():
    return max(float(open(name).read()) for name in glob.glob("*.csv"))
value = trial.cached(load)""",
        "(new: c.csv)",
    ),
    "of all that is there, it reads some": (
        "import os\nvalue = max(float(open(name).read()) for name in os.listdir('.') if name.endswith('.csv'))",
        "* (new: c.csv)",
    ),
}
NEARBY = """
from pathlib import Path
def most():
    return max(float(path.read_text()) for path in Path(__file__).parent.glob("*.csv"))
"""


def test_names_beside_a_module_are_those_of_its_folder_where_other_modules_come_from_elsewhere(world, monkeypatch):
    for name in ("a.csv", "b.csv", "elsewhere/other.csv"):
        write(world.path(name), "1\n")
    world.path("c.csv").unlink(missing_ok=True)
    write(world.path("nearby.py"), NEARBY)
    # Its name comes first, so that its folder is the first one of the snapshot.
    write(world.path("elsewhere/a_module.py"), "GAIN = 1\n")
    monkeypatch.syspath_prepend(str(world.path("elsewhere")))
    text = "import a_module, nearby\nfor epoch in trial.steps():\n    trial.report(score=nearby.most())\n"
    spec = world.train(world.draft("beside", text))
    assert world.draft("beside", text).twin == spec.id
    write(world.path("elsewhere/more.csv"), "2\n")
    assert world.draft("beside", text).twin == spec.id
    write(world.path("c.csv"), "3\n")
    made = world.draft("beside", text)
    assert made.twin is None
    assert "*.csv (new: c.csv)" in str(made.standing)


@pytest.mark.parametrize("what", ASKING)
def test_a_file_that_comes_counts_however_training_asks_for_its_name(world, what):
    code, words = ASKING[what]
    for name in ("a", "b"):
        write(world.path(f"{name}.csv"), "1\n")
    world.path("c.csv").unlink(missing_ok=True)
    world.path("plot.png").unlink(missing_ok=True)
    write(world.path("nearby.py"), NEARBY)
    name = f"asks{[*ASKING].index(what)}"
    loop = "for epoch in trial.steps():\n    trial.report(score=float(value))\n    open('out.log', 'a').write('x')\n"
    # The second one may find what the first one has kept.
    for text in (f"{code}\n{loop}value = {version}\n" for version in range(2)):
        spec = world.train(world.draft(name, text))
        assert world.draft(name, text).twin == spec.id
        write(world.path("plot.png"), "")
        assert world.draft(name, text).twin == spec.id
        write(world.path("c.csv"), "3\n")
        made = world.draft(name, text)
        assert made.twin is None
        assert words in str(made.standing)
        world.path("c.csv").unlink()


#: How training asks whether ``pretrained.pt`` is there.
EXISTS = {
    "os.path.exists": "import os\nis_there = os.path.exists('pretrained.pt')",
    "os.path.isfile, absolute": "import os\nis_there = os.path.isfile(os.path.abspath('pretrained.pt'))",
    "Path.exists": "from pathlib import Path\nis_there = Path('pretrained.pt').exists()",
    "os.access": "import os\nis_there = os.access('pretrained.pt', os.R_OK)",
    "os.stat": """
import os
is_there = True
try:
    os.stat('pretrained.pt')
except OSError:
    is_there = False""",
    "a project module does": "from finds import is_there",
    "a loader's worker does": """
import os, torch
class Rows(torch.utils.data.IterableDataset):
    def __iter__(self):
        yield float(os.path.exists('pretrained.pt'))
is_there = max(float(row) for row in torch.utils.data.DataLoader(Rows(), batch_size=None, num_workers=1))""",
}
ONCE = "for epoch in trial.steps():\n    trial.report(score=float(is_there))\n"


@pytest.mark.parametrize("how", EXISTS)
def test_a_file_that_training_asks_for_counts_whether_it_is_there(world, how):
    file, name = world.path("pretrained.pt"), f"exists{[*EXISTS].index(how)}"
    write(world.path("finds.py"), "import os\nis_there = os.path.exists('pretrained.pt')\n")
    file.unlink(missing_ok=True)
    text = f"{EXISTS[how]}\n{ONCE}"
    absent = world.train(world.draft(name, text))
    assert world.draft(name, text).twin == absent.id
    write(file, "1\n")
    made = world.draft(name, text)
    assert (made.twin, str(made.standing)) == (None, "changed since: pretrained.pt (was not there)")
    there = world.train(made)
    write(file, "another content is not read\n")
    assert world.draft(name, text).twin == there.id
    file.unlink()
    assert world.draft(name, text).twin == absent.id
    assert standing(world.store, there.id, Now.here()).differs == "pretrained.pt (gone)"


#: What is there only once training has made it.
CACHES = {
    "text": "if not os.path.exists(name):\n    open(name, 'w').write('1')\nvalue = float(open(name).read())",
    "NumPy": """
import numpy as np
if not os.path.exists(name + ".npy"):
    np.save(name + ".npy", np.ones(1))
value = np.load(name + ".npy")[0]""",
    "torch": """
import torch
if not os.path.exists(name):
    torch.save(torch.ones(1), name)
value = torch.load(name)""",
    "a folder": "os.path.isdir(name) or os.makedirs(name + '/deep')\nopen(name + '/deep/x', 'w')\nvalue = 1",
    "a new name": """
if not os.path.exists(name):
    open(f"{name}.{os.getpid()}", "w").write("1")
    os.replace(f"{name}.{os.getpid()}", name)
value = float(open(name).read())""",
    "what it removes": "if os.path.exists('removed'):\n    os.remove('removed')\nvalue = 1",
}


@pytest.mark.parametrize("what", CACHES)
def test_what_training_makes_or_removes_counts_neither_as_missing_nor_as_gone(world, what):
    name = f"cache{[*CACHES].index(what)}"
    write(world.path("removed"), "")
    text = f"import os\nname = '{name}'\n{CACHES[what]}\n{ONCE.replace('is_there', 'value')}"
    spec = world.train(world.draft(name, text))
    assert world.path("removed").exists() == (what != "what it removes")
    for _ in range(2):
        again = world.draft(name, text)
        assert again.twin == spec.id, str(again.standing)
        world.path("removed").unlink(missing_ok=True)


def test_what_one_trial_makes_and_another_asks_for_is_no_change(world):
    makes = (
        "value = x\nif x > 0.5:\n    open('of_another', 'w').close()\nelif os.path.exists('of_another'):\n    value = 2"
    )
    text = f"import os\nx = choice(0.0, 1.0)\n{makes}\n{ONCE.replace('is_there', 'value')}"
    spec = world.train(world.draft("together", text, trials=2, searcher=Searcher("grid")))
    for _ in range(2):
        again = world.draft("together", text, trials=2, searcher=Searcher("grid"))
        assert again.twin == spec.id, str(again.standing)
        world.path("of_another").unlink(missing_ok=True)
