"""The states of a resumed and of an undisturbed trial, compared whole and by name, without running what they hold."""

import pytest
from trial.loops import FOOT

from workbench.engine.judging.states import differing
from workbench.store.keeping.checkpoints import Checkpoints

#: Loops whose checkpoints hold every sort of thing: the tests of resuming compare their states as well.
WHOLE = [
    "a function with the loop in it",
    "closures made in the loop that share a variable",
    "two optimizers against each other",
    "histories of all sorts",
    "a dataclass as state",
    "loaders of torch",
    "random generators of every sort",
    "arrays and views of arrays",
    "classes, instances and functions made in the loop",
    "tensors that are not strided",
    "sklearn, fitted in parts",
    "pandas",
    "generators that have children",
    "no torch at all",
]


def both(one, other, step):
    """Their checkpoints at ``step``, with the files' digests."""
    folders = [Checkpoints(each.paths()).at(step).folder for each in (one, other)]
    names = {path.name for folder in folders for path in folder.iterdir() if path.name != "manifest.json"}
    return *folders, {name: tuple((folder / name).read_bytes() for folder in folders) for name in names}


def states(server, experiment, source, resumed_at=2, until=4):
    """The checkpoints at ``until`` of a trial that was resumed and of one that was not, with the files' digests."""
    trials = []
    for legs in ([(0, resumed_at), (resumed_at, until)], [(0, until)]):
        one = experiment(source, steps=until + 1)
        for start, end in legs:
            runner = server.runner()
            told = runner.leg(one.order(end, start=start, levels=(resumed_at,) if start < resumed_at else ()))
            assert told[-1]["error"] is None, told[-1]["error"]["traceback"]
            runner.kill()
        trials.append(one)
    return both(*trials, until)


@pytest.mark.parametrize("rows", [1, 4, 1024])
@pytest.mark.parametrize("name", ["mse_loss", "smooth_l1_loss"])
def test_what_torch_never_wrote_beside_a_loss_is_no_difference(server, experiment, name, rows):
    loop = f"""
import torch
model = torch.nn.Linear(8, 4)
opt = torch.optim.SGD(model.parameters(), 0.1)
for epoch in trial.steps():
    loss = torch.nn.functional.{name}(model(torch.rand({rows}, 8)), torch.zeros({rows}, 4))
    both = [loss, loss.detach()]
    opt.zero_grad(); loss.backward(); opt.step()
    trial.report(score=loss)
def result(): return loss, both
"""
    trial, calm, files = states(server, experiment, loop + FOOT)
    assert differing(trial, calm, files) == []


def test_what_torch_never_wrote_beside_a_loss_of_the_set_up_is_no_difference(server, experiment):
    loop = """
import torch
model = torch.nn.Linear(8, 4)
losses = torch.nn.functional.mse_loss(model(torch.rand(64, 8)), torch.zeros(64, 4)).detach()
for epoch in trial.steps():
    losses += torch.nn.functional.mse_loss(model(torch.rand(64, 8)), torch.zeros(64, 4)).detach()
    trial.report(score=losses)
"""
    trial, calm, files = states(server, experiment, loop + FOOT.replace("result()", "[losses]"))
    assert differing(trial, calm, files) == []


PARTS = {
    "a number": ("turns = []", "turns.append(os.getpid())", ["turns"]),
    "a tensor": ("weights = torch.zeros(3)", "weights += os.getpid()", ["tensors"]),
    "an array": ("table = np.zeros(3)", "table += os.getpid()", ["table"]),
    "a name of an object": ("config = types.SimpleNamespace(n=0)", "config.n = os.getpid()", ["config"]),
    "the random state": (
        "",
        "random.seed(os.getpid())",
        ["the random state of python"],
    ),
    "a set that grew in another order": ("seen = set()", "seen.add(os.getpid())", ["seen"]),
    "a closure": (
        """
def make():
    n = 0
    def up(k):
        nonlocal n
        n += k
        return n
    return up
up = make()
""",
        "up(os.getpid())",
        ["up"],
    ),
}


@pytest.mark.parametrize("name", PARTS)
def test_what_differs_is_named(server, experiment, name):
    before, turn, expected = PARTS[name]
    source = f"""
import os, random, types
import numpy as np
import torch
{before}
for epoch in trial.steps():
    {turn}
    trial.report(score=1.0)
"""
    assert differing(*states(server, experiment, source)) == expected


def test_a_graph_is_read_without_running_anything(tmp_path):
    import os
    import pickle

    class Planted:
        def __reduce__(self):
            return os.mkdir, (str(tmp_path / "ran"),)

    for name, value in (("a", 1), ("b", 2)):
        (tmp_path / name).mkdir()
        with open(tmp_path / name / "graph.pkl", "wb") as file:
            pickler = pickle.Pickler(file, 5)
            for part in ({"step": 1}, [], [("", {"x": value, "planted": Planted()}, [])], None):
                pickler.dump(part)
    assert differing(tmp_path / "a", tmp_path / "b", {"graph.pkl": ("1", "2")}) == ["x"]
    assert not (tmp_path / "ran").exists()
