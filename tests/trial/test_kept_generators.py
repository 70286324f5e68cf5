"""Generators that installed packages keep: each trial has its own numbers, in whichever process it trains, and goes on
with them after a resume."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from packages import installed
from trial.world import SOURCES, Experiment, Process, Server, points, said

PACKAGE = """
import random
import numpy, torch
from numpy.random import RandomState, default_rng

without = random.Random()
also = without
with_one = default_rng(7)

class Transform:
    R = RandomState()

class Box:
    def __init__(self):
        self.drawn_from = default_rng()

box = Box()
of_torch = torch.Generator()
_late = None

def late():
    global _late
    if _late is None:
        _late = RandomState()
    return _late.rand()

def draw():
    return [without.random(), with_one.random(), Transform.R.rand(), Transform.R.randn(), box.drawn_from.random(),
            torch.rand(1, generator=of_torch).item()]
"""

DRAWS = """
import keeping
for epoch in trial.steps():
    drawn = keeping.draw()
    trial.report(score=sum(drawn), **{f"drawn{number}": one for number, one in enumerate(drawn)})
"""
ENDS = "for epoch in trial.steps():\n    trial.report(score=epoch)"
#: Generators with a seed of their package's begin with it in each trial.
SEEDED = "drawn1"

RESUMED = {
    "imported by the set-up": DRAWS,
    "drawn from by the set-up as well": DRAWS.replace("import keeping\n", "import keeping\nkeeping.draw()\n"),
    "imported in the loop": """
for epoch in trial.steps():
    if epoch >= 1:
        import keeping
    trial.report(score=sum(keeping.draw()) if epoch >= 1 else 0)""",
    "imported by a function, each time": """
def drawn():
    import keeping
    return sum(keeping.draw())
for epoch in trial.steps():
    trial.report(score=drawn())""",
    "seeded, in the workers of a pass, which differ from batch to batch": """
import keeping
from torch.utils.data import DataLoader, Dataset
class Rows(Dataset):
    def __len__(self): return 8
    def __getitem__(self, index): return keeping.with_one.random()
loader = DataLoader(Rows(), batch_size=1, num_workers=2)
for epoch in trial.steps():
    rows = [batch.item() for batch in trial.batches(loader)]
    assert len({*rows}) == 8, rows
    trial.report(score=sum(rows) + keeping.without.random())""",
    "imported in a thread": """
import threading
def load():
    import keeping
thread = threading.Thread(target=load)
thread.start(); thread.join()
import keeping
for epoch in trial.steps():
    trial.report(score=sum(keeping.draw()))""",
    "replaced by training": """
import random, keeping
for epoch in trial.steps():
    if epoch == 1:
        keeping.without = random.Random(3)
    trial.report(score=keeping.without.random())""",
    "reached by a name of training's, too": """
import keeping
mine = keeping.without
for epoch in trial.steps():
    trial.report(score=mine.random() + keeping.also.random())""",
    "made by the set-up, since its package had none": """
import keeping
keeping.late()
for epoch in trial.steps():
    trial.report(score=keeping.late())""",
    "in the workers of a loader": """
import keeping
from torch.utils.data import DataLoader, Dataset
class Rows(Dataset):
    def __len__(self): return 8
    def __getitem__(self, index): return sum(keeping.draw())
loader = DataLoader(Rows(), batch_size=2, num_workers=2)
for epoch in trial.steps():
    rows = [row for batch in loader for row in batch.tolist()]
    trial.report(score=sum(rows) + keeping.without.random())""",
}


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return Path(installed(tmp_path_factory.mktemp("packages"), keeping=PACKAGE))


@pytest.fixture(scope="module")
def ahead(site: Path) -> Iterator[Server]:
    """The package is imported before any trial begins."""
    running = Server(learned=["keeping"], PYTHONPATH=f"{SOURCES}{os.pathsep}{site}")
    assert not running.ready["failed"]
    yield running
    running.close()


@pytest.fixture(scope="module")
def server(site: Path) -> Iterator[Server]:
    running = Server(PYTHONPATH=f"{SOURCES}{os.pathsep}{site}")
    yield running
    running.close()


def trained(runner: Process, cell: Experiment, trial: int = 0, **order: Any) -> dict[tuple[str, int, int], float]:
    told = runner.leg(cell.order(trial=trial, **order))
    assert told[-1]["error"] is None, told[-1]["error"]["traceback"]
    return points(told)


def test_each_trial_has_its_own_numbers_in_whichever_process(server, ahead, experiment):
    cell = experiment(DRAWS)
    found = []
    for one in (server, ahead):
        alone = [trained(one.runner(), cell, trial) for trial in (0, 1)]
        runner = one.runner()
        found += [alone, [trained(runner, cell, trial) for trial in (0, 1)]]
    assert found == [found[0]] * 4
    first, second = found[0]
    same = {name for (name, step, _), value in first.items() if second[name, step, 0] == value}
    assert same == {SEEDED}
    assert len({value for (name, _, _), value in first.items() if name == SEEDED}) == 4, "it was drawn from"


def test_one_is_found_beside_modules_that_each_leg_imports_anew(server, experiment, tmp_path):
    """They come and go at the end of all modules, where a look begins. There may be more of them than it remembers."""
    for number in range(100):
        (tmp_path / f"own{number}.py").write_text("")
    few = f"import sys\nsys.path.insert(0, {str(tmp_path)!r})\n"
    many = "import " + ", ".join(f"own{number}" for number in range(100))
    first, between = experiment(f"{few}import own1, own2\n{ENDS}"), experiment(f"{few}{many}\n{ENDS}")
    cell = experiment(f"{few}import own3{DRAWS}")
    expected = [trained(server.runner(), cell, trial) for trial in (0, 1)]
    runner = server.runner()
    for other in (first, between, first):
        trained(runner, other)
    assert [trained(runner, cell, trial) for trial in (0, 1)] == expected


@pytest.mark.parametrize("name", RESUMED)
def test_resumed_equals_undisturbed(server, ahead, experiment, name):
    calm, cell = experiment(RESUMED[name], steps=5), experiment(RESUMED[name], steps=5)
    expected = trained(server.runner(), calm)
    assert len({value for (name, _, _), value in expected.items() if name == "score"}) == 5
    resumed, start = {}, 0
    for until, where in ((1, server), (2, ahead), (4, server), (5, ahead)):
        runner = where.runner()
        told = runner.leg(cell.order(until, start=start))
        assert told[-1]["error"] is None, told[-1]["error"]["traceback"]
        assert "inexact" not in said(told, "begun")[0]["found"]
        runner.kill()
        resumed |= points(told)
        start = until
    assert resumed == expected


#: Objects and classes of packages that refuse to be looked at.
ODD = """
import random
class Closed(type):
    def __getattribute__(cls, name): raise ValueError(name)
class OfClosed(metaclass=Closed): pass
class Silent:
    def __getattribute__(self, name): raise KeyError(name)
class Unreadable(random.Random):
    def getstate(self): raise RuntimeError
closed, silent, unreadable = OfClosed(), Silent(), Unreadable()
rng = random.Random()
"""


@pytest.mark.parametrize("made", ["random.Random(1)", "numpy.random.RandomState(1)"])
def test_one_of_trainings_own_stays_in_the_packages_place_and_is_named(server, experiment, made):
    source = f"""
import random, numpy, keeping
def prepare(): return 1.0
for epoch in trial.steps():
    if epoch == 0:
        mine = keeping.without = {made}
    shared = trial.cached(prepare)
    assert keeping.without is mine or epoch == 1
    trial.report(score=keeping.box.drawn_from.random())
"""
    cell = experiment(source)
    for start in (0, 1):
        runner = server.runner()
        told = runner.leg(cell.order(start + 1, start=start))
        assert told[-1]["error"] is None, told[-1]["error"]["traceback"]
        runner.kill()
    assert "keeping:without" in [one["name"] for one in said(told, "begun")[0]["found"]["inexact"]]


def test_a_package_whose_objects_refuse_to_be_looked_at_can_be_imported(server, site, experiment):
    (site / "odd.py").write_text(ODD)
    cell = experiment("import odd\nfor epoch in trial.steps():\n    trial.report(score=odd.rng.random())")
    found = [trained(server.runner(), cell, trial) for trial in (0, 1, 0)]
    assert found[0] == found[2] != found[1]


def test_one_that_a_package_makes_when_it_needs_it_ends_with_its_process(server, experiment):
    cell = experiment(RESUMED["made by the set-up, since its package had none"])
    told = server.runner().leg(cell.order())
    assert (told[-1]["reusable"], "keeping:_late" in told[-1]["why"]) == (False, True)


def test_one_that_the_loop_was_the_first_to_need_is_named(server, experiment):
    cell = experiment("import keeping\nfor epoch in trial.steps():\n    trial.report(score=keeping.late())")
    for start in (0, 1):
        runner = server.runner()
        told = runner.leg(cell.order(start + 1, start=start))
        runner.kill()
    assert [one["name"] for one in said(told, "begun")[0]["found"]["inexact"]] == ["keeping:_late"]
