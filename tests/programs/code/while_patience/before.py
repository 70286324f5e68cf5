"""A while loop that ends when the validation loss has not improved for a while."""
import torch
from sklearn.datasets import make_regression
from sklearn.model_selection import train_test_split
from torch import nn

torch.manual_seed(3)
X, y = make_regression(400, 12, noise=8.0, random_state=3)
X_train, X_val, y_train, y_val = train_test_split(
    torch.tensor(X).float(), torch.tensor(y).float() / 100, test_size=0.3, random_state=3)

model = nn.Sequential(nn.Linear(12, 32), nn.Tanh(), nn.Linear(32, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.4, momentum=0.8)
loss_fn = nn.MSELoss()

epoch, max_epochs = 0, 12
patience, wait = 3, 0
best_loss = float("inf")
losses = []

while epoch < max_epochs and wait < patience:
    model.train()
    for idx in torch.randperm(len(X_train)).split(40):
        optimizer.zero_grad()
        loss = loss_fn(model(X_train[idx]).squeeze(1), y_train[idx])
        loss.backward()
        optimizer.step()
    model.eval()
    with torch.no_grad():
        val_loss = loss_fn(model(X_val).squeeze(1), y_val).item()
    losses.append(val_loss)
    if val_loss < best_loss - 1e-4:
        best_loss, wait = val_loss, 0
    else:
        wait += 1
    epoch += 1
    print(f"epoch {epoch} val_loss {val_loss:.5f} (best {best_loss:.5f}, wait {wait})")

print("stopped after", len(losses), "epochs")
torch.save(model.state_dict(), "regressor.pt")
