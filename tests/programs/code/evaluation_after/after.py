%%train --goal max val_acc --steps 1-6
"""Train, then test: a confusion matrix, a report in JSON and the misclassified images in a file."""
import json

import numpy as np
import torch
import torch.nn as nn
from sklearn.datasets import load_digits
from sklearn.metrics import classification_report, confusion_matrix
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler
from torch.utils.data import DataLoader, TensorDataset

SEED, BATCH, EPOCHS = 1234, 40, trial.max_steps
np.random.seed(SEED)
torch.manual_seed(SEED)

X, y = load_digits(return_X_y=True)
X_train, X_test, y_train, y_test = train_test_split(X[:800], y[:800], test_size=0.25, stratify=y[:800])
X_train, X_val, y_train, y_val = train_test_split(X_train, y_train, test_size=0.2, stratify=y_train)
scaler = StandardScaler().fit(X_train)
tensors = lambda X, y: (torch.tensor(scaler.transform(X)).float(), torch.tensor(y))
train_dl = DataLoader(TensorDataset(*tensors(X_train, y_train)), batch_size=BATCH, shuffle=True)
val, test = tensors(X_val, y_val), tensors(X_test, y_test)

model = nn.Sequential(nn.Linear(64, 50), nn.ELU(), nn.AlphaDropout(0.1), nn.Linear(50, 10))
optimizer = torch.optim.NAdam(model.parameters(), lr=2e-3)
loss_fn = nn.CrossEntropyLoss()
train_losses, val_accs = [], []

for epoch in trial.steps():
    model.train()
    epoch_loss = 0
    for xb, yb in train_dl:
        loss = loss_fn(model(xb), yb)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        epoch_loss += loss.item()
    model.eval()
    with torch.no_grad():
        val_acc = (model(val[0]).argmax(dim=1) == val[1]).float().mean().item()
    train_losses.append(epoch_loss / len(train_dl))
    val_accs.append(val_acc)
    print(f"Epoch {epoch + 1:02d}/{EPOCHS} - loss: {train_losses[-1]:.4f} - val_acc: {val_acc:.4f}")
    trial.report(val_acc=val_acc, loss=train_losses[-1])

model.eval()
with torch.no_grad():
    probabilities = torch.softmax(model(test[0]), dim=1).numpy()
predicted = probabilities.argmax(1)
print(confusion_matrix(y_test, predicted))
report = classification_report(y_test, predicted, output_dict=True, zero_division=0)
report["history"] = {"loss": train_losses, "val_acc": val_accs}
with open("report.json", "w") as f:
    json.dump(report, f, indent=2)
np.save("misclassified.npy", X_test[predicted != y_test])
torch.save(model.state_dict(), "model.pt")
