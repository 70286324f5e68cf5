"""Training code as people write it, without a word about ranks. Each loop is a generator: it yields its names when its
set-up ends, and then what it reports; it is sent the reported values back.

A loop's data sets give the number of each sample, which ``seen`` collects.
"""

from __future__ import annotations

import copy
import itertools
import os
import random
import time
import warnings

import numpy as np
import torch
from torch import nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint
from torch.utils.data import BatchSampler, DataLoader, Dataset, DistributedSampler, IterableDataset, RandomSampler

SAMPLES, FEATURES = 41, 6


class Numbered(Dataset):
    """Samples with their numbers."""

    def __init__(self, dtype=torch.float64, count=SAMPLES):
        draw = torch.Generator().manual_seed(7)
        self.x = torch.randn(count, FEATURES, generator=draw, dtype=torch.float64).to(dtype)
        self.y = torch.randn(count, 1, generator=draw, dtype=torch.float64).to(dtype)

    def __len__(self):
        return len(self.x)

    def __getitem__(self, number):
        return number, self.x[number], self.y[number]


class Stream(IterableDataset):
    def __init__(self, data):
        self.data = data

    def __iter__(self):
        return (self.data[number] for number in range(len(self.data)))


def mlp(dtype=torch.float64):
    return nn.Sequential(nn.Linear(FEATURES, 8), nn.Tanh(), nn.Linear(8, 1)).to(dtype)


def plain(*, dtype=torch.float64, wrap=lambda model: model, epochs=3, optimizer=torch.optim.Adam, **options):
    """The usual loop; the loss is a mean over the epoch's samples."""
    torch.manual_seed(1)
    random.seed(1)
    np.random.seed(1)  # noqa: NPY002 - loops of users do
    model = wrap(mlp(dtype))
    data = Numbered(dtype)
    options = {key: value(data) if callable(value) else value for key, value in options.items()}
    loader = DataLoader(data, **options)
    opt = optimizer(model.parameters(), lr=0.01)
    seen = []
    yield {"model": model, "loader": loader, "opt": opt, "seen": seen, "data": data}
    for _ in range(epochs):
        total = count = 0
        for numbers, x, y in loader:
            opt.zero_grad()
            loss = functional.mse_loss(model(x), y)
            loss.backward()
            opt.step()
            seen.append(torch.as_tensor(numbers).tolist())
            total, count = total + loss.item() * len(x), count + len(x)
        yield {"loss": total / count}


def shuffled():
    return plain(batch_size=8, shuffle=True, drop_last=True)


def single():
    return plain(dtype=torch.float32, batch_size=8, shuffle=True, drop_last=True)


def uneven():
    """The last batch of each epoch has 7 samples of 17: for 4 ranks 2, 2, 2 and 1."""
    return validated(batch_size=17, shuffle=True)


def last_of_one():
    return validated(batch_size=10, shuffle=True)


def workers():
    return plain(batch_size=8, shuffle=True, drop_last=True, num_workers=2, epochs=1)


def kept_workers():
    """They are ahead of the loop, and the last batch has one sample."""
    return validated(batch_size=10, shuffle=True, num_workers=2, persistent_workers=True)


def compiled():
    return plain(batch_size=8, shuffle=True, drop_last=True, wrap=lambda one: torch.compile(one, backend="aot_eager"))


class Varied(BatchSampler):
    """Batches of sizes that it draws on the way, from each global generator in turn."""

    def __init__(self, count):
        self.count = count

    def __iter__(self):
        left = np.random.permutation(self.count).tolist()  # noqa: NPY002 - loops of users do
        while left:
            size = random.choice([3, 5, 8]) + int(torch.randint(2, ()))
            yield left[:size]
            left = left[size:]

    def __len__(self):
        return 1


def batch_sampler():
    return validated(batch_sampler=lambda data: Varied(len(data)))


def batches_by_sampler():
    """The data set itself gets the batch's indices."""
    return validated(
        batch_size=None, sampler=lambda data: BatchSampler(RandomSampler(data), batch_size=7, drop_last=False)
    )


def own_generator():
    return validated(batch_size=8, shuffle=True, generator=lambda data: torch.Generator().manual_seed(3))


def validated(**options):
    """Reports a loss over data that it divides by the size of the data set."""
    torch.manual_seed(1)
    random.seed(1)
    np.random.seed(1)  # noqa: NPY002 - loops of users do
    model = mlp()
    data, held_out = Numbered(), Numbered(count=13)
    options = {key: value(data) if callable(value) else value for key, value in options.items()}
    loader, valid = DataLoader(data, **options), DataLoader(held_out, batch_size=5)
    opt = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    seen = []
    yield {"model": model, "loader": loader, "valid": valid, "opt": opt, "seen": seen, "data": data}
    for _ in range(3):
        for numbers, x, y in loader:
            opt.zero_grad()
            functional.mse_loss(model(x), y).backward()
            opt.step()
            seen.append(torch.as_tensor(numbers).tolist())
        with torch.no_grad():
            total = sum(functional.mse_loss(model(x), y, reduction="sum").item() for _, x, y in valid)
        yield {"val": total / len(held_out)}


def report(**values):
    """In place of a trial's."""
    return values


def summed():
    """Sums over a training pass, divided by the size of the data set. The last batch has 5 samples."""
    torch.manual_seed(1)
    model = mlp()
    data = Numbered()
    loader = DataLoader(data, batch_size=9, shuffle=True)
    opt = torch.optim.SGD(model.parameters(), lr=0.05)
    seen = []
    yield {"model": model, "loader": loader, "opt": opt, "seen": seen}
    for _ in range(3):
        running, hits = 0.0, 0
        for numbers, x, y in loader:
            opt.zero_grad()
            out = model(x)
            loss = functional.mse_loss(out, y)
            loss.backward()
            opt.step()
            seen.append(numbers.tolist())
            running += loss.item() * len(x)
            hits += ((out > 0) == (y > 0)).sum().item()
        yield report(loss=running / len(loader.dataset), accuracy=hits / len(data))


def summed_by_batches():
    """Means of the batches' means. All batches have 8 samples."""
    torch.manual_seed(1)
    model = mlp()
    loader = DataLoader(Numbered(), batch_size=8, shuffle=True, drop_last=True)
    opt = torch.optim.SGD(model.parameters(), lr=0.05)
    seen = []
    yield {"model": model, "loader": loader, "opt": opt, "seen": seen}
    for _ in range(3):
        running = 0.0
        for numbers, x, y in loader:
            opt.zero_grad()
            loss = functional.mse_loss(model(x), y)
            loss.backward()
            opt.step()
            seen.append(numbers.tolist())
            running += loss.item()
        yield report(loss=running / len(loader))


def stepwise(step, *, model, opt, data=None, options=None, epochs=3, **names):
    """``step(epoch, turn, x, y)`` trains; after each epoch the mean of the parameters' squares is reported."""
    data = data or Numbered()
    torch.manual_seed(2)
    loader = DataLoader(data, **(options or {"batch_size": 9, "shuffle": True}))
    seen = []
    yield {"model": model, "opt": opt, "loader": loader, "seen": seen, **names}
    for epoch in range(epochs):
        for turn, (numbers, x, y) in enumerate(loader):
            step(epoch, turn, x, y)
            seen.append(torch.as_tensor(numbers).tolist())
        yield {"size": sum(float((one.detach().abs() ** 2).mean()) for one in model.parameters())}


def validated_between():
    """An evaluation after each batch was loaded, and before it is trained on. The last batch has 7 samples."""
    torch.manual_seed(1)
    model = mlp()
    valid = DataLoader(Numbered(count=13), batch_size=5)
    opt = torch.optim.SGD(model.parameters(), lr=0.05)

    def step(epoch, turn, x, y):
        with torch.no_grad():
            assert sum(len(numbers) for numbers, _, _ in valid) == 13
        opt.zero_grad()
        functional.mse_loss(model(x), y).backward()
        opt.step()

    return stepwise(step, model=model, opt=opt, options={"batch_size": 17, "shuffle": True})


def stateful():
    """torchdata's loader."""
    from torchdata.stateful_dataloader import StatefulDataLoader

    torch.manual_seed(1)
    model = mlp()
    with warnings.catch_warnings(action="ignore"):  # it calls a function of torch that is deprecated
        loader = StatefulDataLoader(Numbered(), batch_size=10, shuffle=True)
    opt = torch.optim.SGD(model.parameters(), lr=0.05)
    seen = []
    yield {"model": model, "loader": loader, "seen": seen}
    for _ in range(3):
        for numbers, x, y in loader:
            opt.zero_grad()
            functional.mse_loss(model(x), y).backward()
            opt.step()
            seen.append(numbers.tolist())
        yield {"first": model[0].weight[0, 0].item()}


def split_by_code():
    """The code gives each rank its samples."""
    model, data = mlp(), Numbered()
    replicas, rank = int(os.environ["WORLD_SIZE"]), int(os.environ["RANK"])
    loader = DataLoader(data, batch_size=4, sampler=DistributedSampler(data, replicas, rank, shuffle=False))
    seen = []
    yield {"model": model, "loader": loader, "seen": seen}
    for numbers, x, y in loader:
        functional.mse_loss(model(x), y).backward()
        seen.append(numbers.tolist())
    yield {"done": 1.0}


def accumulated():
    torch.manual_seed(1)
    model = mlp()
    opt = torch.optim.Adam(model.parameters(), lr=0.01)

    def step(epoch, turn, x, y):
        (functional.mse_loss(model(x), y) / 3).backward()
        if turn % 3 == 2:
            opt.step()
            opt.zero_grad()

    return stepwise(step, model=model, opt=opt)


def clipped():
    torch.manual_seed(1)
    model = mlp()
    opt = torch.optim.SGD(model.parameters(), lr=0.5)

    def step(epoch, turn, x, y):
        opt.zero_grad()
        functional.mse_loss(model(x), y).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 0.1)
        opt.step()

    return stepwise(step, model=model, opt=opt)


def by_hand():
    """Without an optimizer."""
    torch.manual_seed(1)
    model = mlp()

    def step(epoch, turn, x, y):
        functional.mse_loss(model(x), y).backward()
        with torch.no_grad():
            for one in model.parameters():
                one -= 0.05 * one.grad
                one.grad = None

    return stepwise(step, model=model, opt=None)


def gan():
    """Two models, two optimizers; the second's gradients also reach the first."""
    torch.manual_seed(1)
    makes = nn.Sequential(nn.Linear(1, 8), nn.Tanh(), nn.Linear(8, FEATURES)).double()
    tells = mlp()
    of_makes = torch.optim.Adam(makes.parameters(), lr=0.01)
    of_tells = torch.optim.Adam(tells.parameters(), lr=0.01)
    loss = nn.BCEWithLogitsLoss()

    def step(epoch, turn, x, y):
        made = makes(y)
        of_tells.zero_grad()
        (loss(tells(x), torch.ones_like(y)) + loss(tells(made.detach()), torch.zeros_like(y))).backward()
        of_tells.step()
        of_makes.zero_grad()
        loss(tells(made), torch.ones_like(y)).backward()
        of_makes.step()

    return stepwise(step, model=makes, opt=of_makes, tells=tells, of_tells=of_tells, loss=loss)


def either_order():
    """Two models, of which some ranks reach one first and others the other."""
    torch.manual_seed(1)
    one, two = mlp(), nn.Linear(FEATURES, 1).double()
    opt = torch.optim.SGD([*one.parameters(), *two.parameters()], lr=0.05)

    def step(epoch, turn, x, y):
        opt.zero_grad()
        first, second = (one, two) if x[0, 0] > 0 else (two, one)
        functional.mse_loss(first(x) + second(x), y).backward()
        opt.step()

    return stepwise(step, model=one, opt=opt, two=two)


class Mixed(nn.Module):
    """Layers of three types, one of them complex."""

    def __init__(self):
        super().__init__()
        self.first = nn.Linear(FEATURES, 8)
        self.waves = nn.Parameter(torch.view_as_complex(torch.randn(8, 2, dtype=torch.float64)))
        self.last = nn.Linear(8, 1).double()

    def forward(self, x):
        return self.last((self.first(x.float()).double() * self.waves).real)


def mixed():
    torch.manual_seed(1)
    model = Mixed()
    opt = torch.optim.SGD(model.parameters(), lr=0.05)

    def step(epoch, turn, x, y):
        opt.zero_grad()
        functional.mse_loss(model(x), y).backward()
        opt.step()

    return stepwise(step, model=model, opt=opt)


def frozen():
    """A base that is trained from the second epoch on."""
    torch.manual_seed(1)
    model = nn.ModuleDict({"base": mlp(), "head": nn.Linear(1, 1).double()})
    model["base"].requires_grad_(False)
    opt = torch.optim.SGD(model.parameters(), lr=0.05)

    def step(epoch, turn, x, y):
        model["base"].requires_grad_(epoch > 0)
        opt.zero_grad()
        functional.mse_loss(model["head"](model["base"](x)), y).backward()
        opt.step()

    return stepwise(step, model=model, opt=opt)


class Tied(nn.Module):
    """One weight in two places, and in a second module of the namespace."""

    def __init__(self):
        super().__init__()
        self.there = nn.Linear(FEATURES, 8, bias=False).double()
        self.back = nn.Linear(8, FEATURES).double()
        self.back.weight = nn.Parameter(torch.randn(FEATURES, 8, dtype=torch.float64))
        self.also = nn.Linear(8, FEATURES).double()
        self.also.weight = self.back.weight
        self.out = nn.Linear(FEATURES, 1).double()

    def forward(self, x):
        hidden = torch.tanh(self.there(x))
        return self.out(self.back(hidden) * self.also(hidden))


def shared():
    torch.manual_seed(1)
    model = Tied()
    opt = torch.optim.SGD(model.parameters(), lr=0.005)

    def step(epoch, turn, x, y):
        opt.zero_grad()
        functional.mse_loss(model(x), y).backward()
        opt.step()

    return stepwise(step, model=model, opt=opt, head=model.also)


class Branched(nn.Module):
    """Each sample goes through one of two layers, so ranks reach different parameters; a third is not used at first."""

    def __init__(self):
        super().__init__()
        self.left, self.right, self.late = (nn.Linear(FEATURES, 1).double() for _ in range(3))
        self.is_late = False

    def forward(self, x):
        # The last samples' feature tells: in a small part of a batch all may be on one side.
        found = torch.zeros(len(x), 1, dtype=x.dtype)
        for layer, mask in ((self.left, x[:, 0] > 0.4), (self.right, x[:, 0] <= 0.4)):
            if mask.any():
                found[mask] = layer(x[mask])
        return found + self.late(x) if self.is_late else found


def branched():
    torch.manual_seed(1)
    model = Branched()
    opt = torch.optim.Adam(model.parameters(), lr=0.05)

    def step(epoch, turn, x, y):
        model.is_late = epoch == 2
        opt.zero_grad()
        functional.mse_loss(model(x), y).backward()
        opt.step()

    return stepwise(step, model=model, opt=opt)


def recomputed():
    """Reentrant checkpoints: backward passes inside of the backward pass."""
    torch.manual_seed(1)
    model = mlp()
    opt = torch.optim.SGD(model.parameters(), lr=0.05)

    def step(epoch, turn, x, y):
        opt.zero_grad()
        x = x.requires_grad_()
        for layer in model:
            x = checkpoint(layer, x, use_reentrant=True)
        functional.mse_loss(x, y).backward()
        opt.step()

    return stepwise(step, model=model, opt=opt)


def bare():
    """A tensor that belongs to no module is known by its optimizer."""
    torch.manual_seed(1)
    model = mlp()
    offset = torch.zeros(1, dtype=torch.float64, requires_grad=True)
    opt = torch.optim.SGD([*model.parameters(), offset], lr=0.05)

    def step(epoch, turn, x, y):
        opt.zero_grad()
        functional.mse_loss(model(x) + offset, y).backward()
        opt.step()

    return stepwise(step, model=model, opt=opt)


def averaged():
    """A copy of the model follows it, and is what is reported."""
    torch.manual_seed(1)
    model = mlp()
    slow = copy.deepcopy(model).requires_grad_(False)
    opt = torch.optim.SGD(model.parameters(), lr=0.05)

    def step(epoch, turn, x, y):
        opt.zero_grad()
        functional.mse_loss(model(x), y).backward()
        opt.step()
        for old, new in zip(slow.parameters(), model.parameters(), strict=True):
            old.lerp_(new.detach(), 0.1)

    return stepwise(step, model=slow, opt=opt, trained=model)


def late_loader():
    """A loader that is made in each epoch."""
    torch.manual_seed(1)
    model, data = mlp(), Numbered()
    opt = torch.optim.SGD(model.parameters(), lr=0.05)
    seen = []
    yield {"model": model, "opt": opt, "seen": seen}
    for _ in range(3):
        for numbers, x, y in DataLoader(data, batch_size=8, shuffle=True):
            opt.zero_grad()
            functional.mse_loss(model(x), y).backward()
            opt.step()
            seen.append(torch.as_tensor(numbers).tolist())
        yield {"first": model[0].weight[0, 0].item()}


def begun(made, **options):
    """Batches come from what the set-up has made of the loader."""
    torch.manual_seed(1)
    model = mlp()
    opt = torch.optim.SGD(model.parameters(), lr=0.05)
    loader = DataLoader(Numbered(), **options)
    batches = made(loader)
    seen = []
    yield {"model": model, "opt": opt, "loader": loader, "seen": seen}
    for _ in range(3):
        for _ in range(4):
            numbers, x, y = next(batches)
            opt.zero_grad()
            loss = functional.mse_loss(model(x), y)
            loss.backward()
            opt.step()
            seen.append(numbers.tolist())
        yield {"first": model[0].weight[0, 0].item()}


def endless(loader):
    while True:
        yield from loader


def endless_begun(loader):
    batches = endless(loader)
    next(batches)
    return batches


def iterator():
    """The last batch has 7 samples."""
    return begun(lambda loader: itertools.chain(iter(loader), endless(loader)), batch_size=17, shuffle=True)


def iterator_under_way():
    return begun(endless_begun, batch_size=17, shuffle=True)


def iterator_with_workers():
    """They have been asked for the first batches when the ranks start."""
    return begun(endless_begun, batch_size=8, shuffle=True, drop_last=True, num_workers=1)


def cycled():
    return begun(itertools.cycle, batch_size=8, shuffle=True, drop_last=True)


def cycled_unevenly():
    return begun(itertools.cycle, batch_size=17)


def without_loader():
    """Batches by hand: each rank trains on all of them."""
    torch.manual_seed(1)
    model, data = mlp(), Numbered()
    opt = torch.optim.SGD(model.parameters(), lr=0.05)
    yield {"model": model, "opt": opt, "seen": []}
    for _ in range(3):
        for some in torch.randperm(len(data)).split(8):
            opt.zero_grad()
            loss = functional.mse_loss(model(data.x[some]), data.y[some])
            loss.backward()
            opt.step()
        yield {"loss": loss.item()}


def dropping():
    """For each sample numbers are drawn from the generators that orders are drawn from too."""
    np.random.seed(1)  # noqa: NPY002 - loops of users do
    random.seed(1)
    torch.manual_seed(1)
    model, drop = mlp(), nn.Dropout(0.5)

    def step(epoch, turn, x, y):
        model.zero_grad()
        noise = [random.gauss() + np.random.rand() for _ in x]  # noqa: NPY002 - loops of users do
        functional.mse_loss(model(drop(x)), y + torch.tensor(noise).view(-1, 1)).backward()

    return stepwise(step, model=model, opt=None, options={"batch_sampler": Varied(SAMPLES)})


def ending_workers():
    """The seconds that workers take to end, pass by pass, are in ``seen``; their exit codes too."""
    model = mlp()
    opt = torch.optim.SGD(model.parameters(), lr=0.05)
    loader = DataLoader(Numbered(), batch_size=8, num_workers=2)
    seen = []
    yield {"model": model, "opt": opt, "loader": loader, "seen": seen}
    for _ in range(3):
        batches = iter(loader)
        for turn, (_, x, y) in enumerate(batches, 1):
            opt.zero_grad()
            functional.mse_loss(model(x), y).backward()
            opt.step()
            if turn == len(loader):
                last = time.perf_counter()
        seen.append([time.perf_counter() - last, *(worker.exitcode for worker in batches._workers)])
    yield {"done": 1.0}


class Noisy(Numbered):
    """Workers draw noise."""

    def __getitem__(self, number):
        return number, torch.rand(FEATURES, dtype=torch.float64), self.y[number]


def drawing_workers():
    """What the workers of a rank draw is in ``seen``."""
    torch.manual_seed(1)
    model = mlp()
    loader = DataLoader(Noisy(), batch_size=8, num_workers=1)
    seen = []
    yield {"model": model, "loader": loader, "seen": seen}
    for _, x, _ in loader:
        seen.append(x[:, 0].tolist())
    yield {"drawn": 0.0}


class Narrow(nn.BatchNorm1d):
    """With a ``forward`` of its own."""

    def forward(self, input):  # noqa: A002 - torch's name
        return functional.batch_norm(input, None, None, training=True)


def norm_of_others():
    return plain(batch_size=8, drop_last=True, wrap=lambda one: nn.Sequential(Narrow(FEATURES), one))


class Normal(nn.Module):
    """Norms of vectors and of images, with and without statistics and weights."""

    def __init__(self):
        super().__init__()
        self.first = nn.BatchNorm1d(FEATURES)
        self.spread = nn.Conv2d(1, 3, 3, padding=1)
        self.second = nn.BatchNorm2d(3, affine=False, momentum=0.3)
        self.third = nn.BatchNorm2d(3, track_running_stats=False)
        self.each = nn.InstanceNorm2d(3, affine=True, track_running_stats=True)
        self.register_buffer("largest", torch.zeros(()))
        self.last = nn.Linear(3 * FEATURES, 1)

    def forward(self, x):
        images = self.spread(self.first(x).view(-1, 1, 2, FEATURES // 2))
        self.largest.copy_(x.detach().max())
        return self.last(self.each(self.third(torch.tanh(self.second(images)) ** 2)).flatten(1))


def normalized(**options):
    return plain(wrap=lambda one: Normal().double(), optimizer=torch.optim.SGD, shuffle=True, **options)


def normalized_evenly():
    return normalized(batch_size=8, drop_last=True)


def normalized_unevenly():
    """The last batch has 2 samples."""
    return normalized(batch_size=13)


def normalized_compiled():
    return plain(
        wrap=lambda one: torch.compile(Normal().double(), backend="aot_eager"),
        optimizer=torch.optim.SGD,
        shuffle=True,
        batch_size=8,
        drop_last=True,
        epochs=1,
    )


# -- what is refused, or found --


def of_evaluation():
    """Evaluations by an iterable data set, by whole batches, and in evaluation mode: each rank reads all of it."""
    model, criterion = mlp(), nn.MSELoss()
    loaders = [DataLoader(Stream(Numbered()), batch_size=8), DataLoader(Numbered(), batch_size=None)]
    by_mode = DataLoader(Numbered(), batch_size=8)
    seen = []
    yield {"model": model, "criterion": criterion, "loaders": loaders, "by_mode": by_mode, "seen": seen}
    with torch.no_grad():
        seen.extend([torch.as_tensor(numbers).reshape(-1).tolist() for numbers, _, _ in itertools.chain(*loaders)])
    model.eval()
    seen.extend([numbers.tolist() for numbers, _, _ in by_mode])
    model.train()
    yield {"count": float(sum(map(len, seen)))}


def of_stream():
    return refused(DataLoader(Stream(Numbered()), batch_size=8))


def of_whole_batches():
    return refused(DataLoader(Numbered(), batch_size=None))


def refused(loader, model=None):
    model = model or mlp()
    yield {"model": model, "loader": loader, "seen": []}
    for _, x, y in loader:
        functional.mse_loss(model(x), y).backward()
    yield {}


def lazy():
    return refused(DataLoader(Numbered(), batch_size=8), nn.Sequential(nn.LazyLinear(1)))


def sparse():
    return refused(DataLoader(Numbered(), batch_size=8), nn.Sequential(nn.Embedding(10, 3, sparse=True)))


def out_of_order():
    return refused(DataLoader(Numbered(), batch_size=8, num_workers=2, in_order=False))


def several_gpus():
    return refused(DataLoader(Numbered(), batch_size=8), nn.DataParallel(mlp()))


def added_up():
    yield {"model": mlp(), "criterion": nn.L1Loss(reduction="sum"), "seen": []}


def different_models():
    return refused(DataLoader(Numbered(), batch_size=8), nn.Linear(FEATURES, 1 + int(os.environ["RANK"])))


def two_uneven():
    """Two loaders in one step, whose last batches do not divide in the same way."""
    model = mlp()
    one, two = (DataLoader(Numbered(), batch_size=size) for size in (4, 5))
    yield {"model": model, "one": one, "two": two, "seen": []}
    for (_, x, y), (_, also, _) in zip(one, two, strict=False):
        (functional.mse_loss(model(x), y) + model(also).mean()).backward()
    yield {}


def own_steps():
    """A learning rate by each rank's own loss."""
    torch.manual_seed(1)
    model = mlp()
    opt = torch.optim.SGD(model.parameters(), lr=0.05)

    def step(epoch, turn, x, y):
        opt.zero_grad()
        loss = functional.mse_loss(model(x), y)
        loss.backward()
        opt.param_groups[0]["lr"] = 0.05 * loss.item()
        opt.step()

    return stepwise(step, model=model, opt=opt)


def late_layer():
    """A layer that is made in the loop, whose gradients have no hook."""
    torch.manual_seed(1)
    model = mlp()

    def step(epoch, turn, x, y):
        if turn == 0:
            model.append(nn.Linear(1, 1).double())
        functional.mse_loss(model(x), y).backward()

    return stepwise(step, model=model, opt=None)


def past_hooks():
    """Gradients that no hook sees."""
    torch.manual_seed(1)
    model = mlp()
    opt = torch.optim.SGD(model.parameters(), lr=0.05)

    def step(epoch, turn, x, y):
        parameters = list(model.parameters())
        loss = functional.mse_loss(model(x), y)
        for one, gradient in zip(parameters, torch.autograd.grad(loss, parameters), strict=True):
            one.grad = gradient
        opt.step()

    return stepwise(step, model=model, opt=opt)


def one_changed():
    """One rank changes a parameter by itself."""
    torch.manual_seed(1)
    model = mlp()
    opt = torch.optim.SGD(model.parameters(), lr=0.05)

    def step(epoch, turn, x, y):
        opt.zero_grad()
        functional.mse_loss(model(x), y).backward()
        if epoch == 1 and turn == 2 and os.environ["RANK"] == "1":
            with torch.no_grad():
                model[2].weight[0, 3] += 1.0
        opt.step()

    return stepwise(step, model=model, opt=opt)


def other_reports():
    model = mlp()
    loader = DataLoader(Numbered(), batch_size=8)
    yield {"model": model, "loader": loader, "seen": []}
    yield {"loss": 1.0, f"of_{os.environ['RANK']}": 2.0}


def leaving(leave, **options):
    """On rank 1, ``leave`` is called in the middle of the second epoch: it returns whether to end the pass there."""
    torch.manual_seed(1)
    model = mlp()
    opt = torch.optim.SGD(model.parameters(), lr=0.05)
    loader = DataLoader(Numbered(), batch_size=8)
    yield {"model": model, "opt": opt, "loader": loader, "seen": []}
    for epoch in range(3):
        for turn, (_, x, y) in enumerate(loader):
            if os.environ["RANK"] == "1" and (epoch, turn) == (1, 2) and leave():
                break
            opt.zero_grad()
            functional.mse_loss(model(x), y).backward()
            opt.step()
        yield {"loss": 1.0}


def one_breaks():
    return leaving(lambda: True)


def one_fails():
    def leave():
        raise ValueError("no more")

    return leaving(leave)


def one_returns():
    """Rank 1 has one epoch only."""
    for turn, given in enumerate(leaving(lambda: False)):
        yield given
        if os.environ["RANK"] == "1" and turn == 1:
            return


def sharded_sgd():
    return plain(batch_size=17, shuffle=True, optimizer=lambda these, lr: torch.optim.SGD(these, lr, momentum=0.9))


class Small(nn.Module):
    """A transformer of two blocks."""

    def __init__(self):
        super().__init__()
        self.first = nn.Linear(1, 8)
        self.blocks = nn.ModuleList(nn.TransformerEncoderLayer(8, 2, 16, 0.0, batch_first=True) for _ in range(2))
        self.last = nn.Linear(8, 1)

    def forward(self, x):
        x = self.first(x[..., None])
        for one in self.blocks:
            x = one(x)
        return self.last(x.mean(1))


def sharded_transformer():
    torch.manual_seed(1)
    model = Small().double()
    loader = DataLoader(Numbered(), batch_size=17, shuffle=True)
    opt = torch.optim.AdamW(model.parameters(), lr=0.01)
    schedule = torch.optim.lr_scheduler.StepLR(opt, 1, 0.5)
    seen = []
    yield {"model": model, "loader": loader, "opt": opt, "schedule": schedule, "seen": seen}
    for _ in range(3):
        total = count = 0
        for numbers, x, y in loader:
            opt.zero_grad()
            loss = functional.mse_loss(model(x), y)
            loss.backward()
            norm = nn.utils.clip_grad_norm_(model.parameters(), 0.5)
            opt.step()
            seen.append(numbers.tolist())
            total, count = total + loss.item() * len(x), count + len(x)
        schedule.step()
        yield {"loss": total / count, "norm": norm.item()}


def rmsprop():
    return plain(optimizer=torch.optim.RMSprop)


def sharded_parts():
    """It says how many numbers of the parameters and of the optimizer's moments are on this rank."""
    model = nn.Sequential(nn.Linear(FEATURES, 32), nn.Tanh(), nn.Linear(32, 1)).double()
    loader, seen = DataLoader(Numbered(), batch_size=8), []
    opt = torch.optim.Adam(model.parameters(), lr=0.01)
    yield {"model": model, "loader": loader, "opt": opt, "seen": seen}
    for _, x, y in loader:
        opt.zero_grad()
        functional.mse_loss(model(x), y).backward()
        opt.step()
    weights = [*model.parameters()]
    moments = [one for state in opt.state.values() for one in state.values() if one.dim()]
    here = [sum(one._local_tensor.numel() for one in these) for these in (weights, moments)]
    seen.append([here[0], sum(one.numel() for one in weights), here[1]])
    yield {"loss": 0.0}
