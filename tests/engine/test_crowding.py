"""A search whose loaders start more workers than its slots have cores says so once, with the number to use."""

from __future__ import annotations

import os
from pathlib import Path

from running import ended, engine, spec_of, start

from workbench.records import Scheduler
from workbench.space import uniform
from workbench.store import Store
from workbench.store.files import packed
from workbench.store.series import Series
from workbench.trial.process.crowding import crowded

CORES = len(os.sched_getaffinity(0))

LOADER = f"""
x = uniform(0.0, 1.0)
from torch.utils.data import DataLoader
for epoch in trial.steps():
    rows = sum(len(batch) for batch in DataLoader(range(4), num_workers={CORES}))
    trial.report(score=x * rows)
"""


def search(store: Store, tmp_path: Path, trials: int) -> list[str]:
    """What a search on two slots says, on its page and in the logs of its trials."""
    scheduler = Scheduler(kind="all", first=1, last=2)
    preload = ("torch.utils.data",)  # or each runner imports torch for seconds
    spec = spec_of(
        LOADER, tmp_path, space={"x": uniform(0.0, 1.0)}, scheduler=scheduler, trials=trials, preload=preload
    )
    start(store, spec)
    assert ended(store, spec) == "completed"
    with Series.read(store.experiment(spec.id).series) as series:
        says: list[str] = series.meta().get("says") or []
    logs = [store.experiment(spec.id).trial(number).log for number in range(trials)]
    lines = [line for log in logs for line in (packed.read(log) or b"").decode().splitlines()]
    told = [line for line in lines if line.startswith("[workbench] DataLoader")]
    assert told == [f"[workbench] {words}" for words in says]
    return says


def test_two_slots_share_the_cores_and_one_trial_has_them_alone(tmp_path: Path) -> None:
    store = Store(tmp_path / "store").create()
    with engine(store, workers=2):
        assert search(store, tmp_path, trials=4) == [crowded(CORES, 2, CORES)]
        assert search(store, tmp_path, trials=1) == []
