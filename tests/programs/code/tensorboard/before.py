"""Metrics go to TensorBoard, checkpoints to a file of the script's own; nothing is known about Workbench."""
import torch
from sklearn.datasets import make_moons
from torch import nn
from torch.utils.tensorboard import SummaryWriter

torch.manual_seed(12)
X, y = make_moons(400, noise=0.2, random_state=12)
X, y = torch.tensor(X).float(), torch.tensor(y).float()
train, val = slice(0, 300), slice(300, 400)

model = nn.Sequential(nn.Linear(2, 24), nn.ReLU(), nn.Linear(24, 24), nn.ReLU(), nn.Linear(24, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
loss_fn = nn.BCEWithLogitsLoss()
writer = SummaryWriter("runs/moons")
writer.add_text("model", str(model))
global_step = 0

for epoch in range(6):
    for index in torch.randperm(300).split(30):
        optimizer.zero_grad()
        loss = loss_fn(model(X[train][index]).squeeze(1), y[train][index])
        loss.backward()
        optimizer.step()
        writer.add_scalar("train/loss", loss.item(), global_step)
        global_step += 1
    with torch.no_grad():
        logits = model(X[val]).squeeze(1)
        val_acc = ((logits > 0) == (y[val] > 0.5)).float().mean().item()
    writer.add_scalar("val/acc", val_acc, epoch)
    writer.add_histogram("first layer", model[0].weight, epoch)

writer.close()
torch.save(model.state_dict(), "moons.pt")
