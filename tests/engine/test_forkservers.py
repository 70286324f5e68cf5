"""The daily loop: a project module is edited and trained, again and again. One forkserver serves all of it."""

from __future__ import annotations

import contextlib
import os
import re
import sys
import time
from pathlib import Path

import psutil
import pytest
from notebook_world import Notebook
from running import ended, engine, until

from workbench import launch
from workbench.records import Spec
from workbench.replay import replay
from workbench.store import Store, requests
from workbench.store.series import Series

#: Training says which version of the module it has, in the process itself and in those that it forks and spawns.
TRAIN = """
import time
at = time.time()
import multiprocessing
import daily
lr = uniform(0.0, 1.0)
with multiprocessing.get_context("fork").Pool(1) as pool:
    forked = pool.apply(daily.version)
with multiprocessing.get_context("spawn").Pool(1) as pool:
    spawned = pool.apply(daily.version)
for epoch in trial.steps():
    trial.report(val_acc=daily.version(), forked=forked, spawned=spawned, at=at)
"""
#: A package is imported where its name is not seen before it happens: one that takes long, and that the process which
#: launches does not bring along.
LATE = """
import importlib, time
lr = uniform(0.0, 1.0)
begun = time.monotonic()
late = importlib.import_module("on" + "nx")
took = time.monotonic() - begun
for epoch in trial.steps():
    trial.report(val_acc=late.TensorProto.FLOAT * lr, took=took)
"""


def edit(folder: Path, version: int) -> None:
    (folder / "daily.py").write_text(f"import numpy\n\ndef version():\n    return float(numpy.float64({version}))\n")
    sys.modules.pop("daily", None)


def trained(store: Store, spec: Spec) -> float:
    """Train it; the seconds from the request to the first line of its training code."""
    begun = time.time()
    requests.put(store, {"kind": "start", "experiment": spec.id})
    assert ended(store, spec) == "completed"
    return min(said(store, spec, "at")[0] or [0.0]) - begun


def said(store: Store, spec: Spec, *names: str) -> list[list[float]]:
    with Series.read(store.experiment(spec.id).series) as series:
        return [[value for _, name, *_, value, _ in series.points() if name == wanted] for wanted in names]


def forkservers(pid: int) -> list[psutil.Process]:
    """The forkservers below an engine, without what was forked from them."""
    found = {}
    for one in psutil.Process(pid).children(recursive=True):
        with contextlib.suppress(psutil.Error):  # it ends just now
            if "workbench.trial.process.forkserver" in " ".join(one.cmdline()):
                found[one.pid] = one
    return [one for one in found.values() if one.ppid() not in found]


def proportional(processes: list[psutil.Process]) -> float:
    """Megabytes that they hold, shared pages by parts, with all below them."""
    return (
        sum(below.memory_full_info().pss for one in processes for below in (one, *one.children(recursive=True))) / 1e6
    )


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    # What other tests have had imported is learned there.
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return tmp_path


def test_edited_versions_share_one_forkserver_and_each_trains_its_own(folder: Path) -> None:
    store = Store(folder / "store").create()
    notebook = Notebook(store, folder)
    specs, waited, memory = [], [], []
    with engine(store, workers=1) as process:
        for version in (1, 1, 2, 3, 4, 5):
            edit(folder, version)
            specs.append(notebook.launch(TRAIN, steps=(1, 1), trials=2, verify=False))
            waited.append(trained(store, specs[-1]))
            until(lambda: len(forkservers(process.pid)) == 1, what="a single forkserver")
            memory.append(proportional(forkservers(process.pid)))
        again = replay(store, f"{specs[0].label}/t0000").spec
        trained(store, again)
        for version, spec in [*enumerate(specs[1:], 1), (1, again)]:
            for values in said(store, spec, "val_acc", "forked", "spawned"):
                assert set(values) == {float(version)}
    assert memory[-1] < 1.2 * memory[1], memory
    assert min(waited[2:]) < 3 * waited[1], waited


def test_what_training_imports_late_is_there_after_some_legs_and_for_the_next_engine(folder: Path) -> None:
    store = Store(folder / "store").create()
    notebook = Notebook(store, folder)
    took = []
    for _ in range(2):
        spec = notebook.launch(LATE, steps=(1, 1), trials=30, verify=False)
        with engine(store, workers=1, HOME=os.environ.get("HOME", "/")):
            trained(store, spec)
        took.append(said(store, spec, "took")[0])
    first, *others = took[0]
    # As soon as the legs' set-ups have cost as much as another forkserver: it takes about as long as six of them.
    assert max(others[-5:]) < 0.1 * first, took
    assert max(took[1]) < 0.1 * first, took


def test_a_notebook_whose_project_imports_torch_has_it_imported_ahead(folder: Path) -> None:
    (folder / "models.py").write_text("def net():\n    import torch\n    return torch.nn.Linear(1, 1)\n")
    spec = Notebook(Store(folder / "store"), folder).launch("import models\nlr = uniform(0.0, 1.0)\n"
        "for epoch in trial.steps():\n    trial.report(val_acc=lr)\n")  # fmt: skip
    assert "torch" in spec.training.preload


def test_an_engine_starts_it_for_what_is_asked_for_and_its_workers_fork_from_it(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # It takes long to import, so that none of a few legs is worth a successor on a busy machine.
    monkeypatch.setattr(launch, "has_imported", "torch".__eq__)
    store = Store(folder / "store").create()
    source = "import os\nlr = uniform(0.0, 1.0)\nfor epoch in trial.steps():\n"
    source += "    trial.report(val_acc=lr, parent=os.getppid())\n"
    spec = Notebook(store, folder).launch(source, steps=(1, 1), trials=4, verify=False)
    requests.put(store, {"kind": "start", "experiment": spec.id})
    with engine(store) as process:
        assert ended(store, spec) == "completed"
        (one,) = forkservers(process.pid)
        assert one.ppid() == process.pid
        # Signals that the engine blocks while it starts reach training.
        (blocked,) = re.findall(r"SigBlk:\s*(\w+)", Path(f"/proc/{one.pid}/status").read_text())
        assert int(blocked, 16) == 0
        assert set(said(store, spec, "parent")[0]) == {float(one.pid)}
        # A killed engine takes it from no worker.
        process.kill()
        process.wait()
        assert one.is_running()
