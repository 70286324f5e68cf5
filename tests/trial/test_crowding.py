"""Loaders that start more workers than their slot has cores: the user is told once, with the number to use."""

import os

import pytest
from trial.world import said

from workbench.trial.process.crowding import crowded, shares_files

CORES = len(os.sched_getaffinity(0))

LOADER = """
import torch
from torch.utils.data import DataLoader, TensorDataset
workers = choice(1, 2)
loader = DataLoader(TensorDataset(torch.arange(8.0)), 4, num_workers=workers)
for epoch in trial.steps():
    for x, in loader:
        pass
    trial.report(score=x.sum())
"""


def crowd(server, cell, slots, workers=2, trial=0, start=0):
    """What a leg says about its loader, on its page and in its log."""
    runner = server.runner()
    order = cell.order(start + 1, start=start, trial=trial, slots=slots, configuration={"workers": workers})
    told = runner.leg(order)
    assert told[-1]["error"] is None, told[-1]["error"]["traceback"]
    runner.kill()
    lines = [line for line in runner.output().splitlines() if "DataLoader(" in line]
    assert [f"[workbench] {one['text']}" for one in said(told, "says")] == lines
    return [one["text"] for one in said(told, "says")]


@pytest.mark.parametrize(
    ("workers", "slots", "cores", "words"),
    [
        (2, 4, 8, ""),
        (8, 1, 8, ""),
        (0, 16, 8, ""),
        (3, 4, 8, "DataLoader(num_workers=3) in each of 4 slots: 12 worker processes on 8 cores. num_workers=2 uses"),
        (9, 1, 8, "DataLoader(num_workers=9): 9 worker processes on 8 cores. num_workers=8 uses"),
        (1, 2, 1, "DataLoader(num_workers=1) in each of 2 slots: 2 worker processes on 1 core. num_workers=0 uses"),
    ],
)
def test_the_line_has_the_numbers_and_the_number_to_use(workers, slots, cores, words):
    assert crowded(workers, slots, cores).removesuffix(" the machine fully") == words


def test_it_is_told_once_for_all_trials_and_legs_of_an_experiment(server, experiment):
    cell = experiment(LOADER)
    assert crowd(server, cell, slots=CORES, workers=1) == []
    assert crowd(server, cell, slots=CORES) == [crowded(2, CORES, CORES)]
    assert crowd(server, cell, slots=CORES, start=1) == []
    assert crowd(server, cell, slots=CORES, trial=1) == []
    assert crowd(server, experiment(LOADER), slots=CORES) != []


def test_nothing_is_told_where_the_slots_are_not_known(server, experiment):
    assert crowd(server, experiment(LOADER), slots=0) == []


def test_torch_that_the_cell_imports_first_is_watched_too(experiment):
    from trial.world import Server

    bare = Server(preload=())
    try:
        assert crowd(bare, experiment(LOADER), slots=CORES) == [crowded(2, CORES, CORES)]
    finally:
        bare.close()


WRITES = """
import os
if {once} and os.path.exists("tokens.txt"):
    pass
else:
    with open("tokens.txt", "w") as file:
        file.write("1")
{more}
for epoch in trial.steps():
    trial.report(score=1)
"""


@pytest.mark.parametrize(
    ("once", "more", "slots", "is_told"),
    [
        (False, "tokens = open('tokens.txt').read()", 2, True),
        (True, "tokens = open('tokens.txt').read()", 4, True),
        # Nothing else trains, it is only written, or each trial has its own.
        (False, "tokens = open('tokens.txt').read()", 1, False),
        (False, "", 2, False),
        (False, "path = trial.folder / 'own.txt'; path.write_text('1'); own = path.read_text()", 2, False),
        (False, "import tempfile as t; p = t.mkstemp()[1]; open(p, 'w').write('1'); p = open(p).read()", 2, False),
    ],
)  # fmt: skip
def test_a_file_that_each_set_up_writes_and_reads_is_told(server, experiment, tmp_path, once, more, slots, is_told):
    cell = experiment(WRITES.format(once=once, more=more))
    runner = server.runner()
    told = runner.leg(cell.order(1, slots=slots))
    assert told[-1]["error"] is None, told[-1]["error"]["traceback"]
    words = [one["text"] for one in said(told, "says") if "each set-up writes" in one["text"]]
    assert words == ([shares_files([str(tmp_path / "tokens.txt")], slots)] if is_told else [])


def test_a_set_up_that_reads_what_an_earlier_trial_wrote_is_not_told(server, experiment, tmp_path):
    (tmp_path / "tokens.txt").write_text("1")
    cell = experiment(WRITES.format(once=True, more="tokens = open('tokens.txt').read()"))
    assert said(server.runner().leg(cell.order(1, slots=4)), "says") == []
