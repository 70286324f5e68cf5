"""Loaders' workers, by whichever way they are started, know the classes of the cell and this trial's values."""

import pytest
from trial.world import points

CELL = """
import torch
from torch.utils.data import DataLoader, Dataset
width = choice(2, 3)
class Rows(Dataset):
    def __len__(self): return 8
    def __getitem__(self, at): return torch.full((width,), float(at))
def collate(rows):
    return torch.stack(rows) * width
loader = DataLoader(Rows(), 4, shuffle=True, num_workers=1, collate_fn=collate, multiprocessing_context={context!r})
total = 0.0
for epoch in trial.steps():
    for batch in loader:
        assert batch.shape == (4, width)
        total += batch.sum().item() * (1 + total)
    trial.report(score=total)
"""


@pytest.mark.parametrize("context", ["fork", "forkserver", "spawn"])
def test_workers_know_the_cell(server, experiment, context):
    configuration = {"width": 3}
    # Forked workers import no torch: undisturbed, and by another way, it gives the same.
    calm = server.runner().leg(experiment(CELL.format(context="fork"), steps=2).order(configuration=configuration))
    assert calm[-1]["error"] is None, calm[-1]["error"]["traceback"]
    cell, resumed = experiment(CELL.format(context=context), steps=2), {}
    for step in range(2):
        told = server.runner().leg(cell.order(step + 1, start=step, configuration=configuration))
        assert told[-1]["error"] is None, told[-1]["error"]["traceback"]
        resumed |= points(told)
    assert resumed == points(calm)


FORKING = """
import os, signal
ended = 0
for step in trial.steps():
    for _ in range(200):
        child = os.fork()
        if not child:
            signal.pause()
            os._exit(1)
        os.kill(child, signal.SIGTERM)
        ended += os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGTERM
    trial.report(score=ended)
"""


def test_what_training_forks_ends_by_a_signal_however_early_it_comes(server, experiment):
    told = server.runner().leg(experiment(FORKING, steps=1).order())
    assert set(points(told).values()) == {200.0}, told[-1]


def test_what_training_forks_has_the_handler_that_training_set(server, experiment):
    source = """
import os, signal
ours = lambda *_: None
signal.signal(signal.SIGTERM, ours)
for step in trial.steps():
    child = os.fork()
    if not child:
        os._exit(7 if signal.getsignal(signal.SIGTERM) is ours else 1)
    trial.report(score=os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
    told = server.runner().leg(experiment(source, steps=1).order())
    assert set(points(told).values()) == {7.0}, told[-1]
