"""A stream without a length: an IterableDataset with a shuffle buffer, read on in each epoch."""
import itertools
import random

import torch
from torch import nn
from torch.utils.data import DataLoader, IterableDataset
from workbench import trial


class SensorStream(IterableDataset):
    """Readings of a noisy oscillator, made up as they come."""

    def __init__(self, window=16, seed=0):
        self.window, self.rng = window, random.Random(seed)
        self.position, self.speed = 1.0, 0.0

    def readings(self):
        while True:
            self.speed -= 0.1 * self.position + self.rng.gauss(0, 0.02)
            self.position += 0.1 * self.speed
            yield self.position

    def __iter__(self):
        recent = []
        for value in self.readings():
            recent.append(value)
            if len(recent) > self.window:
                yield torch.tensor(recent[:-1]), torch.tensor(recent[-1:])
                recent.pop(0)


class ShuffleBuffer(IterableDataset):
    def __init__(self, source, size, seed=0):
        self.source, self.size, self.rng = source, size, random.Random(seed)

    def __iter__(self):
        buffer = []
        for item in self.source:
            if len(buffer) < self.size:
                buffer.append(item)
            else:
                place = self.rng.randrange(self.size)
                yield buffer[place]
                buffer[place] = item


torch.manual_seed(4)
loader = DataLoader(ShuffleBuffer(SensorStream(), 64), batch_size=16)
model = nn.Sequential(nn.Linear(16, 24), nn.Tanh(), nn.Linear(24, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)

for epoch in trial.steps():
    total = 0.0
    for x, target in itertools.islice(loader, 12):
        loss = nn.functional.mse_loss(model(x), target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += loss.item()
    print(f"epoch {epoch}: loss {total / 12:.6f}")
    trial.report(loss=total / 12)

torch.save(model.state_dict(), "stream.pt")
