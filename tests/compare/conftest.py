"""A store with the first version of the notebook of :mod:`compare.versions`."""

from __future__ import annotations

from pathlib import Path

import pytest
from compare.versions import CELLS, RESULTS
from notebook_world import Notebook, put_results

from workbench.records import Spec
from workbench.store import Store


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    monkeypatch.chdir(tmp_path)
    return Store(tmp_path / "store")


@pytest.fixture
def first(store: Store) -> Spec:
    """``digits@1``, with results."""
    spec = Notebook(store, Path()).run(*CELLS).launch()
    put_results(store, spec, RESULTS)
    return spec
