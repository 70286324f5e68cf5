"""``trial.cached`` and ``trial.shared`` in a search, and in all that comes after it."""

from pathlib import Path

from running import ended, spec_of, start

import workbench as wb
from workbench.records import Scheduler
from workbench.space import uniform
from workbench.store.keeping.usage import usage

SOURCE = """
import torch
from torch import nn

def prepare(path):
    open("calls.txt", "a").write("prepare\\n")
    return torch.randn(500, 64) + float(open(path).read())

def load():
    open("calls.txt", "a").write("load\\n")
    return nn.Sequential(nn.Linear(64, 512), nn.ReLU(), nn.Linear(512, 64))

X = trial.cached(prepare, "shift.txt")
base = trial.shared(load)
model = nn.Linear(64, 1)
opt = torch.optim.SGD(model.parameters(), lr=lr)
for step in trial.steps():
    loss = model(base(X)).square().mean()
    opt.zero_grad(); loss.backward(); opt.step()
    trial.report(score=loss.item())
"""


def calls():
    return sorted(Path("calls.txt").read_text().split())


def test_a_search_its_best_model_a_replay_and_a_replay_on_old_data(store, folder):
    Path("shift.txt").write_text("1.0")
    spec = spec_of("lr = uniform(0.001, 0.1)\n" + SOURCE, folder, name="shared", space={"lr": uniform(0.001, 0.1)},
                   scheduler=Scheduler("asha", 1, 9, eta=3), trials=6)  # fmt: skip
    start(store, spec)
    assert ended(store, spec) == "completed"
    assert calls() == ["load", "prepare"]
    exp = wb.open(f"{spec.id}", store=store)
    best = exp.best.load()
    assert not any(one.requires_grad for one in best.base.parameters())
    assert best.model(best.base(best.X)).square().mean().item() < 10
    assert calls() == ["load", "prepare"]
    assert usage(store).unnamed == 0
    made = wb.replay(f"{spec.id}/t0000", store=store)
    assert made.verdict == "identical"
    assert calls() == ["load", "prepare"]
    # Its data has changed: a replay sees the old file, and makes the result of that again.
    Path("shift.txt").write_text("2.5")
    again = wb.replay(f"{spec.id}/t0000", store=store)
    assert again.verdict == "identical"
    assert calls() == ["load", "prepare", "prepare"]
