"""Gradient accumulation whose count goes on over the end of an epoch: some gradients stay for the next one."""
import torch
import torch.nn.functional as F
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
from tqdm import tqdm
from workbench import trial

torch.manual_seed(21)
accumulation_steps = 4
digits = load_digits()
images, labels = torch.tensor(digits.images / 16).float().unsqueeze(1), torch.tensor(digits.target)
train_loader = DataLoader(TensorDataset(images[:450], labels[:450]), batch_size=45, shuffle=True)

model = nn.Sequential(
    nn.Conv2d(1, 8, 3), nn.GroupNorm(2, 8), nn.ReLU(), nn.Dropout2d(0.1), nn.Flatten(), nn.Linear(288, 10)
)
optimizer = torch.optim.AdamW(model.parameters(), lr=4e-3, weight_decay=0.01)
scheduler = torch.optim.lr_scheduler.LinearLR(optimizer, start_factor=0.1, total_iters=8)
micro_step = 0
optimizer.zero_grad()

for epoch in trial.steps():
    model.train()
    progress = tqdm(train_loader, desc=f"epoch {epoch}", leave=False)
    for inputs, targets in progress:
        loss = F.cross_entropy(model(inputs), targets) / accumulation_steps
        loss.backward()
        micro_step += 1
        if micro_step % accumulation_steps == 0:
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            scheduler.step()
            optimizer.zero_grad()
        progress.set_postfix(loss=loss.item() * accumulation_steps)
    model.eval()
    with torch.no_grad():
        val_loss = F.cross_entropy(model(images[450:650]), labels[450:650]).item()
    left = sum(p.grad.abs().sum().item() for p in model.parameters() if p.grad is not None)
    print(f"epoch {epoch} val_loss {val_loss:.4f} lr {scheduler.get_last_lr()[0]:.5f} gradient left {left:.4f}")
    trial.report(val_loss=val_loss, left=left)

torch.save(model.state_dict(), "accumulated.pt")
