%%train --goal max accuracy --steps 1-6
"""Batches come from a generator that each epoch makes; text like in old Keras tutorials."""
import numpy as np
import torch
import torch.nn as nn
from sklearn.datasets import load_digits

rng = np.random.default_rng(7)
torch.manual_seed(7)
data, target = load_digits(return_X_y=True)
data = (data[:640] / 16.0).astype("float32").reshape(-1, 1, 8, 8)
target = target[:640]


def batches(X, y, size, shuffle=True):
    index = rng.permutation(len(X)) if shuffle else np.arange(len(X))
    for start in range(0, len(X), size):
        chosen = index[start:start + size]
        yield X[chosen], y[chosen]


def augmented(stream, p=0.5):
    for X, y in stream:
        if rng.random() < p:
            X = X + rng.normal(0, 0.05, X.shape).astype("float32")
        yield torch.from_numpy(X), torch.from_numpy(y)


lr = loguniform(1e-4, 1e-2)
model = nn.Sequential(
    nn.Conv2d(1, 8, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
    nn.Conv2d(8, 8, 3, padding=1), nn.ReLU(), nn.Flatten(), nn.Linear(128, 10),
)
criterion = nn.CrossEntropyLoss()
optimizer = torch.optim.RMSprop(model.parameters(), lr=lr)

for epoch in trial.steps():
    running = 0.0
    for i, (xb, yb) in enumerate(augmented(batches(data[:500], target[:500], 50))):
        optimizer.zero_grad()
        loss = criterion(model(xb), yb)
        loss.backward()
        optimizer.step()
        running = loss.item() if i == 0 else 0.9 * running + 0.1 * loss.item()
    correct = 0
    with torch.no_grad():
        for xb, yb in batches(data[500:], target[500:], 70, shuffle=False):
            correct += (model(torch.from_numpy(xb)).argmax(1) == torch.from_numpy(yb)).sum().item()
    print("epoch", epoch, "loss", running, "accuracy", correct / 140)
    trial.report(accuracy=correct / 140, loss=running)

np.savez("weights.npz", **{name: w.numpy() for name, w in model.state_dict().items()})
