"""`make soak`: two engines share four slots, each trial of one search takes all of them, and their processes are
killed. At the end each search has found what it finds alone, and the engines have had their shares.
"""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import json
import os
import random
import secrets
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from running import end, end_found, ended, engine_process, few_cores, outcome, spec_of, start, state, until
from soak.world import MARK, marked, role_of

from workbench.records import ENDED, Goal, Scheduler, Spec
from workbench.space import uniform
from workbench.store import Store

#: The slots that are shared: all of them for each trial of one search. Steps mostly sleep, so two cores are enough.
SLOTS = 4
#: Minutes for which the searches train at least, and seconds between two kills.
MINUTES = float(os.environ.get("SOAK_SHARING_MINUTES", "5"))
BETWEEN_S = (4.0, 10.0)
#: What is killed, in drawn order: each of them once before any of them again.
VICTIMS = ("runner", "runner", "worker", "engine")
#: An engine that waits for a second before a trial must make room, rather than ten: so that many do.
HASTY = """
import sys
from workbench.engine import __main__, sharing
sharing.PATIENCE_S, sharing.PATIENCE_SETUPS = 1.0, 2
sys.exit(__main__.main(sys.argv[1:]))
"""

LOOP = """
lr = uniform(0.01, 0.1)
import json, random, time
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
x = torch.randn(96, 8, generator=torch.Generator().manual_seed(1))
y = (x.sum(1, keepdim=True) > 0).float()
loader = DataLoader(TensorDataset(x, y), batch_size=24, shuffle=True)
model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Dropout(0.2), nn.Linear(16, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=lr)
for epoch in trial.steps():
    begun = time.monotonic()
    model.train()
    for a, b in loader:
        loss = nn.functional.binary_cross_entropy_with_logits(model(a), b)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    model.eval()
    with torch.no_grad():
        value = nn.functional.binary_cross_entropy_with_logits(model(x), y).item()
    time.sleep(0.1)
    with open({log!r}, "a") as file:
        file.write(json.dumps([{name!r}, begun, time.monotonic()]) + "\\n")
    trial.report(loss=value)
"""


def search(folder: Path, name: str, trials: int, slots: int = 1) -> Spec:
    """A search whose trials train for 27 steps of a tenth of a second, and more on a busy machine."""
    return spec_of(
        LOOP.format(log=str(folder / "steps"), name=name), folder, name=name, slots=slots, trials=trials,
        space={"lr": uniform(0.01, 0.1)}, goal=Goal("loss", "min"), preload=("torch",), verify=False,
        scheduler=Scheduler(kind="all", first=27, last=27),
    )  # fmt: skip


class Engines:
    """An engine for each store; one that is killed is started again."""

    def __init__(self, *stores: Store) -> None:
        self._mark = secrets.token_hex(8)
        self._running: dict[Store, subprocess.Popen[bytes]] = {store: self._start(store) for store in stores}

    def _start(self, store: Store) -> subprocess.Popen[bytes]:
        return engine_process(store, workers=SLOTS, program=("-c", HASTY), **{MARK: self._mark})

    def kill(self, kind: str, dice: random.Random) -> bool:
        """Kill a process of this kind; False if there is none."""
        if kind == "engine":
            store, engine = dice.choice(list(self._running.items()))
            engine.kill()
            engine.wait()
            self._running[store] = self._start(store)
            return True
        found = [process for process in marked(self._mark) if role_of(process) == kind]
        if found:
            with contextlib.suppress(psutil.Error):
                dice.choice(found).send_signal(signal.SIGKILL)
        return bool(found)

    def close(self) -> None:
        """End all."""
        for store, engine in self._running.items():
            end(engine)
            end_found(store.root)


@contextlib.contextmanager
def engines(*stores: Store) -> Iterator[Engines]:
    """Engines for these stores; none is left afterwards."""
    found = Engines(*stores)
    try:
        yield found
    finally:
        found.close()


def steps_of(folder: Path) -> list[Any]:
    """The steps so far: of which search, when it began, when it ended."""
    path = folder / "steps"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def slot_seconds(found: list[Any], begun: float, until: float) -> dict[str, float]:
    """Seconds of training by search between two moments; each rank counts."""
    seconds: dict[str, float] = collections.Counter()
    for name, first, last in found:
        seconds[name] += max(0.0, min(last, until) - max(first, begun))
    return seconds


@pytest.mark.timeout(MINUTES * 60 * 6 + 600)
@pytest.mark.parametrize("seed", [int(seed) for seed in os.environ.get("SOAK_SEEDS", "0").split(",")])
def test_searches_that_share_find_what_they_find_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    dice = random.Random(seed)
    one, two = Store(tmp_path / "one").create(), Store(tmp_path / "two").create()
    trials = max(2, round(MINUTES * 5 * SLOTS))
    single, gang = search(tmp_path, "single", trials), search(tmp_path, "gang", max(1, trials // SLOTS), slots=SLOTS)
    beside = search(tmp_path, "beside", trials)
    by_store = {one: (single,), two: (beside, gang)}
    pairs = [(store, spec) for store, specs in by_store.items() for spec in specs]
    with few_cores(tmp_path, monkeypatch, SLOTS):
        alone = {}
        with engines(*by_store):
            for store, spec in pairs:
                calm = dataclasses.replace(spec, id=f"{spec.id}c", name=f"{spec.name}-calm")
                start(store, calm)
                assert ended(store, calm, MINUTES * 60 + 240) == "completed"
                alone[spec.name] = outcome(store, calm)
        (tmp_path / "steps").unlink()
        kills: collections.Counter[str] = collections.Counter()
        with engines(*by_store) as running:
            for store, spec in pairs:
                start(store, spec)
            until(lambda: {step[0] for step in steps_of(tmp_path)} == set(alone), 120, "a step of each search")
            begun, over = time.monotonic(), 0.0
            bag: list[str] = []
            while any(state(store, spec) not in ENDED for store, spec in pairs):
                assert time.monotonic() - begun < MINUTES * 60 * 4 + 240, "the searches do not end"
                time.sleep(dice.uniform(*BETWEEN_S))
                if not over and any(state(store, spec) in ENDED for store, spec in pairs):
                    over = time.monotonic()  # the end of the time in which all of them could use slots
                bag = bag or dice.sample(VICTIMS, len(VICTIMS))
                kind = bag.pop()
                kills[kind] += running.kill(kind, dice)
            states = [state(store, spec) for store, spec in pairs]
    found = steps_of(tmp_path)
    seconds = slot_seconds(found, begun, over)
    share = seconds["single"] / sum(seconds.values())
    verdict = {
        "kills": dict(kills), "share of the engine with one search": round(share, 3), "seconds": round(over - begun),
        "shares of its searches": {name: round(value / sum(seconds.values()), 3) for name, value in seconds.items()},
        "steps again": len(found) - sum(27 * len(alone[spec.name]["trials"]) * spec.slots for _, spec in pairs),
    }  # fmt: skip
    print(json.dumps(verdict))
    assert states == ["completed"] * 3
    assert {spec.name: outcome(store, spec) for store, spec in pairs} == alone
    assert min(kills[kind] for kind in VICTIMS) >= 1
    # An engine's weight is that of its searches together.
    assert 1 / 3 - 0.15 <= share <= 1 / 3 + 0.15, verdict
    assert set(seconds) == set(alone), "each search trained"
