"""What makes legs cheap changes no result: each measure is turned off in turn, in every process."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Any

import pytest
from running import ended, engine, outcome, spec_of, start

from workbench.experiment import Experiment
from workbench.records import Scheduler
from workbench.space import uniform
from workbench.store import Store
from workbench.store.series import Series

#: What a resume must bring back: a weight, an optimizer's state, a list, random numbers, points inside a step.
SOURCE = """
x = uniform(0.0, 1.0)
import random, time, torch
weight = torch.nn.Parameter(torch.full((4,), x))
optimizer = torch.optim.AdamW([weight], lr=0.1)
total, seen = 0.0, []
for epoch in trial.steps():
    optimizer.zero_grad(); (weight * torch.randn(4)).sum().backward(); optimizer.step()
    total = 0.9 * total + x + 0.01 * random.random() + float(weight.detach().sum())
    seen.append(total)
    time.sleep(STEP_S)
    trial.log(inside=random.random())
    trial.report(score=total, count=len(seen))
"""
#: Each as Python's text, which every process executes when it starts.
LEVERS = {
    "lanes, queues and batches": "from workbench.engine.legs import legbook; legbook.SHORT_LEG_S = 0.0",
    "queues": "from workbench.engine.legs import legbook; legbook.MOST_QUEUED = 1",
    "promotion in place": "from workbench.cluster.workers import waiting; waiting.WAIT_S = 0.0",
    "waiting for a verdict": "from workbench.trial.course import course; course.LONG_TURN_S = 0.0",
    "rare collections": "from workbench.trial.process import runner; runner.FREE_EVERY_S = 0.0",
    "rare syncs": "from workbench.trial.course import vault; vault.SETTLE_S = 0.0",
    "a shared forkserver": "from workbench.trial.process import meeting; "
    "meeting.Meeting.meet = lambda self, after=0: meeting.Met(after + 1)",
}
#: Executed by every Python that starts in the world of the test; other programs than Workbench's do as always.
SITE = """
import os, sys
if any("workbench" in one for one in sys.orig_argv):
    {off}
    open(os.path.join({folder!r}, f"applied-{{os.getpid()}}"), "w").close()
"""


#: Name: scheduler, trials, and seconds of a step: the last one's legs are not short, so that some wait to be promoted.
SEARCHES = {
    "hyperband": (Scheduler(kind="hyperband", first=1, last=9, eta=3), None, 0.0),
    "promoting": (Scheduler(kind="asha", first=1, last=9, eta=3), 12, 0.0),
    "stopping": (Scheduler(kind="asha", first=1, last=9, eta=3, mode="stop"), 12, 0.0),
    "waiting": (Scheduler(kind="asha", first=1, last=9, eta=3), 9, 0.2),
}
WAITS = "promotion in place"


def searched(folder: Path, names: Collection[str], off: str = "") -> dict[str, Any]:
    """The results of searches in one engine, in whose processes the measure ``off`` is turned off."""
    (folder / "site").mkdir(parents=True)
    (folder / "site" / "sitecustomize.py").write_text(SITE.format(off=off or "pass", folder=str(folder)))
    store = Store(folder / "store").create()
    found: dict[str, Any] = {}
    with engine(store, PYTHONPATH=str(folder / "site")):
        for name in names:
            scheduler, trials, step_s = SEARCHES[name]
            source = SOURCE.replace("STEP_S", str(step_s))
            space = {"x": uniform(0.0, 1.0)}
            spec = spec_of(
                source, folder, space=space, scheduler=scheduler, trials=trials, seed=5, name=name, preload=("torch",)
            )
            start(store, spec)
            assert ended(store, spec) == "completed"
            best = Experiment.of(store, spec.id).best
            found[name] = outcome(store, spec)
            found[name]["best"] = {best.number: best.load().weight.detach().numpy().tobytes()}
            with Series.read(store.experiment(spec.id).series) as series:
                found[name]["in place"] = sum(bool((leg["detail"] or {}).get("in_place")) for leg in series.legs())
    # The engine and a forkserver. The cluster is a fork of the engine.
    assert len(list(folder.glob("applied-*"))) >= 2
    return found


@pytest.fixture(scope="module")
def all_on(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    found = searched(tmp_path_factory.mktemp("on"), SEARCHES)
    assert found["waiting"]["in place"] > 0
    return found


@pytest.mark.slow
@pytest.mark.parametrize("lever", LEVERS)
def test_results_are_the_same_without(all_on: dict[str, Any], tmp_path: Path, lever: str) -> None:
    names = ["waiting"] if lever == WAITS else [name for name in SEARCHES if name != "waiting"]
    off = searched(tmp_path, names, LEVERS[lever])
    if lever == WAITS:
        assert off["waiting"]["in place"] == 0
    else:
        assert off["hyperband"] == all_on["hyperband"]
    # Asynchronous rules decide by what has arrived, so trials end elsewhere. Each trains the same as far as it goes.
    for name in names:
        (ours, ours_points), (theirs, their_points) = [same_for_all(one[name]) for one in (all_on, off)]
        assert ours == theirs
        common = ours_points.keys() & their_points.keys()
        assert len(common) >= 24
        assert {key: ours_points[key] for key in common} == {key: their_points[key] for key in common}
        best = all_on[name]["best"].keys() & off[name]["best"].keys()
        assert all(all_on[name]["best"][number] == off[name]["best"][number] for number in best)


def same_for_all(found: dict[str, Any]) -> tuple[dict[int, Any], dict[tuple[Any, ...], float]]:
    """Configurations by trial, and values by trial, metric, step and index."""
    configurations = {number: one[0] for number, one in found["trials"].items()}
    return configurations, {tuple(row[:4]): row[4] for row in found["points"]}
