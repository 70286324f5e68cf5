"""Cross-validation with the epochs in the inner loop."""
import numpy as np
import torch
from sklearn.datasets import load_iris
from sklearn.model_selection import KFold
from torch import nn
from workbench import trial

torch.manual_seed(0)
X, y = load_iris(return_X_y=True)
X, y = torch.tensor(X).float(), torch.tensor(y)
scores = []

for fold, (train_idx, val_idx) in enumerate(KFold(3, shuffle=True, random_state=0).split(X)):
    print("FOLD", fold)
    model = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 3))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    for epoch in trial.steps():
        model.train()
        for batch in torch.tensor(np.random.permutation(train_idx)).split(20):
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(X[batch]), y[batch])
            loss.backward()
            optimizer.step()
        model.eval()
        with torch.no_grad():
            val_acc = (model(X[val_idx]).argmax(1) == y[val_idx]).float().mean().item()
        print(f"  epoch {epoch}: loss {loss.item():.4f} val_acc {val_acc:.4f}")
        trial.report(val_acc=val_acc)
    scores.append(val_acc)

print("mean accuracy:", sum(scores) / len(scores))
np.save("scores.npy", scores)
