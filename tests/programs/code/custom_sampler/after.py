%%train --goal max acc --steps 1-6
"""A sampler of one's own: difficult examples come more often, by the losses of the epochs before."""
import torch
import torch.nn.functional as F
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import BatchSampler, DataLoader, Dataset, Sampler


class Digits(Dataset):
    def __init__(self, n):
        self.x, self.y = load_digits(return_X_y=True)
        self.x, self.y = self.x[:n] / 16, self.y[:n]

    def __len__(self):
        return len(self.x)

    def __getitem__(self, i):
        return torch.tensor(self.x[i], dtype=torch.float32), int(self.y[i]), i


class HardExampleSampler(Sampler):
    def __init__(self, dataset, seed=0):
        self.losses = torch.ones(len(dataset))
        self.generator = torch.Generator().manual_seed(seed)
        self.epoch = 0
        self.drawn = torch.zeros(len(dataset), dtype=torch.long)

    def __len__(self):
        return len(self.losses)

    def __iter__(self):
        self.epoch += 1
        chosen = torch.multinomial(self.losses, len(self), replacement=True, generator=self.generator)
        self.drawn += torch.bincount(chosen, minlength=len(self))
        yield from chosen.tolist()

    def update(self, index, loss):
        self.losses[index] = 0.5 * self.losses[index] + 0.5 * loss.detach()


torch.manual_seed(9)
dataset = Digits(480)
sampler = HardExampleSampler(dataset, seed=9)
loader = DataLoader(dataset, batch_sampler=BatchSampler(sampler, 40, drop_last=False))
model = nn.Sequential(nn.Linear(64, 40), nn.ReLU(), nn.Linear(40, 10))
optimizer = torch.optim.Adagrad(model.parameters(), lr=0.03)

for epoch in trial.steps():
    hits = 0
    for x, y, index in loader:
        logits = model(x)
        loss = F.cross_entropy(logits, y, reduction="none")
        optimizer.zero_grad()
        loss.mean().backward()
        optimizer.step()
        sampler.update(index, loss)
        hits += (logits.argmax(1) == y).sum().item()
    never = int((sampler.drawn == 0).sum())
    print(f"epoch {sampler.epoch}: acc {hits / len(dataset):.4f}, hardest {sampler.losses.max():.4f}, never {never}")
    trial.report(acc=hits / len(dataset), never=never)

torch.save((model.state_dict(), sampler.losses), "hard.pt")
