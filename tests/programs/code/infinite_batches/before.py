"""Training counted in iterations: an endless generator over the loader, as in diffusion and GAN code."""
import torch
import torch.nn.functional as F
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
X = torch.tensor(load_digits().data[:512] / 8.0 - 1).float()


def cycle(loader):
    while True:
        for batch in loader:
            yield batch


class Denoiser(nn.Module):
    def __init__(self, width=96):
        super().__init__()
        self.time = nn.Embedding(50, width)
        self.inp, self.mid, self.out = nn.Linear(64, width), nn.Linear(width, width), nn.Linear(width, 64)

    def forward(self, x, t):
        h = F.silu(self.inp(x) + self.time(t))
        return self.out(F.silu(self.mid(h)) + h)


betas = torch.linspace(1e-4, 0.2, 50)
alphas_bar = torch.cumprod(1 - betas, 0)
model = Denoiser()
opt = torch.optim.Adam(model.parameters(), lr=2e-3)
data = cycle(DataLoader(TensorDataset(X), batch_size=48, shuffle=True, drop_last=True))

for step in range(6):
    total = 0.0
    for _ in range(7):
        (x,) = next(data)
        t = torch.randint(0, 50, (len(x),))
        noise = torch.randn_like(x)
        a = alphas_bar[t][:, None]
        loss = F.mse_loss(model(a.sqrt() * x + (1 - a).sqrt() * noise, t), noise)
        opt.zero_grad()
        loss.backward()
        opt.step()
        total += loss.item()
    print(f"step {step}: loss {total / 7:.5f}")

torch.save(model.state_dict(), "denoiser.pt")
