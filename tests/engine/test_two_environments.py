"""JupyterLab and the kernel in two virtual environments: the engine in the one without torch, training in the other."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import psutil
import pytest
from labenv import MARK, lab_python, packages
from running import ended, lines, processes_below, until

from workbench.store import Store
from workbench.store.files import packed
from workbench.store.owner.lease import read_engine
from workbench.store.series import Series

#: What a person runs in the kernel's environment. Its first turn waits, so that the processes can be looked at.
LAUNCH = """
import json, os, pathlib, sys, time
import torch
import workbench as wb

def train(trial, lr=wb.loguniform(1e-3, 0.3)):
    import importlib.util
    model = torch.nn.Linear(3, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=lr)
    x = torch.linspace(-1, 1, 24).reshape(8, 3)
    print("trains with", sys.executable, torch.__version__, wb.__version__, flush=True)
    print("sees", importlib.util.find_spec("only_in_lab"), flush=True)
    for epoch in trial.steps():
        loss = ((model(x) - x.sum(1, keepdim=True)) ** 2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        while not pathlib.Path("go").exists():
            time.sleep(0.01)
        trial.report(loss=loss.item())

exp = wb.Experiment("two", train, goal=wb.minimize("loss"), scheduler=wb.Hyperband(max_steps=3), store=sys.argv[1])
exp.start()
print(json.dumps({"id": exp.id}), flush=True)
exp.wait()
print(json.dumps({"state": exp.state, "weights": exp.best.load().model.weight.shape[1]}), flush=True)
"""
KERNEL = Path(sys.executable)


@pytest.fixture(scope="session")
def lab() -> Path:
    """The interpreter of JupyterLab's own environment."""
    return lab_python()


@pytest.fixture
def engine_of_lab(lab: Path, tmp_path: Path):
    """A store whose engine was started by JupyterLab's Python, with a search path that is only JupyterLab's."""
    store = Store(tmp_path / "store").create()
    (tmp_path / "path").mkdir()
    (tmp_path / "path" / "only_in_lab.py").touch()
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "WORKBENCH_"))}
    environment |= {"PYTHONPATH": str(tmp_path / "path"), "PATH": f"{lab.parent}{os.pathsep}{os.environ['PATH']}"}

    def workbench(*words: str) -> subprocess.CompletedProcess[str]:
        command = [str(lab), "-m", "workbench", "--store", str(store.root), *words]
        return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)

    begun = workbench("engine", "start", "--workers", "1")
    assert begun.returncode == 0, begun.stdout + begun.stderr + store.engine_log.read_text()
    yield store
    done = workbench("engine", "stop")
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_an_engine_without_torch_trains_with_the_kernels_torch(lab: Path, engine_of_lab: Store, tmp_path: Path) -> None:
    refused = subprocess.run([str(lab), "-c", "import torch"], capture_output=True, text=True, check=False)
    assert refused.returncode == 1
    assert "No module named 'torch'" in refused.stderr

    store = engine_of_lab
    (tmp_path / "launch.py").write_text(LAUNCH)
    with subprocess.Popen(
        [sys.executable, "launch.py", str(store.root)],
        cwd=tmp_path,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as person:
        try:
            told = person.stdout.readline()
            assert told, person.stderr.read()
            spec = store.read_spec(json.loads(told)["id"])
            paths = store.experiment(spec.id)
            runner = until(lambda: runner_of(store, spec.id), 60, "a leg that trains")

            engine = read_engine(store)
            assert engine is not None
            assert person.pid not in [parent.pid for parent in psutil.Process(engine.pid).parents()]
            tree = {pid: command_of(pid) for pid in [engine.pid, *processes_below(engine.pid)]}
            tree = {pid: command for pid, command in tree.items() if command}
            labs = [pid for pid, command in tree.items() if command == [str(lab)]]
            kernels = [pid for pid, command in tree.items() if command == [str(KERNEL)]]
            assert engine.pid in labs
            assert len(labs) >= 2  # the engine and its worker
            assert runner in kernels
            assert len(kernels) >= 2  # the forkserver and the runner
            assert sorted(labs + kernels) == sorted(tree)
            theirs = str(lab.parents[1])
            for pid in labs:
                assert all(package.startswith(theirs) and not package.endswith("torch") for package in packages(pid))
            assert any(package.endswith("/torch") for package in packages(runner))
            assert not any(package.startswith(theirs) for package in packages(runner))
        finally:
            (tmp_path / "go").touch()
        said, complaints = person.communicate(timeout=120)
    assert person.returncode == 0, complaints
    assert json.loads(said.splitlines()[-1]) == {"state": "completed", "weights": 3}
    assert ended(store, spec) == "completed"

    here = {name: version(name) for name in ("torch", "numpy", "workbench")}
    assert spec.training.python == str(KERNEL)
    assert spec.training.versions == {"python": sys.version.split()[0], **here}
    assert MARK not in here["workbench"]
    with Series.read(paths.series) as series:
        recorded = [leg["detail"]["environment"] for leg in series.legs()]
    assert {one["torch"] for one in recorded} == {here["torch"]}
    log = (packed.read(paths.trial(0).log) or b"").decode()
    assert f"trains with {KERNEL} {here['torch']} {here['workbench']}" in log
    assert "sees None" in log
    assert not lines(store, spec, "StopAsked")

    # Its model is written where torch is, though who asks has none.
    words = ["--store", str(store.root), "export", "two", "--model", "torch.export", "--to", "two.pt2", "--json"]
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "WORKBENCH_"))}
    exported = subprocess.run(
        [str(lab), "-m", "workbench", *words],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    told = json.loads(exported.stdout or exported.stderr)
    assert (told["model"], told["input"], told["difference"]) == ("model", ["float32[8,3]"], 0)
    assert (tmp_path / "two.pt2").is_file()


def command_of(pid: int) -> list[str]:
    """What a process runs; nothing for one that has ended."""
    try:
        return psutil.Process(pid).cmdline()[:1]
    except (psutil.ZombieProcess, psutil.NoSuchProcess):
        return []


def runner_of(store: Store, experiment: str) -> int | None:
    """The process of a leg that has begun."""
    path = store.experiment(experiment).series
    if not path.exists():
        return None
    with Series.read(path) as series:
        return next((leg["pid"] for leg in series.legs() if leg["pid"]), None)
