"""What tests of sharing have in common."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from running import ended, engine, spec_of, start, until

from workbench import asked
from workbench.asking import ask
from workbench.records import Scheduler, Spec
from workbench.space import uniform
from workbench.store import Store
from workbench.store.owner.lease import read_engine

SECRET = "hunter2-is-no-secret"
SOURCE = f"""
x = uniform(0.0, 1.0)
api_key = "{SECRET}"
weights = [x]
for epoch in trial.steps():
    weights.append(weights[-1] * 0.9 + x)
    print("password={SECRET}", epoch)
    trial.report(score=weights[-1])
"""


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> tuple[Store, Spec]:
    """A small search that has ended, in a store without an engine."""
    folder = tmp_path_factory.mktemp("home")
    store = Store(folder / "store").create()
    scheduler = Scheduler("hyperband", 1, 3, 3)
    spec = spec_of(SOURCE, folder, space={"x": uniform(0.0, 1.0)}, scheduler=scheduler, name="shared", seed=3)
    with engine(store):
        start(store, spec)
        assert ended(store, spec) == "completed"
        ask(store, asked.Tag(experiment=spec.id, tags=["good"]))
    return store, spec


@pytest.fixture
def other(tmp_path: Path) -> Iterator[Store]:
    """Another store; the engine that an import starts ends with the test."""
    store = Store(tmp_path / "other").create()
    yield store
    if (info := read_engine(store)) is not None and info.alive:
        ask(store, asked.End())
        until(lambda: (found := read_engine(store)) is None or not found.alive, 30, "the engine's end")
