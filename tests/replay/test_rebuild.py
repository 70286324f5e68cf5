"""`replay --env rebuild` against a real index: a package moved on, and the recorded version brings the bits back."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest
from running import engine

import workbench as wb
from workbench.replay.place import _link_workbench
from workbench.store import Store
from workbench.store.keeping.checkpoints import Checkpoints

#: What a training environment needs to launch and to train.
NEEDED = (
    *("cloudpickle", "msgspec", "tinydb", "xxhash"),
    # What a variable of the environment may need, where it could be a secret.
    *("detect-secrets", "pyyaml", "requests", "urllib3", "idna", "certifi", "charset-normalizer"),
)
#: The weights depend on the library's version, as an augmentation's or an initialisation's would.
SCRIPT = """
import random, sys
import six
import workbench as wb

def train(trial, lr=wb.uniform(0.1, 0.9)):
    weights = [0.0] * 4
    for step in trial.steps():
        weights = [w + lr * (int(six.__version__.split(".")[1]) - w) + random.gauss(0, 0.1) for w in weights]
        trial.report(score=sum(weights))

goal, scheduler = wb.maximize("score"), wb.All(max_steps=3)
wb.Experiment("tiny", train, goal=goal, scheduler=scheduler, trials=2, store=sys.argv[1]).start().wait(60)
"""


def install(python: Path, *packages: str) -> None:
    """Install into the environment, from the index that pip is configured for."""
    pip = (sys.executable, "-m", "pip", "--python", str(python), "install", "--quiet", "--no-deps")
    subprocess.run([*pip, "--disable-pip-version-check", *packages], check=True, stdin=subprocess.DEVNULL)


def kept(store: Store, trial) -> dict[str, bytes]:
    """The files of a trial's last checkpoint without its manifest: the bytes of each, by name."""
    [*_, last] = Checkpoints(store.experiment(trial.experiment.id).trial(trial.number)).all()
    return {name: (last.folder / name).read_bytes() for name in last.manifest.files}


@pytest.mark.slow
def test_the_recorded_version_comes_from_the_index_and_the_replay_is_the_same_bit_for_bit(tmp_path, monkeypatch):
    folder = tmp_path / "training"
    python = folder / "bin" / "python"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    install(python, "six==1.16.0", *(f"{name}=={version(name)}" for name in NEEDED))
    _link_workbench(python, folder)
    (tmp_path / "train.py").write_text(SCRIPT)
    monkeypatch.chdir(tmp_path)
    store = Store(tmp_path / "store")
    with engine(store):
        surroundings = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        subprocess.run([python, "train.py", store.root], check=True, env=surroundings, timeout=90)
        spec = wb.open("tiny", store=store).spec
        recorded = json.loads((store.snapshot(spec.snapshot) / "environment.json").read_text())
        assert recorded["distributions"]["six"] == "1.16.0"
        assert set(recorded["distributions"]) == {"six", "workbench", *NEEDED}

        install(python, "six==1.17.0")
        today = wb.replay("tiny@1", store=store)
        assert today.notes == ("another environment: six 1.16.0 → 1.17.0",)
        assert (today.verdict, today.parts_at) == ("parts", 1)

        then = wb.replay("tiny@1", store=store, env="rebuild")
        assert then.notes == ("the recorded environment, rebuilt",)
        assert then.verdict == "identical"
        assert kept(store, then.experiment["t0000"]) == kept(store, wb.open("tiny", store=store).best)
        assert then.experiment.spec.training.python.startswith(str(store.environments))
