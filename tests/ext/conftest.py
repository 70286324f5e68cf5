"""A Jupyter server with the extension, over a store in a temporary folder."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from workbench.records import Goal, Program, Scheduler, Searcher, Spec, Training
from workbench.store import Store
from workbench.store.catalog import Catalog
from workbench.store.series import Series


@pytest.fixture
def jp_server_config():
    return {"ServerApp": {"jpserver_extensions": {"workbench_ext": True}}}


@pytest.fixture
def store(jp_root_dir, monkeypatch) -> Store:
    """The store beside the server's root folder; nothing is in it."""
    monkeypatch.delenv("WORKBENCH_HOME", raising=False)  # a person's own store is not the tests'
    return Store.find(cwd=jp_root_dir).create()


def spec(experiment_id: str, name: str = "digits", version: int = 1) -> Spec:
    """A spec as a train cell would write it."""
    return Spec(
        id=experiment_id,
        name=name,
        version=version,
        created=datetime(2026, 1, 1, tzinfo=UTC).isoformat(),
        goal=Goal("val_acc", "max"),
        space={},
        scheduler=Scheduler(last=27),
        searcher=Searcher(),
        program=Program("cell", "for epoch in trial.steps(): ...", "<cell>"),
        training=Training("python", "."),
    )


@pytest.fixture
def digits(store):
    """A finished experiment with two trials, and one that failed and whose name is a script."""
    for experiment_id, name in (("20260101-000000-aaaaaa", "digits"), ("20260102-000000-bbbbbb", "other")):
        store.write_spec(spec(experiment_id, name))
    series = Series.open(store.experiment("20260101-000000-aaaaaa").series)
    series.add_points(
        [(0, "val_acc", 1, 0, 0.5, 1.0), (1, "val_acc", 1, 0, float("nan"), 2.0), (0, "val_acc", 3, 0, 0.75, 3.0)]
    )
    series.put_trial(0, configuration={"lr": 0.1}, state="completed", step=3, value=0.75, best=0.75)
    series.put_trial(1, configuration={"lr": 9.0}, state="failed", step=1, error={"message": "<script>"})
    series.flush()
    series.close()
    catalog = Catalog(store)
    shared = {"version": 1, "created": "2026-01-01T00:00:00+00:00", "goal": "max val_acc", "trials": 2}
    catalog.upsert_experiment(
        "20260101-000000-aaaaaa",
        {**shared, "name": "digits", "label": "digits@1", "state": "completed", "best": {"trial": 0, "value": 0.75}},
    )
    catalog.upsert_experiment(
        "20260102-000000-bbbbbb",
        {**shared, "name": "other", "label": "other@1", "state": "failed", "reason": "<b>all</b> failed", "best": None},
    )
    catalog.flush()
    return "20260101-000000-aaaaaa"
