"""A config as a dataclass, overridden by --key=value, saved beside the model."""
import dataclasses
import json
import sys
from dataclasses import dataclass, field

import torch
import torch.nn.functional as F
from sklearn.datasets import load_digits
from torch import nn


@dataclass
class OptimConfig:
    lr: float = 2e-3
    betas: tuple = (0.9, 0.95)
    weight_decay: float = 0.1


@dataclass
class Config:
    seed: int = 1337
    dim: int = 24
    heads: int = 2
    layers: int = 2
    dropout: float = 0.1
    batch_size: int = 64
    steps: int = 6
    optim: OptimConfig = field(default_factory=OptimConfig)

    @classmethod
    def from_args(cls, argv):
        config = cls()
        for word in argv:
            key, _, value = word.lstrip("-").partition("=")
            *path, name = key.split(".")
            target = config
            for part in path:
                target = getattr(target, part)
            setattr(target, name, type(getattr(target, name))(value))
        return config


class Block(nn.Module):
    def __init__(self, c: Config):
        super().__init__()
        self.ln1, self.ln2 = nn.LayerNorm(c.dim), nn.LayerNorm(c.dim)
        self.attn = nn.MultiheadAttention(c.dim, c.heads, dropout=c.dropout, batch_first=True)
        self.mlp = nn.Sequential(nn.Linear(c.dim, 4 * c.dim), nn.GELU(), nn.Linear(4 * c.dim, c.dim))

    def forward(self, x):
        h = self.ln1(x)
        x = x + self.attn(h, h, h, need_weights=False)[0]
        return x + self.mlp(self.ln2(x))


class RowTransformer(nn.Module):
    """Reads an image row by row."""

    def __init__(self, c: Config):
        super().__init__()
        self.embed, self.pos = nn.Linear(8, c.dim), nn.Parameter(0.02 * torch.randn(8, c.dim))
        self.blocks = nn.Sequential(*[Block(c) for _ in range(c.layers)])
        self.head = nn.Linear(c.dim, 10)

    def forward(self, x):
        return self.head(self.blocks(self.embed(x) + self.pos).mean(1))


def main(config: Config) -> None:
    torch.manual_seed(config.seed)
    digits = load_digits()
    x, y = torch.tensor(digits.images / 16).float(), torch.tensor(digits.target)
    model = RowTransformer(config)
    opt = torch.optim.AdamW(model.parameters(), **dataclasses.asdict(config.optim))
    for step in range(config.steps):
        model.train()
        for _ in range(6):
            ix = torch.randint(600, (config.batch_size,))
            loss = F.cross_entropy(model(x[ix]), y[ix])
            opt.zero_grad(set_to_none=True)
            loss.backward()
            opt.step()
        model.eval()
        with torch.no_grad():
            val_loss = F.cross_entropy(model(x[600:800]), y[600:800]).item()
        print(f"step {step}: train loss {loss.item():.4f}, val loss {val_loss:.4f}")
    torch.save(model.state_dict(), "ckpt.pt")
    with open("config.json", "w") as f:
        json.dump(dataclasses.asdict(config), f)


if __name__ == "__main__":
    main(Config.from_args(sys.argv[1:]))
