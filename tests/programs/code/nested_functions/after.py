"""Digits, everything inside main(), with helpers defined where they are used."""
import random

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from sklearn.datasets import load_digits
from workbench import trial


def main():
    random.seed(0)
    np.random.seed(0)
    torch.manual_seed(0)

    digits = load_digits()
    X = torch.tensor(digits.data[:600] / 16.0, dtype=torch.float32)
    y = torch.tensor(digits.target[:600])
    order = np.random.permutation(len(X))
    train_idx, val_idx = order[:450], order[450:]

    model = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Dropout(0.2), nn.Linear(32, 10))
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    history = {"loss": [], "acc": []}
    best = 0.0

    def augment(x):
        noise = torch.randn_like(x) * 0.05
        shift = random.choice([-1, 0, 1])
        return torch.roll(x + noise, shift, dims=1)

    def train_one_epoch():
        nonlocal train_idx
        model.train()
        train_idx = np.random.permutation(train_idx)
        total = 0.0
        for i in range(0, len(train_idx), 64):
            batch = train_idx[i:i + 64]

            def closure():
                optimizer.zero_grad()
                loss = F.cross_entropy(model(augment(X[batch])), y[batch])
                loss.backward()
                return loss

            total += optimizer.step(closure).item() * len(batch)
        return total / len(train_idx)

    def evaluate():
        nonlocal best
        model.eval()
        with torch.no_grad():
            acc = (model(X[val_idx]).argmax(1) == y[val_idx]).float().mean().item()
        best = max(best, acc)
        return acc

    for epoch in trial.steps():
        loss = train_one_epoch()
        acc = evaluate()
        history["loss"].append(loss)
        history["acc"].append(acc)
        print(f"epoch {epoch + 1}: loss {loss:.4f}, acc {acc:.4f}, best {best:.4f}")
        trial.report(acc=acc, loss=loss)

    torch.save({"model": model.state_dict(), "history": history}, "model.pt")


if __name__ == "__main__":
    main()
