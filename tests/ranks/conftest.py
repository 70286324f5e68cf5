"""Ranks that live as long as a module's tests."""

from __future__ import annotations

import pytest
from ranks.world import World


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    made = World(4, tmp_path_factory.mktemp("ranks"))
    yield made
    made.end()
