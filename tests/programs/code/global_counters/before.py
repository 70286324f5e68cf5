"""Module-level counters and caches, and a log file: a script that grew over the years."""
import functools
import logging

import numpy as np
import torch
from sklearn.datasets import load_digits

logging.basicConfig(
    level=logging.INFO,
    format="%(levelname)s %(name)s: %(message)s",
    handlers=[logging.StreamHandler(), logging.FileHandler("train.log", mode="a")],
)
log = logging.getLogger("train")

N_UPDATES = 0
N_HITS = 0
SEEN = set()
CACHE = {}
LOSSES = {"train": [], "val": []}
torch.manual_seed(17)
X, Y = load_digits(return_X_y=True)


@functools.lru_cache(maxsize=None)
def image(i):
    return torch.from_numpy((X[i] - 8) / 8).float()


def features(i):
    """The image and its mirror image, computed once with noise of their own."""
    global N_HITS
    if i in CACHE:
        N_HITS += 1
    else:
        flipped = image(i).view(8, 8).flip(1).reshape(-1)
        CACHE[i] = torch.cat([image(i), flipped]) + 0.01 * torch.randn(128)
    return CACHE[i]


def update(batch):
    global N_UPDATES, weights
    x, y = torch.stack([features(int(i)) for i in batch]), torch.from_numpy(Y[batch])
    loss = torch.nn.functional.cross_entropy(x @ weights, y)
    (gradient,) = torch.autograd.grad(loss, weights)
    weights = (weights - 0.3 / (1 + 0.01 * N_UPDATES) * gradient).detach().requires_grad_()
    N_UPDATES += 1
    SEEN.update(int(i) for i in batch)
    return loss.item()


weights = torch.zeros(128, 10, requires_grad=True)
rng = np.random.RandomState(17)

for epoch in range(6):
    batches = [rng.choice(400, 25) for _ in range(8)]
    LOSSES["train"] += [update(batch) for batch in batches]
    with torch.no_grad():
        held_out = torch.stack([features(i) for i in range(400, 480)])
        acc = ((held_out @ weights).argmax(1).numpy() == Y[400:480]).mean()
    LOSSES["val"].append(1 - acc)
    log.info("epoch %d: %d updates, %d of 400 seen, %d hits, accuracy %.4f", epoch, N_UPDATES, len(SEEN), N_HITS, acc)

np.save("weights.npy", weights.detach().numpy())
log.info("done after %d updates", N_UPDATES)
