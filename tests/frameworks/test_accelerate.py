"""A loop with Accelerate is a plain loop: killed and promoted, it reports what an undisturbed run reports."""

from __future__ import annotations

import pytest
from frameworks.driver import Driver, undisturbed_and_killed

CELL = """
import torch
from accelerate import Accelerator
from torch.utils.data import DataLoader, TensorDataset

accelerator = Accelerator(cpu=True, gradient_accumulation_steps=ACCUMULATION)
x = torch.randn(48, 4)
data = TensorDataset(x, x.sum(1, keepdim=True))
model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Dropout(0.3), torch.nn.Linear(8, 1))
optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, trial.max_steps * 6)
loader = DataLoader(data, 8, shuffle=True)
model, optimizer, loader, schedule = accelerator.prepare(model, optimizer, loader, schedule)
for epoch in trial.steps():
    model.train()
    total = 0.0
    for inputs, targets in LOADER:
        with accelerator.accumulate(model):
            loss = torch.nn.functional.mse_loss(model(inputs), targets)
            accelerator.backward(loss)
            accelerator.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            schedule.step()
            optimizer.zero_grad()
        total += accelerator.gather(loss.detach()).item()
    trial.report(score=-total, lr=schedule.get_last_lr()[0])
"""


def test_nothing_is_named_where_precision_is_mixed(server, experiment):
    text = CELL.replace("cpu=True,", 'cpu=True, mixed_precision="bf16",').replace("ACCUMULATION", "1")
    text = text.replace("LOADER", "loader")
    calm = Driver(server, experiment(text, steps=4)).run(4)
    resumed = Driver(server, experiment(text, steps=4)).run(1, 3, 4)
    assert resumed.values == calm.values
    assert not resumed.inexact


@pytest.mark.parametrize("accumulation", [1, 4])
@pytest.mark.parametrize("loader", ["loader", "trial.batches(loader)"])
def test_killed_and_promoted_it_reports_what_an_undisturbed_run_reports(server, experiment, accumulation, loader):
    text = CELL.replace("ACCUMULATION", str(accumulation)).replace("LOADER", loader)
    calm, wild = undisturbed_and_killed(server, lambda: experiment(text, steps=9), (1, 2, 5, 9), accumulation)
    assert {step for _, step in calm.values} == set(range(1, 10))
    assert wild.values == calm.values
    assert wild.outcomes[-1] == "completed"
