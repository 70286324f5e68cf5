"""Cross-validation: a model for each fold, the mean of their accuracies at the end."""
import numpy as np
import torch
import torch.nn as nn
from sklearn.datasets import load_digits
from sklearn.model_selection import StratifiedKFold
from torch.utils.data import DataLoader, Subset, TensorDataset

torch.manual_seed(42)
np.random.seed(42)
digits = load_digits()
dataset = TensorDataset(torch.tensor(digits.data[:600] / 16).float(), torch.tensor(digits.target[:600]))
k_folds, num_epochs = 5, 3
results = {}


def reset_weights(m):
    for layer in m.children():
        if hasattr(layer, "reset_parameters"):
            layer.reset_parameters()


def train(model, loader, optimizer, loss_function):
    for epoch in range(num_epochs):
        for inputs, targets in loader:
            optimizer.zero_grad()
            loss = loss_function(model(inputs), targets)
            loss.backward()
            optimizer.step()
    return loss.item()


kfold = StratifiedKFold(n_splits=k_folds, shuffle=True, random_state=1)
model = nn.Sequential(nn.Linear(64, 40), nn.ReLU(), nn.Linear(40, 10))

for fold, (train_ids, test_ids) in enumerate(kfold.split(digits.data[:600], digits.target[:600])):
    loader = DataLoader(Subset(dataset, train_ids), batch_size=32, shuffle=True)
    model.apply(reset_weights)
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    loss = train(model, loader, optimizer, nn.CrossEntropyLoss())
    with torch.no_grad():
        inputs, targets = dataset[test_ids]
        results[fold] = 100.0 * (model(inputs).argmax(1) == targets).float().mean().item()
    print(f"fold {fold}: loss {loss:.4f}, accuracy {results[fold]:.2f} %, so far {np.mean(list(results.values())):.2f}")
    torch.save(model.state_dict(), f"model-fold-{fold}.pt")

print(f"Average: {sum(results.values()) / len(results)} %")
