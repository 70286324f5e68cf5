"""What each mode of --deterministic promises, seen from inside a runner."""

from __future__ import annotations

import pytest
from trial.world import Server

LOOK = """
import os
import torch
early = torch.are_deterministic_algorithms_enabled()
{after}
for epoch in trial.steps():
    cudnn = torch.backends.cudnn
    trial.report(
        score=0,
        early=early,
        deterministic=torch.are_deterministic_algorithms_enabled(),
        refuses=not torch.is_deterministic_algorithms_warn_only_enabled(),
        benchmark=cudnn.benchmark,
        cudnn=cudnn.deterministic,
        threads=torch.get_num_threads(),
        workspace=os.environ["CUBLAS_WORKSPACE_CONFIG"] in (":4096:8", ":16:8"),
    )
"""


def looked(server: Server, experiment, mode: str, after: str = "") -> tuple[dict[str, float], str]:
    """What the first turn sees, and the trial's log."""
    runner = server.runner()
    source = LOOK.format(after=after)
    left = runner.leg(experiment(source, steps=1, deterministic=mode).order())
    assert left[-1]["outcome"] == "completed", left[-1]
    found = {name: value for message in left if message["op"] == "points" for name, _, _, value, _ in message["rows"]}
    runner.connection.send({"op": "exit"})
    return found, runner.output()


STRICT = {
    "early": 1,
    "deterministic": 1,
    "refuses": 1,
    "benchmark": 0,
    "cudnn": 1,
    "threads": 1,
    "workspace": 1,
    "score": 0,
}


@pytest.mark.parametrize("preload", [("torch", "numpy"), ()], ids=["preloaded", "imported-by-the-cell"])
def test_strict_holds_whoever_imports_torch(experiment, preload):
    server = Server(preload)
    try:
        found, _ = looked(server, experiment, "strict")
    finally:
        server.close()
    assert found == STRICT


def test_strict_is_put_back_where_the_set_up_changed_it_and_the_log_says_so(server, experiment):
    change = "torch.backends.cudnn.benchmark = True\ntorch.use_deterministic_algorithms(False)"
    found, log = looked(server, experiment, "strict", after=change)
    assert found == STRICT
    assert "put back what the training code changed: torch.use_deterministic_algorithms(True), torch.backends" in log


def test_seeded_leaves_the_choice_of_algorithms_to_the_training_code(server, experiment):
    found, log = looked(server, experiment, "seeded", after="torch.backends.cudnn.benchmark = True")
    assert (found["deterministic"], found["benchmark"], found["threads"], found["workspace"]) == (0, 1, 1, 1)
    assert "put back" not in log


def test_strict_uses_no_runner_twice(tmp_path):
    """The worker's side: an experiment of short trials has a process for each leg."""
    from running import ended, engine, spec_of, start

    from workbench.records import Scheduler
    from workbench.store import Store
    from workbench.store.series import Series

    source = "import os\nfor turn in trial.steps():\n    trial.report(score=0, pid=os.getpid())\n"
    store, processes = Store(tmp_path / "store"), {}
    with engine(store, workers=1):
        for mode in ("seeded", "strict"):
            spec = spec_of(source, tmp_path, scheduler=Scheduler("all", 1, 1), trials=4, deterministic=mode)
            start(store, spec)
            assert ended(store, spec) == "completed"
            with Series.read(store.experiment(spec.id).series) as series:
                processes[mode] = len({value for _, name, _, _, value, _ in series.points() if name == "pid"})
    assert processes["strict"] == 4
    assert processes["seeded"] < 4


DRAWS = """
import random
import numpy
import torch
drawn = random.random(), numpy.random.random(), torch.rand(1).item()
for epoch in trial.steps():
    trial.report(score=0, python=drawn[0], numpy=drawn[1], torch=drawn[2])
"""


@pytest.mark.parametrize("mode", ["off", "seeded"])
def test_what_is_not_seeded_draws_other_numbers_each_time(experiment, mode):
    server = Server(("torch", "numpy"))
    try:
        found = []
        for _ in range(2):
            runner = server.runner()
            left = runner.leg(experiment(DRAWS, steps=1, deterministic=mode).order())
            rows = [row for message in left if message["op"] == "points" for row in message["rows"]]
            found.append({name: value for name, _, _, value, _ in rows})
            runner.connection.send({"op": "exit"})
    finally:
        server.close()
    same = {name for name in found[0] if found[0][name] == found[1][name]}
    assert same == ({"score"} if mode == "off" else {"score", "python", "numpy", "torch"})
