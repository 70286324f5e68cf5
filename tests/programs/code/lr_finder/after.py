"""A range test finds the learning rate first, then one cycle with it; fastai's way by hand."""
import copy
import math

import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.optim.lr_scheduler import ExponentialLR, OneCycleLR
from torch.utils.data import DataLoader, TensorDataset
from workbench import trial

EPOCHS = trial.max_steps
torch.manual_seed(6)
digits = load_digits()
X, y = torch.tensor(digits.data / 16).float(), torch.tensor(digits.target)
train_dl = DataLoader(TensorDataset(X[:512], y[:512]), batch_size=64, shuffle=True)
model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.BatchNorm1d(64), nn.Linear(64, 10))
loss_fn = nn.CrossEntropyLoss()


def find_lr(model, loader, start=1e-4, end=1.0, steps=30, beta=0.9):
    state = copy.deepcopy(model.state_dict())
    opt = torch.optim.AdamW(model.parameters(), lr=start)
    sched = ExponentialLR(opt, (end / start) ** (1 / steps))
    lrs, losses, average, it = [], [], 0.0, iter(loader)
    for step in range(1, steps + 1):
        try:
            xb, yb = next(it)
        except StopIteration:
            it = iter(loader)
            xb, yb = next(it)
        loss = loss_fn(model(xb), yb)
        average = beta * average + (1 - beta) * loss.item()
        smooth = average / (1 - beta ** step)
        if losses and smooth > 4 * min(losses):
            break
        lrs.append(opt.param_groups[0]["lr"])
        losses.append(smooth)
        opt.zero_grad()
        loss.backward()
        opt.step()
        sched.step()
    model.load_state_dict(state)
    slopes = [(b - a) for a, b in zip(losses, losses[1:])]
    return lrs[min(range(len(slopes)), key=slopes.__getitem__)]


lr = find_lr(model, train_dl)
print(f"suggested learning rate: {lr:.2e} (10^{math.log10(lr):.2f})")
optimizer = torch.optim.AdamW(model.parameters(), lr=lr)
scheduler = OneCycleLR(optimizer, max_lr=lr, epochs=EPOCHS, steps_per_epoch=len(train_dl))

for epoch in trial.steps():
    model.train()
    for xb, yb in train_dl:
        loss = loss_fn(model(xb), yb)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        scheduler.step()
    model.eval()
    with torch.no_grad():
        valid_loss = loss_fn(model(X[512:712]), y[512:712]).item()
    print(f"{epoch}\ttrain {loss.item():.4f}\tvalid {valid_loss:.4f}\tlr {scheduler.get_last_lr()[0]:.2e}")
    trial.report(valid_loss=valid_loss)

torch.save(model.state_dict(), "one_cycle.pt")
