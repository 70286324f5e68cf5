"""What is imported ahead changes nothing: an import that leaves something behind is left to the runners."""

from __future__ import annotations

import json
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from trial.world import Server, points, said

from workbench.store.keeping.checkpoints import Checkpoints

#: What a package does while it is imported, by what is said of it.
LEAVES = {
    "the number of threads": "import threading; threading.Thread(target=threading.Event().wait, daemon=True).start()",
    "child processes": "import subprocess; child = subprocess.Popen(['sleep', '30'])",
    "open files": "kept = open(__file__)",
    "the working directory": "import os; os.chdir('/')",
    "sys.path": "import sys; sys.path.append('/somewhere')",
    "signal handlers": "import signal; signal.signal(signal.SIGUSR1, lambda *_: None)",
    "variables": "import os; os.environ['MINE'] = '1'",
    "hooks": "import sys; sys.excepthook = print",
    "filters of warnings": "import warnings; warnings.simplefilter('error')",
    "Python's random state": "import random; kept = random.random()",
    "NumPy's random state": "import numpy; kept = numpy.random.rand()",
    "settings": "import decimal; decimal.getcontext().prec = 5",
    "random.random": "import random; random.random = lambda: 0.5",
}


def ready(folder: Path, learned: list[str], secrets: tuple[str, ...] = (), **env: str) -> dict:
    """What a forkserver answers that is to import ``learned`` from ``folder``."""
    server = Server(("numpy",), learned=learned, secrets=secrets, PYTHONPATH=f"{folder}", **env)
    server.close()
    return server.ready


@pytest.mark.parametrize("what", LEAVES)
def test_a_package_that_leaves_something_behind_is_unfit(tmp_path, what):
    (tmp_path / "leaving.py").write_text(LEAVES[what])
    (tmp_path / "fine.py").write_text("import warnings; warnings.filterwarnings('ignore', message='a certain one')")
    told = ready(tmp_path, ["fine", "leaving"])
    assert (told["op"], told["package"]) == ("unfit", "leaving"), told
    assert what in told["why"]


def test_a_package_that_asks_for_a_secret_or_a_variable_is_told(tmp_path):
    (tmp_path / "asking.py").write_text("import os; token = os.environ.get('TOKEN'); size = os.environ.get('SIZE')")
    assert ready(tmp_path, ["asking"], ("TOKEN",))["why"].endswith("TOKEN, which is a secret")
    assert {"TOKEN", "SIZE"} <= set(ready(tmp_path, ["asking"])["looks_up"])


@pytest.fixture(scope="module")
def learned():
    """A forkserver that imports torch ahead."""
    server = Server((), learned=["torch"])
    yield server
    server.close()


@pytest.fixture(scope="module")
def empty():
    """One that imports nothing ahead."""
    server = Server(())
    yield server
    server.close()


def test_torch_is_fit_and_the_first_optimizer_is_free(experiment, learned, empty):
    assert learned.ready["op"] == "ready", learned.ready
    assert learned.ready["threads"] == 1
    text = "import torch\nfor epoch in trial.steps():\n    trial.report(score=torch.rand(()).item())"
    ahead = learned.runner().leg(experiment(text).order())
    late = empty.runner().leg(experiment(text).order())
    assert points(ahead) == points(late)
    assert ahead[-1]["reusable"], ahead[-1]["why"]
    assert not late[-1]["reusable"]


def test_packages_that_draw_while_they_are_imported_are_fit():
    """scikit-learn's metrics import rich, which draws."""
    server = Server(("numpy",), learned=["sklearn.metrics", "rich.console"])
    server.close()
    assert server.ready["op"] == "ready", server.ready
    assert not server.ready["failed"]


USES = """
{imports}
for epoch in trial.steps():
    trial.report(score=1.0)
"""


@pytest.mark.parametrize(
    ("imports", "used", "unused"),
    [
        ("", set(), {"alpha", "beta", "gamma"}),
        ("import beta.part", {"beta", "gamma"}, {"alpha"}),
        ("import importlib; importlib.import_module('alpha')", {"alpha", "beta", "gamma"}, set()),
        ("import pickle; pickle.loads(b'cgamma\\nvalue\\n.')", {"gamma"}, {"alpha", "beta"}),
    ],
)
def test_what_is_imported_ahead_counts_as_used_once_training_imports_it(tmp_path, experiment, imports, used, unused):
    """alpha imports beta, by a function of Python's own; beta imports gamma, which looks up a variable."""
    site = tmp_path / "site-packages"
    (site / "beta").mkdir(parents=True)
    (site / "alpha.py").write_text("import importlib; importlib.import_module('beta')")
    (site / "beta" / "__init__.py").write_text("import gamma")
    (site / "beta" / "part.py").write_text("")
    (site / "gamma.py").write_text("import os; value = os.environ.get('GAMMA')")
    server = Server(("alpha", "beta.part"), PYTHONPATH=str(site))
    told = server.runner().leg(experiment(USES.format(imports=imports)).order())
    server.close()
    [begun] = said(told, "begun")
    assert used <= set(begun["seen"]["packages"])
    assert not unused & set(begun["seen"]["packages"])
    assert ("GAMMA" in begun["seen"]["variables"]) == bool(used)


SHADOWS = """
    import sys, types
    sys.path[:0] = {before}
    import near, far
    from workbench.trial.process.ahead import let_go
    let_go({path}, sys.path)
    print("near" in sys.modules, "far" in sys.modules)
"""


def test_a_projects_file_comes_before_a_package_that_was_imported_ahead(tmp_path):
    project, site, after = (tmp_path / name for name in ("project", "site-packages", "after"))
    for folder, names in ((project, ["near"]), (site, ["near", "far"]), (after, ["far"])):
        folder.mkdir()
        for name in names:
            (folder / f"{name}.py").write_text("")
    path = [str(project), str(site), str(after)]
    script = textwrap.dedent(SHADOWS.format(before=json.dumps([str(site)]), path=json.dumps(path)))
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "True"]


def test_a_checkpoint_needs_no_torch_that_only_another_search_had_imported(experiment, learned, empty):
    cell = experiment("total = 0\nfor epoch in trial.steps():\n    total += 1\n    trial.report(score=total)\n")
    told = learned.runner().leg(cell.order(2))
    assert (told[-1]["outcome"], told[-1]["step"]) == ("reached", 2)
    [kept] = Checkpoints(cell.paths()).all()
    assert not [name for name in kept.manifest.files if name.startswith("tensors")]
    told = empty.runner().leg(cell.order(4, start=2))
    assert (told[-1]["outcome"], told[-1].get("metrics")) == ("completed", {"score": 4.0}), told
