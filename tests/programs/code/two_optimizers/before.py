"""Actor and critic style: an embedding with one optimizer and a head with another, stepped in turns."""
import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.optim.lr_scheduler import CosineAnnealingLR, LambdaLR
from torch.utils.data import DataLoader, TensorDataset, random_split

EPOCHS = 6
g = torch.Generator().manual_seed(11)
torch.manual_seed(11)

digits = load_digits()
dataset = TensorDataset(torch.tensor(digits.images[:700] / 16).float().unsqueeze(1), torch.tensor(digits.target[:700]))
train_set, val_set = random_split(dataset, [500, 200], generator=g)
train_loader = DataLoader(train_set, batch_size=50, shuffle=True, generator=g)
val_loader = DataLoader(val_set, batch_size=200)

encoder = nn.Sequential(nn.Conv2d(1, 12, 3), nn.ReLU(), nn.Flatten(), nn.Linear(12 * 36, 24))
decoder = nn.Sequential(nn.Linear(24, 64), nn.Sigmoid(), nn.Unflatten(1, (1, 8, 8)))
head = nn.Linear(24, 10)

opt_ae = torch.optim.Adam([*encoder.parameters(), *decoder.parameters()], lr=3e-3, betas=(0.5, 0.999))
opt_head = torch.optim.SGD(head.parameters(), lr=0.2, momentum=0.9, nesterov=True)
schedulers = [CosineAnnealingLR(opt_ae, EPOCHS), LambdaLR(opt_head, lambda e: 0.9 ** e)]

for epoch in range(EPOCHS):
    for i, (x, y) in enumerate(train_loader):
        opt_ae.zero_grad()
        rec = nn.functional.mse_loss(decoder(encoder(x)), x)
        rec.backward()
        opt_ae.step()
        if i % 2 == 0:
            opt_head.zero_grad()
            cls = nn.functional.cross_entropy(head(encoder(x).detach()), y)
            cls.backward()
            opt_head.step()
    for s in schedulers:
        s.step()
    with torch.no_grad():
        acc = sum((head(encoder(x)).argmax(1) == y).sum().item() for x, y in val_loader) / len(val_set)
    print(f"{epoch}: rec {rec.item():.4f} cls {cls.item():.4f} acc {acc:.3f} lr {schedulers[0].get_last_lr()[0]:.2e}")

torch.save([m.state_dict() for m in (encoder, decoder, head)], "parts.pt")
