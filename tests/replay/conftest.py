"""Each file of these tests has a folder, which is the current one, and a store there with a living engine."""

from __future__ import annotations

from pathlib import Path

import pytest
from running import engine

from workbench.store import Store


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("again")


@pytest.fixture(autouse=True)
def in_folder(folder, monkeypatch):
    monkeypatch.chdir(folder)


@pytest.fixture(scope="module")
def store(folder):
    """A store with a living engine."""
    found = Store(folder / "store")
    with engine(found):
        yield found
