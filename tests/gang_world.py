"""Training on several slots for tests: the loop, its spec, and what it has done so far."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from running import spec_of

from workbench.records import Goal, Scheduler, Spec
from workbench.space import uniform
from workbench.store import Store
from workbench.store.series import Series

#: An engine that waits for half a second before a trial must make room, rather than ten; and turns are shorter.
HASTY = """
import sys
from workbench.engine import __main__, fair, sharing
sharing.PATIENCE_S, sharing.PATIENCE_SETUPS, fair.TURN_S = 0.5, 1, 0.3
sys.exit(__main__.main(sys.argv[1:]))
"""

#: An ordinary loop: a loader that shuffles, dropout, an optimizer with moments, a gradient's norm that is kept, and a
#: counter of each rank's own.
LOOP = """
lr = uniform(0.01, 0.1)
import json, os, time
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
x = torch.randn(96, 8, generator=torch.Generator().manual_seed(1))
y = (x.sum(1, keepdim=True) > 0).float()
loader = DataLoader(TensorDataset(x, y), batch_size=24, shuffle=True)
model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Dropout({dropout}), nn.Linear(16, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=lr)
seen = 0
for epoch in trial.steps():
    begun = time.monotonic()
    model.train()
    for a, b in loader:
        loss = nn.functional.binary_cross_entropy_with_logits(model(a), b)
        optimizer.zero_grad()
        loss.backward()
        norm = nn.utils.clip_grad_norm_(model.parameters(), 2.0)
        optimizer.step()
        seen += len(a)
    model.eval()
    with torch.no_grad():
        value = nn.functional.binary_cross_entropy_with_logits(model(x), y).item()
    time.sleep({pause})
    with open({log!r}, "a") as file:
        step = [f"{name} {{trial.number}} {{os.environ.get('RANK', '0')}}", begun, time.monotonic(), os.getpid()]
        file.write(json.dumps(step) + "\\n")
    trial.report(loss=value, seen=seen)
"""


def gang(
    tmp_path: Path,
    slots: int,
    name: str = "gang",
    *,
    pause: float = 0.0,
    dropout: float = 0.0,
    then: str = "",
    **more: Any,
) -> Spec:
    """then: lines at the end of each step."""
    source = LOOP.format(log=str(tmp_path / "steps"), name=name, pause=pause, dropout=dropout) + then
    fields: dict[str, Any] = {"scheduler": Scheduler(kind="hyperband", first=1, last=4, eta=2)} | more
    space = {"lr": uniform(0.01, 0.1)}
    return spec_of(
        source, tmp_path, name=name, space=space, goal=Goal("loss", "min"), slots=slots, preload=("torch",), **fields
    )


def losses(store: Store, spec: Spec) -> dict[tuple[int, int], float]:
    """The goal by trial and step."""
    with Series.read(store.experiment(spec.id).series) as series:
        return {(row[0], row[2]): row[4] for row in series.points(names=["loss"])}


def steps_of(tmp_path: Path) -> list[Any]:
    """The steps so far: name, trial and rank; when it began and ended; its process."""
    path = tmp_path / "steps"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def pid_of(tmp_path: Path, rank: int) -> int | None:
    """A process that trains as this rank now."""
    return next((step[3] for step in reversed(steps_of(tmp_path)) if step[0].endswith(f" {rank}")), None)
