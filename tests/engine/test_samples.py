"""What real trials use, in the series of a real engine: apart from their results, which stay the same."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from running import ended, engine, lines, spec_of, start, until

import workbench as wb
from workbench.records import Scheduler
from workbench.space import uniform
from workbench.store import Store
from workbench.store.lists import system
from workbench.store.lists.glance import Glance
from workbench.store.series import Series

MB = 1 << 20
#: Holds 200 MB and computes for some seconds. Two steps, with a checkpoint that does not have the 200 MB.
BUSY = """
x = uniform(0.0, 1.0)
import time
held = [bytearray(b"x") * (200 << 20)]
def compute(seconds):
    begun = time.thread_time()
    while time.thread_time() - begun < seconds:
        sum(range(10_000))
for epoch in trial.steps():
    compute(2.5)
    trial.report(score=x)
"""
#: Waits for nearly all of its time for data, which its loader sleeps for: three seconds in each step, beside which what
#: a busy machine adds is little.
STARVED = """
x = uniform(0.0, 1.0)
import time
from torch.utils.data import DataLoader
class Slow:
    def __len__(self):
        return 10
    def __getitem__(self, index):
        time.sleep(0.3)
        return index
loader = DataLoader(Slow(), batch_size=1)
for epoch in trial.steps():
    for batch in loader:
        pass
    trial.report(score=x)
"""
#: The same, at once.
QUICK = """
x = uniform(0.0, 1.0)
for epoch in trial.steps():
    trial.report(score=x)
"""


def curves(store: Store, experiment: str, measure: str) -> dict[int, system.Curve]:
    path = store.experiment(experiment).series
    if not path.exists():
        return {}
    with Glance(path) as glance:
        return system.curves(glance, measure)


def test_what_a_trial_computes_and_holds_is_seen_while_it_trains(tmp_path: Path) -> None:
    store = Store(tmp_path / ".workbench")
    one = {"space": {"x": uniform(0, 1)}, "scheduler": Scheduler("all", 1, 2), "trials": 1}
    busy, quick = spec_of(BUSY, tmp_path, name="busy", **one), spec_of(QUICK, tmp_path, name="quick", **one)
    with engine(store, workers=1):
        start(store, busy)
        until(lambda: curves(store, busy.id, "cpu"), what="the first sample")
        assert lines(store, busy, "Ended") == [], "it is there before the trial has ended"
        assert ended(store, busy) == "completed"
        start(store, quick)
        assert ended(store, quick) == "completed"
    xs, ys = curves(store, busy.id, "cpu")[0]
    assert 0.0 <= xs[0] < xs[-1] < 60.0
    assert 0.1 < max(ys) < 1.5, "one core, of which other programs may take a part"
    _, ys = curves(store, busy.id, "memory")[0]
    assert 200 * MB < max(ys) < 800 * MB
    assert curves(store, busy.id, "waits") == {}, "it has no loader"
    assert curves(store, quick.id, "cpu") == {}, "it took milliseconds"

    exp = wb.open("busy", store=store)
    assert exp.metrics == ["score"]
    row = exp.trials.loc["t0000"]
    assert row["system/memory"] == max(ys)
    assert 0.1 < row["system/cpu"] < 1.5
    assert list(exp["t0000"].system.columns) == ["cpu", "memory"]
    assert exp["t0000"].system["memory"].max() == max(ys)
    assert exp["t0000"].curves().columns.tolist() == ["score"]
    assert not any(name.startswith("system/") for name in wb.open("quick", store=store).trials.columns)
    assert wb.open("quick", store=store)["t0000"].system.empty
    # The results of two trials that do the same are the same, whatever they used.
    with Series.read(store.experiment(busy.id).series) as a, Series.read(store.experiment(quick.id).series) as b:
        assert [point[:5] for point in a.points()] == [point[:5] for point in b.points()]
        assert a.names() == b.names() == ["score"]
    with closing(sqlite3.connect(store.experiment(quick.id).series)) as file:
        assert file.execute("SELECT 1 FROM sqlite_master WHERE name = 'samples'").fetchall() == []


def test_a_loop_that_waits_for_its_loader_shows_it(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    store = Store(tmp_path / ".workbench")
    spec = spec_of(
        STARVED, tmp_path, name="starved", space={"x": uniform(0, 1)}, scheduler=Scheduler("all", 1, 4), trials=1
    )
    with engine(store, workers=1):
        start(store, spec)
        assert ended(store, spec) == "completed"
    _, waits = curves(store, spec.id, "waits")[0]
    assert max(waits) > 0.9  # at its first checkpoint a new process imports for seconds
