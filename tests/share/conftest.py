"""What tests of sharing have in common."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from running import until

from workbench import asked
from workbench.asking import ask
from workbench.store import Store
from workbench.store.owner.lease import read_engine


@pytest.fixture
def other(tmp_path: Path) -> Iterator[Store]:
    """Another store; the engine that an import starts ends with the test."""
    store = Store(tmp_path / "other").create()
    yield store
    if (info := read_engine(store)) is not None and info.alive:
        ask(store, asked.End())
        until(lambda: (found := read_engine(store)) is None or not found.alive, 30, "the engine's end")
