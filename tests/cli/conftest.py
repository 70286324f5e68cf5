"""What every test of the command line gets: a store of its own, a way to type, and an engine that answers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from cli.stored import Answering, Typed, Written, typed

from workbench.store import Store
from workbench.store.lists.catalog import Catalog


@pytest.fixture
def written(tmp_path: Path) -> Written:
    """A store without experiments."""
    store = Store(tmp_path / "store").create()
    return Written(store.create(), Catalog(store))


@pytest.fixture(autouse=True)
def _plain_surroundings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("WORKBENCH_HOME", "WORKBENCH_CLUSTER", "WORKBENCH_WORKERS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def type_(written: Written) -> Typed:
    """Type ``workbench …`` for the store of this test."""
    return lambda *words: typed(*words, store=written.store)


@pytest.fixture
def answering(written: Written) -> Iterator[Answering]:
    """An engine that answers."""
    with Answering(written.store) as engine:
        yield engine
