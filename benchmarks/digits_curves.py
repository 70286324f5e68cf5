"""Learning curves of 81 configurations on scikit-learn's digits, recorded once: true curves to replay schedulers on.

``python -m benchmarks.digits_curves`` trains them again (about a minute) and writes ``data/digits-81x27.json``.
"""

from __future__ import annotations

import json
from pathlib import Path

from workbench.records import Goal, Scheduler
from workbench.search import Search
from workbench.space import Space, choice, loguniform, uniform

SPACE = Space({"lr": loguniform(1e-4, 1.0), "hidden": choice(32, 64, 128, 256), "dropout": uniform(0.0, 0.5)})
TRIALS, STEPS = 81, 27
FILE = Path(__file__).parent / "data" / f"digits-{TRIALS}x{STEPS}.json"


def curves() -> list[list[float]]:
    """Validation accuracy by trial and step."""
    recorded: list[list[float]] = json.loads(FILE.read_text())
    return recorded


def train() -> list[list[float]]:
    """Train all of them, one thread, seeded."""
    import torch
    from sklearn.datasets import load_digits
    from torch import nn

    torch.set_num_threads(1)
    digits = load_digits()
    x = torch.tensor(digits.data / 16, dtype=torch.float32)
    y = torch.tensor(digits.target)
    order = torch.randperm(len(x), generator=torch.Generator().manual_seed(0))
    training, held_out = order[:1437], order[1437:]
    search = Search(Goal("val_acc"), SPACE, Scheduler("all", 1, STEPS), seed=0, trials=TRIALS)
    found = []
    for trial in range(TRIALS):
        values = search.configuration(trial)
        torch.manual_seed(trial)
        hidden = values["hidden"]
        model = nn.Sequential(nn.Linear(64, hidden), nn.ReLU(), nn.Dropout(values["dropout"]), nn.Linear(hidden, 10))
        optimizer = torch.optim.SGD(model.parameters(), lr=values["lr"], momentum=0.9)
        curve = []
        for _ in range(STEPS):
            model.train()
            for batch in training[torch.randperm(len(training))].split(32):
                optimizer.zero_grad()
                nn.functional.cross_entropy(model(x[batch]), y[batch]).backward()
                optimizer.step()
            model.eval()
            with torch.no_grad():
                right = (model(x[held_out]).argmax(1) == y[held_out]).float().mean()
            curve.append(round(float(right), 4))
        found.append(curve)
    return found


if __name__ == "__main__":
    FILE.parent.mkdir(exist_ok=True)
    FILE.write_text("[\n" + ",\n".join(json.dumps(curve) for curve in train()) + "\n]\n")
