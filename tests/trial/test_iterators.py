"""An iterator over a DataLoader that the loop keeps goes on at the batch that was next, after any resume."""

import pytest
from trial.loops import FOOT
from trial.test_resume import result
from trial.world import points, said

STEPS = 6

HEAD = """
import itertools, random
import torch
from torch.utils.data import BatchSampler, DataLoader, Dataset, Sampler, TensorDataset, WeightedRandomSampler
data = TensorDataset(torch.arange(40.0))
seen = []
def result(): return seen, torch.rand(2), random.random()
def told(batch, **more):
    seen.append(batch[0].tolist())
    trial.report(score=sum(place * one for place, one in enumerate(seen[-1])), noise=torch.rand(()).item(), **more)
"""

RENEWED = """
def following():
    global it
    try:
        return next(it)
    except StopIteration:
        it = iter(loader)
        return next(it)
for epoch in trial.steps():
    torch.rand(3)
    following()
    told(following())
"""

CASES = {
    "made once, without an order of its own": """
loader = DataLoader(data, 4)
it = iter(loader)
for epoch in trial.steps():
    told(next(it))""",
    "made once, shuffled": """
loader = DataLoader(data, 4, shuffle=True)
it = iter(loader)
for epoch in trial.steps():
    torch.rand(epoch)
    told(next(it))""",
    "begun in the set-up": """
loader = DataLoader(data, 4, shuffle=True)
it = iter(loader)
first = next(it)
torch.rand(5)
for epoch in trial.steps():
    told(next(it))""",
    "renewed at its end": "loader = DataLoader(data, 5, shuffle=True)\nit = iter(loader)" + RENEWED,
    "renewed at its end, with a generator": """
loader = DataLoader(data, 5, shuffle=True, generator=torch.Generator().manual_seed(3))
it = iter(loader)"""
    + RENEWED,
    "renewed at its end, with replacement and weights": """
loader = DataLoader(data, 8, sampler=WeightedRandomSampler(torch.arange(1.0, 41.0), 40))
it = iter(loader)"""
    + RENEWED,
    "a sampler of one's own that draws at once": """
class Own(Sampler):
    def __init__(self): self.passes = 0
    def __iter__(self):
        self.passes += 1
        order = list(range(self.passes, 40))
        random.shuffle(order)
        return iter(order)
    def __len__(self): return 40
class Batches(BatchSampler):
    def __iter__(self): return iter(list(super().__iter__()))
loader = DataLoader(data, batch_sampler=Batches(Own(), 5, True))
it = iter(loader)"""
    + RENEWED,
    "counted by enumerate, in a function, and held twice": """
loader = DataLoader(data, 3, shuffle=True)
def train():
    pairs = enumerate(loader)
    alone = iter(loader)
    again = alone
    for epoch in trial.steps():
        number, batch = next(pairs)
        next(alone)
        told(batch, number=number, same=again is alone, other=next(again)[0].sum())
train()""",
    "itertools.cycle": """
loader = DataLoader(data, 16, shuffle=True)
it = itertools.cycle(loader)
for epoch in trial.steps():
    told(next(it))""",
    "zip of two loaders": """
pairs = zip(DataLoader(data, 4, shuffle=True), DataLoader(data, 5, shuffle=True))
for epoch in trial.steps():
    a, b = next(pairs)
    told(a, other=b[0].sum())""",
    "made by the loop, and kept": """
loader, it = DataLoader(data, 4, shuffle=True), None
for epoch in trial.steps():
    if epoch % 4 == 1 or it is None:
        it = iter(loader)
    told(next(it))""",
    "workers that outlive a pass and draw random numbers": """
import numpy as np
class Augmented(Dataset):
    def __len__(self): return 8
    def __getitem__(self, place): return place + torch.rand(()) + random.random() + np.random.rand(),
loader = DataLoader(Augmented(), 2, shuffle=True, num_workers=2, persistent_workers=True)
for epoch in trial.steps():
    told(torch.stack([batch[0] for batch in loader]).unsqueeze(0).flatten(1))""",
    "held by an object of the cell": """
class Feed:
    def __init__(self, loader): self.loader, self.it = loader, iter(loader)
    def __call__(self):
        batch = next(self.it, None)
        if batch is None:
            self.it = iter(self.loader)
            batch = next(self.it)
        return batch
feed = Feed(DataLoader(data, 20, shuffle=True))
for epoch in trial.steps():
    told(feed())""",
}


@pytest.mark.parametrize("name", CASES)
def test_resumed_equals_undisturbed(server, experiment, name):
    source = HEAD + CASES[name] + FOOT
    calm = server.runner()
    told = calm.leg(experiment(source, steps=STEPS).order())
    assert told[-1]["outcome"] == "completed", told[-1]["error"]["traceback"]
    calm.kill()
    expected, end = points(told), result(calm.output())

    cell, resumed, output = experiment(source, steps=STEPS), {}, ""
    for start in range(STEPS):
        runner = server.runner()
        told = runner.leg(cell.order(start + 1, start=start))
        assert told[-1]["error"] is None, told[-1]["error"]["traceback"]
        begun = said(told, "begun")[0]
        assert begun["step"] == start
        resumed |= points(told)
        runner.kill()
        output += runner.output()
    assert resumed == expected
    assert result(output) == end
