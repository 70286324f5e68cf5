"""An exponential moving average of the weights, evaluated in place of the weights (swap, evaluate, swap back)."""
import copy
from contextlib import contextmanager

import torch
import torch.nn as nn
import torch.nn.functional as F
from sklearn.datasets import load_digits
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn
from torch.utils.data import DataLoader, TensorDataset
from workbench import trial

torch.manual_seed(31)


class EMA:
    def __init__(self, model, decay=0.95):
        self.decay, self.updates = decay, 0
        self.shadow = {k: v.clone() for k, v in model.state_dict().items()}

    def update(self, model):
        self.updates += 1
        d = min(self.decay, (1 + self.updates) / (10 + self.updates))
        for k, v in model.state_dict().items():
            if v.dtype.is_floating_point:
                self.shadow[k].mul_(d).add_(v.detach(), alpha=1 - d)
            else:
                self.shadow[k] = v.clone()

    @contextmanager
    def average_parameters(self, model):
        backup = copy.deepcopy(model.state_dict())
        model.load_state_dict(self.shadow)
        try:
            yield
        finally:
            model.load_state_dict(backup)


x, y = map(torch.tensor, load_digits(return_X_y=True))
x = x.float() / 16
loader = DataLoader(TensorDataset(x[:500], y[:500]), batch_size=50, shuffle=True)
model = nn.Sequential(nn.Linear(64, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Linear(32, 10))
opt = torch.optim.SGD(model.parameters(), lr=0.2)
ema = EMA(model)
averaged = AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(0.9))

for epoch in trial.steps():
    for xb, yb in loader:
        model.train()
        opt.zero_grad()
        F.cross_entropy(model(xb), yb).backward()
        opt.step()
        ema.update(model)
        averaged.update_parameters(model)
    model.eval()
    with torch.no_grad():
        acc = (model(x[500:700]).argmax(1) == y[500:700]).float().mean().item()
        with ema.average_parameters(model):
            ema_acc = (model(x[500:700]).argmax(1) == y[500:700]).float().mean().item()
        swa_loss = F.cross_entropy(averaged(x[500:700]), y[500:700]).item()
    print(f"epoch {epoch}: acc {acc:.4f} ema acc {ema_acc:.4f} averaged loss {swa_loss:.4f}")
    trial.report(ema_acc=ema_acc, acc=acc, loss=swa_loss)

torch.save({"ema": ema.shadow, "model": model.state_dict()}, "ema.pt")
