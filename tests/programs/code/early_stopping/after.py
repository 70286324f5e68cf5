"""Early stopping by hand: the best weights are kept in a file and loaded again at the end."""
import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
from workbench import trial


class EarlyStopping:
    """Stops the training if the validation loss does not improve after a given patience."""

    def __init__(self, patience=3, delta=0.0, path="best.pt"):
        self.patience, self.delta, self.path = patience, delta, path
        self.counter, self.best_score, self.early_stop = 0, None, False

    def __call__(self, val_loss, model):
        score = -val_loss
        if self.best_score is None or score > self.best_score + self.delta:
            self.best_score, self.counter = score, 0
            torch.save(model.state_dict(), self.path)
        else:
            self.counter += 1
            print(f"EarlyStopping counter: {self.counter} out of {self.patience}")
            self.early_stop = self.counter >= self.patience


torch.manual_seed(2)
X, y = load_digits(return_X_y=True)
X, y = torch.tensor(X / 16).float(), torch.tensor(y)
train_loader = DataLoader(TensorDataset(X[:300], y[:300]), batch_size=20, shuffle=True)
model = nn.Sequential(nn.Linear(64, 100), nn.ReLU(), nn.Linear(100, 10))
optimizer = torch.optim.Adam(model.parameters(), lr=0.03)
criterion = nn.CrossEntropyLoss()
early_stopping = EarlyStopping(patience=2, delta=0.01, path=trial.folder / "best.pt")

for epoch in trial.steps():
    model.train()
    for data, target in train_loader:
        optimizer.zero_grad()
        criterion(model(data), target).backward()
        optimizer.step()
    model.eval()
    with torch.no_grad():
        val_loss = criterion(model(X[300:500]), y[300:500]).item()
    print(f"[{epoch}] valid_loss: {val_loss:.5f}")
    trial.report(val_loss=val_loss)
    early_stopping(val_loss, model)
    if early_stopping.early_stop:
        print("Early stopping")
        break

model.load_state_dict(torch.load(early_stopping.path))
with torch.no_grad():
    accuracy = (model(X[500:700]).argmax(1) == y[500:700]).float().mean().item()
print(f"test accuracy with the best weights: {accuracy:.4f}")
torch.save(model.state_dict(), "final.pt")
