"""Trials that are killed before their first checkpoint, in the set-up or soon after it: their state is an undisturbed
one's, and so is what is known of the set-up."""

import json
import time
from pathlib import Path

import pytest
from trial.world import points, said

from workbench.engine.judging.states import differing
from workbench.store.keeping.checkpoints import Checkpoints

STEPS = 4
#: A set-up that tells when it is under way, and one that holds what is kept where nothing else is known.
SOURCE = """
import os, time
import torch
sizes, name, order = [16, 8], "digits", {"a": 1, "b": 2}
model = torch.nn.Linear(4, 2)
target = torch.rand(16, 2)
start = torch.nn.functional.mse_loss(model(torch.rand(16, 4)), target).detach()
open(f"began-{os.getpid()}", "w").close()
while os.path.exists("wait"): time.sleep(0.01)
opt = torch.optim.SGD(model.parameters(), 0.1)
seen = []
for epoch in trial.steps():
    seen.append(epoch)
    opt.zero_grad()
    loss = torch.nn.functional.mse_loss(model(torch.rand(16, 4)), target)
    loss.backward()
    opt.step()
    trial.report(score=loss, begun=start)
    while os.path.exists(f"stay-{epoch}"): time.sleep(0.01)
"""


def until_there(path: Path) -> None:
    limit = time.monotonic() + 60
    while not path.exists():
        assert time.monotonic() < limit, path
        time.sleep(0.01)


def killed(server, runner) -> list:
    runner.kill()
    return runner.until("left")


def leg(server, one, until, start, **order):
    runner = server.runner()
    told = runner.leg(one.order(until, start=start, levels=(2,), **order))
    assert told[-1]["error"] is None, told[-1]["error"]["traceback"]
    runner.kill()
    return told


def compared(one, calm, step):
    """The names that differ between the two trials' checkpoints of ``step``."""
    folders = [Checkpoints(each.paths()).at(step).folder for each in (one, calm)]
    names = {path.name for folder in folders for path in folder.iterdir() if path.name != "manifest.json"}
    return differing(*folders, {name: tuple((folder / name).read_bytes() for folder in folders) for name in names})


def undisturbed(server, experiment):
    calm = experiment(SOURCE, steps=STEPS)
    told = leg(server, calm, 2, 0) + leg(server, calm, STEPS, 2)
    return calm, points(told)


@pytest.mark.parametrize("at", ["the first set-up", "the first turn", "the second set-up"])
def test_killed(server, experiment, tmp_path, at):
    calm, expected = undisturbed(server, experiment)
    one = experiment(SOURCE, steps=STEPS)
    told = leg(server, one, 2, 0) if at == "the second set-up" else []
    file = tmp_path / ("stay-0" if at == "the first turn" else "wait")
    file.touch()
    start = 2 if told else 0
    runner = server.runner()
    runner.connection.send(one.order(STEPS if told else 2, start=start, levels=(2,)))
    if at == "the first turn":
        told += runner.until("points")
    else:
        until_there(tmp_path / f"began-{runner.pid}")
    runner.kill()
    file.unlink()
    if not start:
        told += leg(server, one, 2, 0, resume=True)
        assert compared(one, calm, 2) == []
    told += leg(server, one, STEPS, 2, resume=True)
    assert points(told) == expected
    assert compared(one, calm, STEPS) == []
    known = json.loads(one.store.experiment(one.spec.id).setup.read_text())
    assert (known["failed"], known["names"]) == ("", [])
    assert said(told, "says") == []


#: Names that are kept where nothing is known of the set-up: some stay as they are, of one only a part changes.
KEPT = """
import os
sizes, name, parts = [16, 8], "digits", {"fixed": [1, 2], "counts": [0]}
late = os.path.exists("late")
for epoch in trial.steps():
    parts["counts"][0] += 1
    trial.report(score=len(sizes) + len(name) + late + sum(parts["counts"]))
"""


@pytest.mark.parametrize("expected", [[], ["late"]])
def test_a_trial_that_kept_more_is_compared_by_what_it_holds(server, experiment, tmp_path, expected):
    one = experiment(KEPT, steps=STEPS)
    # The process has trained before, so that its set-up is not run a second time.
    runner = server.runner()
    assert runner.leg(experiment("for e in trial.steps():\n    trial.report(score=1)").order())[-1]["error"] is None
    assert runner.leg(one.order(2))[-1]["error"] is None
    runner.kill()
    leg(server, one, 2, 0, trial=1)
    assert one.store.experiment(one.spec.id).setup.exists()
    for name in expected:
        (tmp_path / name).touch()
    checked = server.runner()
    told = checked.leg(one.order(2, trial=0, attempt=1, resume=False, check={"keeps": True}))
    assert told[-1]["error"] is None, told[-1]["error"]["traceback"]
    checked.kill()
    paths = one.store.experiment(one.spec.id)
    folders = [Checkpoints(place).at(2).folder for place in (paths.trial(0), paths.check(0))]
    files = {"graph.pkl": tuple((folder / "graph.pkl").read_bytes() for folder in folders)}
    assert differing(*folders, files) == expected
