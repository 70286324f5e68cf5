"""Hydra: a model and an optimizer instantiated from the configuration."""
import logging
import random

import hydra
import numpy as np
import torch
from hydra.utils import instantiate
from omegaconf import DictConfig, OmegaConf
from sklearn.datasets import load_digits
from torch.utils.data import DataLoader, TensorDataset

log = logging.getLogger(__name__)


def seed_everything(seed: int) -> None:
    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)


class MLP(torch.nn.Module):
    def __init__(self, widths, dropout: float) -> None:
        super().__init__()
        self.widths = widths
        sizes = [64, *widths]
        layers = []
        for a, b in zip(sizes, sizes[1:]):
            layers += [torch.nn.Linear(a, b), torch.nn.Mish(), torch.nn.Dropout(dropout)]
        self.body, self.head = torch.nn.Sequential(*layers), torch.nn.Linear(sizes[-1], 10)

    def forward(self, x):
        return self.head(self.body(x))


@hydra.main(version_base=None, config_path="conf", config_name="config")
def main(cfg: DictConfig) -> float:
    log.info("\n%s", OmegaConf.to_yaml(cfg))
    seed_everything(cfg.seed)
    digits = load_digits()
    x, y = torch.tensor(digits.data / 16).float(), torch.tensor(digits.target)
    loader = DataLoader(TensorDataset(x[:500], y[:500]), batch_size=cfg.data.batch_size, shuffle=True)
    model = MLP(cfg.model.widths, cfg.model.dropout)
    optimizer = instantiate(cfg.optimizer, params=model.parameters())
    best = 0.0
    for epoch in range(cfg.trainer.max_epochs):
        model.train()
        for xb, yb in loader:
            loss = torch.nn.functional.cross_entropy(model(xb), yb)
            optimizer.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), cfg.trainer.clip)
            optimizer.step()
        model.eval()
        with torch.no_grad():
            acc = (model(x[500:700]).argmax(1) == y[500:700]).float().mean().item()
        best = max(best, acc)
        log.info("epoch %d loss %.4f acc %.4f best %.4f", epoch, loss.item(), acc, best)
    torch.save(model.state_dict(), "hydra.pt")
    return best


if __name__ == "__main__":
    main()
