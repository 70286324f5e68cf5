"""Unbalanced classes: WeightedRandomSampler, augmentation in loader workers, worker_init_fn."""
import random

import numpy as np
import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, Dataset, WeightedRandomSampler
from workbench import trial


class UnbalancedDigits(Dataset):
    def __init__(self, train=True):
        images, labels = load_digits(return_X_y=True)
        images, labels = (images[:700], labels[:700]) if train else (images[700:900], labels[700:900])
        keep = (labels % 3 != 0) | (np.arange(len(labels)) % 4 == 0) if train else np.ones(len(labels), dtype=bool)
        self.images, self.labels, self.train = images[keep] / 16, labels[keep], train

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, i):
        image = self.images[i].reshape(8, 8)
        if self.train:
            image = np.roll(image, random.randint(-1, 1), axis=1) + np.random.normal(0, 0.02, (8, 8))
            if torch.rand(()) < 0.1:
                image = image * 0.5
        return torch.tensor(image[None]).float(), int(self.labels[i])


def seed_worker(worker_id):
    worker_seed = torch.initial_seed() % 2**32
    np.random.seed(worker_seed)
    random.seed(worker_seed)


def main():
    torch.manual_seed(0)
    g = torch.Generator()
    g.manual_seed(0)
    train_set, val_set = UnbalancedDigits(), UnbalancedDigits(train=False)
    counts = np.bincount(train_set.labels)
    weights = 1.0 / counts[train_set.labels]
    sampler = WeightedRandomSampler(torch.from_numpy(weights), num_samples=320, replacement=True, generator=g)
    train_loader = DataLoader(train_set, batch_size=32, sampler=sampler, num_workers=2,
                              worker_init_fn=seed_worker, generator=g)
    val_loader = DataLoader(val_set, batch_size=100)
    model = nn.Sequential(nn.Conv2d(1, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Flatten(), nn.Linear(288, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    for epoch in trial.steps():
        model.train()
        for x, y in train_loader:
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
        model.eval()
        with torch.no_grad():
            balanced = np.mean([(model(x).argmax(1) == y).float().mean().item() for x, y in val_loader])
        print(f"epoch {epoch}: loss {loss.item():.4f}, balanced accuracy {balanced:.4f}")
        trial.report(balanced=balanced, loss=loss)
    torch.save(model.state_dict(), "balanced.pt")


if __name__ == "__main__":
    main()
