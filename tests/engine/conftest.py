"""What tests of engines have in common."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from running import few_cores


@pytest.fixture
def runtime(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A runtime folder of its own, and two cores."""
    with few_cores(tmp_path, monkeypatch, 2):
        yield
