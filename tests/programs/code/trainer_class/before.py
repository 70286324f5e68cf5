"""A Trainer of one's own, as most research repositories have one."""
from pathlib import Path

import torch
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class AverageMeter:
    def __init__(self):
        self.reset()

    def reset(self):
        self.sum, self.count = 0.0, 0

    def update(self, value, n=1):
        self.sum += value * n
        self.count += n

    @property
    def avg(self):
        return self.sum / max(1, self.count)


class Callback:
    def on_epoch_end(self, trainer):
        pass


class KeepHistory(Callback):
    def __init__(self):
        self.rows = []

    def on_epoch_end(self, trainer):
        self.rows.append((trainer.epoch, trainer.losses.avg, trainer.val_acc))


class Trainer:
    def __init__(self, model, optimizer, scheduler, train_loader, val_loader, callbacks=()):
        self.model, self.optimizer, self.scheduler = model, optimizer, scheduler
        self.train_loader, self.val_loader = train_loader, val_loader
        self.callbacks = list(callbacks)
        self.criterion = nn.CrossEntropyLoss(label_smoothing=0.05)
        self.losses = AverageMeter()
        self.epoch, self.global_step, self.val_acc = 0, 0, 0.0

    def fit(self, epochs):
        for self.epoch in range(epochs):
            self.train_epoch()
            self.val_acc = self.validate()
            for callback in self.callbacks:
                callback.on_epoch_end(self)
            print(f"[{self.epoch}] loss={self.losses.avg:.4f} val_acc={self.val_acc:.4f}")
        return self

    def train_epoch(self):
        self.model.train()
        self.losses.reset()
        for x, y in self.train_loader:
            self.optimizer.zero_grad(set_to_none=True)
            loss = self.criterion(self.model(x), y)
            loss.backward()
            self.optimizer.step()
            self.losses.update(loss.item(), len(x))
            self.global_step += 1
        self.scheduler.step()

    @torch.no_grad()
    def validate(self):
        self.model.eval()
        hits = sum((self.model(x).argmax(1) == y).sum().item() for x, y in self.val_loader)
        return hits / len(self.val_loader.dataset)

    def save(self, path):
        torch.save({"model": self.model.state_dict(), "step": self.global_step}, path)


if __name__ == "__main__":
    torch.manual_seed(42)
    X, y = load_digits(return_X_y=True)
    X_tr, X_va, y_tr, y_va = train_test_split(X[:600] / 16, y[:600], test_size=0.25, random_state=0)
    as_data = lambda a, b: TensorDataset(torch.tensor(a).float(), torch.tensor(b))
    net = nn.Sequential(nn.Linear(64, 48), nn.BatchNorm1d(48), nn.GELU(), nn.Dropout(0.3), nn.Linear(48, 10))
    opt = torch.optim.AdamW(net.parameters(), lr=3e-3)
    trainer = Trainer(net, opt, torch.optim.lr_scheduler.StepLR(opt, 2, 0.5),
                      DataLoader(as_data(X_tr, y_tr), 32, shuffle=True), DataLoader(as_data(X_va, y_va), 128),
                      [KeepHistory()])
    trainer.fit(epochs=6).save(Path("trainer.pt"))
