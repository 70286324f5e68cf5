"""Tests that need an NVIDIA GPU which torch can use; without one, none of them is run."""

from __future__ import annotations

from pathlib import Path

import pytest
from trial.conftest import experiment, server  # noqa: F401 - fixtures

from workbench.cluster.devices import gpu_slots

HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if not gpu_slots():
        for item in items:
            if HERE in item.path.parents:
                item.add_marker(pytest.mark.skip(reason="it needs a GPU"))
