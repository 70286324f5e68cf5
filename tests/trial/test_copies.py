"""A trained trial is loaded with the project's modules that it was trained with, whatever this process has imported."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest
from running import engine

import workbench as wb
from workbench.experiment import Experiment
from workbench.store import Store

NET = """
from parts_of_net import FACTOR


class Net:
    def __init__(self):
        self.weight = 0.0

    def __call__(self, x):
        return self.weight * x * FACTOR
"""
PARTS = "FACTOR = 1\n"


def train(trial, lr):
    import netm

    net = netm.Net()
    for _ in trial.steps():
        net.weight += lr
        trial.report(score=net(1))


def breaks(trial, lr):
    import netm

    if os.environ.get("BREAKS"):
        raise LookupError("the set-up breaks")
    net = netm.Net()
    for _ in trial.steps():
        net.weight += lr
        trial.report(score=net(1))


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    store = Store(tmp_path_factory.mktemp("copies") / "store")
    with engine(store, workers=1):
        yield store


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The working folder, with a module that imports another; nothing of it is imported before or after."""
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "netm.py").write_text(NET)
    (folder / "parts_of_net.py").write_text(PARTS)
    monkeypatch.chdir(folder)
    monkeypatch.syspath_prepend(str(folder))
    yield folder
    forget()


def forget() -> None:
    for name in ("netm", "parts_of_net"):
        sys.modules.pop(name, None)
    importlib.invalidate_caches()


def trained(store: Store, name: str, function=train) -> Experiment:
    exp = wb.Experiment(
        name,
        function,
        space={"lr": wb.uniform(0.5, 1)},
        goal=wb.maximize("score"),
        scheduler=wb.All(max_steps=2),
        trials=1,
        store=store,
    )
    exp.start().wait(60)
    assert exp.state == "completed", exp.best
    return exp


def imported() -> tuple[ModuleType, dict[str, ModuleType], list[str]]:
    """The user's module, and what the process has of modules of the project and of the search path."""
    import netm

    return netm, {name: sys.modules[name] for name in ("netm", "parts_of_net")}, [*sys.path]


def test_with_unchanged_modules_a_loaded_object_is_of_the_users_own_class(store: Store, project: Path) -> None:
    netm, modules, path = imported()
    exp = trained(store, "same")
    net = exp.best.load().net
    assert type(net) is netm.Net
    assert net(1) == exp.best.value
    assert imported()[1:] == (modules, path)
    (project / "netm.py").write_text(f"# a comment changes no code\n{NET}")
    assert type(exp.best.load().net) is netm.Net


def test_an_edited_module_is_loaded_as_it_was(store: Store, project: Path) -> None:
    netm, modules, path = imported()
    exp = trained(store, "edited")
    (project / "netm.py").write_text(NET.replace("* FACTOR", "* 1000"))
    with pytest.warns(UserWarning, match=r"^netm\.py has changed since edited@1 was trained: load uses it as it was"):
        assert exp.best.load().net(1) == exp.best.value
    importlib.reload(netm)
    with pytest.warns(UserWarning, match=r"^netm\.py has changed since") as told:
        net = exp.best.load().net
    assert [one.filename for one in told] == [__file__]
    assert net(1) == exp.best.value
    assert netm.Net is not type(net)
    assert imported()[1:] == (modules, path)


def test_what_a_module_imports_is_loaded_as_it_was_as_well(store: Store, project: Path) -> None:
    imported()
    exp = trained(store, "parts")
    (project / "parts_of_net.py").write_text("FACTOR = 1000\n")
    forget()
    netm, modules, path = imported()
    with pytest.warns(UserWarning, match=r"^parts_of_net\.py has changed since parts@1"):
        one = exp.best.load().net
    with pytest.warns(UserWarning, match=r"^parts_of_net\.py has changed since parts@1"):
        other = exp.best.load().net
    assert one(1) == exp.best.value
    assert type(one) is type(other)
    assert netm.Net()(1) == 0
    assert sys.modules["parts_of_net"].FACTOR == 1000
    assert imported()[1:] == (modules, path)


def test_a_module_that_is_older_here_than_in_training(store: Store, project: Path) -> None:
    """Trials use the file as it is on the disk; this process imported it before it was edited."""
    netm, *_ = imported()
    (project / "netm.py").write_text(NET.replace("* FACTOR", "* FACTOR * 3"))
    exp = trained(store, "older")
    with pytest.warns(UserWarning, match=r"^this process has another netm\.py than older@1 was trained with"):
        net = exp.best.load().net
    assert net(1) == exp.best.value
    assert type(net) is not netm.Net


def test_a_fresh_process_in_another_folder_with_modules_of_the_same_names(
    store: Store, project: Path, tmp_path: Path
) -> None:
    imported()
    exp = trained(store, "fresh")
    other = tmp_path / "other"
    other.mkdir()
    (other / "netm.py").write_text(NET.replace("* FACTOR", "* 1000"))
    (other / "parts_of_net.py").write_text(PARTS)
    code = (
        "import sys, workbench as wb; import netm\n"
        f"exp = wb.open('fresh', store={str(store.root)!r})\n"
        "print(exp.best.load().net(1)); print(netm.Net.__call__.__code__.co_filename)\n"
    )
    (other / "script.py").write_text(code)

    def run(folder: Path) -> subprocess.CompletedProcess[str]:
        env = {**os.environ, "PYTHONPATH": str(Path(wb.__file__).parent.parent)}
        command = [sys.executable, str(other / "script.py")]
        return subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, timeout=60, check=False)

    done = run(other)
    assert done.stdout.split() == [str(exp.best.value), str(other / "netm.py")], done.stderr
    assert "this process has another netm.py than fresh@1 was trained with" in done.stderr
    # A process that has none at all uses the copies, and needs no warning.
    for file in (*project.glob("*.py"), *other.glob("*net*.py")):
        file.unlink()
    (other / "script.py").write_text(code.replace("; import netm", "").partition("; print(netm")[0])
    done = run(other)
    assert (done.stdout.split(), done.stderr) == ([str(exp.best.value)], "")


def test_the_users_modules_are_back_after_an_error_in_the_set_up(
    store: Store, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, modules, path = imported()
    exp = trained(store, "broken", breaks)
    (project / "netm.py").write_text(NET.replace("* FACTOR", "* 1000"))
    monkeypatch.setenv("BREAKS", "1")
    with pytest.warns(UserWarning, match="has changed"), pytest.raises(LookupError, match="the set-up breaks"):
        exp.best.load()
    assert imported()[1:] == (modules, path)
    monkeypatch.delenv("BREAKS")
    with pytest.warns(UserWarning, match="has changed"):
        assert exp.best.load().net(1) == exp.best.value


def test_a_warning_that_is_an_error_leaves_everything_as_it_was(store: Store, project: Path) -> None:
    _, modules, path = imported()
    exp = trained(store, "strict")
    (project / "netm.py").write_text(NET.replace("* FACTOR", "* 1000"))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(UserWarning, match="has changed"):
            exp.best.load()
    assert imported()[1:] == (modules, path)
    assert Path.cwd() == project
