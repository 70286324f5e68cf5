"""Real runners for the loops of frameworks, with the framework imported that a test module names in ``PRELOAD``."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from trial.conftest import experiment
from trial.world import Server

__all__ = ["experiment"]


@pytest.fixture(scope="module")
def server(request: pytest.FixtureRequest) -> Iterator[Server]:
    module = request.module
    running = Server(preload=("torch", "numpy", *module.PRELOAD), **getattr(module, "ENV", {}))
    yield running
    running.close()
