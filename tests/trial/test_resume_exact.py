"""Models of every kind that are killed at random moments and resumed elsewhere end exactly like undisturbed ones.

A second forkserver stands in for another machine. The final weights, the optimizer and every metric are compared byte
for byte with those of an undisturbed process.
"""

import random

import pytest
from trial.loops import FOOT
from trial.test_resume import result
from trial.world import Server, points, said

STEPS = 12
KILLS = 3

HEAD = """
import copy, random
import numpy as np
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset
X = torch.randn(64, 1, 8, 8); Y = (X.mean((1, 2, 3)) > 0).long()
rng = np.random.default_rng(5)
data = TensorDataset(X, Y)
"""

TRAIN = """
        opt.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        opt.step()
"""

#: Model, optimizer, schedule and what else people keep: an average of the weights, generators, a batch fetched ahead.
CASES = {
    "an mlp with dropout, sgd, steps, an average of the weights": """
model = nn.Sequential(nn.Flatten(), nn.Linear(64, 16), nn.ReLU(), nn.Dropout(0.4), nn.Linear(16, 2))
opt = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=1e-3)
schedule = torch.optim.lr_scheduler.StepLR(opt, 4, 0.3)
ema = copy.deepcopy(model).requires_grad_(False)
best, best_state = float("inf"), None
loader = DataLoader(data, 16, shuffle=True)
for epoch in trial.steps():
    for x, y in loader:"""
    + TRAIN
    + """
        for a, b in zip(ema.parameters(), model.parameters()): a.lerp_(b.detach(), 0.2)
    schedule.step()
    value = F.cross_entropy(ema(X), Y).item()
    if value < best: best, best_state = value, copy.deepcopy(model.state_dict())
    trial.report(score=value, lr=schedule.get_last_lr()[0], noise=random.random())
def result(): return model.state_dict(), opt.state_dict(), ema.state_dict(), best_state
""",
    "a cnn with batch norm, adamw, one cycle, a numpy generator": """
model = nn.Sequential(nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(36, 2))
opt = torch.optim.AdamW(model.parameters(), lr=1e-3, amsgrad=True)
schedule = torch.optim.lr_scheduler.OneCycleLR(opt, 0.02, total_steps=trial.max_steps * 4)
loader = trial.loader(data, 16, shuffle=True)
for epoch in trial.steps():
    model.train()
    for x, y in loader:
        x = x + torch.from_numpy(rng.normal(0, 0.1, x.shape)).float()"""
    + TRAIN
    + """
        schedule.step()
    model.eval()
    trial.report(score=F.cross_entropy(model(X), Y), noise=np.random.rand(), lr=schedule.get_last_lr()[0])
def result(): return model.state_dict(), opt.state_dict(), rng.bit_generator.state
""",
    "an lstm, adam, a plateau, a batch fetched ahead": """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm, self.head = nn.LSTM(8, 12, 2, dropout=0.3, batch_first=True), nn.Linear(12, 2)
    def forward(self, x): return self.head(self.lstm(x.squeeze(1))[0][:, -1])
model = Net()
opt = torch.optim.Adam(model.parameters(), lr=0.02)
schedule = torch.optim.lr_scheduler.ReduceLROnPlateau(opt, patience=1, factor=0.5)
order, at = torch.randperm(64), 0
def fetch():
    global order, at
    if at >= 64: order, at = torch.randperm(64), 0
    at += 24
    return X[order[at - 24:at]], Y[order[at - 24:at]]
ahead = fetch()
for epoch in trial.steps():
    for _ in range(3):
        (x, y), ahead = ahead, fetch()"""
    + TRAIN
    + """
    schedule.step(loss.item())
    trial.report(score=loss, lr=opt.param_groups[0]["lr"], at=at)
def result(): return model.state_dict(), opt.state_dict(), ahead, schedule.state_dict()
""",
    "a transformer, adamw by groups, cosine, a scaler, batches": """
layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.2, batch_first=True)
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.head = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False), nn.Linear(8, 2)
    def forward(self, x): return self.head(self.body(x.squeeze(1)).mean(1))
model = Net()
opt = torch.optim.AdamW([{"params": model.body.parameters()}, {"params": model.head.parameters(), "lr": 0.01}], lr=1e-3)
schedule = torch.optim.lr_scheduler.CosineAnnealingWarmRestarts(opt, 5)
scaler = torch.amp.GradScaler("cpu", init_scale=2.0**6, growth_interval=3)
loader = DataLoader(data, 16, shuffle=True)
def one_epoch(schedule):
    total = 0.0
    for x, y in trial.batches(loader):
        opt.zero_grad()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = F.cross_entropy(model(x), y)
        scaler.scale(loss).backward(); scaler.step(opt); scaler.update()
        total += loss.item()
    schedule.step()
    return total
for epoch in trial.steps():
    trial.report(score=one_epoch(schedule), scale=scaler.get_scale(), noise=torch.rand(()))
def result(): return model.state_dict(), opt.state_dict(), scaler.state_dict(), schedule.state_dict()
""",
}


@pytest.fixture(scope="module")
def elsewhere():
    running = Server()
    yield running
    running.close()


def until_step(runner, step):
    """What it says until it has reported ``step``, or left."""
    told = []
    while (message := runner.connection.receive()) is not None:
        told.append(message)
        if message["op"] == "left" or any(row[1] >= step for row in message.get("rows", ())):
            break
    return told


@pytest.mark.parametrize("name", CASES)
def test_killed_at_random_and_resumed_elsewhere(server, elsewhere, experiment, name):
    source = HEAD + CASES[name] + FOOT
    calm = server.runner()
    told = calm.leg(experiment(source, steps=STEPS).order())
    assert told[-1]["outcome"] == "completed", told[-1]["error"]["traceback"]
    calm.kill()
    expected, weights = points(told), result(calm.output())

    cell = experiment(source, steps=STEPS, save_s=0.004)
    chance = random.Random(name)
    told, lives = [], 0
    for step in sorted(chance.sample(range(2, STEPS), KILLS)):
        runner = (server, elsewhere)[lives % 2].runner()
        # A kill that comes late finds it in the next steps.
        runner.connection.send(cell.order(min(step + 2, STEPS), resume=lives > 0))
        told += until_step(runner, step)
        runner.kill()
        told += runner.until("left")
        if told[-1]["op"] == "left" and told[-1]["outcome"] == "completed":
            break  # it was quicker than the kill
        lives += 1
    runner = (server, elsewhere)[lives % 2].runner()
    told += runner.leg(cell.order(resume=lives > 0))
    assert told[-1]["outcome"] == "completed", told[-1]["error"]["traceback"]
    runner.kill()
    assert lives >= 1
    assert any(message["step"] > 0 for message in said(told, "begun"))
    assert points(told) == expected
    assert result(runner.output()) == weights
